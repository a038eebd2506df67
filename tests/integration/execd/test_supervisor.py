"""execd supervise: restarts, pauses, hooks, giving up, stopping."""

import json
import os
import signal
import subprocess

import pytest
from conftest import EXECD, WAIT

FAST = ("--backoff-min", "1ms", "--backoff-max", "4ms")


def supervise(*args, **kw):
    return subprocess.Popen([EXECD, "supervise", *args], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, **kw)


def finish(proc):
    out, err = proc.communicate(timeout=WAIT)
    events = [json.loads(line) for line in err.splitlines() if line.startswith('{"ts"')]
    return proc.returncode, out, events


def kinds(events):
    return [e["event"] for e in events]


def test_restarts_and_gives_up():
    code, out, events = finish(supervise(*FAST, "--burst-max", "3", "--name", "w", "--", "sh", "-c", "echo x; exit 2"))
    assert code == 1 and out == "x\n" * 3
    assert kinds(events) == ["start", "exit", "backoff"] * 3 + ["burst_exit"]
    end = events[1]
    assert (end["exit_code"], end["signal"], end["reason"], end["name"]) == (2, 0, "crashed", "w")


def test_backoff_grows():
    code, _, events = finish(supervise("--backoff-min", "4ms", "--backoff-max", "16ms", "--backoff-jitter", "0",
                                       "--burst-max", "5", "--", "true"))
    assert code == 1
    assert [e["delay_ms"] for e in events if e["event"] == "backoff"] == [4, 8, 16, 16, 16]
    assert events[1]["reason"] == "exited"


def test_stable_resets_the_pause():
    _, _, events = finish(supervise("--backoff-min", "4ms", "--backoff-max", "16ms", "--backoff-jitter", "0",
                                    "--stable-after", "1ms", "--burst-max", "3", "--", "sleep", "0.1"))
    assert [e["delay_ms"] for e in events if e["event"] == "backoff"] == [4, 4, 4]
    assert kinds(events).count("stable") == 3


def test_hooks(tmp_path):
    log = tmp_path / "events"
    code, out, events = finish(supervise(
        *FAST, "--burst-max", "1", "--event-log", str(log), "--pre-start", "echo pre",
        "--post-exit", "echo post $WORKER_EXIT_CODE $WORKER_SIGNAL $WORKER_ATTEMPT $((WORKER_PID > 0))",
        "--", "sh", "-c", "kill -9 $$"))
    assert code == 1 and events == []
    assert out == "pre\npost -1 9 1 1\npre\n"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert kinds(events) == ["prestart", "start", "exit", "postexit", "backoff", "prestart", "burst_exit"]
    assert events[2]["reason"] == "signaled"


def test_program_that_is_not_there():
    code, _, events = finish(supervise(*FAST, "--burst-max", "2", "--", "/nonexistent"))
    assert code == 1 and events[0]["reason"] == "launch_failed"


@pytest.mark.parametrize("text,sig", [("trap 'exit 3' TERM; echo up; while :; do sleep 0.02; done", 0),
                                      ("trap '' TERM; echo up; while :; do sleep 0.02; done", 9)])
def test_stopping(text, sig):
    proc = supervise("--grace-period", "300ms", "--", "sh", "-c", text)
    assert proc.stdout.readline() == "up\n"
    proc.send_signal(signal.SIGTERM)
    code, _, events = finish(proc)
    assert code == 0 and kinds(events) == ["start", "shutdown", "exit"]
    assert events[-1]["reason"] == "shutdown" and events[-1]["signal"] == sig


def test_stopping_in_a_pause():
    proc = supervise("--backoff-min", "300s", "--backoff-max", "300s", "--", "true")
    while '"backoff"' not in proc.stderr.readline():
        pass
    proc.send_signal(signal.SIGTERM)
    assert proc.wait(WAIT) == 0


@pytest.mark.parametrize("args", [(), ("--",), ("--nope", "--", "true"), ("--burst-max", "0", "--", "true"),
                                  ("--backoff-min", "x", "--", "true")])
def test_bad_flags(args):
    proc = supervise(*args)
    assert proc.wait(WAIT) == 2


def test_other_name(tmp_path):
    os.symlink(EXECD, tmp_path / "opensandbox-supervisor")
    r = subprocess.run([tmp_path / "opensandbox-supervisor", *FAST, "--on-burst-exit=true", "--burst-max", "1", "--",
                        "echo", "hi"], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 1 and r.stdout == "hi\n"
