"""execd: latency of a command against fork and exec of the same shell, line throughput, memory, size."""

import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import time

import common

NAME = "execd"
EXECD = os.path.join(common.BIN, "execd")
LINE_BYTES = 100_000_000


class Server:
    def __enter__(self):
        r, w = os.pipe()
        self.proc = subprocess.Popen([EXECD, "--address", "127.0.0.1", "--port", "0", "--notify-fd", str(w)],
                                     pass_fds=[w], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        os.close(w)
        self.port = int(re.search(rb'"port":(\d+)', os.read(r, 4096)).group(1))
        os.close(r)
        self.sock = socket.create_connection(("127.0.0.1", self.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def __exit__(self, *exc):
        self.sock.close()
        self.proc.terminate()
        self.proc.wait()

    def rss_kb(self):
        with open(f"/proc/{self.proc.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def command(self, text):
        """Runs it on the kept-alive connection; returns the bytes of the answer."""
        body = json.dumps({"command": text}).encode()
        self.sock.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        buf, n, last = bytearray(1 << 20), 0, b""
        while not last.endswith(b"0\r\n\r\n"):
            k = self.sock.recv_into(buf)
            assert k, "connection closed"
            n += k
            last = (last + bytes(buf[max(0, k - 5):k]))[-5:]
        return n


def fork_exec(shell):
    start = time.perf_counter()
    os.waitpid(os.posix_spawn(shell, ["bash", "-c", "true"], os.environ), 0)
    return time.perf_counter() - start


def latency(s, n):
    """Ours and the bare spawn in turns, so that a busy machine slows down both."""
    shell = shutil.which("bash") or "/bin/sh"
    ours, bare = [], []
    for _ in range(20):
        s.command("true")
    for _ in range(n):
        start = time.perf_counter()
        s.command("true")
        ours.append(time.perf_counter() - start)
        bare.append(fork_exec(shell))
    return ours, bare


def throughput(s, rounds):
    text = f'yes "$(printf %079d 0)" | head -c {LINE_BYTES}'
    best = 0
    for _ in range(rounds):
        start = time.perf_counter()
        s.command(text)
        best = max(best, LINE_BYTES / (time.perf_counter() - start))
    return best


def run(opts):
    with Server() as s:
        idle = s.rss_kb()
        ours, bare = latency(s, 2000 if opts.full else 500)
        for _ in range(1000):
            s.command("true")
        after = s.rss_kb()
        rate = throughput(s, opts.rounds)
        peak = s.rss_kb()
    o, b = statistics.median(ours), statistics.median(bare)
    p99 = sorted(ours)[int(len(ours) * 0.99)]
    size = os.path.getsize(EXECD)
    common.table("execd", ["what", "ours", "peer or target", "ratio"], [
        ["`true`, p50 ms (peer: fork+exec)", f"{o * 1e3:.2f}", f"{b * 1e3:.2f}", f"{o / b:.2f}"],
        ["`true`, p99 ms", f"{p99 * 1e3:.2f}", "", ""],
        ["80-byte lines, MB/s", f"{rate / 1e6:.0f}", "100", f"{rate / 1e8:.2f}"],
        ["resident idle, kB", idle, 2048, f"{idle / 2048:.2f}"],
        ["resident after 1,000 commands, kB", after, 2048, f"{after / 2048:.2f}"],
        ["resident after 100 MB of lines, kB", peak, 2048, f"{peak / 2048:.2f}"],
        ["on disk, kB", size // 1024, 1536, f"{size / 1024 / 1536:.2f}"],
    ])
    common.write_json(NAME, {"true_s": ours, "fork_exec_s": bare, "lines_bytes_per_s": rate, "rss_idle_kb": idle,
                             "rss_after_kb": after, "rss_stream_kb": peak, "size": size})
