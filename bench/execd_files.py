"""Files through execd: one large upload and download, memory meanwhile, and the time of /metrics.

Beside each: what the machine itself does with the same bytes in the same minute. For the upload that
is `cp` of the file, for the download nginx sending it. The client is the same for both: it sends with
sendfile and reads into one buffer, so that it costs as little as a client can.
"""

import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time

from common import BIN, TempDir, cpus, free_port, table, wait_port, write_json

NAME = "execd_files"
SIZE = 1 << 30
QUICK_SIZE = 1 << 28
BOUNDARY = b"----osb-bench"
READ = 1 << 20

NGINX = """
worker_processes 1; daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log crit;
events {{ worker_connections 64; }}
http {{
    access_log off; sendfile on; tcp_nopush on;
    client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;
    uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
    server {{ listen 127.0.0.1:{port}; location / {{ root {root}; }} }}
}}
"""


class Execd:
    def __init__(self, directory):
        ready, write = os.pipe()
        self.log = open(os.path.join(directory, "execd.log"), "wb")
        self.proc = subprocess.Popen(
            [os.path.join(BIN, "execd"), "--address", "127.0.0.1", "--port", "0", "--notify-fd", str(write)],
            pass_fds=[write], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        os.close(write)
        with os.fdopen(ready) as f:
            self.port = json.loads(f.readline())["port"]

    def rss_kb(self):
        with open(f"/proc/{self.proc.pid}/status") as f:
            return [int(line.split()[1]) for line in f if line.startswith("VmRSS")][0]

    def stop(self):
        self.proc.terminate()
        self.proc.wait(30)
        self.log.close()


class Peak:
    """The largest resident size while something runs."""

    def __init__(self, execd):
        self.execd, self.kb, self.done = execd, 0, threading.Event()

    def watch(self):
        while not self.done.wait(0.02):
            self.kb = max(self.kb, self.execd.rss_kb())

    def __enter__(self):
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.done.set()
        self.thread.join()


def read_head(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        assert piece, data
        data += piece
    head, rest = data.split(b"\r\n\r\n", 1)
    return head, rest


def upload(port, prefix, source, target):
    head = (b"--" + BOUNDARY + b'\r\nContent-Disposition: form-data; name="metadata"; filename="m"\r\n\r\n'
            + json.dumps({"path": target}).encode() + b"\r\n--" + BOUNDARY
            + b'\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n')
    tail = b"\r\n--" + BOUNDARY + b"--\r\n"
    size = os.path.getsize(source)
    with socket.create_connection(("127.0.0.1", port)) as s, open(source, "rb") as f:
        start = time.monotonic()
        s.sendall(b"POST " + prefix.encode() + b"/files/upload HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
                  b"Content-Type: multipart/form-data; boundary=%s\r\n\r\n"
                  % (len(head) + size + len(tail), BOUNDARY) + head)
        assert s.sendfile(f) == size
        s.sendall(tail)
        answer, _ = read_head(s)
        seconds = time.monotonic() - start
    assert answer.startswith(b"HTTP/1.1 200"), answer
    assert os.path.getsize(target) == size
    return seconds


def download(port, path, size):
    buffer = bytearray(READ)
    with socket.create_connection(("127.0.0.1", port)) as s:
        start = time.monotonic()
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head, rest = read_head(s)
        assert head.startswith(b"HTTP/1.1 200"), head
        left = size - len(rest)
        while left:
            n = s.recv_into(buffer)
            assert n
            left -= n
        return time.monotonic() - start


def copy(source, target):
    start = time.monotonic()
    subprocess.run(["cp", source, target], check=True)
    return time.monotonic() - start


def nginx_download(directory, root, name, size):
    if not shutil.which("nginx"):
        return None
    port = free_port()
    conf = os.path.join(directory, "nginx.conf")
    with open(conf, "w") as f:
        f.write(NGINX.format(dir=directory, port=port, root=root))
    proc = subprocess.Popen(["nginx", "-c", conf], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_port(port)
        return download(port, "/" + name, size)
    finally:
        proc.terminate()
        proc.wait(30)


def one_place(execd, directory, place, source, size):
    """Up and down again in one file system. The files are gone afterwards."""
    up, cp = os.path.join(place, "up"), os.path.join(place, "cp")
    cells = {}
    try:
        cells["cp"] = {"s": copy(source, cp)}
        os.remove(cp)
        with Peak(execd) as peak:
            seconds = upload(execd.port, "", source, up)
        cells["upload"] = {"s": seconds, "peak_kb": peak.kb}
        os.chmod(up, 0o644)
        with Peak(execd) as peak:
            seconds = download(execd.port, "/files/download?path=" + up, size)
        cells["download"] = {"s": seconds, "peak_kb": peak.kb}
        with Peak(execd) as peak:
            seconds = download(execd.port, f"/proxy/{execd.port}/files/download?path={up}", size)
        cells["download /proxy"] = {"s": seconds, "peak_kb": peak.kb}
        seconds = nginx_download(directory, place, "up", size)
        if seconds:
            cells["nginx"] = {"s": seconds}
        os.remove(up)
        with Peak(execd) as peak:
            seconds = upload(execd.port, f"/proxy/{execd.port}", source, up)
        cells["upload /proxy"] = {"s": seconds, "peak_kb": peak.kb}
    finally:
        for path in (up, cp):
            if os.path.exists(path):
                os.remove(path)
    return cells


def metrics(execd, n=500):
    conn = http.client.HTTPConnection("127.0.0.1", execd.port)
    samples = []
    for _ in range(n):
        start = time.monotonic()
        conn.request("GET", "/metrics")
        conn.getresponse().read()
        samples.append((time.monotonic() - start) * 1e6)
    conn.close()
    return samples


def run(opts):
    size = SIZE if opts.full or opts.names else QUICK_SIZE
    mb = size / 1e6
    with TempDir() as directory, TempDirIn("/dev/shm") as memory:
        os.chmod(directory, 0o755)
        os.chmod(memory, 0o755)
        source = os.path.join(memory, "source")
        with open(source, "wb") as f:
            block = os.urandom(1 << 20)
            for _ in range(size >> 20):
                f.write(block)
        execd = Execd(directory)
        try:
            idle = execd.rss_kb()
            places = {"disk": one_place(execd, directory, directory, source, size),
                      "memory": one_place(execd, directory, memory, source, size)}
            after = execd.rss_kb()
            us = metrics(execd)
        finally:
            execd.stop()
    rows = []
    for place, cells in places.items():
        for name, peer in [("upload", "cp"), ("upload /proxy", "cp"), ("download", "nginx"),
                           ("download /proxy", "nginx")]:
            c, p = cells[name], cells.get(peer)
            rows.append([f"{name}, {place}", f"{mb / c['s']:.0f}", f"{mb / p['s']:.0f} ({peer})" if p else "-",
                         f"{p['s'] / c['s']:.2f}" if p else "-", f"{c['peak_kb']}"])
    table(f"{mb:.0f} MB through execd, {len(cpus())} CPUs shared with the client",
          ["", "MB/s", "peer MB/s", "ratio", "peak kB"], rows)
    us.sort()
    table("execd", ["", "value"], [
        ["resident, idle, kB", idle], ["resident, after all that, kB", after],
        ["/metrics, p50 of 500, µs", f"{statistics.median(us):.0f}"],
        ["/metrics, p99, µs", f"{us[int(len(us) * 0.99)]:.0f}"]])
    write_json(NAME, {"bytes": size, "places": places, "idle_kb": idle, "after_kb": after, "metrics_us": us})


class TempDirIn(TempDir):
    def __init__(self, parent):
        self.parent = parent

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="osb-bench-", dir=self.parent)
        return self.path
