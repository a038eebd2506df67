"""Snapshots on the embedded runtime with 100 MB changed: until one is ready, how long the sandbox stands still, a
restore, a fork of ten. Beside them: `cp -a` of the same files, a create without a snapshot, ten of those at once,
and `docker commit` where an engine is there."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import time

from common import ROOT, TempDir, table, write_json

sys.path.append(os.path.join(ROOT, "tests", "support"))

NAME = "snapshots"
FILES, MIB = 100, 1 << 20
CHANGE = f"mkdir /root/d && for i in $(seq {FILES}); do head -c {MIB} /dev/urandom > /root/d/$i; done && sync"


def ms(start):
    return (time.perf_counter() - start) * 1e3


def ready(server, id):
    """A snapshot, from the request until it is Ready: its id and the milliseconds."""
    start = time.perf_counter()
    snap = server.ok("POST", f"/v1/sandboxes/{id}/snapshots")["id"]
    while (state := server.ok("GET", f"/v1/snapshots/{snap}")["status"]["state"]) == "Creating":
        time.sleep(0.001)
    if state != "Ready":
        raise RuntimeError(f"the snapshot is {state}")
    return snap, ms(start)


def created(server, **body):
    start = time.perf_counter()
    id = server.create(**body)["id"]
    assert server.ping(id)
    took = ms(start)
    server.delete(id)
    return took


def forked(server, id, n):
    start = time.perf_counter()
    items = server.ok("POST", f"/v1/sandboxes/{id}/fork", {"count": n})["items"]
    assert all(server.ping(x["id"]) for x in items)
    took = ms(start)
    for x in items:
        server.delete(x["id"])
    return took


def together(server, n):
    """The same number of creates without anything to copy."""
    import threading
    from osbserver import request_body
    import requests
    ids, start = [], time.perf_counter()

    def one():
        r = requests.post(server.url + "/v1/sandboxes", json=request_body(), headers={"OPEN-SANDBOX-API-KEY": server.key})
        ids.append(r.json()["id"])

    threads = [threading.Thread(target=one) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    took = ms(start)
    for id in ids:
        server.delete(id)
    return took


def cp_ms(n, where):
    """`cp -a` of as many bytes on the same file system."""
    out = []
    with TempDir() as d:
        base = os.path.join(where, os.path.basename(str(d)))
        os.makedirs(base + "/from")
        try:
            for i in range(FILES):
                with open(f"{base}/from/{i}", "wb") as f:
                    f.write(os.urandom(MIB))
            for _ in range(n):
                start = time.perf_counter()
                subprocess.run(["cp", "-a", "--reflink=auto", base + "/from", base + "/to"], check=True)
                out.append(ms(start))
                shutil.rmtree(base + "/to")
        finally:
            shutil.rmtree(base)
    return statistics.median(out)


def docker_commit_ms(n):
    """`docker commit` of a container with the same change, where an engine runs and has an image; else None."""
    if not shutil.which("docker"):
        return None
    images = subprocess.run(["docker", "images", "-q"], capture_output=True, text=True)
    if images.returncode != 0 or not images.stdout.split():
        return None
    run = subprocess.run(["docker", "run", "-d", images.stdout.split()[0], "sh", "-c",
                          CHANGE + "; sleep 1000"], capture_output=True, text=True)
    if run.returncode != 0:
        return None
    id, out = run.stdout.strip(), []
    try:
        while subprocess.run(["docker", "exec", id, "test", "-e", f"/root/d/{FILES}"], capture_output=True).returncode:
            time.sleep(0.2)
        for _ in range(n):
            start = time.perf_counter()
            made = subprocess.run(["docker", "commit", id], capture_output=True, text=True, check=True).stdout.strip()
            out.append(ms(start))
            subprocess.run(["docker", "rmi", made], capture_output=True)
    finally:
        subprocess.run(["docker", "rm", "-f", id], capture_output=True)
    return statistics.median(out)


def run(opts):
    from osbserver import Server
    n = 20 if opts.full else 6
    server = Server()
    try:
        server.start()
        id = server.create(resourceLimits={"cpu": "1", "memory": "512Mi"}, timeout=3600)["id"]
        if server.run(id, CHANGE)[1]["type"] != "execution_complete":
            raise RuntimeError("the change did not complete")
        taken = [ready(server, id) for _ in range(n)]
        with open(server.log_path) as f:
            frozen = [int(x) / 1e3 for x in re.findall(r"writable layer captured.*?frozen_us=(\d+)", f.read())]
        cold = [created(server) for _ in range(n)]
        restored = [created(server, image=None, entrypoint=None, snapshotId=taken[-1][0]) for _ in range(n)]
        ten = [forked(server, id, 10) for _ in range(max(n // 3, 2))]
        plain = [together(server, 10) for _ in range(max(n // 3, 2))]
        for snap, _ in taken:
            server.ok("DELETE", f"/v1/snapshots/{snap}", status=204)
        copy = cp_ms(n, server.data)
    finally:
        server.close()
    docker = docker_commit_ms(3)
    took = [t for _, t in taken]
    mid = statistics.median
    rows = [
        ["snapshot, 100 MB changed, p50", f"{mid(took):.0f} ms", f"{copy:.0f} ms (cp -a)", f"{mid(took) / copy:.2f}", "<= 300 ms"],
        ["the same with docker commit", f"{mid(took):.0f} ms", f"{docker:.0f} ms" if docker else "no Docker engine here",
         f"1/{docker / mid(took):.0f}" if docker else "", ""],
        ["of it frozen, p50", f"{mid(frozen):.0f} ms", "", "", ""],
        ["restore until it answers, p50", f"{mid(restored):.1f} ms", f"{mid(cold):.1f} ms (create)",
         f"{mid(restored) / mid(cold):.2f}", "<= 50 ms"],
        ["fork of ten, all answer, p50", f"{mid(ten):.0f} ms", f"{mid(plain):.0f} ms (ten creates)",
         f"{mid(ten) / mid(plain):.2f}", ""],
    ]
    table("snapshots on the embedded runtime", ["", "ours", "peer", "ratio", "target"], rows)
    write_json(NAME, {"snapshot_ms": took, "frozen_ms": frozen, "restore_ms": restored, "create_ms": cold, "fork_ms": ten,
                      "ten_creates_ms": plain, "cp_ms": copy, "docker_commit_ms": docker})
