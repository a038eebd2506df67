"""A Jupyter server that means harm: one kernel for each session, whose code is Python that is run right here, with the means to
misbehave at hand. `server.plan` replaces single answers: a name of PLANS below to a function of the connection."""

import base64
import hashlib
import json
import socket
import socketserver
import struct
import threading
import time
import uuid

PLANS = ("specs", "create", "kernel", "interrupt", "restart", "channels", "sync")


class Connection(socketserver.BaseRequestHandler):
    def line(self):
        data = b""
        while not data.endswith(b"\n"):
            data += self.take(1)
        return data.strip().decode()

    def take(self, n):
        data = b""
        while len(data) < n:
            piece = self.request.recv(n - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def raw(self, data):
        self.request.sendall(data)

    def answer(self, status, body=b"{}"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.raw(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)

    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.open.append(self.request)
        try:
            while True:
                self.one()
        except (EOFError, OSError):
            pass

    def one(self):
        method, path, _ = self.line().split()
        self.path = path
        self.headers = {}
        while line := self.line():
            name, value = line.split(":", 1)
            self.headers[name.lower()] = value.strip()
        self.take(int(self.headers.get("content-length", 0)))
        what = {"kernelspecs": "specs", "sessions": "create", "kernels": "kernel"}[path.split("?")[0].split("/")[2]]
        what = path.split("?")[0].split("/")[4] if path.count("/") > 3 else what
        self.server.seen.append(f"{method} {what}")
        if what == "create" and method == "DELETE":
            return self.answer(204, b"")
        plan = self.server.plan.get(what)
        return plan(self) if plan else getattr(self, "do_" + what)()

    def do_specs(self):
        self.answer(200, {"kernelspecs": {"bash": {"name": "bash", "spec": {"language": "bash"}}}})

    def do_create(self):
        self.server.created += 1
        self.answer(201, {"id": str(uuid.uuid4()), "kernel": {"id": f"k{self.server.created}"}})

    def do_kernel(self):
        self.answer(200, {"execution_state": "busy"})

    def do_interrupt(self):
        self.answer(204, b"")

    def do_restart(self):
        self.answer(200)

    # The WebSocket.

    def accept(self, key=None):
        key = key or hashlib.sha1((self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        self.raw(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n" % base64.b64encode(key))

    def frame(self, data, opcode=1, first=128):
        n = len(data)
        size = bytes([n]) if n < 126 else b"\x7e" + struct.pack(">H", n) if n < 65536 else b"\x7f" + struct.pack(">Q", n)
        self.raw(bytes([first | opcode]) + size + data)

    def send(self, kind, content, parent, channel="iopub"):
        header = {"msg_id": str(uuid.uuid4()), "msg_type": kind}
        self.frame(json.dumps({"header": header, "parent_header": parent, "metadata": {}, "content": content, "channel": channel}).encode())

    def receive(self):
        while True:
            first, n = self.take(2)
            n &= 127
            n = struct.unpack(">H", self.take(2))[0] if n == 126 else struct.unpack(">Q", self.take(8))[0] if n == 127 else n
            mask = self.take(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.take(n)))
            if first & 15 == 8:
                raise EOFError
            if first & 15 == 9:
                self.frame(data, 10)
            if first & 15 == 1:
                return json.loads(data)

    def do_channels(self):
        self.accept()
        while True:
            m = self.receive()
            parent = m["header"]
            if parent["msg_type"] == "kernel_info_request":
                self.server.plan.get("sync", Connection.do_sync)(self, parent)
            elif parent["msg_type"] == "execute_request":
                self.server.codes.append(m["content"]["code"])
                self.run(parent, m["content"]["code"])

    def do_sync(self, parent):
        self.send("kernel_info_reply", {"status": "ok"}, parent, "shell")
        self.send("status", {"execution_state": "idle"}, parent)

    def run(self, parent, code):
        def send(kind, content, above=parent):
            self.send(kind, content, above)

        def done(**fields):
            send("execute_reply", {"status": "ok", **fields})
            send("status", {"execution_state": "idle"})

        def state(name):
            send("status", {"execution_state": name}, {})

        send("status", {"execution_state": "busy"})
        exec(compile(code, "<hostile>", "exec"), {**globals(), "ws": self, "send": send, "done": done, "state": state, "parent": parent})


class Server(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Connection)
        self.plan, self.codes, self.seen, self.open, self.created = {}, [], [], [], 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def stop(self):
        self.shutdown()
        self.server_close()
        for s in self.open:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
