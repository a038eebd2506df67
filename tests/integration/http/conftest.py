"""httpd_demo under test, and a raw client that sends exactly the bytes it is given."""

import os
import re
import socket
import subprocess
import threading

import pytest

BIN = os.environ.get("OSB_BIN", "build/bin")
DEMO = os.path.join(BIN, "httpd_demo")
TIMEOUT = 60


class Demo:
    def __init__(self, *options):
        self.proc = subprocess.Popen(
            [DEMO, "--port", "0", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        line = self.proc.stdout.readline()
        found = re.match(r"listening on 127\.0\.0\.1:(\d+)", line)
        if not found:
            self.proc.kill()
            raise RuntimeError(f"httpd_demo said {line!r}: {self.proc.stderr.read()}")
        self.port = int(found.group(1))
        self.errors = []
        self.reader = threading.Thread(target=lambda: self.errors.extend(self.proc.stderr), daemon=True)
        self.reader.start()

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def talk(self, data):
        """Sends, then reads until the server closes. A server that does not is a failure."""
        with self.connect() as s:
            try:
                s.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may refuse before it has read everything
            return read_all(s)

    def fds(self):
        return len(os.listdir(f"/proc/{self.proc.pid}/fd"))

    def rss(self):
        with open(f"/proc/{self.proc.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        self.proc.terminate()
        code = self.proc.wait(TIMEOUT)
        self.reader.join(TIMEOUT)
        assert code == 0, "".join(self.errors)
        assert "ERROR" not in "".join(self.errors), "".join(self.errors)


def read_all(s):
    out = b""
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            return out
        if not piece:
            return out
        out += piece


def statuses(data):
    """The status codes of the responses in a byte stream."""
    return [int(m) for m in re.findall(rb"HTTP/1\.1 (\d\d\d) ", data)]


@pytest.fixture(scope="module")
def demo():
    d = Demo()
    yield d
    d.stop()


@pytest.fixture
def start_demo():
    """Starts as many as a test wants; all are stopped, and checked, behind it."""
    started = []

    def start(*options):
        started.append(Demo(*options))
        return started[-1]

    yield start
    for d in started:
        d.stop()
