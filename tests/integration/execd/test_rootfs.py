"""The same binary in root file systems of every kind, as PID 1 and plain, as root and not."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest
import websockets

from conftest import EXECD, WAIT, empty_ok, error, wait_for
from execd_client import run, run_session

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import rootfs  # noqa: E402

pytestmark = [pytest.mark.skipif(os.getuid() != 0, reason="needs root"),
              pytest.mark.skipif(not rootfs.is_static(EXECD), reason="execd is not linked statically")]

USER = 4711  # nobody's number in any of the root file systems


@pytest.fixture(params=list(rootfs.KINDS))
def fs(request, tmp_path):
    why = rootfs.available(request.param)
    if why:
        pytest.skip(why)
    for p in [tmp_path, *tmp_path.parents][:3]:
        p.chmod(0o755)
    made = rootfs.KINDS[request.param](tmp_path / "root", EXECD)
    made.kind = request.param
    made.dir("work", 0o777)
    return made


def inner_pid(e):
    out = subprocess.run(["pgrep", "-P", str(e.proc.pid)], capture_output=True, text=True)
    return int(out.stdout.split()[0])


def end(e):
    os.kill(inner_pid(e), signal.SIGTERM)
    assert e.proc.wait(WAIT) == 0, e.log()


@pytest.fixture(params=["plain", "init"])
def start(request, fs, launch):
    def go(user=None, **kw):
        init = None
        if request.param == "init":
            # An entrypoint every one of them has: execd itself. --keep: it may end.
            kw["args"] = [*kw.get("args", ()), "--keep"]
            init = ["/execd", "--version"] if not fs.shell else ["sh", "-c", "exec sleep 1000000"]
        env = {"PATH": "/usr/bin:/bin", "HOME": "/work", "TMPDIR": "/work", **kw.pop("env", {})}
        e = launch(*kw.pop("args", ()), wrap=fs.wrap(user), init=init, binary="/execd", env=env, **kw)
        e.proc.send_signal = lambda signo: os.kill(inner_pid(e), signo)  # unshare ignores them
        assert e.events[0]["pid"] == 1
        return e
    return go


def check_files(e, owner):
    """The whole round of a file: up, look, find, change, move, down, gone."""
    r = e.post("/files/upload", files=[
        ("metadata", ("metadata", json.dumps({"path": "/work/a/f $x\n", "mode": 640}))),
        ("file", ("f", b"one two\n" * 1000))])
    empty_ok(r)
    i = e.get("/files/info", params={"path": "/work/a/f $x\n"}).json()["/work/a/f $x\n"]
    assert (i["size"], i["mode"], i["owner"], i["type"]) == (8000, 640, owner, "file")
    found = e.get("/files/search", params={"path": "/work", "pattern": "f*"}).json()
    assert [x["path"] for x in found] == ["/work/a/f $x\n"]
    r = e.post("/files/replace?verbose=true", json={"/work/a/f $x\n": {"old": "two", "new": "2"}})
    assert r.json() == {"/work/a/f $x\n": {"replacedCount": 1000}}
    empty_ok(e.post("/files/mv", json=[{"src": "/work/a/f $x\n", "dest": "/work/b/g"}]))
    r = e.get("/files/download", params={"path": "/work/b/g"}, headers={"Range": "bytes=0-4"})
    assert r.status_code == 206 and r.content == b"one 2"
    empty_ok(e.post("/directories", json={"/work/c/d": {"mode": 700}}))
    names = [x["path"] for x in e.get("/directories/list", params={"path": "/work", "depth": 2}).json()]
    assert names == ["/work/a", "/work/b", "/work/b/g", "/work/c", "/work/c/d"]
    for d in "abc":
        empty_ok(e.delete("/directories", params={"path": f"/work/{d}"}))
    assert e.get("/directories/list", params={"path": "/work"}).json() == []
    error(e.delete("/directories", params={"path": "/"}), 500, "RUNTIME_ERROR")
    error(e.get("/files/info", params={"path": "/no"}), 404, "FILE_NOT_FOUND")


def test_search_from_the_root(fs, launch):
    """/proc is not walked through, unless the search begins there."""
    if fs.kind == "debian":
        pytest.skip("a whole /usr")
    fs.file("work/osb-needle")
    e = launch(wrap=fs.wrap(), binary="/execd")
    e.proc.send_signal = lambda signo: os.kill(inner_pid(e), signo)
    r = e.get("/files/search", params={"path": "/", "pattern": "{osb-needle,ostype}"})
    assert [x["path"] for x in r.json()] == ["/work/osb-needle"]
    r = e.get("/files/search", params={"path": "/proc/sys", "pattern": "ostype"})
    assert [x["path"] for x in r.json()] == ["/proc/sys/kernel/ostype"]
    end(e)


def check_commands(e, fs, uid):
    if not fs.shell:
        ev = run(e, "echo hello")
        assert ev.error and ev.error["ename"] == "CommandExecError"  # no shell: it says so, and lives
        return
    ev = run(e, "echo out; echo err >&2; pwd; exit 3", cwd="/work")
    assert (ev.stdout, ev.stderr, ev.exit_code) == (["out", "/work"], ["err"], 3)
    assert run(e, "id -u").stdout == [str(uid)]
    assert run(e, "echo $A", envs={"A": "b c"}).stdout == ["b c"]
    if fs.kind == "musl":
        who = "root"
        assert run(e, "hello 1 2").stdout == [f"musl says hello to {who}, 2 arguments"]
        assert run(e, "test ! -e /lib64 -a ! -e /bin/bash && echo yes").stdout == ["yes"]
    r = e.post("/command", json={"command": "echo in the background; sleep 0.1; echo done", "background": True})
    cid = json.loads(r.content.split(b"\n\n")[0])["text"]
    wait_for(lambda: not e.get(f"/command/status/{cid}").json()["running"], "the background command")
    assert e.get(f"/command/{cid}/logs").text == "in the background\ndone\n"


def check_orphans(e, fs):
    """Whatever loses its parent is reaped, by PID 1."""
    if not fs.shell:
        return
    run(e, "for i in 1 2 3 4 5; do (sleep 0.05 &) ; done")
    pid = inner_pid(e)

    def no_zombies():
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            for child in f.read().split():
                try:
                    with open(f"/proc/{child}/stat") as g:
                        if g.read().rsplit(")", 1)[1].split()[0] == "Z":
                            return False
                except FileNotFoundError:
                    pass
        return True

    wait_for(no_zombies, "the end of zombies")


def check_session(e):
    sid = e.post("/session", json={"cwd": "/work"}).json()["session_id"]
    run_session(e, sid, "export X='a b'; cd /")
    assert run_session(e, sid, 'echo "$X"; pwd').stdout == ["a b", "/"]
    empty_ok(e.delete(f"/session/{sid}"))


def check_pty(e):
    async def talk():
        sid = e.post("/pty", json={"cwd": "/work"}).json()["session_id"]
        async with websockets.connect(f"ws://127.0.0.1:{e.port}/pty/{sid}/ws?pty=0") as ws:
            await ws.send(b"\0echo from $((6*7)); exit 5\n")
            seen = b""
            while True:
                m = await ws.recv()
                if isinstance(m, bytes):
                    seen += m
                elif json.loads(m)["type"] == "exit":
                    assert json.loads(m)["exit_code"] == 5
                    break
            assert b"from 42" in seen

    asyncio.run(asyncio.wait_for(talk(), WAIT))


def check_metrics(e):
    m = e.get("/metrics").json()
    assert m["cpu_count"] >= 1 and 0 <= m["cpu_used_pct"] <= 100
    assert 0 < m["mem_used_mib"] <= m["mem_total_mib"]


def test_as_root(fs, start):
    e = start()
    empty_ok(e.get("/ping"))
    check_files(e, "root" if fs.kind != "empty" else "0")
    check_commands(e, fs, 0)
    check_metrics(e)
    check_orphans(e, fs)
    if fs.shell:
        check_session(e)
        check_pty(e)
    empty_ok(e.get(f"/proxy/{e.port}/ping"))
    end(e)


def test_as_somebody(fs, start):
    """No entry in /etc/passwd, no right to anything but /work."""
    e = start(user=USER)
    check_files(e, str(USER))
    check_commands(e, fs, USER)
    check_metrics(e)
    if fs.shell:
        check_session(e)
        ev = run(e, "true", uid=0)
        assert ev.error, "becoming root must fail"
    r = e.post("/directories", json={"/new": {}})
    error(r, 500, "RUNTIME_ERROR", "Permission denied")
    r = e.post("/files/upload", files=[("metadata", ("metadata", '{"path": "/f"}')), ("file", ("f", b"x"))])
    error(r, 500, "RUNTIME_ERROR", "Permission denied")
    r = e.post("/files/permissions", json={"/work": {"owner": "0"}})
    error(r, 500, "RUNTIME_ERROR")
    end(e)


def test_memory(fs, start):
    e = start()
    for _ in range(50):
        empty_ok(e.get("/ping"))
    with open(f"/proc/{inner_pid(e)}/status") as f:
        rss = [int(x.split()[1]) for x in f if x.startswith("VmRSS")][0]
    assert rss < 4096, f"{rss} kB"
    end(e)


def test_entrypoint_tells_the_exit_status(fs, launch):
    if not fs.shell:
        e = launch(wrap=fs.wrap(), init=["/execd", "--version"], binary="/execd")
        assert e.proc.wait(WAIT) == 0
        return
    e = launch(wrap=fs.wrap(), init=["sh", "-c", "exit 7"], binary="/execd", env={"PATH": "/usr/bin:/bin"})
    e.ends_with = (7,)
    assert e.proc.wait(WAIT) == 7
