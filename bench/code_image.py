"""Sandboxes of the code interpreter's image, on both runtimes: how long until one is ready by the probe that published clients use, beside a
plain Jupyter server that starts and answers; the first result in each language; and the first result out of a warm pool."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request

from common import ROOT, TempDir, free_port, table, write_json

sys.path.append(os.path.join(ROOT, "tests", "support"))
import codeimage  # noqa: E402
from execd_client import Events  # noqa: E402
from osbserver import wait_for  # noqa: E402

NAME = "code_image"
PROBE = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/44771'"
ONE = {"python": "1 + 1", "bash": "echo 2", "javascript": "1 + 1", "typescript": "1 + 1", "java": "1 + 1",
       "go": 'import "fmt"\n%%\nfmt.Println(2)', "sql": "SELECT 2"}
TEMPLATE = {"image": {"uri": codeimage.NAME}, "entrypoint": [codeimage.ENTRY], "resourceLimits": {"memory": "2Gi"}}


def since(start):
    return (time.perf_counter() - start) * 1e3


def first(sandbox, language):
    start = time.perf_counter()
    r = sandbox.post("/code", json={"code": ONE[language], "context": {"language": language}})
    took = since(start)
    assert r.status_code == 200 and not Events(r.content).error, r.text
    return took


def ready(server):
    """Milliseconds from the request to the moment in which a client hands out an interpreter."""
    start = time.perf_counter()
    s = codeimage.Sandbox(server, **TEMPLATE)
    while server.run(s.id, PROBE)[1]["type"] != "execution_complete":
        time.sleep(0.005)
    return s, since(start)


def cold(server, rounds):
    """Ready, and then each language for the first time in a sandbox of its own."""
    out = {"ready": [], **{language: [] for language in ONE if language in codeimage.languages()}}
    for i in range(rounds):
        for language in list(out)[1:]:
            s, took = ready(server)
            out["ready"].append(took)
            out[language].append(first(s, language))
            s.kill()
    return out


def jupyter(rounds):
    """What takes the place of the probe where there is a Jupyter server: until it answers."""
    out = []
    for _ in range(rounds):
        with TempDir() as home:
            port = free_port()
            start = time.perf_counter()
            p = subprocess.Popen(["/usr/bin/python3", "-m", "jupyter_server", "--allow-root", "--no-browser", f"--port={port}", "--ServerApp.token=t"],
                                 env={"HOME": home, "PATH": "/usr/bin:/bin"}, cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
            try:
                wait_for("Jupyter", lambda: answers(f"http://127.0.0.1:{port}/api/kernelspecs?token=t"), interval=0.005)
                out.append(since(start))
            finally:
                p.terminate()
                p.wait()
    return out


def answers(url):
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as r:
        return bool(json.load(r))
    return False


def kernel_cpu(server):
    """Clock ticks that the kernels of the sandboxes have used: none more means that they are up."""
    total = 0
    for pid in server.processes():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
            if b"ipykernel_launcher" in f.read():
                with open(f"/proc/{pid}/stat") as g:
                    total += int(g.read().rsplit(")", 1)[1].split()[11])
    return total


def await_idle_kernels(server):
    last, same = -1, 0
    while same < 5:
        time.sleep(0.1)
        now = kernel_cpu(server)
        same = same + 1 if now == last and now > 0 else 0
        last = now


def pool(server, rounds):
    """(from create to the first result, of these the code)"""
    server.ok("POST", "/v1/pools", {"name": "code", "template": TEMPLATE, "capacitySpec": {"bufferMin": 1, "bufferMax": 1, "poolMin": 0, "poolMax": 100}})
    out = []
    for _ in range(rounds):
        wait_for("a member", lambda: server.ok("GET", "/v1/pools/code")["status"]["available"] == 1)
        await_idle_kernels(server)
        start = time.perf_counter()
        s = codeimage.Sandbox(server, image=None, resourceLimits=None, extensions={"poolRef": "code"}, env={"A": "b"})
        code = first(s, "python")
        out.append((since(start), code))
        s.kill()
    server.delete_pools()
    return out


def run(opts):
    quiet = '[log]\nlevel = "info"\n'
    data = {"jupyter": jupyter(opts.rounds)}
    with codeimage.embedded(quiet) as s:
        data["embedded"] = cold(s, opts.rounds)
        data["pool"] = pool(s, max(5, opts.rounds))
    with codeimage.docker(quiet) as s:
        data["docker"] = cold(s, opts.rounds)
    write_json(NAME, data)
    ours, theirs, peer = data["embedded"], data["docker"], statistics.median(data["jupyter"])
    rows = [["ready, from the request", *(f"{statistics.median(d['ready']):.0f} ms" for d in (ours, theirs)), f"{peer:.0f} ms", "< 2000 ms"]]
    rows += [[f"then the first {language}", f"{statistics.median(ours[language]):.0f} ms", f"{statistics.median(theirs[language]):.0f} ms", "", ""]
             for language in list(ours)[1:]]
    for i, what in enumerate(("out of a pool: first result, from the request", "out of a pool: first result, once created")):
        rows.append([what, f"{statistics.median(v[i] for v in data['pool']):.1f} ms", "", "", "< 50 ms"])
    table("A sandbox of the code interpreter (median)", ["", "embedded", "Docker", "a Jupyter server alone", "target"], rows)
