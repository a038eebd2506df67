"""Bytes between a client and a port inside: faithful, streaming, both ways, HTTP and WebSocket."""

import asyncio
import json
import socket
import threading
import time

import pytest
import websockets
from osbserver import wait_for

pytestmark = pytest.mark.both_runtimes
# An HTTP server inside the sandbox that answers with what it saw, byte for byte.
ECHO = r'''
import base64, json, os, socket, threading, time
ended = []
def serve(c):
    f = c.makefile("rb")
    while True:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = f.readline()
            if not line:
                return
            head += line
        lines = head.split(b"\r\n")
        headers = [l.split(b": ", 1) for l in lines[1:] if l]
        low = {k.lower(): v for k, v in headers}
        body = b""
        if low.get(b"transfer-encoding") == b"chunked":
            while True:
                n = int(f.readline(), 16)
                body += f.read(n)
                f.readline()
                if n == 0:
                    break
        else:
            body = f.read(int(low.get(b"content-length", b"0")))
        target = lines[0].split(b" ")[1]
        if target.startswith(b"/cookies"):
            c.sendall(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Request-ID: theirs\r\nContent-Length: 0\r\n\r\n")
            continue
        if target.startswith(b"/stream"):
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            for i in range(3):
                piece = b"tick %d\n" % i
                c.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                f.readline() if False else time.sleep(0.3)
            c.sendall(b"0\r\n\r\n")
            continue
        if target.startswith(b"/big"):
            n = int(target.split(b"=")[1])
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n)
            block = bytes(range(256)) * 256
            while n:
                k = min(n, len(block)); c.sendall(block[:k]); n -= k
            continue
        if target.startswith(b"/forever"):
            c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                while True:
                    c.sendall(b"1\r\nx\r\n"); time.sleep(0.05)
            except OSError:
                ended.append(target)
            return
        if target.startswith(b"/ended"):
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % len(ended))
            continue
        if target.startswith(b"/gzip"):
            c.sendall(b"HTTP/1.1 418 Odd\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc")
            continue
        out = json.dumps({"line": lines[0].decode("latin1"), "headers": [[k.decode("latin1"), v.decode("latin1")] for k, v in headers],
                          "body": base64.b64encode(body).decode()}).encode()
        extra = b""
        if lines[0].startswith(b"HEAD"):
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(out))
        else:
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s" % (len(out), extra, out))
s = socket.create_server((os.environ["BIND"], 8000), backlog=512)
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
'''

# A WebSocket server from nothing: handshake, echo of frames, close.
WS = r'''
import base64, hashlib, os, socket, struct, threading
def frame(op, data):
    n = len(data)
    h = bytes([0x80 | op])
    h += bytes([n]) if n < 126 else (b"\x7e" + struct.pack(">H", n)) if n < 65536 else (b"\x7f" + struct.pack(">Q", n))
    return h + data
def serve(c):
    f = c.makefile("rb")
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = f.readline()
        if not line:
            return
        head += line
    if b"/refuse" in head.split(b"\r\n")[0]:
        c.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"); c.close(); return
    h = {l.split(b": ")[0].lower(): l.split(b": ", 1)[1] for l in head.split(b"\r\n")[1:] if l}
    acc = base64.b64encode(hashlib.sha1(h[b"sec-websocket-key"] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    proto = h.get(b"sec-websocket-protocol", b"").split(b",")[-1].strip()
    c.sendall(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + acc +
              (b"\r\nSec-WebSocket-Protocol: " + proto if proto else b"") + b"\r\n\r\n")
    c.sendall(frame(1, head.split(b"\r\n")[0]))
    while True:
        b = f.read(2)
        if len(b) < 2:
            return
        n = b[1] & 127
        if n == 126: n = struct.unpack(">H", f.read(2))[0]
        elif n == 127: n = struct.unpack(">Q", f.read(8))[0]
        mask = f.read(4)
        data = bytes(x ^ mask[i & 3] for i, x in enumerate(f.read(n)))
        op = b[0] & 15
        if op == 8:
            c.sendall(frame(8, struct.pack(">H", 4321) + b"bye")); c.close(); return
        c.sendall(frame(op, data))
s = socket.create_server((os.environ["BIND"], 8001), backlog=64)
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
'''


@pytest.fixture(scope="module")
def box(shared, runtime):
    """A sandbox with both servers inside."""
    body = {"image": {"uri": "host"}, "resourceLimits": {"memory": "512Mi"}, "timeout": 600,
            "entrypoint": ["sh", "-c", 'python3 -c "$ECHO" & exec python3 -c "$WS"'], "env": {
                "ECHO": ECHO, "WS": WS, "BIND": "127.0.0.1" if runtime == "oci" else "0.0.0.0"}}
    id = shared.ok("POST", "/v1/sandboxes", body, status=202)["id"]
    wait_for("the servers inside", lambda: shared.call("GET", f"/sandboxes/{id}/proxy/8000/up", key=False).status_code == 200)
    wait_for("the servers inside", lambda: shared.call("GET", f"/sandboxes/{id}/proxy/8001/refuse", key=False).status_code == 403)
    yield id
    shared.call("DELETE", f"/v1/sandboxes/{id}")


def echo(shared, id, method, tail, headers=(), body=None, port=8000, prefix=""):
    conn = shared.raw()
    conn.putrequest(method, f"{prefix}/sandboxes/{id}/proxy/{port}{tail}", skip_accept_encoding=True)
    for k, v in headers:
        conn.putheader(k, v)
    if body is not None:
        conn.putheader("Content-Length", str(len(body)))
    conn.endheaders(body)
    r = conn.getresponse()
    text = r.read()
    assert r.status == 200, text
    return json.loads(text) if text else None


@pytest.mark.parametrize("tail,want", [
    ("", "/"), ("/", "/"), ("?x", "/?x"), ("/a%2Fb%3Fc%23d", "/a%2Fb%3Fc%23d"), ("//a//b", "//a//b"),
    ("/a/../b/./c", "/a/../b/./c"), ("/p?a=%20&b&a=1&c=+", "/p?a=%20&b&a=1&c=+"), ("/x?", "/x?"),
    ("/%E4%BD%A0?q=%ff", "/%E4%BD%A0?q=%ff"), ("/proxy/9/sandboxes/", "/proxy/9/sandboxes/"),
])
def test_path_and_query_go_on_as_they_came(shared, box, tail, want):
    for prefix in ("", "/v1"):
        assert echo(shared, box, "GET", tail, prefix=prefix)["line"] == f"GET {want} HTTP/1.1"


def test_headers(shared, box):
    seen = echo(shared, box, "GET", "/h", [("X-A", "1"), ("X-B", "2"), ("X-A", "3"), ("Authorization", "secret"), ("Cookie", "c=d"),
                                           ("OPEN-SANDBOX-API-KEY", shared.key), ("Connection", "close, X-Hop"), ("X-Hop", "gone"),
                                           ("Keep-Alive", "5"), ("TE", "trailers"), ("X-EXECD-ACCESS-TOKEN", "t"),
                                           ("X-Forwarded-For", "9.9.9.9"), ("OPENSANDBOX-EGRESS-AUTH", "e")])
    names = [k.lower() for k, _ in seen["headers"]]
    assert [v for k, v in seen["headers"] if k == "X-A"] == ["1", "3"]
    for gone in ("authorization", "cookie", "open-sandbox-api-key", "x-hop", "keep-alive", "te", "accept-encoding"):
        assert gone not in names, gone
    values = {k.lower(): v for k, v in seen["headers"]}
    assert values["x-execd-access-token"] == "t" and values["opensandbox-egress-auth"] == "e"
    assert values["x-forwarded-proto"] == "http" and values["x-forwarded-host"] == shared.url.split("//")[1]
    assert values["x-forwarded-for"].startswith("9.9.9.9") and "127.0.0.1" in values["x-forwarded-for"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
def test_all_methods_with_bodies(shared, box, method):
    import base64
    data = bytes(range(256)) * 10
    seen = echo(shared, box, method, "/m", body=data)
    assert seen["line"].startswith(method + " ") and base64.b64decode(seen["body"]) == data


def test_head(shared, box):
    conn = shared.raw()
    conn.request("HEAD", f"/sandboxes/{box}/proxy/8000/x")
    r = conn.getresponse()
    assert r.status == 200 and int(r.getheader("Content-Length")) > 0 and r.read() == b""


def test_chunked_body(shared, box):
    import base64
    conn = shared.raw()
    conn.request("POST", f"/sandboxes/{box}/proxy/8000/c", body=iter([b"ab", b"cd" * 50000]), encode_chunked=True,
                 headers={"Transfer-Encoding": "chunked"})
    assert base64.b64decode(json.loads(conn.getresponse().read())["body"]) == b"ab" + b"cd" * 50000


def test_response_goes_on_as_it_came(shared, box):
    conn = shared.raw()
    conn.request("GET", f"/sandboxes/{box}/proxy/8000/cookies", headers={"X-Request-ID": "mine"})
    r = conn.getresponse()
    r.read()
    assert [v for k, v in r.getheaders() if k == "Set-Cookie"] == ["a=1", "b=2"]
    assert [v for k, v in r.getheaders() if k.lower() == "x-request-id"] == ["mine"]
    conn.request("GET", f"/sandboxes/{box}/proxy/8000/gzip", headers={"Origin": "http://x"})
    r = conn.getresponse()
    assert r.status == 418 and r.getheader("Content-Encoding") == "gzip" and r.read() == b"abc"
    assert r.getheader("Access-Control-Allow-Origin") == "*"


def test_streams_are_not_held_back(shared, box):
    conn = shared.raw()
    conn.request("GET", f"/sandboxes/{box}/proxy/8000/stream")
    r = conn.getresponse()
    arrived = []
    while line := r.readline():
        arrived.append((line, time.monotonic()))
    assert [a for a, _ in arrived] == [b"tick 0\n", b"tick 1\n", b"tick 2\n"]
    assert arrived[2][1] - arrived[0][1] > 0.2  # one by one, not in the end


def rss_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def test_large_bodies_do_not_stay_in_memory(shared, box):
    conn = shared.raw()
    n = 200 << 20
    before = rss_kb(shared.pid)
    conn.request("GET", f"/sandboxes/{box}/proxy/8000/big?n={n}")
    r = conn.getresponse()
    got = 0
    while piece := r.read(1 << 20):
        got += len(piece)
    assert got == n
    assert rss_kb(shared.pid) < before + 64 * 1024


def test_nothing_listens(shared, box):
    r = shared.call("GET", f"/sandboxes/{box}/proxy/9999/", key=False)
    assert r.status_code == 502 and r.json()["code"] == "GENERAL::UNKNOWN_ERROR"
    assert r.json()["message"].startswith("Could not connect to the backend sandbox")
    assert r.headers["X-Request-ID"]
    for port, status in [("0", 400), ("65536", 400), ("x", 401)]:
        assert shared.call("GET", f"/sandboxes/{box}/proxy/{port}/", key=False).status_code == status
    assert shared.call("GET", f"/sandboxes/{box}/proxy/x/").status_code == 422


V6 = r"""
import socket
s = socket.create_server(("::1", 8002), family=socket.AF_INET6)
while True:
    c, _ = s.accept()
    c.recv(9999)
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nv6")
    c.close()
"""


@pytest.mark.oci_only("an engine's container is asked at its address: what is on loopback is its own")
def test_servers_on_the_other_loopback_are_reached(shared):
    id = shared.create(entrypoint=["python3", "-c", V6])["id"]
    wait_for("a server on ::1", lambda: shared.call("GET", f"/sandboxes/{id}/proxy/8002/", key=False).text == "v6")
    shared.delete(id)


def ws_url(shared, id, tail, port=8001):
    return f"ws{shared.url[4:]}/sandboxes/{id}/proxy/{port}{tail}"


def test_websocket(shared, box):
    async def talk():
        async with websockets.connect(ws_url(shared, box, "/a%2Fb?x=%20"), subprotocols=["p1", "p2"], max_size=None) as ws:
            assert ws.subprotocol == "p2"
            assert await ws.recv() == "GET /a%2Fb?x=%20 HTTP/1.1"
            await ws.send("text")
            assert await ws.recv() == "text"
            await ws.send(b"\0\1\2")
            assert await ws.recv() == b"\0\1\2"
            big = b"x" * 3_000_000
            await ws.send(big)
            assert await ws.recv() == big
            await ws.close(1000)
            return ws.close_code, ws.close_reason

    assert asyncio.run(talk()) == (4321, "bye")


def test_websocket_refusals(shared, box):
    async def fail(url):
        try:
            async with websockets.connect(url) as ws:
                await ws.recv()
        except websockets.exceptions.ConnectionClosed as e:
            return e.code, e.reason
        except websockets.exceptions.InvalidStatusCode as e:
            return e.status_code, None

    code, reason = asyncio.run(fail(ws_url(shared, "nope", "/")))
    assert code == 1011 and "nope" in reason
    code, reason = asyncio.run(fail(ws_url(shared, box, "/", port=9999)))
    assert code == 1011 and "Could not connect" in reason
    assert asyncio.run(fail(ws_url(shared, box, "/refuse")))[0] in (403, 1008)


def test_many_connections_leak_nothing(shared, box):
    def fds():
        import os
        return len(os.listdir(f"/proc/{shared.pid}/fd"))

    host, port = shared.url.split("//")[1].split(":")
    echo(shared, box, "GET", "/warm")
    before = fds()
    for _ in range(3):
        socks = [socket.create_connection((host, int(port))) for _ in range(300)]
        for i, s in enumerate(socks):
            s.sendall(f"GET /sandboxes/{box}/proxy/8000/n{i} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        for s in socks[:150]:
            assert s.recv(64).startswith(b"HTTP/1.1 200")
        for s in socks:  # half of them leave in the middle
            s.close()
    wait_for("descriptors going back", lambda: fds() < before + 200, timeout=90)


def test_a_client_that_leaves_ends_the_request_inside(shared, box):
    host, port = shared.url.split("//")[1].split(":")
    s = socket.create_connection((host, int(port)))
    s.sendall(f"GET /sandboxes/{box}/proxy/8000/forever HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert b"200 OK" in s.recv(4096)
    ended = lambda: shared.call("GET", f"/sandboxes/{box}/proxy/8000/ended", key=False).text
    assert ended() == "0"
    s.close()
    wait_for("the end of the answer inside", lambda: ended() == "1")


def test_renew_on_access(shared):
    server = shared
    id = server.create(timeout=60, extensions={"access.renew.extend.seconds": "3600"})["id"]
    before = server.get(id)["expiresAt"]
    assert server.ping(id)
    wait_for("renewal", lambda: server.get(id)["expiresAt"] > before)
    plain = server.create(timeout=60)["id"]
    before = server.get(plain)["expiresAt"]
    assert server.ping(plain)
    assert server.get(plain)["expiresAt"] == before
    server.delete(id)
    server.delete(plain)


def test_proxy_with_key(make):
    s = make("[proxy]\nrequire_api_key = true\n")
    id = s.create()["id"]
    assert s.call("GET", f"/sandboxes/{id}/proxy/44772/ping", key=False).status_code == 401
    assert s.call("GET", f"/sandboxes/{id}/proxy/44772/ping").status_code == 200


def test_parallel_requests(shared, box):
    errors = []

    def work(k):
        try:
            for i in range(20):
                assert echo(shared, box, "GET", f"/{k}-{i}")["line"] == f"GET /{k}-{i} HTTP/1.1"
        except Exception as e:  # noqa: BLE001 - reported below
            errors.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
