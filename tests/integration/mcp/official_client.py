"""Drives a server with the official MCP client library. usage: official_client.py MODE TARGET [ARG...]

TARGET is a URL, or a program with its arguments. Runs in the environment that test_official.py
makes, prints one JSON object and ends with 0 when everything was as expected.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters


async def scenario(client):
    seen = {"tools": [], "progress": []}
    listed = await client.list_tools()
    for t in listed.tools:
        assert t.input_schema["type"] == "object" and t.output_schema["type"] == "object", t.name
        assert t.annotations.read_only_hint is not None and t.title, t.name
        seen["tools"].append(t.name)
    assert (await client.list_prompts()).prompts == []
    assert (await client.list_resources()).resources == []

    async def progress(done, total, message):
        seen["progress"].append([done, total, bool(message)])

    async def call(tool, **arguments):
        r = await client.call_tool(tool, arguments)
        assert not r.is_error, (tool, r.content)
        return r.structured_content

    made = await client.call_tool("sandbox_create", {"image": "host", "metadata": {"made": "official"}},
                                  progress_callback=progress)
    assert not made.is_error, made.content
    assert json.loads(made.content[0].text) == made.structured_content
    box = made.structured_content["sandbox_id"]
    try:
        r = await call("command_run", sandbox_id=box, command="echo out; echo err >&2; exit 5")
        assert r["exit_code"] == 5 and r["logs"]["stdout"][0]["text"].strip() == "out"
        assert r["logs"]["stderr"][0]["is_error"] is True
        await call("file_create_directories", sandbox_id=box, entries=[{"path": "/tmp/d"}])
        await call("file_write", sandbox_id=box, path="/tmp/d/a.txt", content="grün 1")
        await call("file_replace_contents", sandbox_id=box,
                   entries=[{"path": "/tmp/d/a.txt", "old_content": "1", "new_content": "2"}])
        await call("file_move", sandbox_id=box, entries=[{"source": "/tmp/d/a.txt", "destination": "/tmp/d/b.txt"}])
        assert (await call("file_read", sandbox_id=box, path="/tmp/d/b.txt"))["content"] == "grün 2"
        found = await call("file_search", sandbox_id=box, path="/tmp/d", pattern="*.txt")
        assert [x["path"] for x in found["result"]] == ["/tmp/d/b.txt"]
        await call("file_delete", sandbox_id=box, paths=["/tmp/d/b.txt"])
        await call("file_delete_directories", sandbox_id=box, paths=["/tmp/d"])
        assert (await call("sandbox_healthcheck", sandbox_id=box))["healthy"] is True
        await call("sandbox_get_metrics", sandbox_id=box)
        await call("sandbox_get_endpoint", sandbox_id=box, port=8080)
        await call("sandbox_renew", sandbox_id=box, timeout_seconds=900)
        await call("sandbox_connect", sandbox_id=box)
        await call("sandbox_get_info", sandbox_id=box)
        listed = await call("sandbox_list", filter={"metadata": {"made": "official"}})
        assert box in [x["id"] for x in listed["sandbox_infos"]]
        job = await call("command_run", sandbox_id=box, command="sleep 600", background=True)
        await call("command_interrupt", sandbox_id=box, execution_id=job["id"])
        # Side by side on one connection.
        many = await asyncio.gather(*[call("command_run", sandbox_id=box, command=f"echo {i}") for i in range(8)])
        assert [m["logs"]["stdout"][0]["text"].strip() for m in many] == [str(i) for i in range(8)]
        # Given up: the library tells the server, and the connection stays usable.
        try:
            async with asyncio.timeout(1):
                await client.call_tool("command_run", {"sandbox_id": box, "command": "exec sleep 444"})
            raise AssertionError("sleep ended early")
        except TimeoutError:
            pass
        look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep 44[4]' || echo gone"
        while (await call("command_run", sandbox_id=box, command=look))["logs"]["stdout"][0]["text"].strip() != "gone":
            pass
        bad = await client.call_tool("command_run", {"sandbox_id": box})
        assert bad.is_error and "command: is required" in bad.content[0].text
        bad = await client.call_tool("file_read", {"sandbox_id": box, "path": "/no/such"})
        assert bad.is_error and bad.content[0].text.startswith("Error executing tool file_read: ")
    finally:
        await call("sandbox_kill", sandbox_id=box)
    seen["version"] = client.protocol_version
    return seen


async def main():
    mode, target = sys.argv[1], sys.argv[2]
    server = target if target.startswith("http") else StdioServerParameters(command=target, args=sys.argv[3:],
                                                                             env=dict(os.environ))
    async with Client(server, mode=mode, read_timeout_seconds=120) as client:
        print(json.dumps(await scenario(client)))


asyncio.run(main())
