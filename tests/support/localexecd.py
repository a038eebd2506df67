"""Starts execd on this machine."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import time

from execd_client import WAIT, Caller

BIN = os.environ.get("OSB_BIN", os.path.join(os.path.dirname(__file__), "../../build/bin"))
EXECD = os.path.abspath(os.path.join(BIN, "execd"))


def wait_for(condition, what="condition", timeout=WAIT):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what} did not come true in {timeout} s")


class Execd(Caller):
    """A running execd. `wrap` goes in front of its command line (unshare, setpriv, ...)."""

    ends_with = (0, -signal.SIGTERM, -signal.SIGKILL)  # what `launch` accepts in the end

    def __init__(self, log, args=(), env=None, wrap=(), init=None, cwd="/", binary=EXECD, unset=(),
                 keep_fds=()):
        self.log_path = str(log)
        ready, write = os.pipe()
        full = {k: v for k, v in os.environ.items()
                if not k.startswith(("OTEL_", "EXECD_")) and k not in ("HOST_IP", *unset)}
        full.update(env or {})
        cmd = [*wrap, binary, *(["init"] if init is not None else []), "--address", "127.0.0.1",
               "--port", "0", "--notify-fd", str(write), *args]
        if init:
            cmd += ["--", *init]
        with open(self.log_path, "ab") as out:
            self.proc = subprocess.Popen(cmd, env=full, cwd=cwd, pass_fds=[write, *keep_fds], stdout=out,
                                         stderr=out, stdin=subprocess.DEVNULL)
        os.close(write)
        self.notify = os.fdopen(ready, "rb", buffering=0)
        self.events = []
        event = self.next_event()
        assert event and event["event"] == "ready", f"{cmd} did not start: {event} {self.log()}"
        self.pid = event["pid"] if not wrap else self.proc.pid
        super().__init__(f"http://127.0.0.1:{event['port']}")

    def next_event(self, timeout=WAIT):
        """The next line on the notify descriptor, or None at its end."""
        line = b""
        while not line.endswith(b"\n"):
            assert select.select([self.notify], [], [], timeout)[0], f"no event: {self.log()}"
            c = self.notify.read(1)
            if not c:
                return None
            line += c
        self.events.append(json.loads(line))
        return self.events[-1]

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def status(self, key):
        with open(f"/proc/{self.pid}/status") as f:
            for line in f:
                if line.startswith(key + ":"):
                    return int(line.split()[1])
        raise KeyError(key)

    def rss_kb(self):
        return self.status("VmRSS")

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def sanitized(self):
        """A build whose memory says nothing about the real one's."""
        with open(f"/proc/{self.pid}/maps") as f:
            return "san.so" in f.read()

    def running(self):
        return self.proc.poll() is None

    def stop(self, sig=signal.SIGTERM):
        """Ends it and returns its exit status."""
        self.http.close()
        if self.running():
            self.proc.send_signal(sig)
        try:
            code = self.proc.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            raise
        finally:
            self.notify.close()
        return code


class Control:
    """A listening socket passed on to execd, and requests to it."""

    def __init__(self, path):
        self.path = str(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(4)
        os.set_inheritable(self.listener.fileno(), True)

    def ask(self, body, method="POST", path="/activate"):
        conn = http.client.HTTPConnection("execd", timeout=WAIT)
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.settimeout(WAIT)
        conn.sock.connect(self.path)
        conn.request(method, path, body if isinstance(body, (str, bytes)) else json.dumps(body))
        r = conn.getresponse()
        text = r.read()
        conn.close()
        return r.status, text
