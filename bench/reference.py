"""Ours beside the published reference server: the same Docker engine, the same image, the same client, in one run.

The reference comes from its package registry (tests/support/refserver.py has the version). What it needs and no registry has, its
execd, is ours for both; where OSB_REFERENCE_EXECD names its own, commands are measured with that as well. With --full the result is
written to docs/benchmarks.md."""

import contextlib
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import benchmarks_page
from common import ROOT, table, write_json
from server import Client, quantile, rss_kb, together

sys.path.append(os.path.join(ROOT, "tests", "support"))

NAME = "reference"
ON_DEMAND = True  # needs a registry
IMAGE = "bench"
STREAM_BYTES, FILE_BYTES = 20_000_000, 64 << 20
CHANGED_MB = 100


def body():
    return {"image": {"uri": IMAGE}, "entrypoint": ["sleep", "100000"], "resourceLimits": {"cpu": "1", "memory": "512Mi"}, "timeout": 3600}


def first_true(c, id):
    """The reference answers a create before execd does."""
    while True:
        try:
            return c.true(id)
        except (RuntimeError, OSError, http.client.HTTPException):
            c.conn.close()
            if time.perf_counter() - c.began > 60:
                raise
            time.sleep(0.005)


def make(server, request=None):
    c = Client(server)
    c.began = time.perf_counter()
    id = c.create(request or body())
    first_true(c, id)
    return c, id, time.perf_counter() - c.began


def create_ms(server, n):
    """n of them, or as many as half a minute has time for."""
    out, end = [], time.perf_counter() + 30
    for i in range(n + 1):
        c, id, seconds = make(server)
        c.delete(id)
        if i:  # the first one warms up
            out.append(seconds * 1e3)
        if len(out) >= 3 and time.perf_counter() > end:
            break
    return out


def burst_s(server, n):
    ids, failed = [], []

    def one(i):
        try:
            ids.append(make(server)[1])
        except (RuntimeError, OSError) as e:
            failed.append(e)

    seconds = together(n, one)
    together(4, lambda i: [Client(server).delete(id) for id in ids[i::4]])
    if failed:
        raise RuntimeError(f"{len(failed)} of {n} failed: {failed[0]}")
    return seconds


def true_ms(server, n):
    c, id, _ = make(server)
    out, end = [], time.perf_counter() + 10
    while len(out) < n and time.perf_counter() < end:
        start = time.perf_counter()
        c.true(id)
        out.append((time.perf_counter() - start) * 1e3)
    c.delete(id)
    return out


def direct_ms(server, n):
    c, id, _ = make(server)
    endpoint = json.loads(c.ask("GET", f"/v1/sandboxes/{id}/endpoints/44772"))
    host, _, path = endpoint["endpoint"].partition("/")
    conn = http.client.HTTPConnection(host, timeout=120)
    out, end = [], time.perf_counter() + 10
    while len(out) < n and time.perf_counter() < end:
        start = time.perf_counter()
        conn.request("POST", f"/{path}/command" if path else "/command", '{"command":"true"}',
                     {"Content-Type": "application/json", **endpoint.get("headers", {})})
        r = conn.getresponse()
        data = r.read()
        if b'"execution_complete"' not in data:
            raise RuntimeError(f"the command did not complete: {r.status} {data[:150]}")
        out.append((time.perf_counter() - start) * 1e3)
    c.delete(id)
    return out


def stream_mb_s(server):
    c, id, _ = make(server)
    text = json.dumps({"command": f'yes "$(printf %079d 0)" | head -c {STREAM_BYTES}'})
    best = 0
    for _ in range(3):  # the least disturbed one
        start = time.perf_counter()
        c.ask("POST", f"/v1/sandboxes/{id}/proxy/44772/command", text)
        best = max(best, STREAM_BYTES / (time.perf_counter() - start) / 1e6)
    c.delete(id)
    return best


def files_mb_s(server):
    """Up and down through the server's proxy."""
    c, id, _ = make(server)
    line = b"----osb"
    head = (b"--%b\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\nContent-Type: application/json\r\n\r\n"
            b"{\"path\":\"/root/big\",\"mode\":644}\r\n--%b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"big\"\r\n"
            b"Content-Type: application/octet-stream\r\n\r\n" % (line, line))
    tail = b"\r\n--%b--\r\n" % line
    piece = b"\0" * (1 << 20)
    base = f"/v1/sandboxes/{id}/proxy/44772/files"
    start = time.perf_counter()
    c.conn.putrequest("POST", base + "/upload")
    for k, v in {"OPEN-SANDBOX-API-KEY": server.key, "Content-Type": f"multipart/form-data; boundary={line.decode()}",
                 "Content-Length": str(len(head) + FILE_BYTES + len(tail))}.items():
        c.conn.putheader(k, v)
    c.conn.endheaders(head)
    for _ in range(FILE_BYTES >> 20):
        c.conn.send(piece)
    c.conn.send(tail)
    r = c.conn.getresponse()
    text = r.read()
    up = FILE_BYTES / (time.perf_counter() - start) / 1e6
    if r.status != 200:
        raise RuntimeError(f"upload: {r.status} {text[:200]}")
    start = time.perf_counter()
    c.conn.request("GET", base + "/download?path=/root/big", headers=c.headers)
    r, n = c.conn.getresponse(), 0
    while got := r.read(1 << 20):
        n += len(got)
    if n != FILE_BYTES:
        raise RuntimeError(f"download: {r.status}, {n} bytes")
    down = FILE_BYTES / (time.perf_counter() - start) / 1e6
    c.delete(id)
    return up, down


def proxied_per_s(server, seconds):
    """Small requests, 64 connections."""
    c, id, _ = make(server)
    out = subprocess.run(["wrk", "-t1", "-c64", f"-d{seconds}s", f"{server.url}/sandboxes/{id}/proxy/44772/ping"], capture_output=True,
                         text=True, check=True).stdout
    c.delete(id)
    return float(next(line.split()[1] for line in out.splitlines() if line.startswith("Requests/sec")))


def crowd(server, n):
    """n sandboxes alive: memory, one page, one of them, and a start after a kill until all answer."""
    ids, out = [], {}
    together(2, lambda i: ids.extend(make(server)[1] for _ in range(n // 2)))
    c = Client(server)
    out["crowd_kb"] = rss_kb(server.pid)
    for name, path in (("list", "/v1/sandboxes?pageSize=20"), ("get", f"/v1/sandboxes/{ids[0]}")):
        times = []
        for _ in range(100):
            start = time.perf_counter()
            c.ask("GET", path)
            times.append((time.perf_counter() - start) * 1e3)
        out[name + "_p50_ms"], out[name + "_p99_ms"] = statistics.median(times), quantile(times, 0.99)
    server.kill()
    start = time.perf_counter()
    server.start()
    c = Client(server)
    c.began = start
    for id in ids:
        first_true(c, id)
    out["restart_s"] = time.perf_counter() - start
    together(4, lambda i: [Client(server).delete(id) for id in ids[i::4]])
    return out


def snapshot(server):
    c, id, _ = make(server)
    c.ask("POST", f"/v1/sandboxes/{id}/proxy/44772/command", json.dumps({"command": f"dd if=/dev/urandom of=/root/big bs=1M count={CHANGED_MB}"}))
    start = time.perf_counter()
    sid = json.loads(c.ask("POST", f"/v1/sandboxes/{id}/snapshots", '{"name":"bench"}'))["id"]
    while (state := json.loads(c.ask("GET", f"/v1/snapshots/{sid}"))["status"]["state"]) != "Ready":
        if state == "Failed":
            raise RuntimeError("the snapshot failed")
        time.sleep(0.002)
    kept = time.perf_counter() - start
    c2, copy, restored = make(server, {k: v for k, v in body().items() if k != "image"} | {"snapshotId": sid})
    for client, one in ((c, id), (c2, copy)):
        client.delete(one)
    c.ask("DELETE", f"/v1/snapshots/{sid}")
    return {"snapshot_ms": kept * 1e3, "restore_ms": restored * 1e3}


def spread(name, values):
    return {name + "_p50_ms": statistics.median(values), name + "_p99_ms": quantile(values, 0.99), name + "_samples": values}


def files(server):
    up, down = files_mb_s(server)
    return {"upload_mb_s": up, "download_mb_s": down}


def steps(full):
    """What is measured, in this order; the first ones also with the reference's own execd."""
    n, m = (20, 50) if full else (5, 20)
    return [("idle", True, lambda s: {"idle_kb": rss_kb(s.pid)}),
            ("create", True, lambda s: spread("create", create_ms(s, n))),
            ("true through the proxy", True, lambda s: spread("true", true_ms(s, m))),
            ("true directly", True, lambda s: spread("direct", direct_ms(s, m))),
            ("burst", False, lambda s: {"burst_s": burst_s(s, 20)}),
            ("stream", False, lambda s: {"stream_mb_s": stream_mb_s(s)}),
            ("files", False, files),
            ("proxied requests", False, lambda s: {"proxied_per_s": proxied_per_s(s, 3)}),
            ("20 sandboxes", False, lambda s: crowd(s, 20)),
            ("snapshot", False, snapshot)]


def measure(servers, full):
    """Each step of all servers in turn, so that a busy minute is everybody's. What one cannot do is not in its result; why
    stands under `failed`."""
    results = {name: {"failed": {}} for name in servers}
    for what, always, fn in steps(full):
        took = []
        for name, server in servers.items():
            if name == "own" and not always:
                continue
            start = time.perf_counter()
            try:
                results[name].update(fn(server))
            except (RuntimeError, OSError, http.client.HTTPException, subprocess.SubprocessError, StopIteration) as e:
                results[name]["failed"][what] = f"{type(e).__name__}: {str(e)[:200]}"
            took.append(f"{name} {time.perf_counter() - start:.1f} s")
        print(f"  {what}: {', '.join(took)}", flush=True)
    return results


def docker_run_ms(engine, n):
    out = []
    for i in range(n + 1):
        start = time.perf_counter()
        subprocess.run(["docker", "-H", engine.url, "run", "--rm", f"{IMAGE}:latest", "true"], capture_output=True, check=True)
        if i:
            out.append((time.perf_counter() - start) * 1e3)
    return statistics.median(out)


def everybody(full):
    from dockerbox import Engine
    from dockerserver import DockerServer
    from osbserver import Server
    from refserver import OTHER, Reference
    engine, results = Engine(runtimes=False), {}
    try:
        engine.start()
        engine.load_busybox(f"{IMAGE}:latest")
        results["docker_run_ms"] = docker_run_ms(engine, 5)
        results["docker"] = engine.ok("GET", "/version")["Version"]
        with contextlib.ExitStack() as stack:
            servers = {"embedded": Server(f'[log]\nlevel = "info"\n[oci.rootfs]\n{IMAGE} = "{engine.dir}/busybox"\n'),
                       "ours": DockerServer(engine, '[log]\nlevel = "info"\n[docker]\nadopt = "none"\n'), "reference": Reference(engine)}
            if OTHER:
                servers["own"] = Reference(engine, other=True)
            for server in servers.values():
                stack.enter_context(contextlib.closing(server))
                server.start()
            results.update(measure(servers, full))
    finally:
        engine.close()
    return results


def run(opts):
    if not shutil.which("wrk"):
        raise RuntimeError("wrk is not installed (tools/packages.list)")
    start, load = time.time(), os.getloadavg()[0]
    results = everybody(opts.full)
    results.update(began=start, seconds=time.time() - start, load=[load, os.getloadavg()[0]])
    write_json(NAME, results)
    rows = benchmarks_page.rows(results)
    table("ours and the reference server", ["", "embedded", "on Docker", "reference", "ratio on Docker", "ratio embedded"], rows)
    for line in benchmarks_page.own(results) + benchmarks_page.failed(results):
        print("  " + line)
    if opts.full:
        print("\nwritten:", ", ".join(benchmarks_page.write(results)))
