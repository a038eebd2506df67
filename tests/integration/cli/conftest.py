"""A real server on the embedded runtime and osb beside it."""

import json
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

import osbserver  # noqa: E402
from osbserver import BIN, ROOT  # noqa: E402, F401


class Server:
    """One with the key that it made for itself, as its user finds it."""

    def __init__(self):
        s = osbserver.Server(key=None).start()
        with open(os.path.join(s.data, "api-key")) as f:
            s.key = f.read().strip()
        self.url, self.key, self.stop = s.url, s.key, s.close


class Osb:
    """Runs osb with a home of its own."""

    def __init__(self, server, home):
        self.exe = os.path.join(BIN, "osb")
        self.home = str(home)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("OPEN_SANDBOX_") and k != "NO_COLOR"}
        self.env.pop("COLUMNS", None)
        self.env.update(HOME=self.home, LC_ALL="C.UTF-8")
        if server:
            self.env.update(OPEN_SANDBOX_DOMAIN=server.url, OPEN_SANDBOX_API_KEY=server.key)

    def __call__(self, *args, stdin="", env=None, timeout=120, cwd=None):
        return subprocess.run([self.exe, *args], input=stdin, capture_output=True, text=True, cwd=cwd,
                              env={**self.env, **(env or {})}, timeout=timeout, check=False)

    def ok(self, *args, **kw):
        r = self(*args, **kw)
        assert r.returncode == 0, (args, r.returncode, r.stdout, r.stderr)
        return r.stdout

    def json(self, *args, **kw):
        at = args.index("--") if "--" in args else len(args)
        return json.loads(self.ok(*args[:at], "-o", "json", *args[at:], **kw))


@pytest.fixture(scope="session")
def server():
    if os.geteuid() != 0:
        pytest.skip("the embedded runtime needs root")
    s = Server()
    yield s
    s.stop()


@pytest.fixture
def osb(server, tmp_path):
    return Osb(server, tmp_path)


@pytest.fixture
def local(tmp_path):
    """osb without a server."""
    return Osb(None, tmp_path)


@pytest.fixture(scope="session")
def box(server, tmp_path_factory):
    """One sandbox for all tests that only look or add."""
    osb = Osb(server, tmp_path_factory.mktemp("home"))
    sid = osb.json("sandbox", "create", "-i", "host", "-m", "made=shared")["id"]
    yield sid
    osb("sandbox", "kill", sid)
