"""Code contexts against a plain Jupyter client: the first result, cold and with a kernel started
ahead, and the latency of `1+1` in a context that is there. The kernel is the same, Debian's
ipykernel, so what differs is how it is reached. code_image.py measures whole sandboxes."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path = [p for p in sys.path if p != HERE] + [HERE]  # behind the standard library: it has a code too

import http.client  # noqa: E402
import json  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402

from common import BIN, TempDir, free_port, table, wait_port, write_json  # noqa: E402

NAME = "code"


class Execd:
    def __init__(self, directory, *args):
        self.port = free_port()
        env = {"HOME": directory, "PATH": "/usr/bin:/bin", "TMPDIR": directory}
        self.log = os.path.join(directory, "log")
        with open(self.log, "w") as log:
            self.proc = subprocess.Popen([os.path.join(BIN, "execd"), "--address", "127.0.0.1", "--port", str(self.port),
                                          *args], env=env, stdin=subprocess.DEVNULL, stderr=log)
        wait_port(self.port)
        self.http = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def run(self, code):
        start = time.perf_counter()
        self.http.request("POST", "/code", json.dumps({"code": code, "context": {"language": "python"}}))
        r = self.http.getresponse()
        body = r.read()
        took = time.perf_counter() - start
        assert r.status == 200 and b'"execution_complete"' in body, body
        return took * 1e3

    def await_kernel(self):
        while True:
            with open(self.log) as f:
                if "a code kernel is ready" in f.read():
                    return
            time.sleep(0.05)

    def rss_kb(self):
        with open(f"/proc/{self.proc.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))

    def stop(self):
        self.http.close()
        self.proc.terminate()
        self.proc.wait()


def plain(rounds, n):
    """jupyter_client, as an ordinary program uses it: until the reply and the idle have come."""
    from jupyter_client.manager import KernelManager

    def one(c):
        start = time.perf_counter()
        msg = c.execute("1+1")
        c.get_shell_msg(timeout=60)
        while True:
            m = c.get_iopub_msg(timeout=60)
            if m["parent_header"].get("msg_id") == msg and m["content"].get("execution_state") == "idle":
                return (time.perf_counter() - start) * 1e3

    first, warm = [], []
    for i in range(rounds):
        start = time.perf_counter()
        m = KernelManager(kernel_name="python3")
        m.start_kernel()
        c = m.client()
        c.start_channels()
        c.wait_for_ready(timeout=120)
        one(c)
        first.append((time.perf_counter() - start) * 1e3)
        if i == rounds - 1:
            warm = [one(c) for _ in range(n)]
        c.stop_channels()
        m.shutdown_kernel(now=True)
    return first, warm


def measure(rounds, n):
    with TempDir() as directory:
        cold, ahead, warm, rss = [], [], [], {}
        for i in range(rounds):
            e = Execd(directory)
            idle = e.rss_kb()
            cold.append(e.run("1+1"))
            if i == rounds - 1:
                warm = [e.run("1+1") for _ in range(n)]
                rss = {"idle": idle, "after": e.rss_kb()}
            e.stop()
        for _ in range(rounds):
            e = Execd(directory, "--code-prestart", "python")
            e.await_kernel()
            ahead.append(e.run("1+1"))
            e.stop()
        first, peer = plain(rounds, n)
    return {"cold_ms": cold, "ahead_ms": ahead, "warm_ms": warm, "peer_cold_ms": first, "peer_warm_ms": peer,
            "rss_kb": rss}


def run(opts):
    """In a network namespace of its own: libzmq looks at every interface there is when it binds."""
    script = f'ip link set lo up && exec /usr/bin/python3 "{os.path.abspath(__file__)}" {opts.rounds} {300 if opts.full else 100}'
    out = subprocess.run(["unshare", "--net", "sh", "-c", script], check=True, capture_output=True, text=True).stdout
    data = json.loads(out.strip().split("\n")[-1])
    write_json(NAME, data)
    med = {k: statistics.median(v) for k, v in data.items() if k != "rss_kb"}
    p99 = {k: sorted(v)[int(len(v) * 0.99)] for k, v in data.items() if k.endswith("warm_ms")}
    table("1+1 in Python, milliseconds (median), the same kernel", ["", "execd", "jupyter_client", "difference"], [
        ["first result, cold", f"{med['cold_ms']:.0f}", f"{med['peer_cold_ms']:.0f}",
         f"{med['cold_ms'] - med['peer_cold_ms']:+.0f}"],
        ["first result, kernel started ahead", f"{med['ahead_ms']:.1f}", "-", "-"],
        ["warm context", f"{med['warm_ms']:.2f}", f"{med['peer_warm_ms']:.2f}",
         f"{med['warm_ms'] - med['peer_warm_ms']:+.2f}"],
        ["warm context, p99", f"{p99['warm_ms']:.2f}", f"{p99['peer_warm_ms']:.2f}",
         f"{p99['warm_ms'] - p99['peer_warm_ms']:+.2f}"],
    ])
    table("execd with one context", ["", "resident kB"], [[k, v] for k, v in data["rss_kb"].items()])


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
