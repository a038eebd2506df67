"""An execd as a client sees it: requests, and event streams whose framing is checked byte by byte before they are decoded."""

import json
import socket
import time
from urllib.parse import urlsplit

import requests

WAIT = 60  # seconds for anything that must happen; never how long it should take


class Caller:
    """Asks one execd, which is at `url`."""

    def __init__(self, url, headers=None):
        parts = urlsplit(url)
        self.url, self.port, self.prefix = url, parts.port, parts.path
        self.headers = headers or {}  # with each request
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.headers.update(self.headers)

    def request(self, method, path, **kw):
        kw.setdefault("timeout", WAIT)
        return self.http.request(method, self.url + path, **kw)

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, **kw):
        return self.request("POST", path, **kw)

    def delete(self, path, **kw):
        return self.request("DELETE", path, **kw)


class Events:
    """A finished stream: its events, and what an SDK makes of them."""

    def __init__(self, raw):
        self.raw = raw
        self.all = decode(raw)

    def of(self, *types):
        return [e for e in self.all if e["type"] in types]

    @property
    def id(self):
        return self.all[0]["text"]

    @property
    def stdout(self):
        return [e["text"] for e in self.of("stdout")]

    @property
    def stderr(self):
        return [e["text"] for e in self.of("stderr")]

    @property
    def error(self):
        found = self.of("error")
        return found[0]["error"] if found else None

    @property
    def exit_code(self):
        if self.of("execution_complete"):
            return 0
        return int(self.error["evalue"]) if self.error else None


def decode(raw):
    """Frames are bare JSON objects followed by an empty line, and nothing else."""
    assert raw.endswith(b"\n\n"), raw[-80:]
    events = []
    for frame in raw[:-2].split(b"\n\n"):
        assert frame.startswith(b"{") and frame.endswith(b"}") and b"\n" not in frame, frame[:200]
        e = json.loads(frame)
        assert isinstance(e["type"], str)
        assert isinstance(e["timestamp"], int) and abs(e["timestamp"] / 1000 - time.time()) < 3600
        assert e.get("text") != "", "text is never empty"
        events.append(e)
    return events


def check_stream(events):
    """What holds for every command stream: init, ping, output, exactly one terminal event."""
    types = [e["type"] for e in events.all]
    assert types[:2] == ["init", "ping"], types
    assert types.count("init") == 1
    assert events.all[1]["text"] == "pong"
    ends = [t for t in types if t in ("error", "execution_complete")]
    assert len(ends) == 1 and types[-1] == ends[0], types[-5:]
    if events.error is not None:
        assert set(events.error) == {"ename", "evalue", "traceback"}
        assert isinstance(events.error["traceback"], list)
    return events


def run(execd, command, path="/command", **fields):
    """Runs to the end and returns the Events."""
    r = execd.post(path, json={"command": command, **fields})
    assert r.status_code == 200, r.text
    h = r.headers
    assert h["Content-Type"] == "text/event-stream"
    assert h["Cache-Control"] == "no-cache" and h["X-Accel-Buffering"] == "no"
    assert h["Transfer-Encoding"] == "chunked" and "Content-Length" not in h
    return check_stream(Events(r.content))


def run_session(execd, sid, command, **fields):
    return run(execd, command, path=f"/session/{sid}/run", **fields)


class Raw:
    """One request on a socket of its own, read piece by piece."""

    def __init__(self, execd, method, path, body=None, headers=(), rcvbuf=None):
        self.sock = socket.socket()
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(WAIT)
        self.sock.connect(("127.0.0.1", execd.port))
        self.buf = bytearray()
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        own = "".join(f"{k}: {v}\r\n" for k, v in execd.headers.items())
        head = f"{method} {execd.prefix}{path} HTTP/1.1\r\nHost: x\r\n{own}" + "".join(h + "\r\n" for h in headers)
        if body is not None:
            head += f"Content-Length: {len(data)}\r\n"
        self.sock.sendall(head.encode() + b"\r\n" + data)

    def fill(self):
        data = self.sock.recv(1 << 16)
        self.buf += data
        return len(data)

    def head(self):
        while b"\r\n\r\n" not in self.buf:
            assert self.fill(), f"closed inside the head: {self.buf}"
        head = bytes(self.buf.split(b"\r\n\r\n", 1)[0])
        del self.buf[:len(head) + 4]
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
        return self.status

    def chunk(self):
        """One chunk of the body; b"" is its end, None that the connection broke."""
        while b"\r\n" not in self.buf:
            if not self.fill():
                return None
        at = self.buf.index(b"\r\n")
        n = int(self.buf[:at], 16)
        while len(self.buf) < at + n + 4:
            if not self.fill():
                return None
        data = bytes(self.buf[at + 2:at + 2 + n])
        del self.buf[:at + n + 4]
        return data

    def body(self):
        out = bytearray()
        while True:
            piece = self.chunk()
            assert piece is not None, f"truncated after {out[-200:]}"
            if not piece:
                return bytes(out)
            out += piece

    def until(self, text):
        """Reads the body until `text` has come; returns everything so far."""
        out = b""
        while text not in out:
            piece = self.chunk()
            assert piece, f"the stream ended without {text}: {out[-500:]}"
            out += piece
        return out

    def close(self):
        self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()
