"""osb command: output, exit codes, sessions, background."""

import re
import signal
import subprocess
import time


def test_lines_are_lines_and_exit_code_is_ours(osb, box):
    r = osb("command", "run", box, "--", "sh", "-c", "echo one; echo; echo two; echo bad >&2; exit 7")
    assert r.returncode == 7 and r.stdout == "one\n\ntwo\n"
    assert r.stderr.startswith("bad\n") and "Execution Error" in r.stderr


def test_words_are_quoted(osb, box):
    assert osb.ok("command", "run", box, "echo", "$HOME", "a  b", "it's") == "$HOME a  b it's\n"


def test_workdir_and_no_newline(osb, box):
    assert osb.ok("command", "run", box, "-w", "/tmp", "pwd") == "/tmp\n"
    assert osb.ok("command", "run", box, "printf", "x") == "x\n"


def test_timeout(osb, box):
    r = osb("command", "run", box, "-t", "1s", "sleep", "60")
    assert r.returncode != 0


def test_formats_of_the_wrong_mode(osb, box):
    r = osb("command", "run", box, "-o", "json", "true")
    assert r.returncode == 1 and r.stderr.startswith("Error: ") and "raw" in r.stderr
    r = osb("command", "run", box, "-d", "-o", "raw", "true")
    assert r.returncode == 1 and "table, json, yaml" in r.stderr
    r = osb("command", "run", box, "-o", "xml", "true")
    assert r.returncode == 2 and "'xml' is not one of 'table', 'json', 'yaml', 'raw'." in r.stderr


def test_background(osb, box):
    started = osb.json("command", "run", box, "-d", "--", "sh", "-c", "echo begin; sleep 0.3; echo end; exit 3")
    assert started["mode"] == "background" and started["sandbox_id"] == box
    eid = started["execution_id"]
    assert osb.ok("command", "logs", box, eid, "-f") == "begin\nend\n"
    status = osb.json("command", "status", box, eid)
    assert status["running"] is False and status["exit_code"] == 3
    assert list(status) == ["id", "content", "running", "exit_code", "error", "started_at", "finished_at"]
    logs = osb.json("command", "logs", box, eid)
    assert "begin" in logs["content"] and isinstance(logs["cursor"], int)
    assert osb.json("command", "logs", box, eid, "--cursor", str(logs["cursor"]))["content"] == ""
    assert "╭" in osb.ok("command", "logs", box, eid)
    assert osb.ok("--no-color", "command", "logs", box, eid).startswith("--- Command Logs ---\nbegin\n")


def test_interrupt(osb, box):
    eid = osb.json("command", "run", box, "-d", "sleep", "600")["execution_id"]
    assert osb.ok("command", "interrupt", box, eid) == "  ✅ Interrupted: %s\n" % eid
    for _ in range(200):
        if not osb.json("command", "status", box, eid)["running"]:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("still running")


def test_ctrl_c_ends_the_command_too(osb, box):
    p = subprocess.Popen([osb.exe, "command", "run", box, "--", "sh", "-c", "echo up; exec sleep 987654"], env=osb.env,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "up\n"
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 130 and "Aborted!" in err
    for _ in range(200):
        if osb("command", "run", box, "--", "sh", "-c", "pgrep -f '[s]leep 987654'").returncode != 0:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the command goes on")


def test_broken_pipe(osb, box):
    p = subprocess.Popen([osb.exe, "command", "run", box, "yes"], env=osb.env, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"y\n"
    p.stdout.close()
    assert p.wait(60) == 141
    assert p.stderr.read() == b""
    p.stderr.close()
    with open("/dev/full", "w") as full:  # a full disk is no closed pipe
        r = subprocess.run([osb.exe, "command", "run", box, "yes"], env=osb.env, stdout=full, stderr=subprocess.PIPE,
                           text=True, timeout=60)
    assert r.returncode == 1 and r.stderr == "Error: standard output: No space left on device\n"


def test_much_output(osb, box):
    out = osb.ok("command", "run", box, "seq", "200000")
    assert out.count("\n") == 200000 and out.endswith("\n200000\n")


def test_session_keeps_state(osb, box):
    s = osb.json("command", "session", "create", box, "-w", "/tmp")
    assert s["sandbox_id"] == box and s["working_directory"] == "/tmp"
    sess = s["session_id"]
    osb.ok("command", "session", "run", box, sess, "export", "A=5")
    assert osb.ok("command", "session", "run", box, sess, "--", "sh", "-c", "echo $A; pwd") == "5\n/tmp\n"
    r = osb("command", "session", "run", box, sess, "false")
    assert r.returncode == 1
    assert osb.ok("command", "session", "delete", box, sess) == "  ✅ Deleted session: %s\n" % sess


def test_unknown_sandbox(osb):
    r = osb("command", "run", "no-such", "true")
    assert r.returncode == 1 and re.search("Run command failed: ", r.stderr) and "osb sandbox list" in r.stderr
