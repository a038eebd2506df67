"""WebSocket in both roles against an independent implementation, and with raw frames where that
implementation refuses to misbehave (RFC 6455)."""

import asyncio
import base64
import hashlib
import os
import socket
import struct
import subprocess
import threading
import time

import pytest
import websockets

from conftest import DEMO, TIMEOUT

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(opcode, payload=b"", fin=True, mask=True, rsv=0, len_bytes=None):
    """One frame; len_bytes forces the width of the length field (0, 2 or 8)."""
    n = len(payload)
    if len_bytes is None:
        len_bytes = 0 if n < 126 else 2 if n < 65536 else 8
    len7 = {0: n, 2: 126, 8: 127}[len_bytes]
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode, (0x80 if mask else 0) | len7])
    head += {0: b"", 2: struct.pack("!H", n & 0xFFFF), 8: struct.pack("!Q", n)}[len_bytes]
    if not mask:
        return head + payload
    key = os.urandom(4)
    return head + key + bytes(b ^ key[i % 4] for i, b in enumerate(payload))


class Raw:
    """One end of a WebSocket made of a socket."""

    def __init__(self, sock, early=b""):
        self.sock, self.buf = sock, early
        sock.settimeout(TIMEOUT)

    def need(self, n):
        while len(self.buf) < n:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError(self.buf)
            self.buf += data
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def send(self, data):
        self.sock.sendall(data)

    def recv(self, masked=False):
        b0, b1 = self.need(2)
        assert b0 & 0x70 == 0 and bool(b1 & 0x80) == masked
        n = b1 & 0x7F
        if n == 126:
            n = struct.unpack("!H", self.need(2))[0]
        elif n == 127:
            n = struct.unpack("!Q", self.need(8))[0]
        key = self.need(4) if masked else b""
        data = self.need(n)
        if masked:
            data = bytes(b ^ key[i % 4] for i, b in enumerate(data))
        return b0 & 15, bool(b0 & 0x80), data

    def expect_close(self, code, masked=False):
        op, _, data = self.recv(masked)
        assert op == CLOSE
        assert data[:2] == struct.pack("!H", code)
        assert self.rest() == b""

    def rest(self):
        """What comes until the end of the connection."""
        out = self.buf
        try:
            while True:
                data = self.sock.recv(65536)
                if not data:
                    return out
                out += data
        except ConnectionResetError:
            return out


def handshake(demo, path="/ws", early=b"", headers=()):
    s = demo.connect()
    lines = ["GET %s HTTP/1.1" % path, "Host: h", "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13", *headers]
    s.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + early)
    head = b""
    while b"\r\n\r\n" not in head:
        data = s.recv(4096)
        assert data, head
        head += data
    head, rest = head.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=" in head.lower()
    ws = Raw(s, rest)
    ws.head = head
    return ws


# ---- our server, their client ----

SIZES = [0, 1, 125, 126, 127, 65535, 65536, 1 << 20]


def with_client(demo, body, path="/ws", **kwargs):
    async def go():
        async with websockets.connect(f"ws://127.0.0.1:{demo.port}{path}", max_size=None, compression=None,
                                      **kwargs) as ws:
            await asyncio.wait_for(body(ws), TIMEOUT)
    asyncio.run(go())


@pytest.mark.parametrize("n", SIZES)
def test_server_echoes_every_length(demo, n):
    async def body(ws):
        await ws.send(b"\xff" * n)
        assert await ws.recv() == b"\xff" * n
        await ws.send("ä" * (n // 2))
        assert await ws.recv() == "ä" * (n // 2)
    with_client(demo, body)


def test_server_joins_fragments(demo):
    async def body(ws):
        await ws.send(["Hel", "", "lo ", "ä€𝄞"])
        assert await ws.recv() == "Hello ä€𝄞"
        await ws.send([b"a" * 70000, b"b" * 70000])
        assert await ws.recv() == b"a" * 70000 + b"b" * 70000
    with_client(demo, body)


def test_server_answers_pings(demo):
    async def body(ws):
        for payload in (b"", b"x", b"y" * 125):
            await asyncio.wait_for(await ws.ping(payload), TIMEOUT)
        await ws.pong(b"unasked")
        await ws.send("still there")
        assert await ws.recv() == "still there"
    with_client(demo, body)


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 3000, 4999])
def test_server_echoes_close_code(demo, code):
    ws = handshake(demo)
    ws.send(frame(CLOSE, struct.pack("!H", code) + "tschüß".encode()))
    ws.expect_close(code)


def test_server_close_without_code(demo):
    ws = handshake(demo)
    ws.send(frame(CLOSE))
    assert ws.recv() == (CLOSE, True, b"")
    assert ws.rest() == b""


def test_server_starts_close(demo):
    async def body(ws):
        await ws.send("close:4001:because ä")
        with pytest.raises(websockets.ConnectionClosed):
            await ws.recv()
        assert (ws.close_code, ws.close_reason) == (4001, "because ä")
    with_client(demo, body)


def test_subprotocol(demo):
    async def wanted(ws):
        assert ws.subprotocol == "echo"

    async def other(ws):
        assert ws.subprotocol is None
    with_client(demo, wanted, subprotocols=["other", "echo"])
    with_client(demo, other, subprotocols=["other"])


def test_compression_is_not_accepted(demo):
    ws = handshake(demo, headers=["Sec-WebSocket-Extensions: permessage-deflate"])
    assert b"extensions" not in ws.head.lower()
    ws.send(frame(TEXT, b"x", rsv=4))
    ws.expect_close(1002)


def test_many_messages_in_order(demo):
    async def body(ws):
        async def sender():
            for i in range(3000):
                await ws.send(str(i) * (i % 50 + 1))
        task = asyncio.create_task(sender())
        for i in range(3000):
            assert await ws.recv() == str(i) * (i % 50 + 1)
        await task
    with_client(demo, body)


# ---- our server, raw frames ----

MESSAGE = frame(TEXT, b"Hel", fin=False) + frame(PING, b"p") + frame(CONT, b"lo", fin=False) \
    + frame(PONG, b"q") + frame(CONT, b"!")


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_control_frames_between_fragments(demo, piece):
    ws = handshake(demo)
    for i in range(0, len(MESSAGE), piece):
        ws.send(MESSAGE[i:i + piece])
        time.sleep(0) # another segment, not another wait
    assert ws.recv() == (PONG, True, b"p")
    assert ws.recv() == (TEXT, True, b"Hello!")


def test_frame_behind_the_handshake(demo):
    ws = handshake(demo, early=frame(TEXT, b"early"))
    assert ws.recv() == (TEXT, True, b"early")


VIOLATIONS = {
    "unmasked": (frame(TEXT, b"x", mask=False), 1002),
    "rsv1": (frame(TEXT, b"x", rsv=4), 1002),
    "rsv2": (frame(TEXT, b"x", rsv=2), 1002),
    "rsv3": (frame(PING, b"x", rsv=1), 1002),
    **{f"opcode {op}": (frame(op, b""), 1002) for op in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "fragmented ping": (frame(PING, b"x", fin=False), 1002),
    "fragmented close": (frame(CLOSE, b"", fin=False), 1002),
    "long ping": (frame(PING, b"x" * 126), 1002),
    "long length, 16 bit": (frame(TEXT, b"x", len_bytes=2), 1002),
    "long length, 64 bit": (frame(TEXT, b"x" * 300, len_bytes=8), 1002),
    "negative length": (b"\x82\xff" + b"\xff" * 8, 1002),
    "continuation of nothing": (frame(CONT, b"x"), 1002),
    "message inside a message": (frame(TEXT, b"x", fin=False) + frame(TEXT, b"y"), 1002),
    "half a close code": (frame(CLOSE, b"\x03"), 1002),
    **{f"close code {c}": (frame(CLOSE, struct.pack("!H", c)), 1002)
       for c in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535)},
    "close reason not UTF-8": (frame(CLOSE, b"\x03\xe8\xff"), 1007),
    "text not UTF-8": (frame(TEXT, b"\xce\xba\xe1\xbd\xb9\xff"), 1007),
    "text ends inside a character": (frame(TEXT, b"\xe2\x82"), 1007),
    "overlong": (frame(TEXT, b"\xc0\xaf"), 1007),
    "surrogate": (frame(TEXT, b"\xed\xa0\x80"), 1007),
    "beyond U+10FFFF": (frame(TEXT, b"\xf4\x90\x80\x80"), 1007),
    "bad text in the second fragment": (frame(TEXT, b"\xe2", fin=False) + frame(CONT, b"(x"), 1007),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_violations(demo, name):
    data, code = VIOLATIONS[name]
    ws = handshake(demo)
    ws.send(data)
    ws.expect_close(code)


def test_bad_text_fails_inside_the_frame(demo):
    """The frame is announced with 1000 bytes; the fault is in the third, and no more are sent."""
    ws = handshake(demo)
    ws.send(frame(TEXT, b"ab\xff" + b"c" * 997)[:8 + 3])
    ws.expect_close(1007)


def test_character_cut_by_fragments_is_good(demo):
    ws = handshake(demo)
    euro = "€".encode()
    ws.send(frame(TEXT, euro[:1], fin=False) + frame(CONT, euro[1:2], fin=False) + frame(CONT, euro[2:]))
    assert ws.recv() == (TEXT, True, euro)


def test_size_limit(demo):
    ws = handshake(demo, "/ws?max=1000")
    ws.send(frame(BINARY, b"x" * 1000))
    assert len(ws.recv()[2]) == 1000
    ws.send(frame(BINARY, b"x" * 600, fin=False) + frame(CONT, b"x" * 401)[:8]) # its header is enough
    ws.expect_close(1009)


def test_size_limit_by_header_alone(demo):
    ws = handshake(demo)
    ws.send(b"\x82\xff" + struct.pack("!Q", 1 << 40) + b"mask")
    ws.expect_close(1009)


def test_nothing_is_sent_after_close(demo):
    ws = handshake(demo)
    ws.send(frame(CLOSE, b"\x03\xe8") + frame(TEXT, b"late") + frame(PING, b"late"))
    ws.expect_close(1000)


def test_server_pings(demo):
    ws = handshake(demo, "/ws?ping=20")
    for _ in range(3):
        assert ws.recv() == (PING, True, b"")
    ws.send(frame(PONG))


def test_slow_reader_does_not_fill_memory(demo):
    ws = handshake(demo)
    before = demo.rss()
    message = frame(BINARY, b"x" * 60000)
    ws.sock.setblocking(False)
    sent, quiet = 0, 0
    while quiet < 50: # until the echo stands still
        try:
            sent += ws.sock.send(message[sent % len(message):])
            quiet = 0
        except BlockingIOError:
            quiet += 1
            time.sleep(0.01)
        assert sent < 200 << 20
    if os.environ.get("OSB_FLAVOUR") != "asan": # a sanitizer keeps freed memory for a while
        assert demo.rss() - before < 16 << 20
    ws.sock.settimeout(TIMEOUT)
    rest = message[sent % len(message):] if sent % len(message) else b""
    threading.Thread(target=ws.send, args=(rest + frame(TEXT, b"end"),), daemon=True).start()
    while ws.recv()[0] != TEXT:
        pass


REFUSED = {
    "version 8": (["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                   "Sec-WebSocket-Version: 8"], 426),
    "no version": (["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="], 426),
    "no key": (["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"], 400),
    "short key": (["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGVzdA==",
                   "Sec-WebSocket-Version: 13"], 400),
    "no upgrade": (["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"], 426),
    "upgrade not in Connection": (["Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                                   "Sec-WebSocket-Version: 13"], 426),
    "other protocol": (["Upgrade: h2c", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                        "Sec-WebSocket-Version: 13"], 426),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_handshakes(demo, name):
    headers, status = REFUSED[name]
    with demo.connect() as s:
        s.sendall(("\r\n".join(["GET /ws HTTP/1.1", "Host: h", *headers]) + "\r\n\r\n").encode())
        head = s.recv(4096)
        assert head.startswith(b"HTTP/1.1 %d " % status)
        if status == 426:
            assert b"sec-websocket-version: 13" in head.lower()


# ---- our client, their server ----

class Client:
    def __init__(self, port, *args):
        self.proc = subprocess.Popen([DEMO, "--ws-client", f"ws://127.0.0.1:{port}/x?y=z", *args],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def result(self):
        out, err = self.proc.communicate(timeout=TIMEOUT)
        assert self.proc.returncode in (0, 1), err
        assert "Sanitizer" not in err, err
        return out.strip()


def with_server(body, *args, **kwargs):
    """Runs body(ws) for the one connection our client makes; returns what the client said at its end."""
    async def go():
        done = asyncio.get_running_loop().create_future()

        async def handler(ws):
            try:
                await asyncio.wait_for(body(ws), TIMEOUT)
                done.set_result(None)
            except BaseException as e:
                done.set_exception(e)
        async with websockets.serve(handler, "127.0.0.1", 0, max_size=None, subprotocols=["echo"], **kwargs) as s:
            client = Client(s.sockets[0].getsockname()[1], *args)
            await asyncio.wait_for(done, TIMEOUT)
            return await asyncio.get_running_loop().run_in_executor(None, client.result)
    return asyncio.run(go())


@pytest.mark.parametrize("n", SIZES)
def test_client_echoes_every_length(n):
    async def body(ws):
        assert ws.path == "/x?y=z" and ws.subprotocol == "echo"
        await ws.send(b"\xff" * n)
        assert await ws.recv() == b"\xff" * n
        await ws.send("ä" * (n // 2))
        assert await ws.recv() == "ä" * (n // 2)
        await ws.close(1000, "fertig ä")
    assert with_server(body) == "closed 1000 fertig ä"


def test_client_joins_fragments_and_answers_pings():
    async def body(ws):
        await ws.send(["Hel", "", "lo ", "ä€𝄞"])
        assert await ws.recv() == "Hello ä€𝄞"
        await asyncio.wait_for(await ws.ping(b"y" * 125), TIMEOUT)
        await ws.close(4999)
    assert with_server(body) == "closed 4999"


def test_client_starts_close():
    async def body(ws):
        await ws.send("close:3456:enough")
        with pytest.raises(websockets.ConnectionClosed):
            await ws.recv()
        assert (ws.close_code, ws.close_reason) == (3456, "enough")
    assert with_server(body) == "closed 3456 enough"


def test_client_size_limit():
    async def body(ws):
        await ws.send(b"x" * 1000)
        assert len(await ws.recv()) == 1000
        await ws.send(b"x" * 1001)
        with pytest.raises(websockets.ConnectionClosed):
            await ws.recv()
        assert ws.close_code == 1009
    assert with_server(body, "--ws-max", "1000") == "closed 1009"


# ---- our client, raw server ----

def accept_raw(listener, answer=None):
    """Takes the client's handshake and answers it; returns the connection and the request's head."""
    s, _ = listener.accept()
    s.settimeout(TIMEOUT)
    head = b""
    while b"\r\n\r\n" not in head:
        head += s.recv(4096)
    lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
    key = lines["Sec-WebSocket-Key"].encode()
    assert len(base64.b64decode(key)) == 16 and lines["Sec-WebSocket-Version"] == "13"
    accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
    if answer is None:
        answer = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\n"
                  b"Sec-WebSocket-Accept: ACCEPT\r\n\r\n")
    s.sendall(answer.replace(b"ACCEPT", accept))
    return Raw(s), head


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as s:
        s.settimeout(TIMEOUT)
        yield s


CLIENT_VIOLATIONS = {
    "masked": (frame(TEXT, b"x"), 1002),
    "rsv": (frame(TEXT, b"x", mask=False, rsv=4), 1002),
    "opcode": (frame(3, b"x", mask=False), 1002),
    "bad text": (frame(TEXT, b"\xff", mask=False), 1007),
    "close code": (frame(CLOSE, b"\x03\xed", mask=False), 1002),
}


@pytest.mark.parametrize("name", CLIENT_VIOLATIONS)
def test_client_refuses_violations(listener, name):
    data, code = CLIENT_VIOLATIONS[name]
    client = Client(listener.getsockname()[1])
    ws, head = accept_raw(listener)
    assert head.startswith(b"GET /x?y=z HTTP/1.1\r\n")
    ws.send(data)
    ws.expect_close(code, masked=True)
    ws.sock.close()
    assert client.result() == f"closed {code}"


def test_client_sees_the_end(listener):
    client = Client(listener.getsockname()[1])
    ws, _ = accept_raw(listener)
    ws.send(frame(TEXT, b"hello", mask=False)[:3])
    ws.sock.close()
    assert client.result() == "closed 1006"


def test_client_masks_with_fresh_keys(listener):
    client = Client(listener.getsockname()[1])
    ws, _ = accept_raw(listener)
    keys = set()
    for _ in range(20):
        ws.send(frame(TEXT, b"", mask=False))
        assert ws.need(2) == b"\x81\x80"
        keys.add(ws.need(4))
    assert len(keys) == 20
    ws.send(frame(CLOSE, mask=False))
    assert ws.recv(masked=True) == (CLOSE, True, b"")
    ws.sock.close()
    assert client.result() == "closed 1005"


BAD_ANSWERS = {
    "wrong accept": (b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n", "refused 101 EPROTO"),
    "no accept": (b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "refused 101 EPROTO"),
    "other upgrade": (b"HTTP/1.1 101 Go\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n"
                      b"Sec-WebSocket-Accept: ACCEPT\r\n\r\n", "refused 101 EPROTO"),
    "extension": (b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  b"Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
                  "refused 101 EPROTO"),
    "other subprotocol": (b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          b"Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Protocol: chat\r\n\r\n",
                          "refused 101 EPROTO"),
    "403": (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", "refused 403 EPROTO"),
    "200": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", "refused 200 EPROTO"),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_client_refuses_answers(listener, name):
    answer, said = BAD_ANSWERS[name]
    client = Client(listener.getsockname()[1])
    ws, _ = accept_raw(listener, answer)
    assert client.result() == said
    ws.sock.close()
