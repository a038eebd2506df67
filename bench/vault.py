"""Interception: what it adds to a request and how much it carries, beside mitmproxy doing the same.

Three network namespaces as in the tests: client, gateway, servers. The same client opens the same
connections: straight through, through our sidecar with a binding, and through mitmdump in transparent
mode with an addon that sets the header. Needs root."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import common

sys.path.insert(0, os.path.join(common.ROOT, "tests", "support"))
NAME = "vault"

# An HTTPS server that costs little: nginx, one worker.
NGINX = """daemon off; master_process off; error_log stderr crit; pid {dir}/nginx.pid; events {{ worker_connections 1024; }}
http {{ access_log off; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u;
scgi_temp_path {dir}/s; client_max_body_size 0; keepalive_requests 1000000;
server {{ listen 203.0.113.20:443 ssl; ssl_certificate {dir}/good.crt; ssl_certificate_key {dir}/good.key;
location /file {{ root {dir}/www; }} location / {{ return 200 "hello, client\\n"; }} }} }}
"""

CLIENT = """
import http.client, json, socket, ssl, sys, time
ca, ip, kind, n = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
ctx = ssl.create_default_context(cafile=ca)
def connect():
    c = http.client.HTTPSConnection("api.example.com", context=ctx)
    c.sock = ctx.wrap_socket(socket.create_connection((ip, 443)), server_hostname="api.example.com")
    c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return c
out = []
if kind == "keep":
    c = connect(); c.request("GET", "/"); c.getresponse().read()
    for _ in range(n):
        t = time.perf_counter(); c.request("GET", "/"); c.getresponse().read(); out.append(time.perf_counter() - t)
elif kind == "fresh":
    for _ in range(n):
        t = time.perf_counter(); c = connect(); c.request("GET", "/"); c.getresponse().read(); out.append(time.perf_counter() - t); c.close()
else:
    c = connect(); buf = bytearray(1 << 20)
    t = time.perf_counter(); c.request("GET", "/file"); r = c.getresponse(); got = 0
    while (k := r.readinto(buf)): got += k
    out.append(got / (time.perf_counter() - t) / 1e6)
print(json.dumps(out))
"""

ADDON = """
from mitmproxy import http
class A:
    def requestheaders(self, flow):
        flow.request.headers["Authorization"] = "Bearer secret"
    def responseheaders(self, flow):
        flow.response.stream = True
addons = [A()]
"""


def rss_mb(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int([x for x in text.splitlines() if x.startswith("VmRSS")][0].split()[1]) / 1024


def cpu_s(pid):
    f = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def measure(net, ca, kind, n, pid=None):
    cpu = cpu_s(pid) if pid else 0
    r = subprocess.run(net.command("c", "/usr/bin/python3", "-c", CLIENT, ca, "203.0.113.20", kind, n), capture_output=True,
                       text=True, check=True, timeout=300)
    return json.loads(r.stdout), (cpu_s(pid) - cpu) if pid else 0


def start_mitmproxy(net):
    """Redirected to by rules of its own, in the same gateway, after our sidecar has gone."""
    d = net.dir / "mitm"
    d.mkdir()
    (d / "addon.py").write_text(ADDON)
    net.enter("g", "nft", "delete table inet opensandbox")
    net.enter("g", "nft", "-f", "-", input="table ip bench {\nchain p {\ntype nat hook prerouting priority dstnat\n"
              'iifname "inside" tcp dport { 80, 443 } redirect to :18081\n}\n}\n')
    p = net.popen("g", "mitmdump", "-q", "--mode", "transparent", "--listen-host", "0.0.0.0", "--listen-port", "18081",
                  "--set", f"confdir={d}", "--set", f"ssl_verify_upstream_trusted_ca={net.dir / 'ca.crt'}",
                  "--set", "connection_strategy=lazy", "-s", d / "addon.py", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not (d / "mitmproxy-ca-cert.pem").exists():
        if time.monotonic() > end:
            raise RuntimeError("mitmdump does not start")
        time.sleep(0.1)
    while True:
        try:
            net.socket("g", ("127.0.0.1", 18081)).close()
            return p, d / "mitmproxy-ca-cert.pem"
        except OSError:
            time.sleep(0.1)


def all_kinds(net, ca, opts, pid=None):
    n = 2000 if opts.full else 400
    keep, cpu_keep = measure(net, ca, "keep", n, pid)
    fresh, cpu_fresh = measure(net, ca, "fresh", n // 8, pid)
    bulk, cpu_bulk = measure(net, ca, "bulk", 1, pid)
    return {"keep-alive p50 ms": statistics.median(keep) * 1e3, "keep-alive p99 ms": sorted(keep)[int(len(keep) * .99)] * 1e3,
            "new connection p50 ms": statistics.median(fresh) * 1e3, "download MB/s": bulk[0],
            "CPU us a request": cpu_keep / n * 1e6, "CPU ms a connection": cpu_fresh / (n // 8) * 1e3,
            "CPU ms a MB": cpu_bulk / SIZE_MB * 1e3}


SIZE_MB = 200


def run(opts):
    import vaultnet
    net = vaultnet.Net()
    rows = {}
    try:
        (net.dir / "www").mkdir()
        with open(net.dir / "www" / "file", "wb") as f:
            f.truncate(SIZE_MB << 20)
        for f in ("", "www", "www/file", "good.crt", "good.key"):
            os.chmod(net.dir / f, 0o755)
        net.enter("s", "ip", "addr", "add", "203.0.113.20/24", "dev", "eth0")
        (net.dir / "nginx.conf").write_text(NGINX.format(dir=net.dir))
        net.popen("s", "nginx", "-c", net.dir / "nginx.conf", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        net.start()
        time.sleep(3)  # what the start needed has gone back by then
        idle = rss_mb(net.sidecar.pid)
        rows["direct"] = all_kinds(net, net.dir / "ca.crt", opts)
        net.vault({"t": "secret"}, [vaultnet.bind("b", "api.example.com", {"type": "bearer", "credential": "t"})])
        rows["ours"] = all_kinds(net, net.ca, opts, net.sidecar.pid)
        rows["ours"]["memory MB"], rows["ours"]["idle MB"] = rss_mb(net.sidecar.pid), idle
        net.stop()
        p, ca = start_mitmproxy(net)
        rows["mitmproxy"] = all_kinds(net, ca, opts, p.pid)
        rows["mitmproxy"]["memory MB"] = rss_mb(p.pid)
    finally:
        net.close()
    report(rows)


def report(rows):
    os.makedirs(common.OUT, exist_ok=True)
    pathlib.Path(common.OUT, "vault.json").write_text(json.dumps(rows, indent=1))
    print("\nvault: the same requests direct, through the sidecar, through mitmproxy")
    print(f"{'':26}{'direct':>10}{'ours':>10}{'mitmproxy':>12}{'ratio':>9}")
    for k in rows["ours"]:
        d, o, m = (rows[r].get(k) for r in ("direct", "ours", "mitmproxy"))
        ratio = (o / m if "MB/s" in k else m / o) if o and m else None
        cells = [f"{x:.3g}" if x else "-" for x in (d, o, m)]
        print(f"{k:26}{cells[0]:>10}{cells[1]:>10}{cells[2]:>12}{f'{ratio:.1f}x' if ratio else '-':>9}")
    for k in ("keep-alive p50 ms", "new connection p50 ms"):
        ours, theirs = (rows[r][k] - rows["direct"][k] for r in ("ours", "mitmproxy"))
        print(f"added, {k:19}{'':>10}{ours:>10.3g}{theirs:>12.3g}{theirs / max(ours, 1e-3):>8.1f}x")
