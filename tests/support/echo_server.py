"""A server that tells what it was sent: HTTP/1.1 over plain sockets and TLS, for tests of the vault.

    echo_server.py ADDRESS PORT [CERT KEY [DIRECTORY]]

Prints "ready" when it listens. Paths: /stream sends three chunks with a trailer, /ws switches to an
echoing tunnel, /reflect puts Authorization into an answer header, /early answers before reading the
body, /download/N sends N bytes, /raw answers with the exact bytes of the request head, /files/ serves
DIRECTORY to who has a credential; anything else answers with JSON."""

import asyncio
import hashlib
import json
import os
import ssl
import sys


async def read_body(r, headers):
    digest, n, text = hashlib.sha256(), 0, b""
    if headers.get("transfer-encoding") == "chunked":
        while True:
            size = int((await r.readline()).split(b";")[0], 16)
            if size == 0:
                trailers = []
                while (line := await r.readline()).strip():
                    trailers.append(line.decode().strip())
                return digest, n, text, trailers
            data = await r.readexactly(size)
            await r.readexactly(2)
            digest.update(data)
            n += size
            text = (text + data)[:65536]
    left = int(headers.get("content-length", 0))
    while left:
        data = await r.read(min(left, 1 << 20))
        if not data:
            raise ConnectionError
        digest.update(data)
        n += len(data)
        left -= len(data)
        if len(text) < 65536:
            text += data
    return digest, n, text[:65536], []


async def tunnel(r, w):
    w.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    while data := await r.read(65536):
        w.write(data)
        await w.drain()


async def answer(r, w, head, conn_id):
    lines = head.decode("latin-1").split("\r\n")
    method, target, version = lines[0].split(" ")
    pairs = [tuple(x.split(": ", 1)) if ": " in x else (x.rstrip(":"), "") for x in lines[1:] if x]
    headers = {k.lower(): v for k, v in pairs}
    path = target.split("?")[0]
    if path == "/ws" and headers.get("upgrade") == "websocket":
        await tunnel(r, w)
        return False
    if path == "/early":
        w.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n")
        await w.drain()
        return False
    if headers.get("expect", "").lower() == "100-continue":
        w.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    digest, n, text, trailers = await read_body(r, headers)
    extra = b""
    if path == "/stream":
        w.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n")
        for i in range(3):
            w.write(b"8\r\ndata: %d\n\r\n" % i)
            await w.drain()
            await asyncio.sleep(0.01)
        w.write(b"0\r\nX-Trailer: " + headers.get("authorization", "none").encode() + b"\r\n\r\n")
        return True
    if path.startswith("/download/"):
        n = int(path.split("/")[2])
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n)
        block = bytes(1 << 18)
        while n:
            part = min(n, len(block))
            w.write(block[:part])
            await w.drain()
            n -= part
        return True
    if path.startswith("/files/"):
        name = os.path.join(sys.argv[5], path[len("/files/"):])
        if "authorization" not in headers or not os.path.isfile(name):
            w.write(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % (b"404 Not Found" if "authorization" in headers else b"401 Unauthorized"))
            return True
        with open(name, "rb") as f:
            data = f.read()
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + (b"" if method == "HEAD" else data))
        return True
    if path == "/reflect":
        extra = b"X-Reflected: a " + headers.get("authorization", "").encode() + b" b\r\nAlt-Svc: h3=\":443\"\r\n"
    body = json.dumps({"method": method, "target": target, "version": version, "headers": pairs, "conn": conn_id,
                       "n": n, "sha256": digest.hexdigest(), "body": text.decode("latin-1"),
                       "trailers": trailers}).encode() + b"\n"
    w.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + extra +
            b"Content-Length: %d\r\n\r\n" % len(body) + (b"" if method == "HEAD" else body))
    await w.drain()
    return headers.get("connection", "").lower() != "close"


n_conns = 0


async def serve(r, w):
    global n_conns
    n_conns += 1
    conn_id = n_conns
    try:
        while True:
            head = await r.readuntil(b"\r\n\r\n")
            if not await answer(r, w, head[:-4], conn_id):
                break
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        pass
    finally:
        w.close()


async def main():
    ctx = None
    if len(sys.argv) > 3:
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ctx.load_cert_chain(sys.argv[3], sys.argv[4])
        ctx.set_alpn_protocols(["http/1.1"])
    server = await asyncio.start_server(serve, sys.argv[1], int(sys.argv[2]), ssl=ctx, limit=1 << 20)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
