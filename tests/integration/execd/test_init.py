"""Init mode: execd as PID 1 of its own namespaces."""

import json
import os
import signal
import subprocess

import pytest
from conftest import EXECD, WAIT, wait_for
from execd_client import Events, Raw, check_stream, run, run_session

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")

# --kill-child: the namespace goes with the test, whatever happens.
PID1 = ("unshare", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child")


@pytest.fixture
def boot(launch, tmp_path):
    def start(*args, entry=("sleep", "1000000"), **kw):
        env = {"EXECD_ENVS": str(tmp_path / "envs"), **kw.pop("env", {})}
        e = launch(*args, wrap=PID1, init=entry, env=env, **kw)
        assert e.events[0]["pid"] == 1
        e.init_pid = int(subprocess.run(["pgrep", "-P", str(e.proc.pid)], capture_output=True,
                                        text=True).stdout.split()[0])
        return e
    return start


def end(e, status):
    """Waits for unshare, which reports the status of its child."""
    assert e.proc.wait(WAIT) == status, e.log()


def events(e):
    while e.next_event():
        pass
    return e.events


def test_serves_as_pid_1(boot):
    e = boot()
    assert e.next_event()["event"] == "entrypoint_started"
    ev = run(e, "cat /proc/1/comm; ps -o ppid= -p $$ | tr -d ' '; echo $EXECD_INIT")
    assert ev.stdout == ["execd", "1", "1"]
    sid = e.post("/session").json()["session_id"]
    run_session(e, sid, "export A=1")
    assert run_session(e, sid, "echo $A").stdout == ["1"]
    os.kill(e.init_pid, signal.SIGTERM)
    end(e, 0)


@pytest.mark.parametrize("entry,status,news", [
    (("true",), 0, {"exit_code": 0}), (("sh", "-c", "exit 3"), 3, {"exit_code": 3}),
    (("sh", "-c", "kill -9 $$"), 137, {"exit_code": 137, "signal": 9})])
def test_ends_with_its_entrypoint(launch, tmp_path, entry, status, news):
    proc, lines = boot_raw(tmp_path, ["--", *entry])
    assert proc.wait(WAIT) == status
    kinds = [x["event"] for x in lines()]
    assert kinds == ["ready", "entrypoint_started", "entrypoint_exited", "stopping"]
    got = lines()[2]
    assert {k: got[k] for k in news} == news and got["pid"] == lines()[1]["pid"]


def boot_raw(tmp_path, args, **kw):
    path = tmp_path / "notify"
    with open(path, "wb") as f:
        proc = subprocess.Popen([*PID1, EXECD, "init", "--port", "0", "--notify-fd", str(f.fileno()), *args],
                                pass_fds=[f.fileno()], env={**os.environ, "EXECD_ENVS": str(tmp_path / "envs")},
                                stdin=subprocess.DEVNULL, **kw)
    return proc, lambda: [json.loads(x) for x in path.read_text().splitlines()]


@pytest.mark.parametrize("entry,status", [("/proc/nonexistent", 127), ("/etc/passwd", 126)])
def test_entrypoint_that_does_not_start(tmp_path, entry, status):
    proc, lines = boot_raw(tmp_path, ["--", entry])
    assert proc.wait(WAIT) == status
    assert [x["event"] for x in lines()] == ["ready", "entrypoint_failed", "stopping"]
    assert lines()[1]["error"].startswith(entry + ": ")


def test_keep(boot):
    e = boot("--keep", entry=("sh", "-c", "exit 9"))
    assert e.next_event()["event"] == "entrypoint_started"
    got = e.next_event()
    assert got["event"] == "entrypoint_exited" and got["exit_code"] == 9
    assert run(e, "echo still here").stdout == ["still here"]
    os.kill(e.init_pid, signal.SIGTERM)
    end(e, 0)


def test_keep_when_it_does_not_start(boot):
    e = boot("--keep", entry=("/proc/nonexistent",))
    assert e.next_event()["event"] == "entrypoint_failed"
    assert run(e, "echo on").stdout == ["on"]
    os.kill(e.init_pid, signal.SIGTERM)
    end(e, 0)


def test_without_an_entrypoint(boot):
    e = boot(entry=())
    assert run(e, "echo on").stdout == ["on"]
    os.kill(e.init_pid, signal.SIGTERM)
    end(e, 0)


def test_reaps_orphans(boot):
    e = boot(entry=("sh", "-c", "for i in $(seq 1 50); do (sh -c 'exit 0' &); done; exec sleep 100000"))
    for _ in range(20):
        run(e, "(setsid sh -c 'exit 1' &); (sleep 0.01 &)")
    wait_for(lambda: "Z" not in run(e, "ps -eo stat= | cut -c1").stdout, "no zombies")
    os.kill(e.init_pid, signal.SIGTERM)
    end(e, 0)


def test_signals_reach_the_entrypoint(boot, tmp_path):
    out = tmp_path / "out"
    script = (f"for s in HUP USR1 USR2 WINCH; do trap \"echo $s >> {out}\" $s; done; echo up >> {out}; "
              "while :; do sleep 0.02; done")
    e = boot(entry=("bash", "-c", script))
    wait_for(lambda: out.exists() and "up" in out.read_text(), "the entrypoint")
    for name in ("HUP", "USR1", "USR2", "WINCH"):
        os.kill(e.init_pid, getattr(signal, "SIG" + name))
        wait_for(lambda: name in out.read_text(), name)
    os.kill(e.init_pid, signal.SIGTERM)
    end(e, 0)
    assert e.next_event()["event"] == "entrypoint_started"


def test_ordered_shutdown(boot, tmp_path):
    """Streams end with an event; the entrypoint, commands and whatever escaped get TERM, then KILL."""
    out = tmp_path / "out"
    script = f"trap 'echo entry >> {out}; exit 0' TERM; while :; do sleep 0.02; done"
    e = boot("--stop-timeout", "1s", entry=("bash", "-c", script))
    run(e, f"setsid bash -c \"trap 'echo daemon >> {out}; exit' TERM; echo up > {out}.up; "
           "while :; do sleep 0.02; done\" </dev/null >/dev/null 2>&1 &")
    run(e, f"setsid bash -c \"trap '' TERM; echo up > {out}.up2; while :; do sleep 0.02; done\" "
           "</dev/null >/dev/null 2>&1 &")
    wait_for(lambda: os.path.exists(f"{out}.up") and os.path.exists(f"{out}.up2"), "the daemons")
    raw = Raw(e, "POST", "/command", {"command": "echo up; sleep 300"})
    raw.head()
    text = raw.until(b'"up"')
    os.kill(e.init_pid, signal.SIGTERM)
    assert check_stream(Events(text + raw.body())).error["traceback"] == ["signal: terminated"]
    end(e, 0)
    assert sorted(out.read_text().split()) == ["daemon", "entry"]
    assert [x["event"] for x in events(e)] == ["ready", "entrypoint_started", "stopping", "entrypoint_exited"]


def test_entrypoint_output(tmp_path):
    (tmp_path / "log").mkdir()
    proc, lines = boot_raw(tmp_path, ["--log-dir", str(tmp_path / "logs"), "--", "sh", "-c",
                                      "echo out; echo err >&2"])
    assert proc.wait(WAIT) == 0
    assert (tmp_path / "logs" / "entrypoint.log").read_text() == "out\nerr\n"
    with open(tmp_path / "fd", "wb") as f:
        proc, lines = boot_raw_fd(tmp_path, f.fileno())
        assert proc.wait(WAIT) == 0
    assert (tmp_path / "fd").read_text() == "via fd\n"


def boot_raw_fd(tmp_path, fd):
    proc = subprocess.Popen([*PID1, EXECD, "init", "--port", "0", "--entrypoint-log", str(fd), "--", "echo",
                             "via fd"], pass_fds=[fd], env={**os.environ, "EXECD_ENVS": str(tmp_path / "envs")})
    return proc, None


def test_entrypoint_inherits_stdout(tmp_path):
    out = subprocess.run([*PID1, EXECD, "init", "--port", "0", "--log-level", "3", "--", "sh", "-c",
                          "echo to stdout; ls /proc/self/fd; ps -o sid= -p $$ | tr -d ' '; echo $$"],
                         capture_output=True, text=True, timeout=WAIT,
                         env={**os.environ, "EXECD_ENVS": str(tmp_path / "envs")})
    lines = out.stdout.split("\n")
    assert lines[0] == "to stdout" and lines[1:5] == ["0", "1", "2", "3"]
    assert lines[5] == lines[6], "a session of its own"


def test_envs_file_is_made(boot, tmp_path):
    path = tmp_path / "deep" / "er" / ".env"
    e = boot(env={"EXECD_ENVS": str(path)},
             entry=("sh", "-c", f"echo FROM_ENTRY=yes >> {path}; exec sleep 100000"))
    wait_for(lambda: path.exists() and path.read_text(), "the file")
    assert run(e, "echo $FROM_ENTRY").stdout == ["yes"]
    os.kill(e.init_pid, signal.SIGTERM)
    end(e, 0)


def test_killed_entrypoint_group_and_the_rest(boot):
    """An entrypoint that dies takes the sandbox with it: nothing survives PID 1."""
    e = boot(entry=("sh", "-c", "sleep 1"))
    raw = Raw(e, "POST", "/command", {"command": "echo up; sleep 300"})
    raw.head()
    text = raw.until(b'"up"')
    assert check_stream(Events(text + raw.body())).error["traceback"] == ["signal: terminated"]
    end(e, 0)
