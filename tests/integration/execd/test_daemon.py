"""The program itself: flags, environment, access token, sockets, ordered shutdown."""

import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest
import requests
from conftest import EXECD, WAIT, empty_ok, wait_for
from execd_client import Events, Raw, check_stream, run


def call(*args, **env):
    return subprocess.run([EXECD, *args], capture_output=True, text=True, timeout=WAIT,
                          env={**os.environ, **env})


# ---- flags ----

def test_version_and_help():
    assert re.fullmatch(r"execd \d+\.\d+\.\d+\n", call("--version").stdout)
    out = call("-help")
    assert out.returncode == 0 and "--access-token" in out.stdout and "init" in out.stdout


@pytest.mark.parametrize("args", [
    ("--nope",), ("--port",), ("--port", "x"), ("--port", "65536"), ("--port=-1",), ("--log-level", "loud"),
    ("--graceful-shutdown-timeout", "soon"), ("--listen", "tcp:1"), ("--listen-fd", "77"),
    ("--notify-fd", "x"), ("--keep",)])
def test_bad_flags(args):
    r = call(*args)
    assert r.returncode == 2 and r.stderr.startswith("execd: ") and r.stdout == ""


@pytest.mark.parametrize("env", [{"EXECD_API_GRACE_SHUTDOWN": "soon"}, {"EXECD_STOP_TIMEOUT": "-1s"},
                                 {"EXECD_CLONE3_COMPAT": "maybe"}])
def test_bad_environment(env):
    assert call("--port", "0", **env).returncode in (1, 2)


def test_port_in_use(execd):
    r = call("--address", "127.0.0.1", "--port", str(execd.port))
    assert r.returncode == 1 and "in use" in r.stderr


@pytest.mark.parametrize("args", [
    ("-log-level", "7"), ("-log-level=3",), ("--jupyter-host=http://127.0.0.1:1", "--jupyter-token", "t"),
    ("--graceful-shutdown-timeout", "3s", "--jupyter-idle-poll-interval=100ms"),
    ("tail", "-f", "/dev/null")])  # what the image's command appends
def test_accepted_flags(launch, args):
    assert run(launch(*args), "echo x").stdout == ["x"]


def test_grace_is_no_delay(launch):
    """The reference waits this long after each command."""
    execd = launch(env={"EXECD_API_GRACE_SHUTDOWN": "30s"})
    start = time.monotonic()
    run(execd, "true")
    assert time.monotonic() - start < 15


def test_log_file(launch, tmp_path):
    log = tmp_path / "execd.log"
    execd = launch("--log-level", "7", env={"EXECD_LOG_FILE": str(log)})
    execd.get("/ping")
    wait_for(lambda: "/ping" in log.read_text(), "the line of the request, which follows its answer")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[0]["msg"] == "listening" and any(x.get("path") == "/ping" for x in lines)
    assert execd.log() == ""


def test_log_output_list(launch, tmp_path):
    log = tmp_path / "out.log"
    execd = launch(env={"OPENSANDBOX_LOG_OUTPUT": f"/nonexistent/x, {log},stdout"})
    assert '"listening"' in log.read_text() and execd.log() == ""


# ---- token ----

@pytest.mark.parametrize("how", ["flag", "env"])
def test_access_token(launch, how):
    args, env = (("--access-token", "s3cret"), {}) if how == "flag" else ((), {"EXECD_ACCESS_TOKEN": "s3cret"})
    execd = launch(*args, env=env)
    for headers in ({}, {"X-EXECD-ACCESS-TOKEN": "wrong"}, {"X-EXECD-ACCESS-TOKEN": ""},
                    {"Authorization": "Bearer s3cret"}, {"X-EXECD-ACCESS-TOKEN": "s3cret1"}):
        for method, path in (("GET", "/ping"), ("POST", "/command"), ("GET", "/nope"), ("HEAD", "/ping"),
                             ("GET", "/pty/x/ws"), ("GET", "/ping?access_token=s3cret")):
            r = execd.request(method, path, headers=headers)
            assert r.status_code == 401
            if method != "HEAD":
                assert r.headers["Content-Type"] == "application/json; charset=utf-8"
                assert r.json()["error"] == "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN"
    execd.http.headers["X-EXECD-ACCESS-TOKEN"] = "s3cret"
    empty_ok(execd.get("/ping"))
    assert run(execd, "echo in").stdout == ["in"]
    assert execd.get("/nope").status_code == 404


def test_flag_beats_environment(launch):
    execd = launch("--access-token=flag", env={"EXECD_ACCESS_TOKEN": "env"})
    assert execd.get("/ping", headers={"X-EXECD-ACCESS-TOKEN": "flag"}).status_code == 200
    assert execd.get("/ping", headers={"X-EXECD-ACCESS-TOKEN": "env"}).status_code == 401


# ---- sockets ----

def raw_get(sock, path="/ping"):
    sock.settimeout(WAIT)
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    data = b""
    while True:
        piece = sock.recv(4096)
        if not piece:
            return data
        data += piece


def start(args, pass_fds=()):
    r, w = os.pipe()
    proc = subprocess.Popen([EXECD, "--notify-fd", str(w), *args], pass_fds=[w, *pass_fds])
    os.close(w)
    with os.fdopen(r) as f:
        line = f.readline()
    return proc, json.loads(line)


def test_unix_socket(tmp_path):
    path = tmp_path / "sock"
    proc, ready = start(["--listen", f"unix:{path}"])
    try:
        assert ready == {"event": "ready", "pid": proc.pid}
        assert path.stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(path))
            assert raw_get(s).startswith(b"HTTP/1.1 200 OK\r\n")
    finally:
        proc.terminate()
        assert proc.wait(WAIT) == 0


def test_inherited_socket():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        os.set_inheritable(listener.fileno(), True)
        port = listener.getsockname()[1]
        # connections made before execd is there wait for it
        early = socket.create_connection(("127.0.0.1", port))
        proc, ready = start(["--listen-fd", str(listener.fileno())], pass_fds=[listener.fileno()])
    try:
        assert ready["port"] == port
        assert raw_get(early).startswith(b"HTTP/1.1 200 OK\r\n")
        with socket.create_connection(("127.0.0.1", port)) as s:
            body = b'{"command":"ls /proc/self/fd"}'
            s.settimeout(WAIT)
            s.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            data = b""
            while not data.endswith(b"0\r\n\r\n"):
                data += s.recv(65536)
            assert data.count(b'"stdout"') == 4, "the listener is not inherited by commands"
    finally:
        proc.terminate()
        assert proc.wait(WAIT) == 0
        early.close()


def test_clone3_compat(launch):
    probe = ("python3 -c 'import ctypes,errno; l=ctypes.CDLL(None,use_errno=True); "
             "r=l.syscall(435,0,0); print(errno.errorcode[ctypes.get_errno()])'")
    for value, want in (("", "EINVAL"), ("off", "EINVAL"), ("1", "ENOSYS"), ("reexec", "ENOSYS")):
        execd = launch(env={"EXECD_CLONE3_COMPAT": value})
        assert run(execd, probe).stdout == [want], value


# ---- shutdown ----

def test_idle_shutdown(launch):
    execd = launch()
    execd.get("/ping")  # leaves an idle connection open
    start = time.monotonic()
    assert execd.stop() == 0
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_streams_end_with_an_event(launch, sig):
    execd = launch()
    raw = Raw(execd, "POST", "/command", {"command": "echo up; sleep 300"})
    raw.head()
    text = raw.until(b'"up"')
    sid = execd.post("/session").json()["session_id"]
    active = Raw(execd, "POST", f"/session/{sid}/run", {"command": "echo up; sleep 300"})
    active.head()
    active_text = active.until(b'"up"')
    waiting = Raw(execd, "POST", f"/session/{sid}/run", {"command": "echo never"})
    waiting.head()
    waiting_text = waiting.until(b"ping")
    execd.proc.send_signal(sig)
    ev = check_stream(Events(text + raw.body()))
    assert ev.error["traceback"] == ["signal: terminated"]
    assert check_stream(Events(active_text + active.body())).error["traceback"] == ["signal: terminated"]
    ev = check_stream(Events(waiting_text + waiting.body()))
    assert ev.error["ename"] == "RUNTIME_ERROR" and ev.stdout == []
    assert execd.proc.wait(WAIT) == 0
    assert execd.next_event() == {"event": "stopping"} and execd.next_event() is None


def test_shutdown_gives_time_and_then_kills(launch, tmp_path):
    pidfile = tmp_path / "pid"
    execd = launch("--stop-timeout", "500ms")
    raw = Raw(execd, "POST", "/command",
              {"command": f"trap 'echo asked' TERM; echo $$ > {pidfile}; echo up; while :; do sleep 0.05; done"})
    raw.head()
    text = raw.until(b'"up"')
    execd.proc.send_signal(signal.SIGTERM)
    ev = check_stream(Events(text + raw.body()))
    assert ev.stdout[:2] == ["up", "asked"] and ev.error["traceback"] == ["signal: killed"]
    assert execd.proc.wait(WAIT) == 0
    assert not os.path.exists(f"/proc/{pidfile.read_text().strip()}")


def test_shutdown_ends_background_commands(launch, tmp_path):
    pidfile = tmp_path / "pid"
    execd = launch()
    run(execd, f"echo $$ > {pidfile}; exec sleep 300", background=True)
    wait_for(lambda: pidfile.exists() and pidfile.read_text(), "the command")
    assert execd.stop() == 0
    assert not os.path.exists(f"/proc/{pidfile.read_text().strip()}")


def test_no_new_work_while_stopping(launch):
    execd = launch("--stop-timeout", "2s")
    raw = Raw(execd, "POST", "/command", {"command": "trap '' TERM; echo up; sleep 300"})
    raw.head()
    raw.until(b'"up"')
    execd.proc.send_signal(signal.SIGTERM)
    execd.next_event()
    with pytest.raises(requests.ConnectionError):
        while True:
            requests.get(execd.url + "/ping", timeout=WAIT)
    assert execd.proc.wait(WAIT) == 0
