"""Terminal sessions over WebSocket."""

import asyncio
import json
import os
import struct
import time

import pytest
import websockets
from conftest import WAIT, error, empty_ok, wait_for
from execd_client import Raw


class Client:
    """One attached client; collects output by offset."""

    def __init__(self, ws, since):
        self.ws = ws
        self.out = b""       # everything, replay and both channels
        self.err = b""       # channel 2 only
        self.start = since   # offset of out[0]
        self.texts = []
        self.frames = []
        self.replays = 0

    async def recv(self):
        m = await asyncio.wait_for(self.ws.recv(), WAIT)
        if isinstance(m, str):
            self.texts.append(json.loads(m))
            return self.texts[-1]
        self.frames.append(m)
        if m[0] == 3:
            assert not self.out and not self.texts, "replay comes first"
            self.replays += 1
            self.start = struct.unpack(">q", m[1:9])[0]
            self.out += m[9:]
        else:
            assert m[0] in (1, 2) and 1 < len(m) <= 32769
            self.out += m[1:]
            self.err += m[1:] if m[0] == 2 else b""
        return m

    async def until(self, text):
        while text not in self.out:
            await self.recv()

    async def text(self, kind):
        while True:
            for t in self.texts:
                if t["type"] == kind:
                    self.texts.remove(t)
                    return t
            await self.recv()

    async def closed(self):
        try:
            while True:
                await self.recv()
        except websockets.ConnectionClosed as e:
            return e.code, e.reason

    async def send(self, **frame):
        await self.ws.send(json.dumps(frame))

    async def type(self, text):
        await self.ws.send(b"\0" + text)


class attach:
    def __init__(self, execd, sid, since=None, **query):
        if since is not None:
            query["since"] = since
        q = "&".join(f"{k}={v}" for k, v in query.items())
        self.uri = f"ws://127.0.0.1:{execd.port}/pty/{sid}/ws" + (f"?{q}" if q else "")
        self.since = since or 0

    async def __aenter__(self):
        self.ws = await websockets.connect(self.uri, max_size=None, max_queue=None, open_timeout=WAIT,
                                           ping_interval=None)
        return Client(self.ws, self.since)

    async def __aexit__(self, *exc):
        await self.ws.close()


def create(execd, **body):
    r = execd.post("/pty", json=body)
    assert r.status_code == 201 and list(r.json()) == ["session_id"], r.text
    return r.json()["session_id"]


@pytest.fixture
def sid(execd):
    sid = create(execd)
    yield sid
    execd.delete(f"/pty/{sid}")


def state(execd, sid):
    r = execd.get(f"/pty/{sid}")
    assert r.status_code == 200 and list(r.json()) == ["session_id", "running", "output_offset"]
    assert r.json()["session_id"] == sid
    return r.json()["running"], r.json()["output_offset"]


def go(coroutine):
    return asyncio.run(coroutine)


# ---- REST ----

def test_create(execd, tmp_path):
    assert execd.post("/pty").status_code == 201
    sid = create(execd, cwd=str(tmp_path / "new"), command=None)
    assert (tmp_path / "new").is_dir()
    assert state(execd, sid) == (False, 0)
    empty_ok(execd.delete(f"/pty/{sid}"))
    for method in ("GET", "DELETE"):
        error(execd.request(method, f"/pty/{sid}"), 404, "CONTEXT_NOT_FOUND", f"pty session {sid} not found")


def test_create_errors(execd):
    error(execd.post("/pty", data="{"), 400, "INVALID_REQUEST_BODY", "error parsing request: ")
    error(execd.post("/pty", json={"cwd": "/etc/passwd/x"}), 500, "RUNTIME_ERROR", "error creating pty session: ")


def test_connect_errors(execd, sid):
    error(execd.get("/pty/none/ws"), 404, "CONTEXT_NOT_FOUND", "pty session none not found")
    r = execd.get(f"/pty/{sid}/ws")
    assert r.status_code == 400 and r.headers["Content-Type"].startswith("text/plain")
    r = execd.get(f"/pty/{sid}/ws", headers={"Connection": "Upgrade", "Upgrade": "websocket",
                                             "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "bad"})
    assert r.status_code == 400
    assert state(execd, sid) == (False, 0)


# ---- terminal ----

def test_terminal(execd, sid):
    async def main():
        async with attach(execd, sid) as c:
            t = await c.text("connected")
            assert t == {"type": "connected", "session_id": sid, "mode": "pty"}
            assert state(execd, sid)[0] is True
            await c.type(b"tty; stty size; pwd; echo T=$TERM; ps -o tpgid= -p $$\n")
            await c.until(b"T=")
            await c.until(b"/dev/pts/")
            await c.until(b"24 80\r\n")
            await c.send(type="stdin", data="echo te''xt\n")
            await c.until(b"text\r\n")
            await c.type(b"exit 5\n")
            assert await c.text("exit") == {"type": "exit", "exit_code": 5}
            assert await c.closed() == (1000, "process exited")
        running, offset = state(execd, sid)
        assert running is False and offset == len(c.out)
    go(main())


def test_resize(execd):
    """Not at a prompt: readline itself sets the size it has read a moment before."""
    async def main():
        sid = create(execd, command="trap 'echo winch' WINCH; while :; do stty size; sleep 0.02; done")
        async with attach(execd, sid) as c:
            await c.until(b"24 80\r\n")
            await c.send(type="resize", cols=132, rows=50)
            await c.until(b"50 132\r\n")
            await c.until(b"winch\r\n")
            await c.send(type="resize", cols=100000, rows=1)
            await c.until(b"1 65535\r\n")
        execd.delete(f"/pty/{sid}")
    go(main())


def test_term_is_set(launch):
    execd = launch(unset=("TERM",))

    async def main():
        async with attach(execd, create(execd, command="echo $TERM; exit 3")) as c:
            assert await c.closed() == (1000, "process exited")
            assert c.out == b"xterm-256color\r\n" and c.texts[-1]["exit_code"] == 3
        async with attach(execd, create(execd, command="echo ${TERM-none}"), pty=0) as c:
            await c.closed()
            assert c.out in (b"none\n", b"dumb\n")  # bash says dumb by itself
    go(main())


def test_envs_file(launch, tmp_path):
    (tmp_path / "envs").write_text("FROMFILE=yes\n")
    execd = launch(env={"EXECD_ENVS": str(tmp_path / "envs")})

    async def main():
        async with attach(execd, create(execd, command="echo $FROMFILE", cwd="/tmp")) as c:
            await c.closed()
            assert c.out == b"yes\r\n"
    go(main())


def test_signals(execd, sid):
    async def main():
        async with attach(execd, sid) as c:
            await c.type(b"sleep 300; echo after:$?\n")
            await c.until(b"sleep 300")
            await asyncio.sleep(0.2)
            await c.send(type="signal", signal="SIGINT")
            await c.type(b"echo st''ill\n")
            await c.until(b"still")
            await c.send(type="signal", signal="SIGNOPE")
            await c.send(type="signal", signal="SIGKILL")
            assert (await c.text("exit"))["exit_code"] == -1
    go(main())


def test_control_c(execd, sid):
    async def main():
        async with attach(execd, sid) as c:
            await c.type(b"sleep 300\n")
            await c.until(b"sleep 300")
            await asyncio.sleep(0.2)
            await c.type(b"\x03")
            await c.type(b"echo ba''ck\n")
            await c.until(b"back")
    go(main())


def test_output_is_complete_before_exit(execd):
    """The end of the process does not cut its last output, however it was written."""
    async def main():
        for mode in (1, 0):
            for _ in range(10):
                sid = create(execd, command="seq 1 5000; printf last")
                async with attach(execd, sid, pty=mode) as c:
                    assert await c.closed() == (1000, "process exited")
                    want = b"".join(b"%d\n" % i for i in range(1, 5001)) + b"last"
                    assert c.out.replace(b"\r\n", b"\n") == want
                    assert c.texts[-1] == {"type": "exit", "exit_code": 0}
    go(main())


def test_exit_with_a_survivor_on_the_terminal(execd):
    async def main():
        sid = create(execd, command="trap '' HUP; sleep 300 & echo $!; exit 4")
        async with attach(execd, sid) as c:
            assert await c.text("exit") == {"type": "exit", "exit_code": 4}
            os.kill(int(c.out), 9)
    go(main())


# ---- pipes ----

def test_pipe_mode(execd, sid):
    async def main():
        async with attach(execd, sid, pty=0) as c:
            assert (await c.text("connected"))["mode"] == "pipe"
            await c.type(b"echo out; echo err >&2; test -t 0 || echo notty\n")
            await c.until(b"notty\n")
            while not c.err:
                await c.recv()
            assert c.err == b"err\n" and b"out\n" in c.out
            await c.send(type="resize", cols=10, rows=10)  # nothing to resize, no error
            await c.type(b"cat\n")
            await c.type(b"bytes \x00\xff\x80\n")
            await c.until(b"bytes \x00\xff\x80\n")
            await c.send(type="eof")
            assert (await c.text("exit"))["exit_code"] == 0
            assert await c.closed() == (1000, "process exited")
    go(main())


def test_input_after_the_process_closed_it(execd):
    async def main():
        async with attach(execd, create(execd, command="exec 0<&-; sleep 300"), pty=0) as c:
            await c.text("connected")
            for _ in range(200):
                await c.type(b"x" * 1000)
                await asyncio.sleep(0.01)
                if any(t["type"] == "error" for t in c.texts):
                    break
                try:
                    await asyncio.wait_for(c.recv(), 0.01)
                except asyncio.TimeoutError:
                    pass
            assert (await c.text("error"))["code"] == "STDIN_WRITE_FAILED"
            await c.send(type="ping")
            await c.text("pong")
            await c.send(type="signal", signal="SIGKILL")
            await c.text("exit")
    go(main())


def test_input_backpressure(execd, tmp_path):
    """A process that does not read makes its client wait; nothing is lost."""
    fifo, out = tmp_path / "fifo", tmp_path / "out"
    os.mkfifo(fifo)
    data = os.urandom(3 << 20)

    async def main():
        sid = create(execd, command=f"cat {fifo} >/dev/null; cat > {out}")
        async with attach(execd, sid, pty=0) as c:
            await c.text("connected")

            async def send():
                for i in range(0, len(data), 65536):
                    await c.type(data[i:i + 65536])
                await c.send(type="eof")
            task = asyncio.create_task(send())
            await asyncio.sleep(0.3)
            assert execd.get("/ping").status_code == 200
            with open(fifo, "w"):
                pass
            await task
            await c.text("exit")
        assert out.read_bytes() == data
    go(main())


# ---- frames ----

def test_frames(execd, sid):
    async def main():
        async with attach(execd, sid, pty=0) as c:
            await c.send(type="ping")
            assert await c.text("pong") == {"type": "pong"}
            await c.send(type="nonsense")
            assert await c.text("error") == {"type": "error", "error": 'unknown frame type "nonsense"',
                                             "code": "INVALID_FRAME"}
            await c.ws.send("not json")
            await c.ws.send("[1]")
            await c.ws.send(b"")
            await c.ws.send(b"\x09ignored")
            await c.ws.send(b"\x00")
            await c.send(type="resize", cols=0, rows=-1)
            await c.send(type="stdin")
            await c.send(type="signal")
            await c.send(type="resize", cols="x", rows=[])
            assert (await c.text("error"))["code"] == "INVALID_FRAME"
            await c.send(type="ping")
            await c.text("pong")
            await c.type(b"echo alive\n")
            await c.until(b"alive\n")
    go(main())


# ---- replay, reattach, takeover ----

def test_reattach_loses_and_doubles_nothing(execd):
    """A client that comes and goes at random offsets sees every byte exactly once."""
    n = 60000
    want = b"".join(b"%d\n" % i for i in range(1, n + 1))

    async def main():
        sid = create(execd, command=f"seq 1 {n}; read x")
        got = b""
        while len(got) < len(want):
            async with attach(execd, sid, since=len(got), pty=0) as c:
                goal = len(got) + 30000
                while len(got) + len(c.out) < min(goal, len(want)):
                    await c.recv()
                assert c.start == len(got), "no gap and no overlap"
                got += c.out
        assert got == want
        assert state(execd, sid)[1] == len(want)
        empty_ok(execd.delete(f"/pty/{sid}"))
    go(main())


def test_replay(execd):
    async def main():
        sid = create(execd, command="printf 0123456789; read x")
        async with attach(execd, sid, pty=0) as c:
            await c.until(b"0123456789")
        for since, want, start in ((0, b"0123456789", 0), (4, b"456789", 4), (-5, b"0123456789", 0),
                                   (9, b"9", 9), ("x", b"0123456789", 0)):
            async with attach(execd, sid, since=since) as c:
                t = await c.text("connected")
                assert t["mode"] == "pipe"  # the process that runs decides
                assert (c.out, c.start, c.replays) == (want, start, 1)
        for since in (10, 11, 1 << 40):
            async with attach(execd, sid, since=since) as c:
                await c.text("connected")
                assert c.replays == 0
        execd.delete(f"/pty/{sid}")
    go(main())


def test_replay_keeps_the_newest_megabyte(execd):
    async def main():
        sid = create(execd, command="head -c 3000000 /dev/zero | tr '\\0' a; printf END; read x")
        async with attach(execd, sid, pty=0) as c:
            await c.until(b"END")
            assert len(c.out) == 3000003
        async with attach(execd, sid, since=5, pty=0) as c:
            await c.text("connected")
            assert len(c.out) == 1 << 20 and c.start == 3000003 - (1 << 20) and c.out.endswith(b"aEND")
            assert len(c.frames[0]) == (1 << 20) + 9
        execd.delete(f"/pty/{sid}")
    go(main())


def test_output_goes_on_without_a_client(execd, tmp_path):
    mark = tmp_path / "mark"

    async def main():
        sid = create(execd, command=f"sleep 0.1; seq 1 500000; touch {mark}; read x")
        async with attach(execd, sid, pty=0) as c:
            await c.text("connected")
        wait_for(mark.exists, "the end of the output")
        total = sum(len(str(i)) + 1 for i in range(1, 500001))
        wait_for(lambda: state(execd, sid) == (True, total), "all output")
        execd.delete(f"/pty/{sid}")
    go(main())


def test_one_client_at_a_time(execd, sid):
    async def main():
        async with attach(execd, sid) as first:
            await first.text("connected")
            with pytest.raises(websockets.InvalidStatusCode) as e:
                async with attach(execd, sid):
                    pass
            assert e.value.status_code == 409
            r = execd.get(f"/pty/{sid}/ws?takeover=1")  # not a WebSocket: nobody is thrown out
            assert error(r, 409, "ALREADY_CONNECTED",
                         f"another client is already connected to pty session {sid}")
            await first.type(b"echo fir''st\n")
            await first.until(b"first")
            async with attach(execd, sid, takeover=1, since=len(first.out)) as second:
                await second.text("connected")
                assert await first.closed() == (4001, "TAKEN_OVER")
                await second.type(b"echo sec''ond\n")
                await second.until(b"second")
                assert second.start <= len(first.out)
    go(main())


def test_new_shell_after_the_end(execd, sid):
    async def main():
        async with attach(execd, sid, pty=0) as c:
            await c.type(b"echo one; exit 1\n")
            assert (await c.text("exit"))["exit_code"] == 1
            await c.closed()
        assert state(execd, sid) == (False, 4)
        async with attach(execd, sid, pty=1) as c:
            await c.until(b"one\n")
            assert c.start == 0 and (await c.text("connected"))["mode"] == "pty"
            assert state(execd, sid)[0] is True
            await c.type(b"exit\n")
            await c.text("exit")
    go(main())


def test_delete_while_attached(execd):
    async def main():
        sid = create(execd, command="sleep 300")
        async with attach(execd, sid) as c:
            await c.text("connected")
            empty_ok(execd.delete(f"/pty/{sid}"))
            assert execd.get(f"/pty/{sid}").status_code == 404
            assert await c.text("exit") == {"type": "exit", "exit_code": -1}
            assert (await c.closed())[0] == 1000
    go(main())


def test_start_failure(execd, tmp_path):
    async def main():
        gone = tmp_path / "gone"
        sid = create(execd, cwd=str(gone))
        gone.rmdir()
        async with attach(execd, sid) as c:
            assert (await c.text("error"))["code"] == "START_FAILED"
            await c.closed()
        assert state(execd, sid) == (False, 0)
        gone.mkdir()
        async with attach(execd, sid) as c:
            await c.text("connected")
    go(main())


def attach_raw(execd, sid, **kw):
    """A client that does nothing by itself, not even answer a Close."""
    key = "dGhlIHNhbXBsZSBub25jZQ=="
    raw = Raw(execd, "GET", f"/pty/{sid}/ws?pty=0", headers=(
        "Connection: Upgrade", "Upgrade: websocket", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"), **kw)
    assert raw.head() == 101
    return raw


def test_execd_ends_during_a_farewell(launch):
    """Under a sanitizer: what still waits for the client's Close is no leak."""
    execd = launch()
    sid = create(execd)
    raw = attach_raw(execd, sid)
    empty_ok(execd.delete(f"/pty/{sid}"))
    while b"\x88" not in raw.buf:
        assert raw.fill(), "closed without a Close frame"
    assert execd.stop() == 0, execd.log()
    raw.sock.close()


def test_slow_client_pauses_the_process(launch):
    execd = launch()
    sid = create(execd, command="seq 1 2000000; echo END")
    raw = attach_raw(execd, sid, rcvbuf=4096)
    wait_for(lambda: state(execd, sid)[1] > 100000, "some output")
    time.sleep(0.3)
    paused = state(execd, sid)
    time.sleep(0.3)
    assert state(execd, sid) == paused, "nothing is read while the client does not read"
    if not execd.sanitized():
        assert execd.rss_kb() < 6000
    raw.reset()
    wait_for(lambda: state(execd, sid)[0] is False, "the process goes on without the client")


def test_client_that_vanishes_is_no_leak(launch):
    execd = launch()
    before = execd.fds()

    async def main():
        for i in range(30):
            sid = create(execd)
            ws = await websockets.connect(f"ws://127.0.0.1:{execd.port}/pty/{sid}/ws?pty={i % 2}")
            await ws.send(b"\0echo x\n")
            ws.transport.abort()
            empty_ok(execd.delete(f"/pty/{sid}"))
    go(main())
    wait_for(lambda: execd.fds() <= before + 1, "no descriptor left")


def test_too_many_sessions(launch):
    execd = launch()
    for _ in range(256):
        create(execd)
    error(execd.post("/pty"), 500, "RUNTIME_ERROR", "error creating pty session: ")
