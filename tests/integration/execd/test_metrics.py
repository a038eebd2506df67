"""/metrics: the sandbox's own share, at once; and the stream of it."""

import json
import os
import socket
import subprocess
import time

import pytest

from conftest import empty_ok, error, wait_for

KEYS = {"cpu_count", "cpu_used_pct", "mem_total_mib", "mem_used_mib", "timestamp"}


def check(m):
    assert set(m) == KEYS
    assert m["cpu_count"] >= 1
    assert 0 <= m["cpu_used_pct"] <= 100
    assert 0 < m["mem_used_mib"] <= m["mem_total_mib"]
    assert abs(m["timestamp"] - time.time() * 1000) < 60_000


def test_get(execd):
    r = execd.get("/metrics")
    assert r.status_code == 200
    assert r.headers["Content-Type"] == "application/json; charset=utf-8"
    check(r.json())


def test_does_not_sleep(execd):
    start = time.monotonic()
    for _ in range(50):
        execd.get("/metrics")
    assert time.monotonic() - start < 45  # the reference takes a second for each


def test_cpu_shows_a_busy_machine(launch):
    e = launch()
    first = e.get("/metrics").json()
    check(first)
    burn = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        wait_for(lambda: e.get("/metrics").json()["cpu_used_pct"] > 20, "CPU use")
    finally:
        for p in burn:
            p.kill()
            p.wait()


def events(execd, n):
    got = []
    with execd.get("/metrics/watch", stream=True) as r:
        assert r.status_code == 200
        assert r.headers["Content-Type"] == "text/event-stream"
        assert r.headers["Cache-Control"] == "no-cache"
        assert r.headers["X-Accel-Buffering"] == "no"
        assert r.headers["Transfer-Encoding"] == "chunked"
        raw = b""
        for piece in r.iter_content(None):
            raw += piece
            if raw.count(b"\n\n") >= n:
                break
    for frame in raw.split(b"\n\n")[:n]:
        assert b"\n" not in frame
        got.append(json.loads(frame))
    return got


def test_watch(execd):
    got = events(execd, 3)
    for m in got:
        check(m)
    steps = [b["timestamp"] - a["timestamp"] for a, b in zip(got, got[1:])]
    assert all(s >= 900 for s in steps), steps


def test_watch_first_at_once(execd):
    s = socket.create_connection(("127.0.0.1", execd.port))
    s.sendall(b"GET /metrics/watch HTTP/1.1\r\nHost: x\r\n\r\n")
    s.settimeout(60)
    data = b""
    while b"\n\n" not in data.split(b"\r\n\r\n", 1)[-1]:
        data += s.recv(65536)
    assert b"cpu_used_pct" in data
    fds = execd.fds()
    s.close()
    wait_for(lambda: execd.fds() < fds, "the stream's end")


def test_watch_ends_with_execd(launch):
    e = launch()
    with e.get("/metrics/watch", stream=True) as r:
        it = r.iter_content(None)
        next(it)
        e.proc.terminate()
        assert b"".join(it) is not None  # a clean end of the chunked body, or this raises
    assert e.proc.wait(60) == 0


def test_watchers_that_do_not_read(execd):
    empty_ok(execd.get("/ping"))  # whose connection stays
    fds = execd.fds()
    conns = []
    for _ in range(20):
        s = socket.create_connection(("127.0.0.1", execd.port))
        s.sendall(b"GET /metrics/watch HTTP/1.1\r\nHost: x\r\n\r\n")
        conns.append(s)
    wait_for(lambda: execd.fds() >= fds + 20, "connections")
    empty_ok(execd.get("/ping"))
    for s in conns:
        s.close()
    wait_for(lambda: execd.fds() <= fds, "their end")


# ---- cgroups ----

def v1_dirs(name):
    """A cgroup of our own in each controller of version 1, or nothing."""
    dirs = {}
    for c in ["memory", "cpu", "cpuacct"]:
        for base in [f"/sys/fs/cgroup/{c}", "/sys/fs/cgroup/cpu,cpuacct"]:
            if os.path.exists(f"{base}/cgroup.procs") and (c == "memory" or os.path.exists(f"{base}/{c}.stat")
                                                           or os.path.exists(f"{base}/{c}.usage")):
                dirs.setdefault(c, f"{base}/{name}")
    return dirs


@pytest.fixture
def cgroup():
    name = f"osb-files-{os.getpid()}"
    made, v2 = [], None
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        v2 = f"/sys/fs/cgroup/{name}"
        for c in ["memory", "cpu"]:
            try:
                with open("/sys/fs/cgroup/cgroup.subtree_control", "w") as f:
                    f.write("+" + c)
            except OSError:
                pass
        dirs = {c: v2 for c in ["memory", "cpu", "cpuacct"]}
    else:
        dirs = v1_dirs(name)
    try:
        for d in sorted(set(dirs.values())):
            os.makedirs(d, exist_ok=True)
            made.append(d)
        if v2:
            values = {f"{v2}/memory.max": str(300 << 20), f"{v2}/cpu.max": "150000 100000"}
        else:
            values = {dirs["memory"] + "/memory.limit_in_bytes": str(300 << 20),
                      dirs["cpu"] + "/cpu.cfs_quota_us": "150000"}
        for path, value in values.items():
            with open(path, "w") as f:
                f.write(value)
    except (OSError, KeyError) as e:
        for d in made:
            os.rmdir(d)
        pytest.skip(f"no cgroups of our own here: {e}")
    yield made
    for d in made:
        wait_for(lambda: open(d + "/cgroup.procs").read() == "", "an empty cgroup")
        os.rmdir(d)


def joined(dirs, *wrap):
    script = "".join(f"echo $$ > {d}/cgroup.procs; " for d in dirs) + 'exec "$@"'
    return ["sh", "-c", script, "sh", *wrap]


@pytest.mark.parametrize("namespace", [False, True])
def test_limits_of_the_own_cgroup(launch, cgroup, namespace):
    wrap = []
    if namespace:  # as in a container: the hierarchy is mounted again, from inside
        if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            mounts = "umount /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && "
        else:
            mounts = "".join(f"umount {os.path.dirname(d)} && mount -t cgroup -o {c} none "
                             f"{os.path.dirname(d)} && " for c, d in
                             {os.path.basename(os.path.dirname(d)): d for d in cgroup}.items())
        wrap = ["unshare", "-C", "-m", "sh", "-c", mounts + 'exec "$@"', "sh"]
    e = launch(wrap=joined(cgroup, *wrap))
    m = e.get("/metrics").json()
    check(m)
    assert m["mem_total_mib"] == 300
    assert m["cpu_count"] == 1  # 1.5 of a CPU, rounded down
    before = m["mem_used_mib"]
    r = e.post("/command", json={"command": "head -c 60000000 /dev/zero | tail -c 60000000 | sleep 5",
                                 "background": True})
    assert r.status_code == 200
    wait_for(lambda: e.get("/metrics").json()["mem_used_mib"] > before + 40, "memory use")
    assert e.stop() == 0


def test_without_proc(launch, tmp_path):
    """No /proc, no numbers: an error that says so, and everything else works."""
    if os.environ.get("OSB_FLAVOUR") == "asan":
        pytest.skip("the sanitizer's own runtime needs /proc")
    script = "mount -t tmpfs none /sys/fs/cgroup 2>/dev/null; mount -t tmpfs none /proc && exec \"$@\""
    e = launch(wrap=["unshare", "-m", "sh", "-c", script, "sh"])
    error(e.get("/metrics"), 500, "RUNTIME_ERROR", "error reading runtime metrics. ")
    with e.get("/metrics/watch", stream=True) as r:
        assert set(json.loads(next(r.iter_lines()))) == {"error"}
    empty_ok(e.get("/ping"))
    (tmp_path / "d").mkdir()
    f = tmp_path / "d/f"
    r = e.post("/files/upload", files=[("metadata", ("metadata", json.dumps({"path": str(f)}))),
                                       ("file", ("f", b"without proc"))])
    empty_ok(r)
    assert f.read_text() == "without proc" and os.listdir(tmp_path / "d") == ["f"]
