"""Commands through execd: the time of `true` beside a bare fork and exec of the same shell, lines per
second beside the same pipeline without execd, memory idle and after 1,000 commands."""

import http.client
import json
import os
import statistics
import subprocess
import threading
import time

from common import TempDir, table, write_json
from execd_files import Execd, Peak

NAME = "execd"
LINE = "0123456789012345678901234567890123456789012345678901234567890123456789"
BYTES = 100_000_000


def shell():
    return next(p for p in ("/bin/bash", "/usr/bin/bash", "/bin/sh") if os.path.exists(p))


def spawn_times(n):
    """posix_spawn and wait, the cheapest way to start the same shell."""
    out, sh = [], shell()
    for _ in range(n):
        start = time.perf_counter()
        os.waitpid(os.posix_spawn(sh, [sh, "-c", "true"], os.environ), 0)
        out.append((time.perf_counter() - start) * 1e3)
    return out


def run_command(conn, command):
    conn.request("POST", "/command", json.dumps({"command": command}), {"Content-Type": "application/json"})
    body = conn.getresponse().read()
    if b'"execution_complete"' not in body:
        raise RuntimeError(body[-300:].decode(errors="replace"))


def command_times(port, n):
    conn = http.client.HTTPConnection("127.0.0.1", port)
    out = []
    for _ in range(n):
        start = time.perf_counter()
        run_command(conn, "true")
        out.append((time.perf_counter() - start) * 1e3)
    conn.close()
    return out


def stream_seconds(port, size):
    """`size` bytes of lines, read as they come."""
    conn = http.client.HTTPConnection("127.0.0.1", port)
    start = time.perf_counter()
    conn.request("POST", "/command", json.dumps({"command": f"yes {LINE} | head -c {size}"}))
    resp, last, buffer = conn.getresponse(), b"", bytearray(1 << 20)
    while True:
        n = resp.readinto(buffer)
        if not n:
            break
        last = (last + bytes(buffer[max(0, n - 400):n]))[-400:]
    conn.close()
    if b'"execution_complete"' not in last:
        raise RuntimeError("the stream did not end with execution_complete")
    return time.perf_counter() - start


def pipe_seconds(size):
    start = time.perf_counter()
    subprocess.run([shell(), "-c", f"yes {LINE} | head -c {size} | cat >/dev/null"], check=True)
    return time.perf_counter() - start


def at_once(port, n):
    """Seconds until n commands sent together have all been answered."""
    failed = []

    def one():
        try:
            conn = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            run_command(conn, "true")
            conn.close()
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=one) for _ in range(n)]
    start = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]
    return time.perf_counter() - start


def run(opts):
    n = 500 if opts.full else 200
    size = BYTES if opts.full else BYTES // 4
    with TempDir() as d:
        execd = Execd(d)
        try:
            idle = execd.rss_kb()
            command_times(execd.port, 1000)
            after = execd.rss_kb()
            run_times, spawn = [], []
            for _ in range(opts.rounds): # in turns, so that both meet the same neighbours
                spawn += spawn_times(n // opts.rounds)
                run_times += command_times(execd.port, n // opts.rounds)
            with Peak(execd) as peak:
                stream = min(stream_seconds(execd.port, size) for _ in range(opts.rounds))
            burst = at_once(execd.port, 200)
            pipe = min(pipe_seconds(size) for _ in range(opts.rounds))
        finally:
            execd.stop()
    ours, bare = statistics.median(run_times), statistics.median(spawn)
    table("commands through execd", ["", "ours", "peer", "ratio", "target"], [
        ["true, p50", f"{ours:.2f} ms", f"{bare:.2f} ms (spawn)", f"{ours / bare:.2f}", "<= 1.5"],
        [f"{size / 1e6:.0f} MB of lines", f"{size / 1e6 / stream:.0f} MB/s", f"{size / 1e6 / pipe:.0f} MB/s (pipe)",
         f"{pipe / stream:.2f}", ">= 100 MB/s"],
        ["200 commands at once", f"{burst:.2f} s", "", "", "all answered"],
        ["resident, idle", f"{idle} kB", "", "", "<= 2048 kB"],
        ["resident, after 1,000", f"{after} kB", "", "", "<= 2048 kB"],
        ["resident, while streaming", f"{peak.kb} kB", "", "", "flat"],
    ])
    write_json(NAME, {"true_ms": run_times, "spawn_ms": spawn, "stream_s": stream, "pipe_s": pipe, "bytes": size,
                      "burst_s": burst, "idle_kb": idle, "after_kb": after, "peak_kb": peak.kb})
