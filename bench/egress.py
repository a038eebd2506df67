"""The DNS proxy of the egress sidecar: dnsperf from a sandbox through its gateway, against asking the resolver
directly over as many hops; and the memory of one idle sidecar."""

import os
import re
import sys
import time

import common

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "support"))

NAME = "egress"


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rate(net, ns, seconds):
    out = net.inside(ns, "dnsperf", "-s", "203.0.113.1", "-d", f"{net.dir}/queries", "-l", str(seconds), "-c", "4", "-q", "200").stdout
    return float(re.search(r"Queries per second:\s+([\d.]+)", out).group(1))


def memory_kb(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        text = f.read()
    return {k: int(re.search(rf"^{k}:\s+(\d+)", text, re.M).group(1)) for k in ("Rss", "Pss")}


def run(opts):
    import egressnet
    seconds = 10 if getattr(opts, "full", False) else 3
    net = egressnet.Net()
    try:
        with open(f"{net.dir}/queries", "w") as f:
            f.write("good.test A\n")
        net.start({"egress": [{"action": "allow", "target": "good.test"}]})
        time.sleep(3)  # what the start needed has gone back by then
        idle = memory_kb(net.sidecar.pid)
        before = cpu_s(net.sidecar.pid)
        ours = rate(net, net.sandbox, seconds)
        per_core = ours * seconds / max(cpu_s(net.sidecar.pid) - before, 0.01)
        direct = rate(net, net.gateway, seconds)  # one hop to dnsmasq; port 53 of the gateway itself is not redirected
    finally:
        net.close()
    data = {"proxied_qps": ours, "per_core_qps": per_core, "direct_qps": direct, "idle": idle}
    common.write_json(NAME, data)
    common.table("egress: one name, cached", ["what", "value"], [
        ["queries/s through the proxy", f"{ours:.0f}"], ["queries per second of its CPU", f"{per_core:.0f}"],
        ["queries/s of dnsmasq, direct", f"{direct:.0f}"],
        ["ratio", f"{ours / direct:.2f}x"], ["idle sidecar, resident", f"{idle['Rss'] / 1024:.1f} MB"],
        ["idle sidecar, its share", f"{idle['Pss'] / 1024:.1f} MB"]])
