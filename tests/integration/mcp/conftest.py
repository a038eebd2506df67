"""A real server on the embedded runtime, and opensandbox-mcp in front of it."""

import importlib.util
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading

import pytest
import requests

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

_spec = importlib.util.spec_from_file_location("cli_conftest", os.path.join(os.path.dirname(HERE), "cli", "conftest.py"))
_cli = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_cli)

EXE = os.path.join(_cli.BIN, "opensandbox-mcp")
WAIT = 120


def clean_env(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPEN_SANDBOX_", "OPENSANDBOX_"))}
    env.update(more)
    return env


class Stdio:
    """opensandbox-mcp on pipes."""

    def __init__(self, *args, env=None, version="2025-11-25"):
        self.p = subprocess.Popen([EXE, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=env or clean_env())
        self.ids = itertools.count(1)
        self.messages = queue.Queue()
        self.kept = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if version:
            self.hello = self.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                                 "clientInfo": {"name": "test", "version": "1"}})
            self.notify("notifications/initialized")

    def _read(self):
        for line in self.p.stdout:
            self.messages.put(json.loads(line))
        self.messages.put(None)

    def send_bytes(self, data):
        self.p.stdin.write(data)
        self.p.stdin.flush()

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def notify(self, method, params=None):
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def start(self, method, params=None):
        rid = next(self.ids)
        self.send({"jsonrpc": "2.0", "id": rid, "method": method, "params": params or {}})
        return rid

    def next(self, timeout=WAIT):
        return self.messages.get(timeout=timeout)

    def answer(self, rid):
        """The answer to a request; what else comes is kept in `kept`."""
        for m in self.kept:
            if m.get("id") == rid and "method" not in m:
                self.kept.remove(m)
                return m
        while True:
            m = self.next()
            assert m is not None, "the server ended: %r" % self.p.stderr.read()
            if m.get("id") == rid and "method" not in m:
                return m
            self.kept.append(m)

    def ask(self, method, params=None):
        return self.answer(self.start(method, params))

    def call(self, tool, /, _meta=None, **arguments):
        params = {"name": tool, "arguments": arguments}
        if _meta:
            params["_meta"] = _meta
        return self.ask("tools/call", params)["result"]

    def ok(self, tool, /, **arguments):
        r = self.call(tool, **arguments)
        assert r["isError"] is False, r
        return r["structuredContent"]

    def close(self):
        if self.p.poll() is None:
            self.p.stdin.close()
        try:
            code = self.p.wait(30)
        except subprocess.TimeoutExpired:
            self.p.kill()
            code = self.p.wait()
        self.reader.join(30)
        self.p.stdout.close()
        self.stderr = self.p.stderr.read().decode()
        self.p.stderr.close()
        return code


class Http:
    """opensandbox-mcp on a port."""

    def __init__(self, *args, env=None):
        self.p = subprocess.Popen([EXE, "--transport", "streamable-http", "--port", "0", *args], stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, env=env or clean_env(), text=True)
        line = self.p.stderr.readline()
        assert line.startswith("listening on "), line
        self.url = line.split()[2]
        self.base = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self.ids = itertools.count(1)

    def raw(self, method, body=None, headers=None, **kw):
        merged = {k: v for k, v in {**self.base, **(headers or {})}.items() if v is not None}
        return requests.request(method, self.url, data=body, headers=merged, timeout=WAIT, **kw)

    def post(self, message, headers=None, **kw):
        return self.raw("POST", json.dumps(message), headers, **kw)

    def open(self, version="2025-11-25"):
        r = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize",
                       "params": {"protocolVersion": version, "capabilities": {},
                                  "clientInfo": {"name": "test", "version": "1"}}})
        assert r.status_code == 200, r.text
        s = HttpSession(self, r.headers["Mcp-Session-Id"], version)
        s.hello = r.json()["result"]
        assert s.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
        return s

    def stop(self):
        self.p.send_signal(signal.SIGTERM)
        try:
            code = self.p.wait(30)
        except subprocess.TimeoutExpired:
            self.p.kill()
            code = self.p.wait()
        self.stderr = self.p.stderr.read()
        self.p.stderr.close()
        return code


def events(response):
    """Messages of an event stream."""
    assert response.headers["Content-Type"].startswith("text/event-stream")
    for line in response.iter_lines():
        if line.startswith(b"data:"):
            yield json.loads(line[5:])


class HttpSession:
    def __init__(self, http, sid, version):
        self.http = http
        self.headers = {"Mcp-Session-Id": sid, "MCP-Protocol-Version": version}

    def post(self, message, headers=None, **kw):
        return self.http.post(message, {**self.headers, **(headers or {})}, **kw)

    def request(self, method, params=None, headers=None, **kw):
        return self.post({"jsonrpc": "2.0", "id": next(self.http.ids), "method": method, "params": params or {}},
                         headers, **kw)

    def call(self, tool, /, _meta=None, **arguments):
        """All messages of the answer, the last of which is the result."""
        params = {"name": tool, "arguments": arguments}
        if _meta:
            params["_meta"] = _meta
        with self.request("tools/call", params, stream=True) as r:
            assert r.status_code == 200, r.text
            return list(events(r))

    def ok(self, tool, /, **arguments):
        r = self.call(tool, **arguments)[-1]["result"]
        assert r["isError"] is False, r
        return r["structuredContent"]


@pytest.fixture(scope="session")
def server():
    if os.geteuid() != 0:
        pytest.skip("the embedded runtime needs root")
    s = _cli.Server()
    yield s
    s.stop()


@pytest.fixture(scope="session")
def env(server):
    return clean_env(OPEN_SANDBOX_DOMAIN=server.url, OPEN_SANDBOX_API_KEY=server.key)


@pytest.fixture(scope="session")
def shared(env):
    """One program and one sandbox for tests that only look or add."""
    m = Stdio("--toolset", "all", env=env)
    m.box = m.ok("sandbox_create", image="host", metadata={"made": "shared"})["sandbox_id"]
    yield m
    m.call("sandbox_kill", sandbox_id=m.box)
    assert m.close() == 0
    assert m.stderr == ""


@pytest.fixture
def alone():
    """A program whose server does not exist."""
    m = Stdio("--domain", "127.0.0.1:1")
    yield m
    assert m.close() == 0


@pytest.fixture(scope="session")
def http(env):
    h = Http(env=env)
    yield h
    assert h.stop() == 0
    assert h.stderr == ""
