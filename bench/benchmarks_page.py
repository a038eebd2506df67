"""docs/benchmarks.md and its plots, out of what reference.py measured."""

import os
import platform
import subprocess
import time

from common import BIN, ROOT

PAGE = os.path.join(ROOT, "docs", "benchmarks.md")
# key, what, format, smaller is better
ROWS = [
    ("create_p50_ms", "create to first command, p50", "{:.1f} ms", True),
    ("create_p99_ms", "create to first command, longest", "{:.1f} ms", True),
    ("burst_s", "20 creates at once, until all answered", "{:.2f} s", True),
    ("direct_p50_ms", "`true` through execd directly, p50", "{:.2f} ms", True),
    ("true_p50_ms", "`true` through the server's proxy, p50", "{:.2f} ms", True),
    ("true_p99_ms", "`true` through the server's proxy, p99", "{:.2f} ms", True),
    ("stream_mb_s", "stdout of a command through the proxy", "{:.0f} MB/s", False),
    ("upload_mb_s", "file upload through the proxy", "{:.0f} MB/s", False),
    ("download_mb_s", "file download through the proxy", "{:.0f} MB/s", False),
    ("proxied_per_s", "small requests through the proxy, 64 connections", "{:,.0f} /s", False),
    ("idle_kb", "server, resident, idle", "{:,.0f} kB", True),
    ("crowd_kb", "server, resident, 20 sandboxes", "{:,.0f} kB", True),
    ("list_p50_ms", "list of 20 sandboxes, p50", "{:.2f} ms", True),
    ("list_p99_ms", "list of 20 sandboxes, p99", "{:.2f} ms", True),
    ("get_p50_ms", "one sandbox, p50", "{:.2f} ms", True),
    ("restart_s", "killed and started again with 20 sandboxes, until all answer", "{:.2f} s", True),
    ("snapshot_ms", "snapshot with 100 MB changed, until ready", "{:.0f} ms", True),
    ("restore_ms", "create from that snapshot, to first command", "{:.0f} ms", True),
]
WHO = ("embedded", "ours", "reference")
TITLES = {"embedded": "ours, embedded runtime", "ours": "ours, on Docker", "reference": "reference, on Docker", "own": "reference with its own execd"}
COLOURS = {"embedded": "#2a6f4e", "ours": "#5aa17f", "reference": "#b5651d", "docker run": "#8a8a8a"}


def factor(mine, theirs, smaller):
    """How many times better ours is; None where one is missing."""
    if not mine or not theirs:
        return None
    return theirs / mine if smaller else mine / theirs


def times(f):
    return "" if f is None else f"{f:.0f}×" if f >= 10 else f"{f:.1f}×" if f >= 1 else f"{f:.2f}×"


def rows(r):
    out = []
    for key, what, fmt, smaller in ROWS:
        values = [r[w].get(key) for w in WHO]
        if any(v is not None for v in values):
            out.append([what, *(fmt.format(v) if v is not None else "-" for v in values),
                        times(factor(values[1], values[2], smaller)), times(factor(values[0], values[2], smaller))])
    return out


# ---- plots ----

def svg(width, height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="sans-serif" font-size="12">\n<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n")


def text(x, y, s, anchor="start", size=12, weight="normal"):
    s = s.replace("&", "&amp;").replace("<", "&lt;").replace("`", "")
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="#222">{s}</text>'


def bar(x, y, w, h, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 1):.1f}" height="{h}" fill="{colour}"/>'


def plot_create(r):
    bars = [("ours, embedded runtime", r["embedded"].get("create_p50_ms"), "embedded"), ("ours, on Docker", r["ours"].get("create_p50_ms"), "ours"),
            ("docker run --rm … true", r.get("docker_run_ms"), "docker run"), ("reference, on Docker", r["reference"].get("create_p50_ms"), "reference")]
    bars = [b for b in bars if b[1]]
    most = max(b[1] for b in bars)
    body = [text(10, 22, "Create to the answer of the first command, median", size=14, weight="bold")]
    for i, (name, ms, who) in enumerate(bars):
        y = 40 + 30 * i
        body += [text(190, y + 15, name, "end"), bar(200, y, 420 * ms / most, 20, COLOURS[who]), text(206 + 420 * ms / most, y + 15, f"{ms:.0f} ms")]
    return svg(720, 50 + 30 * len(bars), body)


def plot_factors(r):
    import math
    lines = [(what, factor(r["ours"].get(key), r["reference"].get(key), smaller), factor(r["embedded"].get(key), r["reference"].get(key), smaller))
             for key, what, _, smaller in ROWS]
    lines = [x for x in lines if x[1] or x[2]]
    values = [f for x in lines for f in x[1:] if f]
    low, high = math.floor(math.log10(min(values + [1]))), math.ceil(math.log10(max(values)))
    left, wide = 400, 400

    def at(f):
        return left + wide * (math.log10(f) - low) / max(high - low, 1)

    end = 48 + 34 * len(lines)
    body = [text(10, 22, "Times better than the reference server (logarithmic; right of 1 is better)", size=14, weight="bold")]
    for e in range(low, high + 1):
        body += [f'<line x1="{at(10 ** e):.0f}" y1="36" x2="{at(10 ** e):.0f}" y2="{end}" stroke="{"#222" if e == 0 else "#ddd"}"/>',
                 text(at(10 ** e), end + 16, f"{10 ** e:g}×", "middle")]
    for i, (what, docker, embedded) in enumerate(lines):
        y = 44 + 34 * i
        body.append(text(left - 10 if low == 0 else left - 14, y + 17, what, "end"))
        for j, (f, who) in enumerate(((embedded, "embedded"), (docker, "ours"))):
            if f:
                x = min(at(1), at(f))
                body += [bar(x, y + 13 * j, abs(at(f) - at(1)), 11, COLOURS[who]), text(max(at(1), at(f)) + 4, y + 10 + 13 * j, times(f), size=10)]
    body += [bar(left, end + 26, 12, 11, COLOURS["embedded"]), text(left + 18, end + 36, TITLES["embedded"]),
             bar(left + 180, end + 26, 12, 11, COLOURS["ours"]), text(left + 198, end + 36, TITLES["ours"])]
    return svg(left + wide + 70, end + 48, body)


# ---- the page ----

def failed(r):
    return [f"{TITLES[w]}, {what}: {why}" for w in (*WHO, "own") for what, why in r.get(w, {}).get("failed", {}).items()]


def own(r):
    """Commands with the reference's own execd, where somebody had it."""
    o = r.get("own", {})
    if not o.get("direct_p50_ms"):
        return []
    return [f"With the reference's own execd (`OSB_REFERENCE_EXECD`) in its sandboxes: `true` directly {o['direct_p50_ms']:.0f} ms "
            f"({times(o['direct_p50_ms'] / r['ours']['direct_p50_ms'])} ours on Docker), through its server {o['true_p50_ms']:.0f} ms "
            f"({times(o['true_p50_ms'] / r['ours']['true_p50_ms'])}), create to first command {o['create_p50_ms']:.0f} ms "
            f"({times(o['create_p50_ms'] / r['ours']['create_p50_ms'])}; {times(o['create_p50_ms'] / r['embedded']['create_p50_ms'])} the embedded runtime), medians."]


def said(cmd):
    try:
        return subprocess.run(cmd, capture_output=True, text=True, timeout=30).stdout.strip().splitlines()[0]
    except (OSError, IndexError, subprocess.SubprocessError):
        return "?"


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())
    with open("/proc/meminfo") as f:
        memory = int(f.readline().split()[1]) >> 20
    return f"{len(os.sched_getaffinity(0))} CPUs ({model}), {memory} GiB of memory, Linux {platform.release()}"


def page(r):
    import refserver
    versions = [f"ours {said([os.path.join(BIN, 'opensandbox-server'), '--version'])} ({said(['git', '-C', ROOT, 'rev-parse', '--short', 'HEAD'])})",
                f"reference `{refserver.PIN}`", f"Docker {r['docker']}", said(["crun", "--version"])]
    lines = ["# Beside the reference server", "",
             "Written by `make bench-full` (`bench/reference.py`), not by hand. The published reference server and ours run on the same Docker engine with the",
             "same image, asked by the same client, in turns within each row; ours is measured on its embedded runtime as well. Machines are shared and",
             "noisy: the ratio is the result, the times are its context.", "",
             f"- When: {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime(r['began']))}, {r['seconds']:.0f} s; load average {r['load'][0]:.1f} before, {r['load'][1]:.1f} after",
             f"- Machine: {machine()}", f"- Versions: {'; '.join(versions)}",
             "- In the sandboxes of the reference server runs our execd: its own is published only as an image, which no package registry has.", "",
             "| | ours, embedded | ours, on Docker | reference, on Docker | on Docker, times better | embedded, times better |", "|---|---|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows(r)]
    lines += ["", f"`docker run --rm` of the same image doing `true` took {r['docker_run_ms']:.0f} ms (median) on this engine in the same minutes.", ""]
    lines += [x + "\n" for x in own(r)]
    lines += (["What could not be measured:", "", *("- " + x for x in failed(r)), ""] if failed(r) else [])
    lines += ["Not compared: pools of warm sandboxes (the reference has none on Docker), 1,000 sandboxes at once and 10,000 records (its records are the",
              "engine's containers), memory of its execd, and egress (its image is in no package registry). `make bench` measures ours against other peers.", "",
              "![create to first command](benchmarks-create.svg)", "", "![times better](benchmarks-factors.svg)", ""]
    return "\n".join(lines)


def write(r):
    files = {PAGE: page(r), PAGE.replace(".md", "-create.svg"): plot_create(r), PAGE.replace(".md", "-factors.svg"): plot_factors(r)}
    for path, content in files.items():
        with open(path, "w") as f:
            f.write(content)
    return [os.path.relpath(p, ROOT) for p in files]
