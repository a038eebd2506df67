"""What the benchmarks share: starting and pinning programs, reading their CPU time and memory."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.environ.get("OSB_BIN", os.path.join(ROOT, "build", "bin"))
OUT = os.path.join(ROOT, "build", "bench")


def cpus():
    return sorted(os.sched_getaffinity(0))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_port(port, timeout=10):
    end = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def raise_file_limit(n):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < n:
        raise OSError(f"{n} descriptors are needed, the limit is {hard} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, n), hard))


class Program:
    """A program pinned to one CPU, in a process group of its own that ends with it."""

    def __init__(self, cmd, cpu, **kwargs):
        self.proc = subprocess.Popen(
            cmd, stdin=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}), **kwargs)

    def stop(self):
        if self.proc.poll() is None:
            os.killpg(self.proc.pid, signal.SIGTERM)
            try:
                self.proc.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.proc.pid, signal.SIGKILL)
                self.proc.wait()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()

    def pids(self):
        """The process and its children: nginx works in a child."""
        found, todo = [], [self.proc.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            with open(f"/proc/{pid}/task/{pid}/children") as f:
                todo += [int(p) for p in f.read().split()]
        return found

    def cpu_seconds(self):
        """Time on a CPU of all threads, in the scheduler's own nanoseconds."""
        total = 0
        for pid in self.pids():
            for tid in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
                    total += int(f.read().split()[0])
        return total / 1e9

    def rss_bytes(self):
        total = 0
        for pid in self.pids():
            with open(f"/proc/{pid}/statm") as f:
                total += int(f.read().split()[1]) * resource.getpagesize()
        return total


class TempDir:
    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="osb-bench-")
        return self.path

    def __exit__(self, *exc):
        shutil.rmtree(self.path, ignore_errors=True)


def write_json(name, data):
    os.makedirs(OUT, exist_ok=True)
    path = os.path.join(OUT, name + ".json")
    with open(path, "w") as f:
        json.dump(data, f, indent=1)
        f.write("\n")
    return path


def table(title, header, rows):
    """Prints aligned columns: the first to the left, the others to the right."""
    rows = [[str(c) for c in r] for r in rows]
    widths = [max(len(r[i]) for r in [header] + rows) for i in range(len(header))]
    print(f"\n{title}")
    for r in [header] + rows:
        print("  " + r[0].ljust(widths[0]) + "".join("  " + c.rjust(w) for c, w in zip(r[1:], widths[1:])))
