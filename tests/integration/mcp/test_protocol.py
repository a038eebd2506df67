"""The protocol over stdio, without a sandbox: framing, versions, lists, errors."""

import json
import os
import signal
import subprocess

import pytest

from conftest import EXE, Stdio, clean_env

CORE = ["sandbox_create", "sandbox_connect", "sandbox_kill", "sandbox_get_info", "sandbox_list", "sandbox_renew",
        "sandbox_get_metrics", "sandbox_healthcheck", "command_run", "command_interrupt", "file_read", "file_write",
        "file_delete", "file_search", "file_create_directories", "file_delete_directories", "file_move",
        "file_replace_contents", "sandbox_get_endpoint"]

# tool -> parameters with their defaults; "!" marks a required one
PARAMETERS = {
    "sandbox_create": {"image": "!", "auth_username": None, "auth_password": None, "timeout_seconds": 600,
                       "ready_timeout_seconds": 30, "health_check_polling_interval_ms": 200, "skip_health_check": False,
                       "env": None, "metadata": None, "resource": None, "network_policy": None, "extensions": None,
                       "entrypoint": None},
    "sandbox_connect": {"sandbox_id": "!", "connect_timeout_seconds": 30, "health_check_polling_interval_ms": 200,
                        "skip_health_check": False},
    "sandbox_kill": {"sandbox_id": "!"},
    "sandbox_get_info": {"sandbox_id": "!"},
    "sandbox_list": {"filter": None},
    "sandbox_renew": {"sandbox_id": "!", "timeout_seconds": "!"},
    "sandbox_get_metrics": {"sandbox_id": "!", "connect_if_missing": False},
    "sandbox_healthcheck": {"sandbox_id": "!", "connect_if_missing": False},
    "command_run": {"sandbox_id": "!", "command": "!", "background": False, "working_directory": None,
                    "connect_if_missing": False},
    "command_interrupt": {"sandbox_id": "!", "execution_id": "!", "connect_if_missing": False},
    "file_read": {"sandbox_id": "!", "path": "!", "encoding": "utf-8", "range_header": None,
                  "connect_if_missing": False},
    "file_write": {"sandbox_id": "!", "path": "!", "content": "!", "encoding": "utf-8", "mode": 755, "owner": None,
                   "group": None, "connect_if_missing": False},
    "file_delete": {"sandbox_id": "!", "paths": "!", "connect_if_missing": False},
    "file_search": {"sandbox_id": "!", "path": "!", "pattern": "!", "connect_if_missing": False},
    "file_create_directories": {"sandbox_id": "!", "entries": "!", "connect_if_missing": False},
    "file_delete_directories": {"sandbox_id": "!", "paths": "!", "connect_if_missing": False},
    "file_move": {"sandbox_id": "!", "entries": "!", "connect_if_missing": False},
    "file_replace_contents": {"sandbox_id": "!", "entries": "!", "connect_if_missing": False},
    "sandbox_get_endpoint": {"sandbox_id": "!", "port": "!", "connect_if_missing": False},
}


def test_initialize(alone):
    r = alone.hello["result"]
    assert r["protocolVersion"] == "2025-11-25"
    assert r["serverInfo"]["name"] == "OpenSandbox Sandbox"
    assert r["serverInfo"]["version"]
    assert "sandbox_id" in r["instructions"]
    for what in ("tools", "prompts", "resources"):
        assert r["capabilities"][what]["listChanged"] is False


@pytest.mark.parametrize("asked, given", [("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"),
                                          ("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"),
                                          ("2099-01-01", "2025-11-25"), ("2026-07-28", "2025-11-25")])
def test_versions(asked, given):
    m = Stdio("--domain", "127.0.0.1:1", version=asked)
    assert m.hello["result"]["protocolVersion"] == given
    assert m.close() == 0


def test_tool_list(alone):
    tools = alone.ask("tools/list")["result"]["tools"]
    assert [t["name"] for t in tools] == CORE
    for t in tools:
        want = PARAMETERS[t["name"]]
        schema = t["inputSchema"]
        assert list(schema["properties"]) == list(want)
        assert schema["required"] == [k for k, v in want.items() if v == "!"]
        for name, value in want.items():
            prop = schema["properties"][name]
            assert value == "!" or prop["default"] == value
            if value is None:
                assert {"type": "null"} in prop["anyOf"]
        assert t["outputSchema"]["type"] == "object"
        assert set(t["annotations"]) == {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert t["description"] and t["title"]
        assert "$ref" not in json.dumps(t)


def test_toolsets():
    m = Stdio("--domain", "127.0.0.1:1", "--toolset", "core,code", "--toolset", "logs")
    names = [t["name"] for t in m.ask("tools/list")["result"]["tools"]]
    assert set(CORE) < set(names)
    assert {"code_run", "command_logs"} < set(names)
    assert "snapshot_create" not in names and "egress_get_policy" not in names
    r = m.call("snapshot_list")
    assert r["isError"] and "Unknown tool: snapshot_list. It belongs to the toolset snapshot" in r["content"][0]["text"]
    assert m.close() == 0
    m = Stdio("--domain", "127.0.0.1:1", "--toolset", "all")
    everything = [t["name"] for t in m.ask("tools/list")["result"]["tools"]]
    assert len(everything) == len(set(everything)) > len(names)
    assert m.close() == 0


def test_small_methods(alone):
    assert alone.ask("ping")["result"] == {}
    assert alone.ask("prompts/list")["result"] == {"prompts": []}
    assert alone.ask("resources/list")["result"] == {"resources": []}
    assert alone.ask("resources/templates/list")["result"] == {"resourceTemplates": []}
    assert alone.ask("nope")["error"]["code"] == -32601
    assert alone.ask("tools/list", {"cursor": "x"})["error"]["code"] == -32602
    assert alone.ask("tools/call", {})["error"]["code"] == -32602


def test_before_initialize():
    m = Stdio("--domain", "127.0.0.1:1", version=None)
    assert m.ask("ping")["result"] == {}
    assert m.ask("tools/list")["error"]["code"] == -32600
    assert m.ask("initialize", {"capabilities": {}})["error"]["code"] == -32602
    assert m.close() == 0


def test_malformed_messages(alone):
    alone.send_bytes(b"{not json\n")
    assert alone.next()["error"]["code"] == -32700
    for bad in ("3", '"x"', "{}", '{"jsonrpc":"1.0","id":1,"method":"ping"}', '{"jsonrpc":"2.0"}', "[]",
                '{"jsonrpc":"2.0","id":1}', '{"jsonrpc":"2.0","id":{},"method":"ping"}',
                '{"jsonrpc":"2.0","id":null,"method":"ping"}', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
                '{"jsonrpc":"2.0","id":"%s","method":"ping"}' % ("x" * 300)):
        alone.send_bytes(bad.encode() + b"\n")
        m = alone.next()
        assert m["error"]["code"] == -32600 and m["id"] is None, (bad, m)
    alone.send_bytes(b'{"jsonrpc":"2.0","id":5,"method":"ping","params":[1]}\n')
    assert alone.next()["error"]["code"] == -32602
    alone.send_bytes(b"\r\n  \n\n")
    alone.send_bytes(b'{"jsonrpc":"2.0","id":"a","method":"ping"}\r\n')
    assert alone.next() == {"jsonrpc": "2.0", "id": "a", "result": {}}
    alone.send({"jsonrpc": "2.0", "id": 99, "result": {}})
    alone.notify("notifications/nobody-knows")
    assert alone.ask("ping")["result"] == {}


def test_too_long_a_message(alone):
    alone.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"y" * (17 << 20))
    assert alone.next()["error"]["code"] == -32600
    alone.send_bytes(b'"}}\n')
    assert alone.ask("ping")["result"] == {}


def test_deep_nesting(alone):
    alone.send_bytes(b"[" * 100000 + b"\n")
    assert alone.next()["error"]["code"] == -32700
    assert alone.ask("ping")["result"] == {}


def test_batches():
    m = Stdio("--domain", "127.0.0.1:1", version="2025-03-26")
    m.send([{"jsonrpc": "2.0", "id": "a", "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/x"},
            {"jsonrpc": "2.0", "id": "b", "method": "nope"},
            {"jsonrpc": "2.0", "id": "c", "method": "tools/call",
             "params": {"name": "sandbox_get_info", "arguments": {"sandbox_id": "x"}}}])
    got = {x["id"]: x for x in m.next()}
    assert got["a"]["result"] == {} and got["b"]["error"]["code"] == -32601
    assert got["c"]["result"]["isError"] is True
    m.send([{"jsonrpc": "2.0", "id": i, "method": "ping"} for i in range(65)])
    assert m.next()["error"]["code"] == -32600
    m.send([{"jsonrpc": "2.0", "method": "notifications/x"}])
    assert m.ask("ping")["result"] == {}
    assert m.close() == 0


def test_arguments_are_checked(alone):
    def text(name, **arguments):
        r = alone.call(name, **arguments)
        assert r["isError"] is True and "structuredContent" not in r
        assert r["content"][0]["text"].startswith("Error executing tool %s: " % name)
        return r["content"][0]["text"]

    assert "sandbox_id: is required" in text("sandbox_kill")
    assert "sandbox_id: expected a string" in text("sandbox_kill", sandbox_id=7)
    assert "timeout: no such argument" in text("sandbox_create", image="x", timeout=7)
    assert "port: out of range" in text("sandbox_get_endpoint", sandbox_id="x", port=70000)
    assert "entries[1].path: expected a string" in text("file_create_directories", sandbox_id="x",
                                                        entries=[{"path": "/a"}, {"path": 3}])
    assert "network_policy.egress[0].action: must be one of" in text(
        "sandbox_create", image="x", network_policy={"egress": [{"action": "perhaps", "target": "x"}]})
    assert "paths: must not be empty" in text("file_delete", sandbox_id="x", paths=[])
    assert "go together" in text("sandbox_create", image="x", auth_username="me")
    assert "encoding 'utf-7'" in text("file_read", sandbox_id="x", path="/x", encoding="utf-7")
    r = alone.call("sandbox_creat", image="x")
    assert r["content"][0]["text"] == "Unknown tool: sandbox_creat. Did you mean sandbox_create?"


def test_registry_is_needed(alone):
    for tool, more in (("sandbox_get_metrics", {}), ("sandbox_healthcheck", {}), ("command_run", {"command": "x"}),
                       ("file_read", {"path": "/x"}), ("sandbox_get_endpoint", {"port": 80})):
        r = alone.call(tool, sandbox_id="unknown", **more)
        assert "not in the local registry" in r["content"][0]["text"]
        assert "sandbox_connect" in r["content"][0]["text"]


def test_dead_server(alone):
    for tool, more in (("sandbox_list", {}), ("sandbox_kill", {"sandbox_id": "x"}), ("sandbox_create", {"image": "x"}),
                       ("file_read", {"sandbox_id": "x", "path": "/", "connect_if_missing": True})):
        r = alone.call(tool, **more)
        assert r["isError"] is True and "127.0.0.1" in r["content"][0]["text"]


def test_without_handshake():
    """The newest protocol: each request names its version."""
    m = Stdio("--domain", "127.0.0.1:1", version=None)
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    r = m.ask("server/discover", {"_meta": meta})["result"]
    assert "2026-07-28" in r["supportedVersions"] and r["resultType"] == "complete" and r["cacheScope"] == "private"
    r = m.ask("tools/list", {"_meta": meta})["result"]
    assert len(r["tools"]) == 19 and r["resultType"] == "complete"
    r = m.ask("tools/call", {"_meta": meta, "name": "sandbox_list", "arguments": {}})["result"]
    assert r["isError"] is True and r["resultType"] == "complete"
    e = m.ask("tools/list", {"_meta": {**meta, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}})["error"]
    assert e["code"] == -32022 and "2026-07-28" in e["data"]["supported"] and e["data"]["requested"] == "2031-01-01"
    assert m.close() == 0


def test_end_of_input_and_broken_output():
    p = subprocess.run([EXE, "--domain", "127.0.0.1:1"], capture_output=True, timeout=60, env=clean_env(),
                       input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}', check=False)
    assert p.returncode == 0 and json.loads(p.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    r, w = os.pipe()
    os.close(r)
    p = subprocess.Popen([EXE, "--domain", "127.0.0.1:1"], stdin=subprocess.PIPE, stdout=w, env=clean_env())
    os.close(w)
    p.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    p.stdin.flush()
    try:
        p.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        p.stdin.flush()
    except BrokenPipeError:
        pass
    assert p.wait(60) == 0


def test_terminated(alone):
    m = Stdio("--domain", "127.0.0.1:1")
    m.p.send_signal(signal.SIGTERM)
    assert m.p.wait(60) == -signal.SIGTERM
    m.close()


@pytest.mark.parametrize("args, code, text", [
    (["--help"], 0, "--toolset"), (["-h"], 0, "Usage"), (["--version"], 0, "opensandbox-mcp, version"),
    (["--transport", "carrier-pigeon"], 2, "carrier-pigeon"), (["--port", "x"], 2, "not a port"),
    (["--toolset", "hammers"], 2, "hammers"), (["--nope"], 2, "--help"), (["word"], 2, "word"),
    (["--request-timeout-seconds", "-1"], 2, "-1"), (["--protocol", "gopher"], 2, "gopher"),
    (["--domain", "a b"], 2, "a b"),
    (["--transport", "streamable-http", "--host", "example.com"], 2, "not an address"),
    (["--transport", "streamable-http", "--host", "0.0.0.0"], 2, "OPENSANDBOX_MCP_TOKEN"),
])
def test_options(args, code, text):
    p = subprocess.run([EXE, *args], capture_output=True, text=True, timeout=60, env=clean_env(), check=False,
                       stdin=subprocess.DEVNULL)
    assert p.returncode == code, p
    assert text in (p.stdout if code == 0 else p.stderr)
