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


def through(server, rounds):
    """Milliseconds from the request for a sandbox to the end of its first command, and of its removal."""
    made, gone = [], []
    for i in range(rounds + 1):
        begin = time.monotonic()
        id = server.create()["id"]
        server.run(id, "true")
        mid = time.monotonic()
        server.delete(id)
        if i:  # the first one warms up
            made.append((mid - begin) * 1000)
            gone.append((time.monotonic() - mid) * 1000)
    return made, gone


def plain(engine, rounds):
    made, gone = [], []
    docker = ["docker", "-H", engine.url]
    for i in range(rounds + 1):
        begin = time.monotonic()
        cid = subprocess.run([*docker, "run", "-d", "-p", "127.0.0.1::8080", "host:latest", "sleep", "1000"], check=True,
                             capture_output=True, text=True).stdout.strip()
        subprocess.run([*docker, "exec", cid, "true"], check=True)
        mid = time.monotonic()
        subprocess.run([*docker, "rm", "-f", cid], check=True, capture_output=True)
        if i:
            made.append((mid - begin) * 1000)
            gone.append((time.monotonic() - mid) * 1000)
    return made, gone


def measure(rounds):
    from dockerbox import Engine
    from dockerserver import DockerServer
    from osbserver import Server
    engine, rows = Engine(runtimes=False), []
    try:
        engine.start()
        engine.load_busybox("host:latest")
        cases = [("embedded runtime", lambda: Server()), ("Docker runtime", lambda: DockerServer(engine)),
                 ("Docker runtime, nothing published",
                  lambda: DockerServer(engine, "[docker]\npublish_ports = false\n")),
                 ("Docker runtime, execd uploaded", lambda: DockerServer(engine, '[docker]\nstage = "upload"\n'))]
        for name, make in cases:
            server = make().start()
            try:
                rows.append((name, *through(server, rounds)))
            finally:
                server.close()
        rows.append(("docker run, docker exec", *plain(engine, rounds)))
    finally:
        engine.close()
    return [{"what": name, "create_p50_ms": round(statistics.median(made), 1), "create_max_ms": round(max(made), 1),
             "remove_p50_ms": round(statistics.median(gone), 1)} for name, made, gone in rows]


def run(opts):
    rows = measure(max(opts.rounds, 2) * 3)
    write_json(NAME, rows)
    table("create to first command on Docker", ["", "median ms", "longest ms", "removal, median ms"],
          [[r["what"], r["create_p50_ms"], r["create_max_ms"], r["remove_p50_ms"]] for r in rows])
