"""Create to first command: the Docker runtime, the embedded runtime and plain `docker run`, on the same machine.

Needs root and Debian's docker.io; starts an engine of its own."""

import os
import statistics
import subprocess
import sys
import time

from common import ROOT, table, write_json

sys.path.append(os.path.join(ROOT, "tests", "support"))

NAME = "docker"
PEER = "docker run, docker exec"


def through(server):
    """Milliseconds from the request for a sandbox to the end of its first command, and of its removal."""
    begin = time.monotonic()
    id = server.create()["id"]
    server.run(id, "true")
    mid = time.monotonic()
    server.delete(id)
    return (mid - begin) * 1000, (time.monotonic() - mid) * 1000


def plain(engine):
    docker = ["docker", "-H", engine.url]
    begin = time.monotonic()
    cid = subprocess.run([*docker, "run", "-d", "-p", "127.0.0.1::8080", "host:latest", "sleep", "1000"], check=True,
                         capture_output=True, text=True).stdout.strip()
    subprocess.run([*docker, "exec", cid, "true"], check=True)
    mid = time.monotonic()
    subprocess.run([*docker, "rm", "-f", cid], check=True, capture_output=True)
    return (mid - begin) * 1000, (time.monotonic() - mid) * 1000


def measure(rounds):
    """All of them by turns, so that whatever else the machine does meets each in the same way."""
    from dockerbox import Engine
    from dockerserver import DockerServer
    from osbserver import Server
    engine, servers, samples = Engine(runtimes=False), [], {}
    try:
        engine.start()
        engine.load_busybox("host:latest")
        cases = {}
        for name, make in (("embedded runtime", lambda: Server()), ("Docker runtime", lambda: DockerServer(engine)),
                           ("Docker runtime, nothing published",
                            lambda: DockerServer(engine, "[docker]\npublish_ports = false\n")),
                           ("Docker runtime, execd uploaded",
                            lambda: DockerServer(engine, '[docker]\nstage = "upload"\n'))):
            servers.append(make().start())
            cases[name] = lambda s=servers[-1]: through(s)
        cases[PEER] = lambda: plain(engine)
        for i in range(rounds + 1):
            for name, one in cases.items():
                taken = one()
                if i:  # the first round warms up
                    samples.setdefault(name, []).append(taken)
    finally:
        for s in servers:
            s.close()
        engine.close()
    peer = statistics.median(m for m, _ in samples[PEER])
    return [{"what": name, "create_p50_ms": round(statistics.median(m for m, _ in rows), 1),
             "create_max_ms": round(max(m for m, _ in rows), 1),
             "remove_p50_ms": round(statistics.median(g for _, g in rows), 1),
             "ratio": round(statistics.median(m for m, _ in rows) / peer, 2)} for name, rows in samples.items()]


def run(opts):
    rows = measure(max(opts.rounds, 2) * 3)
    write_json(NAME, rows)
    table("create to first command on Docker", ["", "median ms", "to docker run", "longest ms", "removal, median ms"],
          [[r["what"], r["create_p50_ms"], r["ratio"], r["create_max_ms"], r["remove_p50_ms"]] for r in rows])
