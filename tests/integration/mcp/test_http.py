"""The streamable HTTP transport."""

import json
import socket

import pytest
import requests

from conftest import Http, clean_env, events

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INIT = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}


def test_session_life(http):
    s = http.open()
    assert s.hello["protocolVersion"] == "2025-11-25"
    r = s.request("tools/list")
    assert r.status_code == 200 and r.headers["Content-Type"].startswith("application/json")
    assert len(r.json()["result"]["tools"]) == 19
    assert http.raw("DELETE", headers=s.headers).status_code == 204
    assert s.request("ping").status_code == 404
    assert http.raw("DELETE", headers=s.headers).status_code == 404


def test_sessions_are_apart(http):
    a, b = http.open("2025-03-26"), http.open()
    assert a.headers["Mcp-Session-Id"] != b.headers["Mcp-Session-Id"]
    http.raw("DELETE", headers=a.headers)
    assert b.request("ping").status_code == 200
    http.raw("DELETE", headers=b.headers)


def test_without_session(http):
    assert http.post(PING).status_code == 400
    assert http.post(PING, {"Mcp-Session-Id": "nonsense"}).status_code == 404
    assert http.raw("GET").status_code == 400
    assert http.raw("GET", headers={"Mcp-Session-Id": "nonsense"}).status_code == 404


def test_bad_requests(http):
    s = http.open()
    assert http.raw("POST", "{", s.headers).status_code == 400
    assert http.raw("POST", "{", s.headers).json()["error"]["code"] == -32700
    assert http.raw("POST", json.dumps(PING), {**s.headers, "Content-Type": "text/plain"}).status_code == 415
    assert s.request("ping", headers={"Accept": "text/html"}).status_code == 406
    assert s.request("ping", headers={"MCP-Protocol-Version": "1999-01-01"}).status_code == 400
    assert s.post({"jsonrpc": "2.0"}).status_code == 400
    assert s.post([]).status_code == 400
    assert s.request("nope").json()["error"]["code"] == -32601
    assert http.raw("PUT", "x").status_code == 405
    assert requests.get(http.url.replace("/mcp", "/other"), timeout=60).status_code == 404
    assert http.raw("GET", headers={**s.headers, "Accept": "application/json"}).status_code == 406
    assert s.post({"jsonrpc": "2.0", "id": 4, "result": {}}).status_code == 202
    bad = http.post({**INIT, "params": {}})
    assert bad.json()["error"]["code"] == -32602
    assert http.post(PING, {"Mcp-Session-Id": bad.headers["Mcp-Session-Id"]}).status_code == 404


def test_body_limit(http):
    s = http.open()
    assert http.raw("POST", b"x" * ((16 << 20) + 1), s.headers).status_code == 413


def test_media_types(http):
    s = http.open()
    r = s.request("ping", headers={"Accept": "text/event-stream"}, stream=True)
    assert [m["result"] for m in events(r)] == [{}]
    assert s.request("ping", headers={"Accept": "application/*"}).json()["result"] == {}
    assert s.request("ping", headers={"Accept": None}).status_code == 200
    r = s.request("tools/call", {"name": "sandbox_list", "arguments": {}}, headers={"Accept": "application/json"})
    assert r.headers["Content-Type"].startswith("application/json")
    assert r.json()["result"]["isError"] is False


def test_tools_and_progress(http):
    s = http.open()
    got = s.call("sandbox_create", _meta={"progressToken": 5}, image="host")
    assert [m["params"]["progress"] for m in got[:-1]] == [0.1, 0.3, 0.8, 1]
    sid = got[-1]["result"]["structuredContent"]["sandbox_id"]
    other = http.open()  # the registry is shared by sessions
    r = other.ok("command_run", sandbox_id=sid, command="echo over http; exit 2")
    assert r["exit_code"] == 2 and [x["text"].rstrip() for x in r["logs"]["stdout"]] == ["over http"]
    got = s.call("sandbox_list", _meta={"progressToken": "l"})
    assert [m["params"]["progress"] for m in got[:-1]] == [0.1, 1]
    # Canceled: the stream ends without an answer.
    rid = next(http.ids)
    with s.post({"jsonrpc": "2.0", "id": rid, "method": "tools/call",
                 "params": {"name": "command_run", "_meta": {"progressToken": "c"},
                            "arguments": {"sandbox_id": sid, "command": "echo go; sleep 600"}}}, stream=True) as r:
        stream = events(r)
        assert next(stream)["params"]["message"] == "go"
        assert other.post({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": rid}}).status_code == 202  # another session: no effect
        assert s.post({"jsonrpc": "2.0", "method": "notifications/cancelled",
                       "params": {"requestId": rid}}).status_code == 202
        assert list(stream) == []
    assert s.ok("sandbox_kill", sandbox_id=sid) == {"status": "killed"}


def test_batch(http):
    s = http.open("2025-03-26")
    r = s.post([{"jsonrpc": "2.0", "id": "a", "method": "ping"},
                {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "sandbox_list"}}], stream=True)
    [answers] = list(events(r))
    assert {x["id"] for x in answers} == {"a", "b"}


def test_get_stream(http):
    s = http.open()
    streams = [http.raw("GET", headers=s.headers, stream=True) for _ in range(8)]
    assert all(r.status_code == 200 for r in streams)
    assert http.raw("GET", headers=s.headers).status_code == 409
    streams.pop().close()
    assert http.raw("DELETE", headers=s.headers).status_code == 204
    for r in streams:  # the end of the session is the end of its streams
        assert list(events(r)) == []


@pytest.mark.parametrize("headers, status", [
    ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Origin": "http://localhost.evil.example"}, 403),
    ({"Origin": "http://127.0.0.1.evil.example"}, 403), ({"Origin": "file://localhost"}, 403),
    ({"Host": "evil.example"}, 403), ({"Host": "evil.example:8000"}, 403), ({"Host": "127.evil.example"}, 403),
    ({"Origin": "http://localhost:3000"}, 200), ({"Origin": "https://127.0.0.1"}, 200), ({"Origin": "http://[::1]:1"}, 200),
    ({"Host": "localhost"}, 200), ({"Host": "[::1]:8000"}, 200), ({}, 200)])
def test_who_may(http, headers, status):
    r = http.post(INIT, headers)
    assert r.status_code == status, r.text
    if status == 200 and "Origin" in headers:
        assert r.headers["Access-Control-Allow-Origin"] == headers["Origin"]


def test_preflight(http):
    r = http.raw("OPTIONS", headers={"Origin": "http://localhost:6274", "Access-Control-Request-Method": "POST"})
    assert r.status_code == 204 and "POST" in r.headers["Access-Control-Allow-Methods"]
    assert "Mcp-Session-Id" in r.headers["Access-Control-Allow-Headers"]
    assert http.raw("OPTIONS", headers={"Origin": "http://evil.example"}).status_code == 403


def test_allowed_names_and_token():
    h = Http("--domain", "127.0.0.1:1", "--allow-origin", "https://app.example", "--allow-host", "mcp.example",
             env=clean_env(OPENSANDBOX_MCP_TOKEN="sesame"))
    try:
        good = {"Authorization": "Bearer sesame"}
        assert h.post(INIT).status_code == 401
        assert h.post(INIT, {"Authorization": "Bearer sesam"}).status_code == 401
        assert h.post(INIT, {"Authorization": "Basic sesame"}).status_code == 401
        assert h.post(INIT, good).status_code == 200
        assert h.post(INIT, {**good, "Origin": "https://app.example"}).status_code == 200
        assert h.post(INIT, {**good, "Origin": "https://other.example"}).status_code == 403
        assert h.post(INIT, {**good, "Host": "mcp.example"}).status_code == 200
    finally:
        assert h.stop() == 0
    assert "sesame" not in h.stderr


def test_without_handshake(http):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    head = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    r = http.post(ask, head)
    assert r.status_code == 200 and "Mcp-Session-Id" not in r.headers and len(r.json()["result"]["tools"]) == 19
    assert http.post(ask, {**head, "Mcp-Method": "ping"}).json()["error"]["code"] == -32020
    assert http.post(ask, {**head, "MCP-Protocol-Version": "2025-11-25"}).json()["error"]["code"] == -32020
    assert http.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, head).status_code == 400


def test_hanging_up_cancels_without_handshake(http):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": 1}
    head = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
    s = http.open()
    sid = s.ok("sandbox_create", image="host")["sandbox_id"]
    with http.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                    "params": {"_meta": meta, "name": "command_run",
                               "arguments": {"sandbox_id": sid, "command": "echo go; exec sleep 555"}}}, head,
                   stream=True) as r:
        assert next(events(r))["params"]["message"] == "go"
    look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep 55[5]' || echo gone"
    while s.ok("command_run", sandbox_id=sid, command=look)["logs"]["stdout"][0]["text"].strip() != "gone":
        pass
    s.ok("sandbox_kill", sandbox_id=sid)


def test_garbage_on_the_socket(http):
    host, port = http.url.split("/")[2].split(":")
    for data in (b"\x00\xff" * 100 + b"\r\n\r\n", b"GET /mcp HTTP/1.1\r\n\r\n",
                 b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=60) as c:
            c.sendall(data)
            assert c.recv(100).startswith(b"HTTP/1.1 4")
    assert http.open().request("ping").status_code == 200


def test_stops_with_calls_running(env):
    h = Http(env=env)
    s = h.open()
    sid = s.ok("sandbox_create", image="host")["sandbox_id"]
    with s.request("tools/call", {"name": "command_run", "_meta": {"progressToken": 1},
                                  "arguments": {"sandbox_id": sid, "command": "echo go; sleep 600"}}, stream=True) as r:
        assert next(events(r))["params"]["message"] == "go"
        assert h.stop() == 0
    assert h.stderr == ""
