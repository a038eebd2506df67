"""Servers that are slow, dead, wrong, or behind TLS; terminals; formats as they were recorded."""

import contextlib
import http.server
import json
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from test_terminal import Term

INFO = {"id": "dd764b9b-cc34-4e02-90f5-62759efd3401",
        "status": {"state": "Running", "reason": "R", "message": "it's up", "lastTransitionAt": "2026-01-02T03:04:05Z"},
        "entrypoint": ["sleep", "-la", "10"], "expiresAt": "2026-01-02T04:04:05Z", "createdAt": "2026-01-02T03:04:05Z",
        "image": {"uri": "python:3.12"}, "metadata": {"team": "a b", "num": "1"}}
PAGE = {"items": [INFO], "pagination": {"page": 1, "pageSize": 20, "totalItems": 1, "totalPages": 1, "hasNextPage": False}}


class Fake(http.server.BaseHTTPRequestHandler):
    """Answers every request the same way, after a pause when it is told to."""

    def do_GET(self):
        if self.server.hold:
            self.server.asked.set()
            self.server.hold.wait(60)
        body = self.server.body if isinstance(self.server.body, bytes) else json.dumps(self.server.body).encode()
        with contextlib.suppress(OSError):
            self.send_response(self.server.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    do_POST = do_DELETE = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture
def fake():
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    s.daemon_threads = True
    s.body, s.status, s.hold, s.asked = PAGE, 200, None, threading.Event()
    s.address = "127.0.0.1:%d" % s.server_address[1]
    t = threading.Thread(target=s.serve_forever, daemon=True)
    t.start()
    yield s
    if s.hold:
        s.hold.set()
    s.shutdown()
    s.server_close()


# ---- formats, as recorded ----

TABLE = """\
                                                   Sandboxes
╭──────────────────────────────────────┬───────────┬─────────────┬──────────────────────┬──────────────────────╮
│ ID                                   │ STATUS    │ IMAGE       │ CREATED_AT           │ EXPIRES_AT           │
├──────────────────────────────────────┼───────────┼─────────────┼──────────────────────┼──────────────────────┤
│ dd764b9b-cc34-4e02-90f5-62759efd3401 │ ● Running │ python:3.12 │ 2026-01-02T03:04:05Z │ 2026-01-02T04:04:05Z │
╰──────────────────────────────────────┴───────────┴─────────────┴──────────────────────┴──────────────────────╯
"""
GET_YAML = """\
created_at: '2026-01-02T03:04:05Z'
entrypoint:
- sleep
- -la
- '10'
expires_at: '2026-01-02T04:04:05Z'
id: dd764b9b-cc34-4e02-90f5-62759efd3401
image:
  auth: null
  image: python:3.12
metadata:
  num: '1'
  team: a b
platform: null
snapshot_id: null
status:
  last_transition_at: '2026-01-02T03:04:05Z'
  message: 'it''s up'
  reason: R
  state: Running
"""
GET_JSON = """\
{
  "id": "dd764b9b-cc34-4e02-90f5-62759efd3401",
  "status": {
    "state": "Running",
    "reason": "R",
    "message": "it's up",
    "last_transition_at": "2026-01-02T03:04:05Z"
  },
  "entrypoint": [
    "sleep",
    "-la",
    "10"
  ],
  "expires_at": "2026-01-02T04:04:05Z",
  "created_at": "2026-01-02T03:04:05Z",
  "image": {
    "image": "python:3.12",
    "auth": null
  },
  "snapshot_id": null,
  "platform": null,
  "metadata": {
    "team": "a b",
    "num": "1"
  }
}
"""


def test_recorded_formats(local, fake):
    at = ["--domain", fake.address]
    assert local.ok(*at, "sandbox", "list") == TABLE
    fake.body = INFO
    assert local.ok(*at, "sandbox", "get", INFO["id"], "-o", "json") == GET_JSON
    assert local.ok(*at, "sandbox", "get", INFO["id"], "-o", "yaml") == GET_YAML
    fake.body, fake.status = b"", 204
    assert local.ok(*at, "sandbox", "kill", "x", "-o", "json") == '[\n  {\n    "sandbox_id": "x",\n    "status": "terminated"\n  }\n]\n'
    fake.status = 202
    assert local.ok(*at, "sandbox", "pause", "x") == "  ✅ Sandbox paused: x\n"
    assert local.ok(*at, "--no-color", "sandbox", "pause", "x") == "OK: Sandbox paused: x\n"
    assert local.ok(*at, "sandbox", "pause", "x", "-o", "yaml") == "message: 'Sandbox paused: x'\nstatus: ok\n"
    fake.body, fake.status = {"code": "NOPE", "message": "no such thing"}, 404
    r = local(*at, "--no-color", "sandbox", "get", "x")
    assert (r.returncode, r.stdout, r.stderr) == (1, "", "ERROR [Sandbox Error]: Get sandbox x failed: no such thing\n")
    r = local(*at, "sandbox", "get", "x", "-o", "json")
    assert r.stdout == "" and r.stderr.startswith("\n  Sandbox Error\n  ───────────────\n  Get sandbox x failed: no such thing\n")


# ---- servers that misbehave ----

def test_slow_server(local, fake):
    fake.hold = threading.Event()
    r = local("--domain", fake.address, "--request-timeout", "1", "sandbox", "list")
    assert r.returncode == 1 and "List sandboxes failed" in r.stderr and r.stdout == ""


def test_ctrl_c_while_waiting(local, fake):
    fake.hold = threading.Event()
    p = subprocess.Popen([local.exe, "--domain", fake.address, "sandbox", "create", "-i", "x"], env=local.env,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert fake.asked.wait(60)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 130 and "Aborted!" in err and out == ""


def test_dead_and_silent_servers(local):
    with socket.socket() as s:  # bound, but nobody listens
        s.bind(("127.0.0.1", 0))
        r = local("--domain", "127.0.0.1:%d" % s.getsockname()[1], "sandbox", "list")
        assert r.returncode == 1 and "osb doctor" in r.stderr
    with socket.socket() as s:  # accepts and says nothing
        s.bind(("127.0.0.1", 0))
        s.listen(1)
        r = local("--domain", "127.0.0.1:%d" % s.getsockname()[1], "--request-timeout", "1", "sandbox", "list")
        assert r.returncode == 1 and "failed" in r.stderr


@pytest.mark.parametrize("status, body", [(200, b"<html>not json</html>"), (200, b""), (200, b'{"items": 3}'), (200, b"[]"),
                                          (500, b"oops"), (503, b""), (302, b"")])
def test_answers_that_are_not_the_protocol(local, fake, status, body):
    fake.status, fake.body = status, body
    r = local("--domain", fake.address, "sandbox", "get", "x")
    assert r.returncode in ((0,) if body in (b'{"items": 3}', b"[]") else (1,)), r
    assert "Traceback" not in r.stderr and r.returncode >= 0


def test_huge_answer(local, fake):
    fake.body = {**PAGE, "items": [INFO] * 5000}
    assert len(json.loads(local.ok("--domain", fake.address, "sandbox", "list", "-o", "json"))["items"]) == 5000
    p = subprocess.Popen([local.exe, "--domain", fake.address, "sandbox", "list", "-o", "json"], env=local.env,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdout.read(1000)
    p.stdout.close()  # head has seen enough
    assert p.wait(60) == 141 and p.stderr.read() == b""
    p.stderr.close()


# ---- TLS ----

@pytest.fixture
def tls(fake, tmp_path):
    def run(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=tmp_path)
    run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "ca.key", "-out",
        "ca.pem", "-subj", "/CN=test ca", "-days", "2")
    run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "s.key", "-out", "s.csr",
        "-subj", "/CN=localhost")
    (tmp_path / "ext").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    run("x509", "-req", "-in", "s.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "s.pem", "-days", "2",
        "-extfile", "ext")
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(tmp_path / "s.pem", tmp_path / "s.key")
    fake.socket = ctx.wrap_socket(fake.socket, server_side=True)
    return str(tmp_path / "ca.pem")


def test_https(local, fake, tls):
    url = "https://" + fake.address
    r = local("--domain", url, "sandbox", "list")
    assert r.returncode == 1 and "certificate" in r.stderr
    assert local.ok("--domain", url, "--ca-file", tls, "sandbox", "list") == TABLE
    assert local.ok("--domain", fake.address, "--protocol", "https", "sandbox", "list", env={"OPEN_SANDBOX_CA_FILE": tls}) == TABLE
    assert local.ok("--domain", url, "--insecure", "sandbox", "list") == TABLE
    local.ok("config", "init")
    local.ok("config", "set", "connection.ca_file", tls)
    assert local.ok("--domain", url, "sandbox", "list") == TABLE
    r = local("--domain", url, "--ca-file", "/no/such/file", "sandbox", "list")
    assert r.returncode == 1


class Watched(Fake):
    """A server and an execd whose samples are now and then errors."""

    def do_GET(self):
        stream = self.path.endswith("/metrics/watch")
        good = b'data: {"cpu_count": 2, "cpu_used_pct": 12.5, "mem_total_mib": 1024, "mem_used_mib": 256, "timestamp": 1767225600000}\n\n'
        body = (b": hello\nevent: sample\n" + good + b'data: {"error": "no cgroup today"}\n\n{"error": {"n": 1}}\n\nnoise\n' + good
                if stream else json.dumps({"endpoint": self.server.address, "headers": {}}).encode())
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_metrics_watch_warns_of_errors_in_the_stream(local, fake):
    fake.RequestHandlerClass = Watched
    args = ["--domain", fake.address, "sandbox", "metrics", "some", "--watch"]
    r = local(*args)
    line = "[2026-01-01T00:00:00.000Z] cpu=12.50% cores=2 mem=256.00/1024.00MiB\n"
    assert (r.returncode, r.stdout) == (0, 2 * line)
    assert r.stderr == '  ⚠️  no cgroup today\n  ⚠️  {"n":1}\n'
    r = local("--no-color", *args, "-o", "json")
    assert r.returncode == 0 and [json.loads(x)["cpu_used_percentage"] for x in r.stdout.splitlines()] == [12.5, 12.5]
    assert r.stderr == 'WARN: no cgroup today\nWARN: {"n":1}\n'


class Dripping(Fake):
    """Begins to send a file, and no more."""

    def do_GET(self):
        if "/files/download" in self.path:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"some")
            self.wfile.flush()
            self.server.asked.set()
            self.server.hold.wait(60)
            return
        body = json.dumps({"endpoint": self.server.address, "headers": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_ctrl_c_leaves_no_half_file(local, fake, tmp_path):
    fake.RequestHandlerClass, fake.hold = Dripping, threading.Event()
    (tmp_path / "to").mkdir()
    p = subprocess.Popen([local.exe, "--domain", fake.address, "file", "download", "some", "/f", str(tmp_path / "to" / "f")],
                         env=local.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert fake.asked.wait(60)
    assert len(list((tmp_path / "to").iterdir())) == 1
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    assert (p.returncode, out, err) == (130, "", "Aborted!\n")
    assert list((tmp_path / "to").iterdir()) == []


# ---- terminals ----

def test_spinner_only_on_a_terminal(local, fake):
    fake.hold = threading.Event()
    args = [local.exe, "--domain", fake.address, "sandbox", "create", "-i", "x", "--skip-health-check"]
    fake.body, fake.status = {**INFO}, 202
    t = Term(args, local.env)
    t.expect("⠙.*Creating a sandbox")
    fake.hold.set()
    t.expect(re.escape("\r\x1b[K"))
    t.expect("Sandbox Created")
    assert t.wait() == 0
    for more, env in (([], {"NO_COLOR": "1"}), (["--no-color"], {}), ([], {"TERM": "dumb"})):
        fake.hold, fake.asked = threading.Event(), threading.Event()
        e = {**local.env, **env}
        pid_args = [args[0], *more, *args[1:]]
        t = Term(pid_args, e) if "TERM" not in env else Term(["/usr/bin/env", "TERM=dumb", *pid_args], e)
        assert fake.asked.wait(60)
        time.sleep(0.5)  # longer than a spinner waits before it shows
        fake.hold.set()
        t.expect("Sandbox Created")
        assert t.wait() == 0
        assert "⠋" not in t.text and "\x1b[" not in t.text


class Receiving(Fake):
    """Takes what is uploaded, the third file only when it is let go."""

    def do_GET(self):
        self.answer({"endpoint": self.server.address, "headers": {}})

    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            while int(self.rfile.readline().split(b";")[0], 16):
                while self.rfile.readline() != b"\r\n":
                    pass
            self.rfile.readline()
        else:
            self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/files/upload"):
            self.server.uploads += 1
            if self.server.uploads == 3:
                self.server.hold.wait(60)
        self.answer({})

    def answer(self, j):
        body = json.dumps(j).encode()
        with contextlib.suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


def test_cp_says_how_far_it_is(local, fake, tmp_path):
    (tmp_path / "tree").mkdir()
    for name in "abc":
        (tmp_path / "tree" / name).write_text("text\n")
    fake.RequestHandlerClass, fake.uploads, fake.hold = Receiving, 0, threading.Event()
    args = [local.exe, "--domain", fake.address, "cp", str(tmp_path / "tree"), "some:/tmp/tree"]
    t = Term(args, local.env)
    t.expect("⠙.*Copying: 2 files, 0.0 MB")
    fake.hold.set()
    t.expect(re.escape("\r\x1b[K"))
    t.expect("Copied: ")
    assert t.wait() == 0
    assert "⠋" not in t.text
    t = Term([*args, "-o", "json"], local.env)
    assert t.wait() == 0 and json.loads(t.text)["status"] == "ok"


def test_no_spinner_for_machines(local, fake):
    fake.body, fake.status = {**INFO}, 202
    t = Term([local.exe, "--domain", fake.address, "sandbox", "create", "-i", "x", "--skip-health-check", "-o", "json"],
             local.env)
    assert t.wait() == 0
    assert json.loads(t.text)["status"] == "created"


@pytest.mark.parametrize("words, hint", [(["sanbox"], "sandbox"), (["sandbox", "lst"], "list"), (["comand"], "command"),
                                         (["sandbox", "list", "--sate", "x"], "--state"),
                                         (["--domian", "x", "sandbox"], "--domain"), (["zzzzzzzz"], None)])
def test_typos(local, words, hint):
    r = local(*words)
    assert r.returncode == 2
    assert re.search("Did you mean '?%s'?\\?" % hint, r.stderr) if hint else ("Did you mean" not in r.stderr), r.stderr
