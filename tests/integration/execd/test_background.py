"""Background commands, their logs, and interrupting."""

import os
import time

import pytest
from conftest import error, empty_ok, wait_for
from execd_client import Events, Raw, check_stream, run


def background(execd, command, **fields):
    ev = run(execd, command, background=True, **fields)
    assert [e["type"] for e in ev.all] == ["init", "ping", "execution_complete"]
    return ev.id


def finished(execd, cid):
    def look():
        st = execd.get(f"/command/status/{cid}").json()
        return st if not st["running"] else None
    return wait_for(look, "the command's end")


def logs(execd, cid, cursor=None):
    r = execd.get(f"/command/{cid}/logs", params={} if cursor is None else {"cursor": cursor})
    assert r.status_code == 200, r.text
    assert r.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert int(r.headers["Content-Length"]) == len(r.content)
    return r.content, int(r.headers["EXECD-COMMANDS-TAIL-CURSOR"])


def test_returns_at_once(execd):
    start = time.monotonic()
    cid = background(execd, "sleep 30")
    assert time.monotonic() - start < 10
    st = execd.get(f"/command/status/{cid}").json()
    assert st["running"] is True and "exit_code" not in st
    empty_ok(execd.delete("/command", params={"id": cid}))
    st = execd.get(f"/command/status/{cid}").json()
    assert st["running"] is False and st["exit_code"] == -1 and st["error"] == "signal: terminated"


def test_combined_log(execd):
    cid = background(execd, "echo out; echo err >&2; printf tail; exit 4")
    st = finished(execd, cid)
    assert st["exit_code"] == 4 and st["error"] == "exit status 4"
    assert logs(execd, cid) == (b"out\nerr\ntail", 12)
    assert logs(execd, cid, 4) == (b"err\ntail", 12)
    assert logs(execd, cid, 12) == (b"", 12)
    assert logs(execd, cid, 100) == (b"", 100)
    assert logs(execd, cid, "garbage") == (b"out\nerr\ntail", 12)


def test_log_is_complete_when_the_status_says_finished(execd):
    for _ in range(10):
        cid = background(execd, "seq 1 50000")
        finished(execd, cid)
        assert logs(execd, cid)[0] == b"".join(b"%d\n" % i for i in range(1, 50001))


def test_polling_concatenates_to_the_whole(execd):
    cid = background(execd, "for i in $(seq 1 200); do printf 'zażółć €%d\\n' $i; sleep 0.002; done")
    text, cursor = "", 0
    while True:
        done = not execd.get(f"/command/status/{cid}").json()["running"]
        piece, cursor = logs(execd, cid, cursor)
        text += piece.decode()  # each poll is whole characters
        if done:
            break
    assert text == "".join(f"zażółć €{i}\n" for i in range(1, 201))


def test_characters_are_not_cut_while_running(execd, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    cid = background(execd, rf"printf 'ab\342\202'; cat {fifo}; printf '\254'")
    assert wait_for(lambda: logs(execd, cid)[0], "the first bytes") == b"ab"
    time.sleep(0.05)
    assert logs(execd, cid) == (b"ab", 2)
    with open(fifo, "w"):
        pass
    finished(execd, cid)
    assert logs(execd, cid, 2) == ("€".encode(), 5)


def test_reopening_does_not_truncate(execd):
    cid = background(execd, "echo a; echo b > /dev/stderr; echo c > /dev/stdout; echo d")
    finished(execd, cid)
    assert logs(execd, cid)[0] == b"a\nb\nc\nd\n"


def test_survivors_go_on_writing_to_the_log(execd):
    cid = background(execd, "(sleep 0.3; echo late) & echo now")
    finished(execd, cid)
    assert logs(execd, cid)[0] == b"now\n"
    wait_for(lambda: logs(execd, cid)[0] == b"now\nlate\n", "the survivor's line")


def test_log_files_are_private(execd, launch, tmp_path):
    other = launch(env={"TMPDIR": str(tmp_path / "made")})
    cid = background(other, "echo secret; sleep 0.2")
    wait_for(lambda: logs(other, cid)[0], "output")
    assert os.listdir(tmp_path / "made") == []  # it has no name at all
    finished(other, cid)


def test_no_place_for_the_log(launch, tmp_path):
    if os.getuid() != 0:
        pytest.skip("needs root")
    # The program is opened first: it may lie below /tmp itself.
    script = ('exec 9<"$1"; shift; mount -t tmpfs -o ro none /tmp; mount -t tmpfs -o ro none /var/tmp; '
              'mount -t tmpfs -o ro none /dev/shm; exec /proc/self/fd/9 "$@"')
    execd = launch(wrap=("unshare", "-m", "sh", "-c", script, "sh"), env={"TMPDIR": "/proc/nope"})
    r = execd.post("/command", json={"command": "true", "background": True})
    assert error(r, 500, "RUNTIME_ERROR", "error running commands ")
    assert run(execd, "echo foreground").stdout == ["foreground"]


def test_full_disk(launch, tmp_path):
    """Output of the log is lost, the command and execd are not."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    script = "mount -t tmpfs -o size=64k none /mnt; exec \"$@\""
    execd = launch(wrap=("unshare", "-m", "sh", "-c", script, "sh"), env={"TMPDIR": "/mnt"})
    cid = background(execd, "head -c 1000000 /dev/zero; echo done; exit 6")
    assert finished(execd, cid)["exit_code"] == 6
    assert 0 < len(logs(execd, cid)[0]) <= 65536
    assert run(execd, "echo alive").stdout == ["alive"]


def test_large_log_keeps_the_newest(execd):
    cid = background(execd, "head -c 90000000 /dev/zero | tr '\\0' a; echo END")
    finished(execd, cid)
    text, end = logs(execd, cid)
    assert end == 90000004 and text.endswith(b"aEND\n") and len(text) <= (64 << 20) + (9 << 20)
    assert logs(execd, cid, end - 4) == (b"END\n", end)


def test_timeout(execd, tmp_path):
    pidfile = tmp_path / "pid"
    cid = background(execd, f"sleep 300 & echo $! > {pidfile}; wait", timeout=200)
    st = finished(execd, cid)
    assert st["exit_code"] == -1 and st["error"] == "signal: killed"
    wait_for(lambda: not os.path.exists(f"/proc/{pidfile.read_text().strip()}"), "its child's end")


def test_start_failure(launch):
    if os.getuid() != 0:
        pytest.skip("needs root")
    execd = launch(wrap=("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"))
    r = execd.post("/command", json={"command": "true", "background": True, "uid": 0})
    ev = check_stream(Events(r.content))
    assert ev.error["ename"] == "RUNTIME_ERROR" and ev.error["evalue"] == "Operation not permitted"
    st = execd.get(f"/command/status/{ev.id}").json()
    assert st["running"] is False and st["exit_code"] == 255


def test_logs_errors(execd):
    code = "INVALID_REQUEST_BODY"
    error(execd.get("/command/nope/logs"), 400, code, "command not found: nope")
    cid = run(execd, "true").id
    error(execd.get(f"/command/{cid}/logs"), 400, code, f"command {cid} is not running in background")
    cid = background(execd, "true")
    error(execd.get(f"/command/{cid}/logs?cursor=-1"), 400, code, "error seek file: ")


# ---- interrupt ----

@pytest.mark.parametrize("route", ["/command", "/code"])
def test_interrupt(execd, route):
    raw = Raw(execd, "POST", "/command", {"command": "sleep 30 & echo up; wait"})
    raw.head()
    text = raw.until(b'"up"')
    cid = Events(text).id
    start = time.monotonic()
    empty_ok(execd.delete(route, params={"id": cid}))
    assert time.monotonic() - start < 20
    ev = Events(text + raw.body())
    assert ev.error["evalue"] == "-1" and ev.error["traceback"] == ["signal: terminated"]
    raw.close()


def test_interrupt_that_is_trapped(execd):
    raw = Raw(execd, "POST", "/command",
              {"command": "trap 'echo trapped; exit 7' TERM; echo up; while :; do sleep 0.05; done"})
    raw.head()
    text = raw.until(b'"up"')
    empty_ok(execd.delete("/command", params={"id": Events(text).id}))
    ev = Events(text + raw.body())
    assert ev.stdout == ["up", "trapped"] and ev.exit_code == 7
    raw.close()


def test_interrupt_escalates(execd):
    raw = Raw(execd, "POST", "/command",
              {"command": "trap '' TERM; echo up; while :; do sleep 0.05; done"})
    raw.head()
    text = raw.until(b'"up"')
    empty_ok(execd.delete("/command", params={"id": Events(text).id}))
    ev = Events(text + raw.body())
    assert ev.error["traceback"] == ["signal: killed"]
    raw.close()


def test_interrupt_answers_when_the_group_is_gone(execd, tmp_path):
    """The leader goes at once, its child takes a moment: the answer waits for both."""
    pidfile = tmp_path / "pid"
    cid = background(execd, f"sh -c \"trap 'sleep 0.3; exit' TERM; echo \\$\\$ > {pidfile}; "
                            "while :; do sleep 0.02; done\" & wait")
    wait_for(lambda: pidfile.exists() and pidfile.read_text().strip(), "the child")
    empty_ok(execd.delete("/command", params={"id": cid}))
    assert not os.path.exists(f"/proc/{pidfile.read_text().strip()}")


def test_interrupt_errors(execd):
    code = "RUNTIME_ERROR"
    error(execd.delete("/command"), 400, "MISSING_QUERY", "missing query parameter 'id'")
    error(execd.delete("/command?id="), 400, "MISSING_QUERY", "missing query parameter 'id'")
    error(execd.delete("/command?id=fake"), 500, code,
          "error interruptting code context. no such session")
    cid = run(execd, "true").id
    error(execd.delete(f"/command?id={cid}"), 500, code, f"command session {cid} is not running")


def test_interrupt_whose_client_leaves(execd, tmp_path):
    ready = tmp_path / "ready"
    cid = background(execd, f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done")
    wait_for(ready.exists, "the trap")
    raw = Raw(execd, "DELETE", f"/command?id={cid}")
    time.sleep(0.1)
    raw.reset()
    assert finished(execd, cid)["error"] == "signal: killed"


# ---- records ----

def test_records_are_capped(launch):
    execd = launch()
    first = run(execd, "true").id
    for _ in range(1000):
        execd.post("/command", json={"command": "true"})
    assert execd.get(f"/command/status/{first}").status_code == 404
    last = run(execd, "true").id
    assert execd.get(f"/command/status/{last}").status_code == 200
