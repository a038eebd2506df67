"""Sandboxes through the server on the embedded runtime: create to first answer, a burst, commands through the
proxy, memory, density and restart. Beside them: the bare OCI engine, and `docker run`."""

import http.client
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
import uuid

from common import ROOT, TempDir, table, write_json

sys.path.append(os.path.join(ROOT, "tests", "support"))

NAME = "server"
TRUE = json.dumps({"command": "true"})


class Client:
    """One kept-alive connection."""

    def __init__(self, server):
        self.conn = http.client.HTTPConnection(server.url.split("//")[1], timeout=120)
        self.headers = {"OPEN-SANDBOX-API-KEY": server.key, "Content-Type": "application/json"}

    def ask(self, method, path, body=None):
        self.conn.request(method, path, body, self.headers)
        resp = self.conn.getresponse()
        data = resp.read()
        if resp.status >= 300:
            raise RuntimeError(f"{method} {path}: {resp.status} {data[:200]}")
        return data

    def create(self, body):
        return json.loads(self.ask("POST", "/v1/sandboxes", json.dumps(body)))["id"]

    def true(self, id):
        if b'"execution_complete"' not in self.ask("POST", f"/v1/sandboxes/{id}/proxy/44772/command", TRUE):
            raise RuntimeError("the command did not complete")

    def delete(self, id):
        self.ask("DELETE", f"/v1/sandboxes/{id}")


def cold(server, body, n):
    """Milliseconds from create to the answer of the first command."""
    c, out = Client(server), []
    for _ in range(n):
        start = time.perf_counter()
        id = c.create(body)
        c.true(id)
        out.append((time.perf_counter() - start) * 1e3)
        c.delete(id)
    return out


def together(n, fn):
    """fn(i) in n threads at once; seconds until the last has ended. Raises what one raised."""
    failed = []

    def one(i):
        try:
            fn(i)
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    start = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]
    return time.perf_counter() - start


def burst(server, body, n):
    ids = [None] * n

    def one(i):
        c = Client(server)
        ids[i] = c.create(body)
        c.true(ids[i])

    seconds = together(n, one)
    together(n, lambda i: Client(server).delete(ids[i]))
    return seconds


def proxied(server, body, n):
    c = Client(server)
    id = c.create(body)
    c.true(id)
    out = []
    for _ in range(n):
        start = time.perf_counter()
        c.true(id)
        out.append((time.perf_counter() - start) * 1e3)
    c.delete(id)
    return out


def direct(server, body, n):
    """The same commands, asked of execd at its own address."""
    c = Client(server)
    id = c.create(body)
    end = json.loads(c.ask("GET", f"/v1/sandboxes/{id}/endpoints/44772"))
    host, _, path = end["endpoint"].partition("/")
    conn = http.client.HTTPConnection(host, timeout=120)
    headers = {"Content-Type": "application/json", **end.get("headers", {})}
    out = []
    for _ in range(n + 1):
        start = time.perf_counter()
        conn.request("POST", "/" + path + "/command" if path else "/command", TRUE, headers)
        resp = conn.getresponse()
        data = resp.read()
        out.append((time.perf_counter() - start) * 1e3)
        if b'"execution_complete"' not in data:
            raise RuntimeError(f"directly: {resp.status} {data[:200]}")
    c.delete(id)
    return out[1:]


def execd_kb():
    """Resident memory of every execd that runs as the first process of a sandbox, on the average."""
    sizes = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status") as f:
                status = f.read()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines())
        if fields["Name"].strip() == "execd" and fields["NSpid"].split()[-1] == "1" and "VmRSS" in fields:
            sizes.append(int(fields["VmRSS"].split()[0]))
    return statistics.mean(sizes) if sizes else 0


def pss_kb(pid):
    """What of its resident memory is its own: pages that several processes map are divided among them."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return [int(line.split()[1]) for line in f if line.startswith("Pss:")][0]


def rss_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        return [int(line.split()[1]) for line in f if line.startswith("VmRSS")][0]


def fill(server, body, n):
    """n sandboxes alive and answering; their ids."""
    ids, lock, left = [], threading.Lock(), list(range(n))

    def work(_):
        c = Client(server)
        while True:
            with lock:
                if not left:
                    return
                left.pop()
            id = c.create(body)
            c.true(id)
            with lock:
                ids.append(id)

    together(8, work)
    return ids


def restart(server, ids):
    """Kill -9, start again; seconds until all are listed and their execd answers, and until each has run a command."""
    server.kill()
    start = time.perf_counter()
    server.start()
    total = json.loads(Client(server).ask("GET", "/v1/sandboxes?pageSize=1"))["pagination"]["totalItems"]
    if total != len(ids):
        raise RuntimeError(f"{len(ids) - total} of {len(ids)} sandboxes were lost")

    def each(act):
        def work(i):
            c = Client(server)
            for id in ids[i::8]:
                act(c, id)
        together(8, work)
        return time.perf_counter() - start

    return each(lambda c, id: c.ask("GET", f"/v1/sandboxes/{id}/proxy/44772/ping")), each(lambda c, id: c.true(id))


def ten_thousand(n):
    """Milliseconds of one page and of one sandbox when there are 10,000 records."""
    from osbserver import Server
    server = Server()
    try:
        server.start()
        server.stop()
        now = time.time_ns() // 1000
        with sqlite3.connect(os.path.join(server.data, "opensandbox.db")) as db:
            db.executemany(
                "INSERT INTO sandboxes(id, owner, runtime, state, reason, message, created_us, transition_us, entrypoint,"
                " metadata, image, renew_extend_s, spec, answered, had_auth)"
                " VALUES(?, 'default', 'oci', 'Terminated', 'CONTAINER_EXITED', '', ?, ?, '[\"sleep\"]', ?, 'host', 0, '{}', 0, 0)",
                [(str(uuid.uuid4()), now + i, now, json.dumps({"n": str(i), "team": f"t{i % 50}"})) for i in range(10000)])
        server.start()
        c, out = Client(server), {"list": [], "filter": [], "get": []}
        page = json.loads(c.ask("GET", "/v1/sandboxes"))
        assert page["pagination"]["totalItems"] == 10000
        paths = {"list": "/v1/sandboxes?page=250", "filter": "/v1/sandboxes?metadata=team%3Dt7&state=terminated",
                 "get": f"/v1/sandboxes/{page['items'][7]['id']}"}
        for _ in range(n):
            for name, path in paths.items():
                start = time.perf_counter()
                c.ask("GET", path)
                out[name].append((time.perf_counter() - start) * 1e3)
        return out, rss_kb(server.pid)
    finally:
        server.stop()
        with sqlite3.connect(os.path.join(server.data, "opensandbox.db")) as db:
            db.execute("DELETE FROM sandboxes")  # nothing of theirs runs
        server.close()


def engine_ms(n):
    """`crun run` of a bare bundle on the machine's own root, without network: the floor of the engine."""
    crun = shutil.which("crun")
    out = []
    with TempDir() as d:
        subprocess.run([crun, "spec"], cwd=d, check=True)
        with open(os.path.join(d, "config.json")) as f:
            spec = json.load(f)
        spec["process"].update(terminal=False, args=["/bin/true"])
        spec["root"] = {"path": os.path.join(d, "root"), "readonly": True}
        os.mkdir(spec["root"]["path"])
        spec["mounts"] = [m for m in spec["mounts"] if m["type"] not in ("cgroup", "cgroup2")]
        spec["linux"]["namespaces"] = [ns for ns in spec["linux"]["namespaces"] if ns["type"] != "cgroup"]
        spec["linux"].pop("resources", None)
        with open(os.path.join(d, "config.json"), "w") as f:
            json.dump(spec, f)
        script = (f"umount /sys/fs/cgroup/unified 2>/dev/null; mount --bind / {spec['root']['path']};"
                  f"exec {crun} run --bundle {d} bench-$$")
        for _ in range(n):
            start = time.perf_counter()
            r = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True)
            out.append((time.perf_counter() - start) * 1e3)
            if r.returncode != 0:
                print("crun run:", r.stderr.decode().strip())
                return None
    return statistics.median(out)


def docker_ms(n):
    """`docker run --rm IMAGE true` on an engine of its own."""
    from dockerbox import Engine
    engine, out = Engine(runtimes=False), []
    try:
        engine.start()
        engine.load_busybox("bench:latest")
        for i in range(n + 1):
            start = time.perf_counter()
            subprocess.run(["docker", "-H", engine.url, "run", "--rm", "bench:latest", "true"], capture_output=True, check=True)
            if i:  # the first one warms up
                out.append((time.perf_counter() - start) * 1e3)
    finally:
        engine.close()
    return statistics.median(out)


def quantile(v, q):
    return sorted(v)[min(len(v) - 1, int(len(v) * q))]


def run(opts):
    from osbserver import Server, request_body
    body = request_body(resourceLimits={"cpu": "1", "memory": "128Mi"}, timeout=3600)
    alive = 1000 if opts.full else 50
    server = Server()
    try:
        server.start()
        idle, share = rss_kb(server.pid), pss_kb(server.pid)
        create = cold(server, body, 100 if opts.full else 20)
        proxy = proxied(server, body, 500 if opts.full else 100)
        straight = direct(server, body, 500 if opts.full else 100)
        many = burst(server, body, 100)
        ids = fill(server, body, alive)
        loaded, inside = rss_kb(server.pid), execd_kb()
        back, worked = restart(server, ids)
        together(8, lambda i: [Client(server).delete(id) for id in ids[i::8]])
    finally:
        server.close()
    records, records_kb = ten_thousand(1000 if opts.full else 200)
    engine, docker = engine_ms(10), docker_ms(5)
    p50 = statistics.median(create)
    rows = [
        ["create to first command, p50", f"{p50:.1f} ms", f"{engine:.1f} ms (crun run)" if engine else "no crun run",
         f"{p50 / engine:.2f}" if engine else "", "<= 25 ms"],
        ["create to first command, p99", f"{quantile(create, 0.99):.1f} ms", "", "", ""],
        ["the same with docker run", f"{p50:.1f} ms", f"{docker:.0f} ms" if docker else "no Docker engine here",
         f"1/{docker / p50:.0f}" if docker else "", "<= 1/15"],
        ["burst of 100, all answered", f"{many:.2f} s", "", "", "<= 3 s"],
        ["true through the proxy, p50", f"{statistics.median(proxy):.2f} ms", "", "", ""],
        ["the same, asked of execd directly", f"{statistics.median(straight):.2f} ms", "",
         f"+{statistics.median(proxy) - statistics.median(straight):.2f} ms by the proxy", "<= +1 ms"],
        ["one sandbox beside its workload", f"{inside + (loaded - idle) / alive:.0f} kB", "", "", "<= 3072 kB"],
        ["server, idle", f"{idle} kB", "", f"{share} kB its share", "<= 10240 kB"],
        [f"server, {alive} sandboxes", f"{loaded} kB", "", "", "<= 40960 kB at 1,000"],
        [f"restart with {alive}, all answer", f"{back:.2f} s", "", "", "<= 2 s at 1,000"],
        ["the same, and a command in each", f"{worked:.2f} s", "", "", ""],
    ]
    rows += [[f"{name} with 10,000 records, p99", f"{quantile(v, 0.99):.2f} ms", "", "", "<= 5 ms"] for name, v in records.items()]
    table("sandboxes on the embedded runtime", ["", "ours", "peer", "ratio", "target"], rows)
    write_json(NAME, {"create_ms": create, "proxy_ms": proxy, "direct_ms": straight, "execd_kb": inside, "burst_s": many, "idle_kb": idle, "idle_pss_kb": share, "alive": alive,
                      "loaded_kb": loaded, "restart_s": back, "restart_command_s": worked, "engine_ms": engine, "docker_ms": docker,
                      "records_ms": records, "records_kb": records_kb})
