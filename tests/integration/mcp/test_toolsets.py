"""The tools beside the short list: code contexts, snapshots, outbound policy."""

from conftest import Stdio


def test_code(shared):
    box = shared.box
    made = shared.ok("code_context_create", sandbox_id=box, language="python")
    assert made["language"] == "python"
    ctx = made["context_id"]
    r = shared.ok("code_run", sandbox_id=box, context_id=ctx, code="a = 6\nprint('hello')\na * 7")
    assert [x["text"].rstrip() for x in r["logs"]["stdout"]] == ["hello"]
    assert r["result"][0]["text"] == "42" and r["exit_code"] is None and r["complete"] and r["execution_count"] == 1
    r = shared.ok("code_run", sandbox_id=box, context_id=ctx, code="a + 1")
    assert r["result"][0]["text"] == "7"
    r = shared.ok("code_run", sandbox_id=box, context_id=ctx, code="1 / 0")
    assert r["error"]["name"] == "ZeroDivisionError" and r["error"]["traceback"]
    listed = shared.ok("code_context_list", sandbox_id=box)["result"]
    assert {"context_id": ctx, "language": "python"} in listed
    assert shared.ok("code_context_delete", sandbox_id=box, context_id=ctx) == {"status": "deleted"}
    assert ctx not in [x["context_id"] for x in shared.ok("code_context_list", sandbox_id=box, language="python")["result"]]
    assert shared.call("code_run", sandbox_id=box, context_id=ctx, code="1")["isError"] is True
    assert shared.call("code_run", sandbox_id=box, language="cobol", code="1")["isError"] is True


def test_code_interrupt(shared):
    box = shared.box
    ctx = shared.ok("code_context_create", sandbox_id=box)["context_id"]
    rid = shared.start("tools/call", {"name": "code_run", "_meta": {"progressToken": "i"}, "arguments": {
        "sandbox_id": box, "context_id": ctx, "code": "import time\nprint('on', flush=True)\ntime.sleep(600)"}})
    while not any(x.get("params", {}).get("progressToken") == "i" for x in shared.kept):
        shared.kept.append(shared.next())
    assert shared.ok("code_interrupt", sandbox_id=box, context_id=ctx) == {"status": "interrupted"}
    r = shared.answer(rid)["result"]["structuredContent"]
    assert r["error"]["name"] == "KeyboardInterrupt"
    shared.ok("code_context_delete", sandbox_id=box, context_id=ctx)


def test_snapshots(env):
    m = Stdio("--toolset", "core,snapshot", env=env)
    box = m.ok("sandbox_create", image="host")["sandbox_id"]
    m.ok("file_write", sandbox_id=box, path="/root/kept", content="as it was")
    snap = m.ok("snapshot_create", sandbox_id=box, name="mcp-test")
    assert snap["status"]["state"] == "Ready" and snap["name"] == "mcp-test" and snap["sandbox_id"] == box
    assert [x["id"] for x in m.ok("snapshot_list", sandbox_id=box)["result"]] == [snap["id"]]
    assert m.ok("snapshot_list", name="no-such-name")["result"] == []
    assert m.ok("snapshot_get", snapshot_id=snap["id"])["id"] == snap["id"]
    m.ok("file_write", sandbox_id=box, path="/root/kept", content="changed")
    back = m.ok("snapshot_restore", snapshot_id=snap["id"], metadata={"from": "snapshot"})
    assert back["info"]["snapshot_id"] == snap["id"] and back["info"]["metadata"] == {"from": "snapshot"}
    assert m.ok("file_read", sandbox_id=back["sandbox_id"], path="/root/kept")["content"] == "as it was"
    m.ok("sandbox_kill", sandbox_id=back["sandbox_id"])
    assert m.ok("snapshot_delete", snapshot_id=snap["id"]) == {"status": "deleted"}
    assert "there is no snapshot" in m.call("snapshot_get", snapshot_id=snap["id"])["content"][0]["text"]
    m.ok("sandbox_kill", sandbox_id=box)
    assert m.close() == 0 and m.stderr == ""


def test_policy_of_a_sandbox_that_has_none(shared):
    r = shared.call("egress_get_policy", sandbox_id=shared.box)
    assert r["isError"] is True and r["content"][0]["text"].startswith("Error executing tool egress_get_policy: ")
    r = shared.call("egress_patch_rules", sandbox_id=shared.box, rules=[{"action": "allow", "target": "example.com"}])
    assert r["isError"] is True


def test_policy(env):
    m = Stdio("--toolset", "core,egress", env=env)
    policy = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "good.example"}]}
    box = m.ok("sandbox_create", image="host", network_policy=policy)["sandbox_id"]
    try:
        now = m.ok("egress_get_policy", sandbox_id=box)
        assert now["default_action"] == "deny" and now["egress"] == policy["egress"] and now["mode"]
        now = m.ok("egress_patch_rules", sandbox_id=box, rules=[{"action": "allow", "target": "more.example"},
                                                                {"action": "deny", "target": "good.example"}])
        assert {r["target"]: r["action"] for r in now["egress"]} == {"more.example": "allow", "good.example": "deny"}
        now = m.ok("egress_delete_rules", sandbox_id=box, targets=["more.example", "never.example"])
        assert now["egress"] == [{"action": "deny", "target": "good.example"}]
        r = m.call("egress_patch_rules", sandbox_id=box, rules=[{"action": "allow", "target": "not a name"}])
        assert r["isError"] is True
        assert m.ok("egress_get_policy", sandbox_id=box) == now
    finally:
        m.ok("sandbox_kill", sandbox_id=box)
    assert m.close() == 0 and m.stderr == ""
