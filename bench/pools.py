"""Sandboxes out of a warm pool: create to its answer, and to the answer of the first command, one after the other
and while the pool is being refilled. Beside them the same create without a pool, in the same minute."""

import importlib.util
import os
import statistics
import sys
import time

from common import ROOT, table, write_json

sys.path.append(os.path.join(ROOT, "tests", "support"))
_spec = importlib.util.spec_from_file_location("bench_server", os.path.join(os.path.dirname(os.path.abspath(__file__)), "server.py"))
bench_server = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bench_server)
Client, quantile = bench_server.Client, bench_server.quantile

NAME = "pools"
TAKE = {"extensions": {"poolRef": "bench"}, "env": {"A": "b"}, "metadata": {"a": "b"}, "timeout": 3600}


def capacity(least, most):
    return {"bufferMin": least, "bufferMax": most, "poolMin": 0, "poolMax": 10000}


def wait_full(server, n):
    from osbserver import wait_for
    wait_for("a full pool", lambda: server.ok("GET", "/v1/pools/bench")["status"]["available"] >= n, 300)


def timed(server, body, n, delete=True):
    """(milliseconds to the answer, to the answer of the first command), n times."""
    c, answered, command, ids = Client(server), [], [], []
    for _ in range(n):
        start = time.perf_counter()
        id = c.create(body)
        answered.append((time.perf_counter() - start) * 1e3)
        c.true(id)
        command.append((time.perf_counter() - start) * 1e3)
        ids.append(id)
        if delete:
            c.delete(id)
    for id in [] if delete else ids:
        c.delete(id)
    return answered, command


def run(opts):
    from osbserver import Server, request_body
    template = {k: v for k, v in request_body(resourceLimits={"cpu": "1", "memory": "128Mi"}).items() if k != "timeout"}
    n = 100 if opts.full else 40
    server = Server('[log]\nlevel = "info"\n')
    try:
        server.start()
        cold = timed(server, {**template, "timeout": 3600}, n // 2)
        server.ok("POST", "/v1/pools", {"name": "bench", "template": template, "capacitySpec": capacity(0, n)})
        wait_full(server, n)
        warm = timed(server, TAKE, n, delete=False)
        # Smaller than what is taken: every take has a refill behind it, and some find nothing.
        server.ok("PUT", "/v1/pools/bench", {"capacitySpec": capacity(4, 4)})
        wait_full(server, 4)
        small = timed(server, TAKE, n)
    finally:
        server.close()
    rows = []
    for what, i in (("answered Running", 0), ("first command answered", 1)):
        c, w, s = (statistics.median(x[i]) for x in (cold, warm, small))
        target = "<= 5 ms"
        rows += [[f"warm create to {what}, p50", f"{w:.2f} ms", f"{c:.1f} ms (cold)", f"1/{c / w:.1f}", target],
                 [f"warm create to {what}, p99", f"{quantile(warm[i], 0.99):.2f} ms",
                  f"{quantile(cold[i], 0.99):.1f} ms (cold)", "", ""],
                 ["the same while the pool refills, p50", f"{s:.2f} ms", f"{c:.1f} ms (cold)", f"1/{c / s:.1f}", ""]]
    table("sandboxes out of a warm pool", ["", "ours", "peer", "ratio", "target"], rows)
    write_json(NAME, {"cold_ms": cold, "warm_ms": warm, "refilling_ms": small})
