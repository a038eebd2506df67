"""Renew intents from a Redis list."""

import datetime
import json
import os
import shutil
import socket
import subprocess
import tempfile

import pytest
from osbserver import wait_for


class Redis:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="osbt-redis-")
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]
        self.start()

    def start(self):
        self.process = subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir",
                                         self.dir, "--requirepass", "pw"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("Redis", lambda: self.command("PING") == b"+PONG\r\n")

    def command(self, *args):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as s:
                f = s.makefile("rwb")
                for words in (("AUTH", "pw"), args):
                    f.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w.encode()), w.encode()) for w in words))
                f.flush()
                f.readline()
                return f.readline()
        except OSError:
            return b""

    def push(self, payload):
        assert self.command("LPUSH", "my:queue", payload).startswith(b":")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def close(self):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture
def redis():
    if not shutil.which("redis-server"):
        pytest.skip("no redis-server here")
    r = Redis()
    yield r
    r.close()


def now(offset=0):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=offset)).isoformat()


def test_intents(make, redis):
    s = make("[renew_intent]\nenabled = true\nmin_interval_seconds = 1\n[renew_intent.redis]\nenabled = true\n"
             f'dsn = "redis://default:pw@127.0.0.1:{redis.port}/0"\nqueue_key = "my:queue"\nconsumer_concurrency = 2\n')
    ext = {"access.renew.extend.seconds": "3600"}
    a, b, plain = s.create(timeout=60, extensions=ext), s.create(timeout=60, extensions=ext), s.create(timeout=60)
    for payload in ["", "nonsense", "{}", json.dumps({"sandbox_id": "nope", "observed_at": now()}),
                    json.dumps({"sandbox_id": b["id"], "observed_at": now(-400)}),
                    json.dumps({"sandbox_id": plain["id"], "observed_at": now()})]:
        redis.push(payload)
    redis.push(json.dumps({"sandbox_id": a["id"], "observed_at": now(), "port": 80, "request_uri": "/x"}))
    wait_for("renewal", lambda: s.get(a["id"])["expiresAt"] > a["expiresAt"])
    assert s.get(b["id"])["expiresAt"] == b["expiresAt"]
    assert s.get(plain["id"])["expiresAt"] == plain["expiresAt"]
    redis.stop()
    assert s.ping(a["id"])
    redis.start()
    wait_for("the consumers coming back", lambda: (
        redis.push(json.dumps({"sandbox_id": b["id"], "observed_at": now()})), s.get(b["id"])["expiresAt"] > b["expiresAt"])[1],
        interval=0.3)
    assert s.stop(timeout=30) == 0


def test_without_redis_the_server_starts(make):
    s = make('[renew_intent]\nenabled = true\n[renew_intent.redis]\nenabled = true\ndsn = "redis://127.0.0.1:1"\n')
    assert s.list() == []
    wait_for("a remark", lambda: "cannot connect to Redis" in s.log_tail())
    assert os.path.exists(s.log_path)
