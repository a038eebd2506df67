"""As many connections as there are, and more: the sidecar stays within its memory, says what it refuses, and those
that it has taken go on."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import vaultnet  # noqa: E402
from vaultnet import GOOD, PY, SANITIZED, bind  # noqa: E402

MEMORY = 40 << 20

# Opens connections until it is told to stop; then does with all of them what the line says.
CLIENT = r"""
import asyncio, json, ssl, sys
ctx = ssl.create_default_context(cafile=sys.argv[1])
HOST = "api.example.com"
conns = []

async def dial():
    r, w = await asyncio.open_connection(sys.argv[2], 443, ssl=ctx, server_hostname=HOST, limit=4096)
    return r, w

async def open_one():
    try:
        conns.append(await asyncio.wait_for(dial(), 60))
        return True
    except (OSError, asyncio.IncompleteReadError):
        return False

async def get(r, w, size):
    w.write(f"GET /download/{size} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
    head = await r.readuntil(b"\r\n\r\n")
    assert b"200" in head.split(b"\r\n")[0], head
    await r.readexactly(size)

async def fill(n):
    while n > 0 and await open_one():
        n -= 1
    return len(conns)

async def stuck(n, size):
    for r, w in conns[:n]:
        w.transport.pause_reading()
        w.write(f"GET /download/{size} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())

async def drain(n, size):
    async def one(r, w):
        w.transport.resume_reading()
        await r.readuntil(b"\r\n\r\n")
        await r.readexactly(size)
    await asyncio.gather(*[one(r, w) for r, w in conns[:n]])
    return n

async def every(size):
    await asyncio.gather(*[get(r, w, size) for r, w in conns])
    return len(conns)

async def main():
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await eval(line)), flush=True)

asyncio.run(main())
"""


class Group:
    """A control group with a limit of memory, of whichever version there is."""

    def __init__(self, limit):
        top = pathlib.Path("/sys/fs/cgroup")
        self.is_v1 = (top / "memory").is_dir()
        self.dir = (top / "memory" if self.is_v1 else top) / f"osbv-{os.getpid()}"
        self.dir.mkdir()
        try:
            (self.dir / ("memory.limit_in_bytes" if self.is_v1 else "memory.max")).write_text(str(limit))
        except OSError:
            self.dir.rmdir()
            pytest.skip("no control group with a limit of memory can be made here")

    def peak(self):
        return int((self.dir / ("memory.max_usage_in_bytes" if self.is_v1 else "memory.current")).read_text())

    def n_killed(self):
        text = (self.dir / ("memory.oom_control" if self.is_v1 else "memory.events")).read_text()
        return int(re.search(r"oom_kill (\d+)", text)[1])


@pytest.fixture
def net():
    n = vaultnet.Net()
    group = None if SANITIZED else Group(MEMORY)  # a sanitizer needs far more than it looks after
    try:
        n.group = group
        n.start(group=group.dir / "cgroup.procs" if group else None, env={"OPENSANDBOX_EGRESS_MEMORY": str(MEMORY)} if SANITIZED else None)
        yield n
    finally:
        n.close()
        if group:
            group.dir.rmdir()


def test_more_connections_than_memory(net):
    net.vault({"t": "secret"}, [bind("b", "api.example.com", {"type": "bearer", "credential": "t"})])
    ready = next(json.loads(x) for x in net.read_log().splitlines() if "interception is ready" in x)
    most, turns = int(ready["open_max"]), int(ready["busy_max"])
    assert 16 < turns < most < 200, ready
    client = net.popen("c", PY, "-c", CLIENT, net.bundle, GOOD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(line):
        client.stdin.write(line + "\n")
        client.stdin.flush()
        return json.loads(client.stdout.readline())

    # Full: the next one is refused, and it is said why.
    assert tell(f"fill({most + 50})") == most
    deadline = time.monotonic() + 30
    while not any(e["kind"] == "limit" and "memory" in e["detail"] for e in net.api("GET", "/events")[1]["events"]):
        assert time.monotonic() < deadline, net.api("GET", "/events")
        time.sleep(0.1)
    assert '"limit"' in net.read_log()
    # All that were taken go on, at once, more of them than have a turn.
    assert tell("every(200_000)") == most
    # Clients that do not read take all the turns; once they do, everybody gets what is theirs.
    tell(f"stuck({turns + 10}, 3_000_000)")
    tell(f"drain({turns + 10}, 3_000_000)")
    assert tell("every(1000)") == most
    client.stdin.close()
    assert client.wait(60) == 0
    assert net.sidecar.poll() is None
    if net.group:
        assert net.group.n_killed() == 0 and net.group.peak() < MEMORY
        print(f"{most} connections, {turns} turns, at most {net.group.peak() >> 10} KB")
    # And there is room again, once it has seen that they are gone.
    while net.curl("https://api.example.com/v1/x", check=False).returncode:
        assert time.monotonic() < deadline + 60
