"""The HTTP room beside nginx: a hello route, the reverse proxy, and idle connections.

The server under test runs alone on one CPU; wrk and the upstream share the other. Ours and nginx take
turns, several rounds each; what counts is the best round of each (the least disturbed one). Where wrk
or the upstream is the bottleneck requests/s say little, so CPU time per request stands beside them.
"""

import os
import re
import socket
import statistics
import subprocess
import sys

from common import BIN, Program, TempDir, cpus, free_port, raise_file_limit, table, wait_port, write_json

NAME = "http"
CONNECTIONS = 64
IDLE = 10000

NGINX = """
worker_processes 1;
daemon off;
master_process on;
pid {dir}/nginx.pid;
error_log {dir}/error.log crit;
events {{ worker_connections 12000; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
    client_max_body_size 0;
    client_body_buffer_size 64k;
    upstream up {{ server 127.0.0.1:{upstream}; keepalive 128; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location = /hello {{ default_type text/plain; return 200 "Hello, World!"; }}
        location /proxy/ {{
            proxy_pass http://up/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffer_size 64k;
            proxy_buffers 8 64k;
            proxy_max_temp_file_size 0;
            proxy_request_buffering off;
        }}
    }}
}}
"""

UPLOAD_LUA = """
wrk.method = "POST"
wrk.body = string.rep("x", {n})
"""


def start_nginx(directory, cpu, upstream):
    port = free_port()
    conf = os.path.join(directory, "nginx.conf")
    with open(conf, "w") as f:
        f.write(NGINX.format(dir=directory, port=port, upstream=upstream))
    p = Program(["/usr/sbin/nginx", "-c", conf, "-p", directory, "-e", os.path.join(directory, "error.log")], cpu)
    wait_port(port)
    return p, port


def start_ours(cpu, upstream=None):
    port = free_port()
    cmd = [os.path.join(BIN, "httpd_demo"), "--port", str(port), "--idle-ms", "300000"]
    if upstream:
        cmd += ["--upstream", f"127.0.0.1:{upstream}"]
    p = Program(cmd, cpu, stdout=subprocess.DEVNULL)
    wait_port(port)
    return p, port


def wrk(cpu, url, seconds, script=None):
    cmd = ["taskset", "-c", str(cpu), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "--timeout", "5s"]
    if script:
        cmd += ["-s", script]
    out = subprocess.run(cmd + [url], check=True, capture_output=True, text=True).stdout
    done = int(re.search(r"(\d+) requests in", out).group(1))
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", out)
    return {
        "requests": done,
        "rps": float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)),
        "p99": re.search(r"99%\s+(\S+)", out).group(1),
        "errors": (int(bad.group(1)) if bad else 0) + (sum(map(int, broken.groups())) if broken else 0),
    }


def measure(program, cpu, url, seconds, script):
    before = program.cpu_seconds()
    sample = wrk(cpu, url, seconds, script)
    used = program.cpu_seconds() - before
    sample["cpu_us"] = used * 1e6 / max(sample["requests"], 1)
    return sample


def cell(ours, nginx, cpu, path, opts, script=None):
    """Rounds of both in turn. Each is (program, port)."""
    samples = {"ours": [], "nginx": []}
    for round_no in range(opts.rounds + 1):
        for name, (program, port) in (("ours", ours), ("nginx", nginx)):
            seconds = opts.seconds if round_no else 1 # the first warms up: connections, caches, pools
            s = measure(program, cpu, f"http://127.0.0.1:{port}{path}", seconds, script)
            if round_no:
                samples[name].append(s)
    return samples


def summary(samples):
    best = {k: max(s["rps"] for s in v) for k, v in samples.items()}
    cpu = {k: min(s["cpu_us"] for s in v) for k, v in samples.items()}
    errors = sum(s["errors"] for v in samples.values() for s in v)
    return {
        "rps": best, "cpu_us": cpu, "errors": errors,
        "rps_ratio": best["ours"] / best["nginx"],
        "cpu_ratio": cpu["nginx"] / cpu["ours"],
        "median_ratio": statistics.median(s["rps"] for s in samples["ours"])
        / statistics.median(s["rps"] for s in samples["nginx"]),
    }


def idle_bytes(program, port):
    """Resident memory per connection that has made one request and now waits."""
    conns = []
    request = b"GET /hello HTTP/1.1\r\nHost: h\r\n\r\n"

    def open_one():
        s = socket.create_connection(("127.0.0.1", port))
        s.sendall(request)
        s.recv(4096)
        return s

    try:
        conns.append(open_one())
        before = program.rss_bytes()
        conns += [open_one() for _ in range(IDLE)]
        return (program.rss_bytes() - before) / IDLE
    finally:
        for s in conns:
            s.close()


def run(opts):
    server_cpu, other_cpu = cpus()[0], cpus()[-1]
    raise_file_limit(IDLE + 2500)
    results = {}
    with TempDir() as directory:
        lua = os.path.join(directory, "upload.lua")
        with open(lua, "w") as f:
            f.write(UPLOAD_LUA.format(n=1 << 20))
        upstream, up_port = start_ours(other_cpu)
        with upstream:
            nginx, ours = start_nginx(directory, server_cpu, up_port), start_ours(server_cpu, up_port)
            with nginx[0], ours[0]:
                for name, path, script in (
                        ("hello, 13 B", "/hello", None),
                        ("proxy, 13 B", "/proxy/hello", None),
                        ("proxy, 16 kB", "/proxy/bytes/16384", None),
                        ("proxy, 1 MiB down", "/proxy/bytes/1048576", None),
                        ("proxy, 1 MiB up", "/proxy/sink", lua)):
                    if opts.match and opts.match not in name:
                        continue
                    samples = cell(ours, nginx, other_cpu, path, opts, script)
                    results[name] = {"samples": samples, **summary(samples)}
                    print(".", end="", flush=True, file=sys.stderr)
            idle = {}
            if not opts.match or opts.match in "idle": # fresh ones: a heap that was in use hides what is needed
                nginx, ours = start_nginx(directory, server_cpu, up_port), start_ours(server_cpu)
                with nginx[0], ours[0]:
                    idle = {"ours": idle_bytes(*ours), "nginx": idle_bytes(*nginx)}
    rows = []
    for name, r in results.items():
        rows.append([name, f"{r['rps']['ours']:.0f}", f"{r['rps']['nginx']:.0f}", f"{r['rps_ratio']:.2f}",
                     f"{r['cpu_us']['ours']:.1f}", f"{r['cpu_us']['nginx']:.1f}", f"{r['cpu_ratio']:.2f}",
                     r["errors"], ">= 0.9"])
    table("HTTP beside nginx (one worker, same core, same upstream; ratios above 1 are in our favour)",
          ["", "req/s", "nginx", "ratio", "CPU us", "nginx", "ratio", "errors", "target"], rows)
    if idle:
        table(f"Memory per idle connection ({IDLE} of them)", ["", "bytes", "nginx", "target"],
              [["idle", f"{idle['ours']:.0f}", f"{idle['nginx']:.0f}", "<= 1024"]])
    path = write_json(NAME, {"connections": CONNECTIONS, "seconds": opts.seconds, "rounds": opts.rounds,
                             "cells": results, "idle_bytes": idle})
    print(f"\nraw samples: {path}")
