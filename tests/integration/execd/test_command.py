"""/command: requests, events, status, and every error."""

import json
import os
import re
import time

import pytest
from conftest import error, empty_ok, wait_for
from execd_client import Events, Raw, check_stream, run


def test_ping(execd):
    empty_ok(execd.get("/ping"))


def test_echo(execd):
    ev = run(execd, "echo hello")
    assert [e["type"] for e in ev.all] == ["init", "ping", "stdout", "execution_complete"]
    assert ev.stdout == ["hello"] and ev.exit_code == 0
    assert re.fullmatch("[0-9a-f]{32}", ev.id)
    assert all(abs(e["timestamp"] / 1000 - time.time()) < 60 for e in ev.all)


def test_exact_bytes(execd):
    ev = run(execd, "echo 'a\"b'; exit 3")
    lines = re.sub(rb"\d{13}", b"T", ev.raw).split(b"\n\n")
    assert lines[0] == b'{"type":"init","text":"%s","timestamp":T}' % ev.id.encode()
    assert lines[1] == b'{"type":"ping","text":"pong","timestamp":T}'
    assert lines[2] == b'{"type":"stdout","text":"a\\"b","timestamp":T}'
    assert lines[3] == (b'{"type":"error","timestamp":T,"error":{"ename":"CommandExecError","evalue":"3",'
                        b'"traceback":["exit status 3"]}}')
    assert lines[4:] == [b""]


def test_execution_time(execd):
    e = run(execd, "sleep 0.05").all[-1]
    assert list(e) == ["type", "execution_time", "timestamp"] and e["execution_time"] >= 50


def test_nothing_written(execd):
    assert [e["type"] for e in run(execd, "true").all] == ["init", "ping", "execution_complete"]


def test_unknown_command(execd):
    ev = run(execd, "no-such-program-here")
    assert any("no-such-program-here" in s for s in ev.stderr)
    assert ev.error["ename"] == "CommandExecError" and ev.exit_code == 127


@pytest.mark.parametrize("code", [1, 2, 42, 126, 255])
def test_exit_codes(execd, code):
    ev = run(execd, f"exit {code}")
    assert ev.error == {"ename": "CommandExecError", "evalue": str(code),
                        "traceback": [f"exit status {code}"]}


@pytest.mark.parametrize("name,text", [
    ("KILL", "killed"), ("TERM", "terminated"), ("INT", "interrupt"), ("HUP", "hangup"),
    ("SEGV", "segmentation fault"), ("USR1", "user defined signal 1"), ("PIPE", "broken pipe"),
    ("ABRT", "aborted")])
def test_signals(execd, name, text):
    ev = run(execd, f"ulimit -c 0; kill -{name} $$; sleep 60")
    assert ev.error["evalue"] == "-1"
    assert ev.error["traceback"] == [f"signal: {text}"]
    st = execd.get(f"/command/status/{ev.id}").json()
    assert st["exit_code"] == -1 and st["error"] == f"signal: {text}"


def test_timeout_kills_the_group(execd, tmp_path):
    pidfile = tmp_path / "pid"
    ev = run(execd, f"sleep 300 & echo $! > {pidfile}; wait", timeout=300)
    assert ev.error == {"ename": "CommandExecError", "evalue": "-1",
                        "traceback": ["signal: killed", "timeout after 300ms"]}
    pid = int(pidfile.read_text())
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the child's end")
    assert execd.get(f"/command/status/{ev.id}").json()["exit_code"] == -1


def test_timeout_not_reached(execd):
    assert run(execd, "echo ok", timeout=60000).stdout == ["ok"]
    assert run(execd, "echo ok", timeout=0).stdout == ["ok"]


def test_output_before_a_timeout(execd):
    ev = run(execd, "echo early; printf tail; sleep 60", timeout=300)
    assert ev.stdout == ["early", "tail"]


# ---- status ----

def test_status(execd):
    ev = run(execd, "exit 3")
    r = execd.get(f"/command/status/{ev.id}")
    assert r.headers["Content-Type"] == "application/json; charset=utf-8"
    st = r.json()
    assert list(st) == ["id", "content", "running", "exit_code", "error", "started_at", "finished_at"]
    assert st["id"] == ev.id and st["content"] == "exit 3" and st["running"] is False
    assert st["exit_code"] == 3 and st["error"] == "exit status 3"
    for key in ("started_at", "finished_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", st[key])


def test_status_of_success_and_while_running(execd):
    assert "error" not in execd.get(f"/command/status/{run(execd, 'true').id}").json()
    raw = Raw(execd, "POST", "/command", {"command": "echo up; sleep 300"})
    assert raw.head() == 200
    text = raw.until(b'"up"')
    cid = json.loads(text.split(b"\n\n")[0])["text"]
    st = execd.get(f"/command/status/{cid}").json()
    assert list(st) == ["id", "content", "running", "started_at"] and st["running"] is True
    empty_ok(execd.delete("/command", params={"id": cid}))
    raw.close()


def test_status_is_there_as_soon_as_the_id(execd):
    for background in (False, True):
        raw = Raw(execd, "POST", "/command", {"command": "sleep 0.2", "background": background})
        raw.head()
        cid = json.loads(raw.until(b"\n\n").split(b"\n\n")[0])["text"]
        assert execd.get(f"/command/status/{cid}").status_code == 200
        raw.close()


def test_status_unknown(execd):
    error(execd.get("/command/status/nope"), 404, "INVALID_REQUEST_BODY", "command not found: nope")


# ---- bad requests ----

PARSE = "error parsing request, MAYBE invalid body format. "
VALID = "invalid request, validation error "


@pytest.mark.parametrize("body,text", [
    (b"", PARSE), (b"   ", PARSE), (b"{", PARSE), (b"[]", PARSE), (b'"x"', PARSE), (b"nonsense", PARSE),
    (b'{"command":1}', PARSE), (b'{"command":"x","cwd":5}', PARSE),
    (b'{"command":"x","background":"yes"}', PARSE), (b'{"command":"x","timeout":"1"}', PARSE),
    (b'{"command":"x","uid":-1}', PARSE), (b'{"command":"x","uid":4294967296}', PARSE),
    (b'{"command":"x","envs":{"a":1}}', PARSE), (b'{"command":"x","envs":[]}', PARSE),
    (b'{"argv":"ls"}', PARSE), (b'{"argv":["ls",1]}', PARSE), (b'{"argv":["a\\u0000b"]}', PARSE),
    (b'{"argv":[]}', VALID), (b'{"argv":["","x"]}', VALID), (b'{"command":"x","argv":["x"]}', VALID),
    (b"{}", VALID), (b"null", VALID), (b'{"command":""}', VALID), (b'{"command":null}', VALID),
    (b'{"command":"x","timeout":-1}', VALID),
    (b'{"command":"x","gid":0}', VALID + "uid is required when gid is provided"),
    (b'{"command":"x","cwd":"/no/such/dir"}', VALID + "working directory does not exist: /no/such/dir: "),
    (b'{"command":"x","cwd":"/etc/passwd"}',
     VALID + "working directory path is not a directory: /etc/passwd"),
    (b'{"command":"x","cwd":"$NOPE1/${NOPE2}"}',
     VALID + 'cannot resolve working directory "$NOPE1/${NOPE2}": '
             "path references undefined environment variables: NOPE1,NOPE2"),
])
def test_bad_requests(execd, body, text):
    r = execd.post("/command", data=body)
    message = error(r, 400, "INVALID_REQUEST_BODY", text)
    assert message.startswith(text)


@pytest.mark.parametrize("field,tag", [({"command": ""}, "required"),
                                       ({"command": "x", "timeout": -5}, "gte")])
def test_validation_names_field_and_tag(execd, field, tag):
    message = error(execd.post("/command", json=field), 400, "INVALID_REQUEST_BODY", tag)
    assert ("timeout" if "timeout" in field else "command") in message


@pytest.mark.parametrize("body", [
    b'{"command":"echo ok","cwd":null,"background":null,"timeout":null,"uid":null,"gid":null,"envs":null}',
    b'{"COMMAND":"echo ok","Cwd":"/"}', b'{"command":"echo ok","unknown":{"a":[1]}}',
    b'{"command":"echo ok"} trailing garbage', b' \n{"command":"echo ok","background":false}'])
def test_lenient_requests(execd, body):
    r = execd.post("/command", data=body, headers={"Content-Type": "text/plain"})
    assert check_stream(Events(r.content)).stdout == ["ok"]


def test_whitespace_is_a_command(execd):
    assert run(execd, "  ").exit_code == 0


def argv(execd, *words, **more):
    return check_stream(Events(execd.post("/command", json={"argv": words, **more}).content))


def test_arguments_as_they_are(execd, tmp_path):
    ev = argv(execd, "printf", "<%s>\n", "a  b", "$HOME", "*", "it's", "")
    assert ev.stdout == ["<a  b>", "<$HOME>", "<*>", "<it's>", "<>"] and ev.exit_code == 0
    status = execd.get(f"/command/status/{ev.id}").json()
    assert status["content"] == "printf '<%s>\n' 'a  b' '$HOME' '*' 'it'\\''s' ''"
    assert argv(execd, "sh", "-c", "exit 7").exit_code == 7
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho $0 $1 $A\n")
    tool.chmod(0o755)
    assert argv(execd, "./tool", "x", cwd=str(tmp_path)).stdout == ["./tool x"]
    assert argv(execd, "tool", "y", envs={"PATH": f"relative:{tmp_path}:/usr/bin:/bin", "A": "b"}).stdout == [f"{tool} y b"]


def test_program_that_is_nowhere(execd):
    for name in ("no-such-program", "/no/such/program", "./no-such-program"):
        assert argv(execd, name).error["evalue"] == "No such file or directory", name


def test_chunked_request(execd):
    r = execd.post("/command", data=iter([b'{"comm', b'and":"ec', b'ho hi"}']))
    assert Events(r.content).stdout == ["hi"]


def test_body_over_the_limit(execd):
    r = execd.post("/command", data=b'{"command":"' + b"x" * (17 << 20) + b'"}')
    assert r.status_code == 413 and r.json()["code"] == "LIMIT_EXCEEDED"


def test_long_command(execd):
    """Longer than what fits into one argument of execve(2)."""
    text = "x" * 1000000
    ev = run(execd, f"cat <<'EOF' | wc -c\n{text}\nEOF\nexit 4")
    assert ev.stdout == ["1000001"] and ev.exit_code == 4


# ---- routes ----

@pytest.mark.parametrize("method,path", [
    ("GET", "/"), ("GET", "/nope"), ("PUT", "/command"), ("GET", "/command"), ("POST", "/ping"),
    ("HEAD", "/ping"), ("OPTIONS", "/ping"), ("POST", "/command/status/x"), ("GET", "/session"),
    ("GET", "/v1/isolated/capabilities")])
def test_unknown_routes(execd, method, path):
    r = execd.request(method, path)
    assert r.status_code == 404
    assert r.headers["Content-Type"].startswith("text/plain")
    assert method == "HEAD" or r.text == "404 page not found"


def test_trailing_slash_is_no_redirect(execd):
    r = execd.request("GET", "/ping/", allow_redirects=False)
    assert r.status_code == 200
    r = execd.request("POST", "/command/", json={"command": "echo x"}, allow_redirects=False)
    assert Events(r.content).stdout == ["x"]


def test_request_id_is_echoed(execd):
    assert execd.get("/ping", headers={"X-Request-ID": "abc-1"}).headers["X-Request-ID"] == "abc-1"
    assert "X-Request-ID" not in execd.get("/ping").headers


def test_keep_alive(execd):
    raw = Raw(execd, "POST", "/command", {"command": "echo 1"})
    raw.head()
    raw.body()
    body = json.dumps({"command": "echo 2"}).encode()
    raw.sock.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    raw.head()
    assert Events(raw.body()).stdout == ["2"]
    raw.close()
