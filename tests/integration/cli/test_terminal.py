"""osb shell, exec and run in a real terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time


class Term:
    """A program on a terminal of its own."""

    def __init__(self, argv, env, rows=31, cols=97):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, {**env, "TERM": "xterm"})
        self.resize(rows, cols)
        self.text = ""

    def resize(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode())

    def say(self, text, *answers):
        """Types it and waits for what comes, in this order."""
        self.type(text)
        for pattern in answers:
            self.expect(pattern)

    def expect(self, pattern, timeout=60):
        deadline = time.monotonic() + timeout
        while not re.search(pattern, self.text):
            left = deadline - time.monotonic()
            assert left > 0, "waited for %r, got %r" % (pattern, self.text[-2000:])
            if not select.select([self.fd], [], [], left)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            assert data or re.search(pattern, self.text), "ended before %r: %r" % (pattern, self.text[-2000:])
            self.text += data.decode(errors="replace")
        m = re.search(pattern, self.text)
        self.text = self.text[m.end():]
        return m

    def wait(self, timeout=60):
        deadline = time.monotonic() + timeout
        while True:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError("does not end: %r" % self.text[-2000:])


def test_shell_size_and_exit_code(osb, box):
    t = Term([osb.exe, "shell", box, "-w", "/tmp"], osb.env)
    t.type("stty size; pwd; echo mark$((40+2))\n")
    t.expect(r"31 97\r\n")
    t.expect(r"/tmp\r\n")
    t.expect("mark42")
    t.resize(20, 61)
    t.type("while [ \"$(stty size)\" != '20 61' ]; do sleep 0.05; done; echo resized$((1+1))\n")
    t.expect("resized2")
    t.type("exit 9\n")
    assert t.wait() == 9


def test_detach_and_attach(osb, box):
    t = Term([osb.exe, "shell", box], osb.env)
    t.type("KEPT=still; echo ready$((1+1))\n")
    t.expect("ready2")
    t.type("\x10\x11")
    pid = t.expect(r"--attach (\S+)").group(1)
    assert t.wait() == 0
    t = Term([osb.exe, "shell", box, "--attach", pid], osb.env)
    t.type("echo $KEPT-here\n")
    t.expect("still-here")
    t.type("exit\n")
    assert t.wait() == 0


def test_ctrl_c_goes_inside(osb, box):
    t = Term([osb.exe, "shell", box], osb.env)
    t.type("sleep 1000\n")
    t.expect("sleep 1000")
    time.sleep(0.3)
    t.type("\x03")
    t.type("echo alive$((2+2))\n")
    t.expect("alive4")
    t.type("exit\n")
    t.wait()


def test_exec(osb, box):
    r = osb("exec", box, "sh", "-c", "echo out; exit 5")
    assert (r.returncode, r.stdout, r.stderr) == (5, "out\n", "")
    t = Term([osb.exe, "exec", "-it", box, "sh", "-c", "test -t 0 && read A && echo got-$A && exit 6"], osb.env)
    t.type("word\n")
    t.expect("got-word")
    assert t.wait() == 6


def test_run_removes_its_sandbox(osb):
    r = osb("run", "-i", "host", "-m", "made=run", "--", "sh", "-c", "echo in; exit 4")
    assert (r.returncode, r.stdout, r.stderr) == (4, "in\n", "")
    r = osb("run", "-i", "host", "-m", "made=run", "--", "sh", "-c", "kill -9 $$")
    assert (r.returncode, r.stdout, r.stderr) == (1, "", "osb: the command was ended: signal: killed\n")
    assert osb.json("sandbox", "list", "-m", "made=run")["items"] == []


def test_run_interrupted_removes_its_sandbox(osb):
    p = subprocess.Popen([osb.exe, "run", "-i", "host", "-m", "made=ctrl", "--", "sh", "-c", "echo up; sleep 1000"],
                         env=osb.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "up\n"
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    assert p.returncode == 130
    assert osb.json("sandbox", "list", "-m", "made=ctrl")["items"] == []


def test_colour_only_on_a_terminal(osb, box):
    t = Term([osb.exe, "sandbox", "get", box], osb.env)
    t.expect("\x1b\\[1m")
    assert t.wait() == 0
    t = Term([osb.exe, "sandbox", "get", box], {**osb.env, "NO_COLOR": "1"})
    t.expect("metadata")
    assert t.wait() == 0 and "\x1b" not in t.text
    assert "\x1b" not in osb.ok("sandbox", "get", box)
