"""/proxy/{port}: servers inside the sandbox, over both loopbacks, as HTTP and as WebSocket; and
execd itself, which is the way most clients come."""

import asyncio
import http.server
import json
import os
import socket
import threading

import pytest
import websockets

from conftest import empty_ok, error, wait_for


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self):
        if self.path.startswith("/stream"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for i in range(3):
                self.wfile.write(b"8\r\nevent %d\n\r\n" % i)
                self.wfile.flush()
                self.server.go.acquire()
            self.wfile.write(b"0\r\n\r\n")
            return
        if self.path.startswith("/break"):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if self.path.startswith("/rubbish"):
            self.wfile.write(b"this is not HTTP\r\n\r\n")
            self.close_connection = True
            return
        data = json.dumps({"method": self.command, "path": self.path, "headers": self.headers.items(),
                           "body": self.body().decode("latin-1")}).encode()
        self.send_response(207 if self.path.startswith("/207") else 200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Two", "a")
        self.send_header("X-Two", "b")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = do_BREW = answer


class Server:
    def __init__(self, address="127.0.0.1", family=socket.AF_INET):
        class Bound(http.server.ThreadingHTTPServer):
            address_family = family
            daemon_threads = True

            def handle_error(self, *args):  # clients that vanish are part of the tests
                pass
        self.http = Bound((address, 0), Handler)
        self.http.go = self.go = threading.Semaphore(0)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture(scope="module")
def server():
    s = Server()
    yield s
    s.stop()


def headers_of(echo):
    return {k.lower(): v for k, v in echo["headers"]}


# ---- HTTP ----

@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_methods(execd, server, method):
    data = None if method == "GET" else b"some body"
    r = execd.request(method, f"/proxy/{server.port}/x/y?a=1&b=%20", data=data)
    assert r.status_code == 200
    echo = r.json()
    assert (echo["method"], echo["path"]) == (method, "/x/y?a=1&b=%20")
    assert echo["body"] == (data or b"").decode()


def test_head(execd, server):
    r = execd.request("HEAD", f"/proxy/{server.port}/x")
    assert r.status_code == 200 and r.content == b"" and int(r.headers["Content-Length"]) > 0


@pytest.mark.parametrize("sent,seen", [
    ("", "/"), ("/", "/"), ("/a%2Fb", "/a%2Fb"), ("/a//b/", "/a//b/"), ("/%E2%98%BA", "/%E2%98%BA"),
    ("/a?", "/a?"), ("/?q=/proxy/1/", "/?q=/proxy/1/"), ("/a+b%2B?x=+", "/a+b%2B?x=+"),
    ("/../up", "/../up"), ("/./x", "/./x")])
def test_raw_path_is_kept(execd, server, sent, seen):
    s = socket.create_connection(("127.0.0.1", execd.port))
    s.sendall(f"GET /proxy/{server.port}{sent} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    data = b""
    while piece := s.recv(65536):
        data += piece
    s.close()
    assert json.loads(data.split(b"\r\n\r\n", 1)[1])["path"] == seen


def test_status_and_repeated_headers(execd, server):
    r = execd.get(f"/proxy/{server.port}/207")
    assert r.status_code == 207
    assert r.raw.headers.getlist("X-Two") == ["a", "b"]


def test_request_headers(execd, server):
    h = headers_of(execd.get(f"/proxy/{server.port}/", headers={
        "Host": "my.host:1", "X-Forwarded-Host": "evil", "Connection": "X-Drop", "X-Drop": "1",
        "X-EXECD-ACCESS-TOKEN": "kept", "X-Own": "v"}).json())
    assert h["host"] == "my.host:1"
    assert h["x-forwarded-proto"] == "http"
    assert "x-forwarded-host" not in h and "x-drop" not in h
    assert h["x-execd-access-token"] == "kept" and h["x-own"] == "v"
    before, peer = h["x-forwarded-for"].split(", ")
    assert before.startswith("127.0.0.1:") and peer == "127.0.0.1"


def test_forwarded_for(execd, server):
    h = headers_of(execd.get(f"/proxy/{server.port}/", headers={"X-Forwarded-For": "1.1.1.1, 2.2.2.2"}).json())
    assert h["x-forwarded-for"] == "1.1.1.1, 127.0.0.1"
    h = headers_of(execd.get(f"/proxy/{server.port}/", headers={"X-Real-IP": "3.3.3.3"}).json())
    assert h["x-forwarded-for"] == "3.3.3.3, 127.0.0.1"


def test_large_bodies_both_ways(execd, server):
    data = os.urandom(2_000_000).hex().encode()
    r = execd.post(f"/proxy/{server.port}/", data=data)
    assert r.json()["body"].encode() == data
    r = execd.post(f"/proxy/{server.port}/", data=(data[i:i + 77_777] for i in range(0, len(data), 77_777)))
    assert r.json()["body"].encode() == data


def test_streams_as_it_comes(execd, server):
    with execd.get(f"/proxy/{server.port}/stream", stream=True) as r:
        lines = r.iter_lines(chunk_size=1)
        for i in range(3):
            assert next(lines) == b"event %d" % i  # the next one is sent only after this one arrived
            server.go.release()


def test_kept_alive(execd, server):
    for _ in range(20):
        assert execd.get(f"/proxy/{server.port}/").status_code == 200


def test_ipv6_only_server(execd):
    try:
        s = Server("::1", socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    try:
        assert execd.get(f"/proxy/{s.port}/six").json()["path"] == "/six"
        assert execd.post(f"/proxy/{s.port}/six", data=b"x" * 100_000).status_code == 200
    finally:
        s.stop()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_nobody_listens(execd):
    r = execd.get(f"/proxy/{free_port()}/")
    assert r.status_code == 502 and r.text == "Bad Gateway"
    assert r.headers["Content-Type"].startswith("text/plain")
    r = execd.post(f"/proxy/{free_port()}/", data=b"x" * 1_000_000)
    assert r.status_code == 502


def test_server_that_talks_rubbish(execd, server):
    assert execd.get(f"/proxy/{server.port}/rubbish").status_code == 502


def test_server_that_breaks_off(execd, server):
    s = socket.create_connection(("127.0.0.1", execd.port))
    s.sendall(f"GET /proxy/{server.port}/break HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    s.settimeout(60)
    data = b""
    try:
        while piece := s.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    s.close()
    assert data.endswith(b"only this")  # and then the end, not a completed body
    empty_ok(execd.get("/ping"))


@pytest.mark.parametrize("path,status,text", [
    ("/proxy", 404, "404 page not found"), ("/proxy/", 400, "port is required"),
    ("/proxy//x", 400, "port is required"), ("/proxy/abc/", 400, "port"), ("/proxy/0/", 400, "port"),
    ("/proxy/65536/", 400, "port"), ("/proxy/-1/", 400, "port"), ("/proxy/80x/", 400, "port")])
def test_bad_ports(execd, path, status, text):
    r = execd.get(path)
    assert r.status_code == status and text in r.text
    assert r.headers["Content-Type"].startswith("text/plain")


def test_client_vanishes(execd, server):
    fds = execd.fds()
    for _ in range(5):
        s = socket.create_connection(("127.0.0.1", execd.port))
        s.sendall(f"GET /proxy/{server.port}/stream HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        s.recv(10)
        s.close()
    wait_for(lambda: execd.fds() <= fds + 1, "closing connections")
    for _ in range(20):
        server.go.release()


# ---- execd itself ----

def self_url(execd, depth=1):
    return f"/proxy/{execd.port}" * depth


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_self(execd, tmp_path, depth):
    base = self_url(execd, depth)
    empty_ok(execd.get(base + "/ping"))
    assert execd.get(base + "/metrics").json()["cpu_count"] >= 1
    (tmp_path / "a b").write_text("x")
    r = execd.get(base + "/files/info", params={"path": str(tmp_path / "a b")})
    assert r.json()[str(tmp_path / "a b")]["size"] == 1
    error(execd.get(base + "/files/info", params={"path": "/no"}), 404, "FILE_NOT_FOUND")
    r = execd.get(base + "/nothing")
    assert r.status_code == 404 and r.text == "404 page not found"


def test_self_opens_no_connection(execd):
    fds = execd.fds()
    for _ in range(50):
        execd.get(self_url(execd) + "/ping")
    assert execd.fds() == fds
    with open(f"/proc/{execd.pid}/net/tcp") as f:
        port = f"{execd.port:04X}"
        assert not [x for x in f if x.split()[2].endswith(":" + port) and x.split()[3] == "01"
                    and x.split()[1].endswith(":" + port)]


def test_self_upload_download_command(execd, tmp_path):
    data = os.urandom(3_000_000)
    f = tmp_path / "f"
    r = execd.post(self_url(execd) + "/files/upload", files=[
        ("metadata", ("metadata", json.dumps({"path": str(f)}), "application/json")), ("file", ("f", data))])
    empty_ok(r)
    r = execd.get(self_url(execd) + "/files/download", params={"path": str(f)}, headers={"Range": "bytes=1-"})
    assert r.status_code == 206 and r.content == data[1:]
    with execd.post(self_url(execd) + "/command", json={"command": "echo hello"}, stream=True) as r:
        events = [json.loads(x) for x in r.iter_lines() if x]
    assert [e["text"] for e in events if e["type"] == "stdout"] == ["hello"]


def test_self_endless_nesting_ends(execd):
    r = execd.get(self_url(execd, 200) + "/ping")
    assert r.status_code in (200, 500)
    empty_ok(execd.get("/ping"))


def test_token_guards_the_proxy(launch, server):
    e = launch("--access-token", "t0ken")
    for path in [f"/proxy/{server.port}/", f"/proxy/{e.port}/ping"]:
        assert e.get(path).status_code == 401
        assert e.get(path, headers={"X-EXECD-ACCESS-TOKEN": "t0ken"}).status_code == 200


# ---- WebSocket ----

class EchoServer:
    """Echoes messages; "close" makes it close with 4000."""

    def __init__(self, host="127.0.0.1"):
        self.loop = asyncio.new_event_loop()
        self.paths = []
        ready = threading.Event()

        async def handle(ws):
            self.paths.append(ws.path)
            async for message in ws:
                if message == "close":
                    await ws.close(4000, "bye")
                    return
                await ws.send(message)

        async def start():
            self.server = await websockets.serve(handle, host, 0, max_size=None, subprotocols=["chat"])
            self.port = self.server.sockets[0].getsockname()[1]
            ready.set()

        def run():
            asyncio.set_event_loop(self.loop)
            self.loop.run_until_complete(start())
            self.loop.run_forever()

        threading.Thread(target=run, daemon=True).start()
        ready.wait(60)

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)


@pytest.fixture(scope="module", params=["127.0.0.1", "::1"])
def echo(request):
    s = EchoServer(request.param)
    yield s
    s.stop()


def upgrade(execd, path):
    """A client that asks for a WebSocket and does nothing more by itself."""
    s = socket.create_connection(("127.0.0.1", execd.port))
    s.sendall((f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
               "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode())
    return s


def test_websocket(execd, echo):
    async def talk():
        url = f"ws://127.0.0.1:{execd.port}/proxy/{echo.port}/a%2Fb?q=1"
        async with websockets.connect(url, subprotocols=["chat"], max_size=None) as ws:
            assert ws.subprotocol == "chat"
            for m in ["hello", b"\0\xff" * 100, "x" * 200_000, b"", os.urandom(3_000_000)]:
                await ws.send(m)
                assert await ws.recv() == m
            await ws.send("close")
            with pytest.raises(websockets.ConnectionClosed) as e:
                await ws.recv()
            assert (e.value.rcvd.code, e.value.rcvd.reason) == (4000, "bye")

    asyncio.run(asyncio.wait_for(talk(), 60))
    assert echo.paths[-1] == "/a%2Fb?q=1"


def test_websocket_many(execd, echo):
    fds = execd.fds()

    async def one(i):
        async with websockets.connect(f"ws://127.0.0.1:{execd.port}/proxy/{echo.port}/") as ws:
            for k in range(10):
                await ws.send(f"{i} {k}")
                assert await ws.recv() == f"{i} {k}"

    async def all_of_them():
        await asyncio.gather(*(one(i) for i in range(30)))

    asyncio.run(asyncio.wait_for(all_of_them(), 60))
    wait_for(lambda: execd.fds() <= fds + 1, "closing tunnels")


def test_websocket_client_vanishes(execd, echo):
    fds = execd.fds()
    for _ in range(5):
        s = upgrade(execd, f"/proxy/{echo.port}/")
        assert s.recv(12) == b"HTTP/1.1 101"
        s.close()
    wait_for(lambda: execd.fds() <= fds + 1, "closing tunnels")


def test_websocket_outlives_execd(launch, echo):
    """Under a sanitizer: a tunnel that is open when execd ends is no leak."""
    execd = launch()
    s = upgrade(execd, f"/proxy/{echo.port}/")
    assert s.recv(12) == b"HTTP/1.1 101"
    assert execd.stop() == 0, execd.log()
    s.close()


def test_websocket_refused_upstream(execd, server):
    s = upgrade(execd, f"/proxy/{server.port}/ws")
    assert s.recv(12) == b"HTTP/1.1 200"  # no upgrade: an ordinary answer comes back
    s.close()
    s = upgrade(execd, f"/proxy/{free_port()}/ws")
    assert s.recv(12) == b"HTTP/1.1 502"
    s.close()


def test_own_pty_through_the_proxy(execd):
    async def talk():
        sid = execd.post(self_url(execd) + "/pty").json()["session_id"]
        url = f"ws://127.0.0.1:{execd.port}{self_url(execd)}/pty/{sid}/ws?pty=0"
        async with websockets.connect(url) as ws:
            await ws.send(b"\0echo through; exit 3\n")
            seen, code = b"", None
            while code is None:
                m = await ws.recv()
                if isinstance(m, bytes):
                    seen += m[1:] if m[0] != 3 else m[9:]
                elif json.loads(m)["type"] == "exit":
                    code = json.loads(m)["exit_code"]
        assert b"through" in seen and code == 3

    asyncio.run(asyncio.wait_for(talk(), 60))
