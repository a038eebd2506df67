"""Start-up of the programs people and models start: `osb sandbox list`, and the MCP server until `initialize` is
answered, beside the Python programs of the same names from the package registry. One table, one server for all."""

import json
import os
import statistics
import subprocess
import sys
import time

from common import BIN, ROOT, table, write_json

sys.path.append(os.path.join(ROOT, "tests", "support"))

NAME = "cli"
PEERS = ["opensandbox-cli==1.1.1", "opensandbox-mcp==1.1.1"]
VENV = os.path.join(ROOT, "build", "bench-peers")
HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize",
                    "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                               "clientInfo": {"name": "bench", "version": "1"}}}).encode() + b"\n"


def install():
    """Directory of the peers' programs, or None with a word why."""
    stamp = os.path.join(VENV, "installed-" + "-".join(p.split("==")[1] for p in PEERS))
    if not os.path.exists(stamp):
        python = os.path.join(VENV, "bin", "python")
        for cmd in (["/usr/bin/python3", "-m", "venv", "--clear", VENV],
                    [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1", *PEERS]):
            r = subprocess.run(cmd, capture_output=True, text=True, timeout=600, check=False)
            if r.returncode:
                print(f"cli: no peers: {r.stderr.strip()[-200:]}")
                return None
        with open(stamp, "w"):
            pass
    return os.path.join(VENV, "bin")


def list_once(exe, env):
    start = time.perf_counter()
    subprocess.run([exe, "sandbox", "list", "-o", "json"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   check=True)
    return (time.perf_counter() - start) * 1e3


def hello_once(exe, env):
    start = time.perf_counter()
    p = subprocess.Popen([exe], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdin.write(HELLO)
    p.stdin.flush()
    answer = json.loads(p.stdout.readline())
    ms = (time.perf_counter() - start) * 1e3
    p.stdin.close()
    p.wait()
    p.stdout.close()
    if "result" not in answer:
        raise RuntimeError(f"{exe}: {answer}")
    return ms


CELLS = [("osb sandbox list", "osb", list_once), ("opensandbox-mcp, initialize answered", "opensandbox-mcp", hello_once)]


def run(opts):
    from osbserver import Server
    peers = install()
    server = Server()
    server.start()
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPEN_SANDBOX_")}
    env.update(OPEN_SANDBOX_DOMAIN=server.url, OPEN_SANDBOX_API_KEY=server.key, HOME=server.dir)
    rows, raw = [], {}
    try:
        for name, exe, fn in CELLS:
            if opts.match and opts.match not in name:
                continue
            ours, theirs = [], []
            for i in range(10 * opts.rounds + 1):
                ours.append(fn(os.path.join(BIN, exe), env))
                if peers and i % 5 == 0:  # slow, and its spread is small
                    theirs.append(fn(os.path.join(peers, exe), env))
            ours, theirs = ours[1:], theirs[1:]  # the first fills the page cache
            a = statistics.median(ours)
            b = statistics.median(theirs) if theirs else None
            raw[name] = {"ours_ms": ours, "python_ms": theirs}
            rows.append([name, f"{a:.1f} ms", f"{b:.0f} ms" if b else "-", f"{b / a:.0f}x" if b else "-"])
    finally:
        server.close()
    table("start-up, median (target: at least 30x)", ["", "ours", "Python", "ratio"], rows)
    write_json(NAME, raw)
