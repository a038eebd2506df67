"""A kernel that means harm. It speaks enough of ZMTP and of Jupyter's protocol to be taken for one, and then runs the code of
a request as Python with the means to misbehave at hand: see `tools` below. Sockets only, no libraries: it starts at once."""

import hashlib
import hmac
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import uuid

CHANNELS = ("shell", "iopub", "control", "stdin", "hb")


class Channel:
    def __init__(self, name, port):
        self.name, self.peer, self.ready = name, None, threading.Event()
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(8)

    def frame(self, body, more=False, flags=0):
        flags |= more
        if len(body) > 255:
            return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body
        return bytes([flags, len(body)]) + body

    def recv(self, n):
        data = b""
        while len(data) < n:
            piece = self.peer.recv(n - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def accept(self):
        self.peer, _ = self.listener.accept()
        self.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kind = {"iopub": b"PUB", "hb": b"REP"}.get(self.name, b"ROUTER")
        self.peer.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL".ljust(23, b"\0") + bytes(32))
        self.recv(64)
        self.peer.sendall(self.frame(b"\5READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind, flags=4))
        self.message()
        self.ready.set()

    def message(self):
        parts = []
        while True:
            flags = self.recv(1)[0]
            size = struct.unpack(">Q", self.recv(8))[0] if flags & 2 else self.recv(1)[0]
            parts.append(self.recv(size))
            if not flags & 1:
                return parts

    def send(self, parts):
        self.peer.sendall(b"".join(self.frame(p, more=i + 1 < len(parts)) for i, p in enumerate(parts)))


with open(sys.argv[1]) as f:
    FILE = sys.argv[1]
    CONNECTION = json.load(f)
channels = {name: Channel(name, CONNECTION[name + "_port"]) for name in CHANNELS}
shell, iopub, control = (channels[n] for n in CHANNELS[:3])


def parts_of(kind, content, parent, key=None, **header):
    head = {"msg_id": str(uuid.uuid4()), "username": "h", "session": "s", "date": "2026-01-01T00:00:00Z", "msg_type": kind, "version": "5.3"}
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    above = parent if isinstance(parent, bytes) else json.dumps(parent).encode()
    signed = [json.dumps({**head, **header}).encode(), above, b"{}", body]
    key = CONNECTION["key"].encode() if key is None else key
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for p in signed:
        mac.update(p)
    return [b"<IDS|MSG>", mac.hexdigest().encode(), *signed]


def run(parent, code):
    def send(channel, kind, content, above=parent, **kw):
        channel.send(parts_of(kind, content, above, **kw))

    def out(text, name="stdout", **kw):
        send(iopub, "stream", {"name": name, "text": text}, **kw)

    def reply(**fields):
        send(shell, "execute_reply", {"status": "ok", "execution_count": 1, **fields})

    def status(state):
        send(iopub, "status", {"execution_state": state})

    def done(**fields):
        reply(**fields)
        status("idle")

    tools = {**globals(), "parent": parent, "send": send, "out": out, "reply": reply, "status": status, "done": done}
    exec(compile(code, "<hostile>", "exec"), tools)  # it ends the run itself, or does not


def serve_control():
    while True:
        message = control.message()
        header = json.loads(message[message.index(b"<IDS|MSG>") + 2])
        if header["msg_type"] == "shutdown_request":
            os._exit(0)


def serve():
    for c in (shell, iopub, control):
        c.accept()
    threading.Thread(target=serve_control, daemon=True).start()
    while True:
        message = shell.message()
        at = message.index(b"<IDS|MSG>")
        header, content = json.loads(message[at + 2]), json.loads(message[at + 5])
        if header["msg_type"] == "kernel_info_request":
            shell.send(parts_of("kernel_info_reply", {"status": "ok"}, header))
            iopub.send(parts_of("status", {"execution_state": "idle"}, header))
        elif header["msg_type"] == "execute_request":
            iopub.send(parts_of("execute_input", {"code": ""}, header))
            run(header, content["code"])


if __name__ == "__main__":
    try:
        serve()
    except (EOFError, OSError):
        os._exit(3)
