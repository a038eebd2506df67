"""Under load and under attack: nothing leaks, execd goes on answering."""

import concurrent.futures
import json
import os
import random
import socket
import uuid

import pytest
import requests
from conftest import WAIT, wait_for
from execd_client import Events, Raw, check_stream, run, run_session

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


class Usage:
    """Descriptors, threads, children and memory of execd."""

    def __init__(self, execd):
        self.fds = execd.fds()
        self.threads = execd.status("Threads")
        with open(f"/proc/{execd.pid}/task/{execd.pid}/children") as f:
            self.children = len(f.read().split())
        self.rss = execd.rss_kb()


def settled(execd, before, logs=0):
    """Waits until everything but memory is as it was; `logs` descriptors of logs may be kept."""
    def look():
        now = Usage(execd)
        return now if (now.fds <= before.fds + 1 + logs and now.children == 0) else None
    now = wait_for(look, "descriptors and children to go")
    assert now.threads == before.threads
    return now


def test_a_thousand_commands_leave_nothing(launch):
    execd = launch()
    sid = execd.post("/session").json()["session_id"]
    for i in range(20):
        run(execd, "echo warm; echo up >&2")
        run_session(execd, sid, "export A=1")
    before = Usage(execd)
    for i in range(1000):
        if i % 10 == 0:
            run_session(execd, sid, f"export A={i}")
        else:
            run(execd, f"echo {i}; exit {i % 3}")
    after = settled(execd, before)
    if not execd.sanitized():
        assert after.rss < 2560, "resident after 1,000 commands, in kB"
        assert after.rss - before.rss < 1024


def test_logs_are_capped(launch):
    execd = launch()
    before = Usage(execd)
    first = run(execd, "echo x", background=True).id
    for _ in range(300):
        last = run(execd, "echo x", background=True).id
    wait_for(lambda: not execd.get(f"/command/status/{last}").json()["running"], "the last one")
    settled(execd, before, logs=256)
    assert execd.get(f"/command/{last}/logs").content == b"x\n"
    assert execd.get(f"/command/status/{first}").json()["exit_code"] == 0
    r = execd.get(f"/command/{first}/logs")
    assert r.status_code == 400 and "expired" in r.json()["message"]


def test_two_hundred_at_once(launch):
    execd = launch()
    before = Usage(execd)

    def one(i):
        r = requests.post(execd.url + "/command", json={"command": f"echo a{i}; sleep 0.2; exit {i % 100}"},
                          timeout=WAIT)
        ev = check_stream(Events(r.content))
        assert ev.stdout == [f"a{i}"] and ev.exit_code == i % 100
        return True

    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        assert all(pool.map(one, range(200)))
    settled(execd, before)


def test_more_than_the_default_descriptor_limit(launch):
    """Each command holds four descriptors; a low soft limit is not ours, but it is our children's."""
    execd = launch(wrap=("prlimit", "--nofile=256:"))
    raws = [Raw(execd, "POST", "/command", {"command": "ulimit -n; sleep 300"}) for _ in range(150)]
    limits = set()
    for r in raws:
        assert r.head() == 200
        limits.add(json.loads(r.until(b'"stdout"').split(b"\n\n")[-2])["text"])
    assert limits == {"256"}
    for r in raws:
        r.close()


# ---- clients that vanish ----

def request_bytes(method, path, body=None):
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n"
    head += f"Content-Length: {len(data)}\r\n\r\n" if body is not None else "\r\n"
    return head.encode(), data


def vanish(execd, head, body, stage, hard):
    s = socket.create_connection(("127.0.0.1", execd.port), WAIT)
    s.settimeout(WAIT)
    pieces = {"connect": b"", "half head": head[:len(head) // 2], "head": head,
              "half body": head + body[:len(body) // 2]}
    s.sendall(pieces.get(stage, head + body))
    if stage == "first byte":
        s.recv(1)
    elif stage == "some output":
        n = 0
        while n < (3000 if b"seq" in body else 1):
            n += len(s.recv(1000)) or 3000
    if hard:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.close()


@pytest.mark.parametrize("stage", ["connect", "half head", "head", "half body", "request", "first byte",
                                   "some output"])
def test_clients_that_vanish(launch, stage):
    execd = launch()
    sid = execd.post("/session").json()["session_id"]
    cid = run(execd, "seq 1 100000", background=True).id
    pty = execd.post("/pty").json()["session_id"]
    wait_for(lambda: not execd.get(f"/command/status/{cid}").json()["running"], "the log")
    run_session(execd, sid, "true")
    before = Usage(execd)
    for hard in (False, True):
        for _ in range(3):
            for method, path, body in (
                    ("POST", "/command", {"command": "seq 1 20000; sleep 0.05"}),
                    ("POST", "/command", {"command": "sleep 0.05", "background": True}),
                    ("POST", f"/session/{sid}/run", {"command": "seq 1 20000; sleep 300"}),
                    ("GET", f"/command/{cid}/logs", None), ("GET", f"/command/status/{cid}", None),
                    ("DELETE", f"/command?id={cid}", None), ("GET", f"/pty/{pty}/ws", None),
                    ("POST", "/session", {}), ("GET", "/ping", None)):
                vanish(execd, *request_bytes(method, path, body), stage, hard)
    assert execd.get("/ping").status_code == 200
    settled(execd, before, logs=6)
    assert run_session(execd, sid, "echo alive").stdout == ["alive"]


# ---- hostile workloads ----

class Cgroup:
    """A workload cgroup, v1 or v2, with limits; removed at the end."""

    def __init__(self, pids=None, memory=None):
        self.dirs, self.values = [], {}
        name = f"osb-execd-test-{uuid.uuid4().hex[:8]}"
        v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        limits = (("pids", pids, "pids.max", "pids.max"),
                  ("memory", memory, "memory.max", "memory.limit_in_bytes"))
        for controller, value, v2_file, v1_file in limits:
            if value is None:
                continue
            d = f"/sys/fs/cgroup/{name}" if v2 else f"/sys/fs/cgroup/{controller}/{name}"
            try:
                os.makedirs(d, exist_ok=True)
                with open(f"{d}/{v2_file if v2 else v1_file}", "w") as f:
                    f.write(str(value))
            except OSError as e:
                self.remove()
                pytest.skip(f"no {controller} cgroup here: {e}")
            if d not in self.dirs:
                self.dirs.append(d)

    def members(self):
        found = set()
        for d in self.dirs:
            with open(f"{d}/cgroup.procs") as f:
                found |= set(f.read().split())
        return found

    def remove(self):
        for d in self.dirs:
            for pid in self.members():
                try:
                    os.kill(int(pid), 9)
                except ProcessLookupError:
                    pass
            wait_for(lambda: not self.members(), "the cgroup to be empty")
            os.rmdir(d)
        self.dirs = []


@pytest.fixture
def cgroup():
    made = []

    def make(**limits):
        made.append(Cgroup(**limits))
        return made[-1]

    yield make
    for c in made:
        c.remove()


@needs_root
def test_workload_cgroup(launch, cgroup):
    c = cgroup(pids=100)
    execd = launch("--workload-cgroup", ":".join(c.dirs))
    raw = Raw(execd, "POST", "/command", {"command": "echo $$; sleep 300"})
    raw.head()
    pid = json.loads(raw.until(b'"stdout"').split(b"\n\n")[-2])["text"]
    assert pid in c.members() and str(execd.pid) not in c.members()
    raw.close()


@needs_root
def test_workload_cgroup_that_is_not_there(launch):
    execd = launch("--workload-cgroup", "/sys/fs/cgroup/pids/no-such-group")
    assert run(execd, "echo x").stdout == ["x"]
    assert "workload cgroup is not usable" in execd.log()


@needs_root
def test_fork_bomb(launch, cgroup):
    c = cgroup(pids=150)
    execd = launch("--workload-cgroup", ":".join(c.dirs))
    raw = Raw(execd, "POST", "/command", {"command": "bomb() { bomb | bomb & }; bomb; sleep 300"})
    raw.head()
    cid = json.loads(raw.until(b"\n\n").split(b"\n\n")[0])["text"]
    wait_for(lambda: len(c.members()) >= 140, "the bomb")
    for _ in range(20):
        assert execd.get("/ping").status_code == 200
    assert run(execd, "echo builtins only").stdout == ["builtins only"]
    r = execd.post("/session")
    assert r.status_code == 200
    execd.delete("/command", params={"id": cid})
    raw.close()
    wait_for(lambda: len(c.members()) == 0, "its end")
    assert run(execd, "ls / | wc -l").exit_code == 0


@needs_root
def test_memory_hog(launch, cgroup):
    c = cgroup(memory=64 << 20)
    execd = launch("--workload-cgroup", ":".join(c.dirs))
    hog = "exec python3 -c 'x = [bytes([1]) * (1 << 20) for i in range(10000)]'"
    ev = run(execd, hog)
    assert ev.error == {"ename": "CommandExecError", "evalue": "-1",
                        "traceback": ["signal: killed", "out of memory"]}
    assert execd.get(f"/command/status/{ev.id}").json()["error"] == "signal: killed"
    ev = run(execd, hog.replace("exec ", "") + "; exit $?")  # the shell survives and says so
    assert ev.error["traceback"] == ["exit status 137", "out of memory"] and ev.exit_code == 137
    ev = run(execd, "kill -9 $$")  # and this is something else
    assert ev.error["traceback"] == ["signal: killed"]
    sid = execd.post("/session").json()["session_id"]
    assert run_session(execd, sid, hog).error["traceback"] == ["signal: killed", "out of memory"]
    assert run(execd, "echo alive").stdout == ["alive"]


def test_hostile_children(launch):
    """Closed, flooded and abandoned descriptors; stopped and endless processes."""
    execd = launch()
    before = Usage(execd)
    for text in ("exec >&- 2>&-; sleep 0.1", "exec 1>&2; yes | head -n 100000", "kill -STOP $$ & sleep 0.1; kill -9 $$",
                 "for i in $(seq 1 200); do sleep 0.3 & done; exit 0", "ulimit -f 0; echo x > /tmp/osb-execd-none",
                 "trap '' HUP INT TERM QUIT; exit 3", "exec 3>&1 4>&2 5</dev/null; exit 0"):
        r = execd.post("/command", json={"command": text, "timeout": 2000})
        check_stream(Events(r.content))
    settled(execd, before)


# ---- fuzzing ----

SEEDS = [
    ("POST", "/command", b'{"command":":","cwd":"/","timeout":1000,"envs":{"A":"b"},"background":false}'),
    ("POST", "/command", b'{"command":":","background":true,"uid":null,"gid":null}'),
    ("GET", "/command/status/0123456789abcdef0123456789abcdef", b""),
    ("GET", "/command/0123456789abcdef0123456789abcdef/logs?cursor=5", b""),
    ("DELETE", "/command?id=0123456789abcdef0123456789abcdef", b""),
    ("POST", "/session", b'{"cwd":"/tmp"}'),
    ("POST", "/session/1b4e28ba-2fa1-11d2-883f-0016d3cca427/run", b'{"command":":","cwd":"/","timeout":5}'),
    ("DELETE", "/session/1b4e28ba-2fa1-11d2-883f-0016d3cca427", b""),
    ("POST", "/pty", b'{"cwd":"/tmp","command":":"}'),
    ("GET", "/pty/1b4e28ba-2fa1-11d2-883f-0016d3cca427/ws?pty=0&since=4&takeover=1", b""),
    ("GET", "/ping", b""),
]
SNIPPETS = [b"\x00", b"\xff", b"%00", b"%", b"{", b"}", b'"', b"\\", b"\r\n", b"null", b"-1", b"1e999", b"/", b"..",
            b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"[" * 100, b"a" * 5000, b"Upgrade: websocket\r\n",
            b"Expect: 100-continue\r\n", b"\xe2\x80\xa8"]


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 1:
            data[at:at] = rng.choice(SNIPPETS)
        elif kind == 2:
            del data[at:at + rng.randrange(1, 8)]
        else:
            data[at:at] = data[max(0, at - 20):at]
    return bytes(data)


def fuzz_one(execd, rng):
    method, path, body = rng.choice(SEEDS)
    where = rng.randrange(3)
    if where == 0:
        body = mutate(rng, body)
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    whole = head + body
    if where == 1:
        whole = mutate(rng, head) + body
    with socket.create_connection(("127.0.0.1", execd.port), WAIT) as s:
        s.settimeout(WAIT)
        try:
            s.sendall(whole)
            s.shutdown(socket.SHUT_WR)
            answer = b""
            while len(answer) < 12:
                piece = s.recv(4096)
                if not piece:
                    break
                answer += piece
        except (ConnectionResetError, BrokenPipeError):
            return None
    if not answer:
        return None
    assert answer.startswith(b"HTTP/1.1 "), (whole, answer)
    return int(answer[9:12])


def test_fuzzed_requests(launch, tmp_path):
    """10,000 of them, the same ones every time."""
    execd = launch(cwd=str(tmp_path))
    rng = random.Random(20261115)
    seen = set()
    before = Usage(execd)
    n = 2000 if execd.sanitized() else 10000
    for _ in range(n):
        seen.add(fuzz_one(execd, rng))
        if len(seen) > 60:
            break
    assert seen - {None} <= {101, 200, 201, 400, 404, 405, 408, 409, 411, 413, 414, 417, 426, 431, 500, 501, 503, 505}, seen
    assert run(execd, "echo alive").stdout == ["alive"]
    for what in ("session", "pty"):
        assert execd.post(f"/{what}").status_code in (200, 201, 500)
    wait_for(lambda: Usage(execd).children == 0, "commands to end")
    assert execd.status("Threads") == before.threads
