"""Every tool against real sandboxes, over stdio."""

import base64
import json
import re
import threading

from conftest import Stdio

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")


def lines(execution, stream="stdout"):
    return [x["text"].rstrip("\n") for x in execution["logs"][stream]]


def test_create_look_renew_kill(env):
    m = Stdio(env=env)
    r = m.call("sandbox_create", _meta={"progressToken": "p1"}, image="host", timeout_seconds="300",
               metadata={"made": "mcp", "kind": "one"}, env={"COLOUR": "green"}, entrypoint=["sleep", "infinity"],
               resource={"cpu": "1", "memory": "512Mi"})
    assert r["isError"] is False
    made = r["structuredContent"]
    assert json.loads(r["content"][0]["text"]) == made and len(r["content"]) == 1
    assert r["content"][0]["text"].startswith('{\n  "sandbox_id": "')
    sid, info = made["sandbox_id"], made["info"]
    assert info["id"] == sid and info["status"]["state"] == "Running"
    assert list(info) == ["id", "status", "entrypoint", "expires_at", "created_at", "image", "snapshot_id", "platform",
                          "metadata"]
    assert info["image"] == {"image": "host", "auth": None}
    assert info["metadata"] == {"made": "mcp", "kind": "one"} and info["entrypoint"] == ["sleep", "infinity"]
    assert TIME.match(info["created_at"]) and TIME.match(info["expires_at"])
    told = [x["params"] for x in m.kept if x.get("method") == "notifications/progress"]
    assert [(x["progress"], x["total"], x["progressToken"]) for x in told] == [
        (0.1, 1, "p1"), (0.3, 1, "p1"), (0.8, 1, "p1"), (1, 1, "p1")]
    assert all(x["message"] for x in told)

    assert lines(m.ok("command_run", sandbox_id=sid, command="echo $COLOUR")) == ["green"]
    assert m.ok("sandbox_get_info", sandbox_id=sid)["id"] == sid
    listed = m.ok("sandbox_list", filter={"metadata": {"kind": "one"}, "states": ["Running"], "page": 1, "page_size": 5})
    assert [x["id"] for x in listed["sandbox_infos"]] == [sid]
    assert listed["pagination"] == {"page": 1, "page_size": 5, "total_items": 1, "total_pages": 1,
                                    "has_next_page": False}
    assert m.ok("sandbox_list", filter={"metadata": {"kind": "none"}})["sandbox_infos"] == []
    renewed = m.ok("sandbox_renew", sandbox_id=sid, timeout_seconds=1000.5)
    assert TIME.match(renewed["expires_at"]) and renewed["expires_at"] > info["expires_at"]
    metrics = m.ok("sandbox_get_metrics", sandbox_id=sid)
    assert set(metrics) == {"cpu_count", "cpu_used_percentage", "memory_total_in_mib", "memory_used_in_mib",
                            "timestamp"}
    assert m.ok("sandbox_healthcheck", sandbox_id=sid) == {"sandbox_id": sid, "healthy": True}
    endpoint = m.ok("sandbox_get_endpoint", sandbox_id=sid, port=8080)
    assert endpoint["endpoint"] and isinstance(endpoint["headers"], dict)

    assert m.ok("sandbox_kill", sandbox_id=sid) == {"status": "killed"}
    assert "not in the local registry" in m.call("command_run", sandbox_id=sid, command="x")["content"][0]["text"]
    assert m.call("sandbox_get_info", sandbox_id=sid)["isError"] is True
    assert m.close() == 0 and m.stderr == ""


def test_connect(env, shared):
    m = Stdio(env=env)
    assert m.call("command_run", sandbox_id=shared.box, command="true")["isError"] is True
    r = m.ok("command_run", sandbox_id=shared.box, command="echo hi", connect_if_missing=True)
    assert lines(r) == ["hi"]
    assert lines(m.ok("command_run", sandbox_id=shared.box, command="echo again")) == ["again"]
    assert m.close() == 0
    m = Stdio(env=env)
    made = m.ok("sandbox_connect", sandbox_id=shared.box)
    assert made["sandbox_id"] == shared.box and made["info"]["metadata"] == {"made": "shared"}
    assert lines(m.ok("command_run", sandbox_id=shared.box, command="echo hi")) == ["hi"]
    r = m.call("sandbox_connect", sandbox_id="00000000-0000-0000-0000-000000000000")
    assert r["isError"] is True
    assert m.close() == 0


def test_wrong_key(env):
    m = Stdio("--api-key", "wrong", env=env)
    r = m.call("sandbox_list")
    assert r["isError"] is True and "key" in r["content"][0]["text"].lower()
    assert m.close() == 0


def test_commands(shared):
    box = shared.box
    r = shared.ok("command_run", sandbox_id=box, command="echo one; echo two >&2; pwd; exit 3", working_directory="/tmp")
    assert lines(r) == ["one", "/tmp"] and lines(r, "stderr") == ["two"]
    assert r["exit_code"] == 3 and r["id"] and r["complete"] is None
    assert r["error"]["value"] == "3" and isinstance(r["error"]["timestamp"], int)
    assert [x["is_error"] for x in r["logs"]["stderr"]] == [True]
    r = shared.ok("command_run", sandbox_id=box, command="true")
    assert r["exit_code"] == 0 and r["error"] is None and r["complete"]["execution_time_in_millis"] >= 0
    assert r["result"] == [] and r["execution_count"] is None
    r = shared.ok("command_run", sandbox_id=box, command="printf '\\303\\244\\377\\n'")
    assert lines(r) == ["ä\ufffd"]


def test_background_status_logs_interrupt(shared):
    box = shared.box
    r = shared.ok("command_run", sandbox_id=box, command="echo begun; sleep 600", background=True)
    assert r["exit_code"] is None and r["id"]
    status = shared.ok("command_status", sandbox_id=box, execution_id=r["id"])
    assert status["running"] is True and status["exit_code"] is None
    seen, cursor = "", 0
    while "begun" not in seen:
        got = shared.ok("command_logs", sandbox_id=box, execution_id=r["id"], cursor=cursor)
        seen, cursor = seen + got["content"], got["cursor"]
    assert shared.ok("command_interrupt", sandbox_id=box, execution_id=r["id"]) == {"status": "interrupted"}
    while status["running"]:
        status = shared.ok("command_status", sandbox_id=box, execution_id=r["id"])
    assert shared.call("command_interrupt", sandbox_id=box, execution_id="no-such")["isError"] is True


def test_much_output(shared):
    r = shared.ok("command_run", sandbox_id=shared.box, command="seq 1 200000")
    out = lines(r)
    assert out[0] == "1" and len(out) == 100000 and r["exit_code"] == 0
    assert "more bytes of output were left out" in lines(r, "stderr")[-1]


def test_progress_of_a_command(shared):
    shared.kept.clear()
    shared.call("command_run", _meta={"progressToken": 7}, sandbox_id=shared.box, command="echo alive; sleep 1; echo b")
    told = [x["params"] for x in shared.kept if x.get("method") == "notifications/progress"]
    assert told[0]["progressToken"] == 7 and told[0]["message"] == "alive" and "total" not in told[0]
    assert [x["progress"] for x in told] == sorted({x["progress"] for x in told})


def test_cancel(shared):
    box = shared.box
    rid = shared.start("tools/call", {"name": "command_run", "_meta": {"progressToken": "c"},
                                      "arguments": {"sandbox_id": box, "command": "echo on; exec sleep 543"}})
    while not any(x.get("params", {}).get("progressToken") == "c" for x in shared.kept):
        shared.kept.append(shared.next())
    shared.notify("notifications/cancelled", {"requestId": rid, "reason": "enough"})
    # No answer comes, the command ends, and the session goes on.
    while lines(shared.ok("command_run", sandbox_id=box, command="cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' |"
                                                                 " grep -o 'sleep 54[3]' || echo gone")) != ["gone"]:
        pass
    assert not any(x.get("id") == rid for x in shared.kept)
    shared.notify("notifications/cancelled", {"requestId": 987654})
    assert shared.ask("ping")["result"] == {}


def test_calls_run_side_by_side(shared):
    box = shared.box
    slow = shared.start("tools/call", {"name": "command_run", "arguments": {
        "sandbox_id": box, "command": "while [ ! -e /tmp/go ]; do sleep 0.05; done; echo went"}})
    assert lines(shared.ok("command_run", sandbox_id=box, command="echo quick")) == ["quick"]
    shared.ok("file_write", sandbox_id=box, path="/tmp/go", content="")
    assert lines(shared.answer(slow)["result"]["structuredContent"]) == ["went"]


def test_too_many_calls(shared):
    box = shared.box
    ids = [shared.start("tools/call", {"name": "command_run", "arguments": {
        "sandbox_id": box, "command": "while [ ! -e /tmp/enough ]; do sleep 0.2; done"}}) for _ in range(140)]
    refused = next(m for m in (shared.next() for _ in ids) if "error" in m)
    assert refused["error"]["code"] == -32000 and refused["id"] in ids
    shared.kept.clear()
    for rid in ids:
        shared.notify("notifications/cancelled", {"requestId": rid})
    while "error" in shared.ask("tools/call", {"name": "file_write", "arguments": {
            "sandbox_id": box, "path": "/tmp/enough", "content": "x"}}):
        pass


def test_files(shared):
    box = shared.box
    text = "grüße\nsecond line\nthird\n"
    assert shared.ok("file_write", sandbox_id=box, path="/tmp/mcp/a.txt", content=text, mode=640) == {
        "status": "written"}
    assert shared.ok("file_read", sandbox_id=box, path="/tmp/mcp/a.txt") == {"path": "/tmp/mcp/a.txt", "content": text}
    assert shared.ok("file_read", sandbox_id=box, path="/tmp/mcp/a.txt", range_header="bytes=0-1")["content"] == "gr"
    r = shared.call("file_search", sandbox_id=box, path="/tmp/mcp", pattern="*.txt")
    found = r["structuredContent"]["result"]
    assert [json.loads(c["text"]) for c in r["content"]] == found and len(found) == 1
    assert found[0]["path"] == "/tmp/mcp/a.txt" and found[0]["mode"] == 640 and found[0]["size"] == len(text.encode())
    assert found[0]["type"] == "file" and TIME.match(found[0]["modified_at"])
    r = shared.call("file_search", sandbox_id=box, path="/tmp/mcp", pattern="*.nothing")
    assert r["structuredContent"] == {"result": []} and r["content"] == []
    assert shared.ok("file_replace_contents", sandbox_id=box, entries=[
        {"path": "/tmp/mcp/a.txt", "old_content": "line", "new_content": "row"},
        {"path": "/tmp/mcp/a.txt", "old_content": "absent", "new_content": "x"}]) == {
            "result": [{"path": "/tmp/mcp/a.txt", "replaced_count": 1}, {"path": "/tmp/mcp/a.txt", "replaced_count": 0}]}
    assert shared.ok("file_move", sandbox_id=box, entries=[
        {"source": "/tmp/mcp/a.txt", "destination": "/tmp/mcp/b.txt"}]) == {"status": "moved"}
    assert "second row" in shared.ok("file_read", sandbox_id=box, path="/tmp/mcp/b.txt")["content"]
    assert shared.ok("file_create_directories", sandbox_id=box, entries=[
        {"path": "/tmp/mcp/d/e", "mode": 700}, {"path": "/tmp/mcp/f"}]) == {"status": "created"}
    modes = lines(shared.ok("command_run", sandbox_id=box, command="stat -c %a /tmp/mcp/d/e /tmp/mcp/f"))
    assert modes == ["700", "755"]
    assert shared.ok("file_delete", sandbox_id=box, paths=["/tmp/mcp/b.txt"]) == {"status": "deleted"}
    assert shared.ok("file_delete_directories", sandbox_id=box, paths=["/tmp/mcp"]) == {"status": "deleted"}
    r = shared.call("file_read", sandbox_id=box, path="/tmp/mcp/b.txt")
    assert r["isError"] is True


def test_bytes_and_encodings(shared):
    box = shared.box
    data = bytes(range(256)) * 4
    shared.ok("file_write", sandbox_id=box, path="/tmp/bin", content=base64.b64encode(data).decode(), encoding="base64")
    assert base64.b64decode(shared.ok("file_read", sandbox_id=box, path="/tmp/bin", encoding="base64")["content"]) == data
    r = shared.call("file_read", sandbox_id=box, path="/tmp/bin")
    assert r["isError"] is True and "base64" in r["content"][0]["text"]
    shared.ok("file_write", sandbox_id=box, path="/tmp/l1", content="äé", encoding="latin-1")
    assert shared.ok("file_read", sandbox_id=box, path="/tmp/l1", encoding="latin-1")["content"] == "äé"
    assert shared.call("file_read", sandbox_id=box, path="/tmp/l1")["isError"] is True
    assert shared.call("file_write", sandbox_id=box, path="/tmp/l1", content="€", encoding="latin-1")["isError"] is True
    assert shared.call("file_write", sandbox_id=box, path="/tmp/l1", content="*", encoding="base64")["isError"] is True
    shared.ok("command_run", sandbox_id=box, command="head -c 9000000 /dev/zero | tr '\\0' x > /tmp/large")
    r = shared.call("file_read", sandbox_id=box, path="/tmp/large")
    assert r["isError"] is True and "range_header" in r["content"][0]["text"]
    assert shared.ok("file_read", sandbox_id=box, path="/tmp/large", range_header="bytes=8999999-")["content"] == "x"
    shared.ok("file_write", sandbox_id=box, path="/tmp/empty", content="")
    assert shared.ok("file_read", sandbox_id=box, path="/tmp/empty")["content"] == ""


def test_sessions(shared):
    box = shared.box
    sess = shared.ok("session_create", sandbox_id=box, working_directory="/tmp")["session_id"]
    shared.ok("session_run", sandbox_id=box, session_id=sess, command="KEPT=yes; cd /usr")
    r = shared.ok("session_run", sandbox_id=box, session_id=sess, command="echo $KEPT; pwd; (exit 4)")
    assert lines(r) == ["yes", "/usr"] and r["exit_code"] == 4
    assert shared.ok("session_delete", sandbox_id=box, session_id=sess) == {"status": "deleted"}
    assert shared.call("session_run", sandbox_id=box, session_id=sess, command="true")["isError"] is True


def test_lifecycle_and_logs(env):
    m = Stdio("--toolset", "core,lifecycle,logs", env=env)
    sid = m.ok("sandbox_create", image="host", entrypoint=["sh", "-c", "echo from the entrypoint; sleep 600"])["sandbox_id"]
    info = m.ok("sandbox_patch_metadata", sandbox_id=sid, metadata={"a": "1", "b": "2"})
    assert info["metadata"] == {"a": "1", "b": "2"}
    assert m.ok("sandbox_patch_metadata", sandbox_id=sid, metadata={"a": None})["metadata"] == {"b": "2"}
    assert m.ok("sandbox_pause", sandbox_id=sid) == {"status": "paused"}
    assert m.ok("sandbox_resume", sandbox_id=sid) == {"status": "resumed"}
    assert lines(m.ok("command_run", sandbox_id=sid, command="echo back")) == ["back"]
    content = ""
    while "from the entrypoint" not in content:
        content = m.ok("sandbox_logs", sandbox_id=sid)["content"] or ""
    assert m.ok("sandbox_events", sandbox_id=sid, scope="lifecycle")["content"]
    assert m.ok("sandbox_kill", sandbox_id=sid) == {"status": "killed"}
    assert m.close() == 0


def test_a_client_that_leaves_ends_the_program(env, shared):
    m = Stdio(env=env)
    m.ok("sandbox_connect", sandbox_id=shared.box)
    m.start("tools/call", {"name": "command_run", "arguments": {"sandbox_id": shared.box, "command": "sleep 321"}})
    assert m.close() == 0 and m.stderr == ""


def test_several_clients_at_once(env):
    """Sandboxes made and removed at the same time do not disturb each other."""
    m = Stdio(env=env)
    ids = [m.start("tools/call", {"name": "sandbox_create", "arguments": {"image": "host"}}) for _ in range(4)]
    lists = [m.start("tools/call", {"name": "sandbox_list", "arguments": {}}) for _ in range(4)]
    boxes = [m.answer(i)["result"]["structuredContent"]["sandbox_id"] for i in ids]
    assert all(m.answer(i)["result"]["isError"] is False for i in lists)
    assert len(set(boxes)) == 4
    results = []

    def use(box):
        other = Stdio(env=env)
        results.append(lines(other.ok("command_run", sandbox_id=box, command="echo ok", connect_if_missing=True)))
        other.close()

    threads = [threading.Thread(target=use, args=(b,)) for b in boxes]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [["ok"]] * 4
    for b in boxes:
        assert m.ok("sandbox_kill", sandbox_id=b) == {"status": "killed"}
    assert m.close() == 0
