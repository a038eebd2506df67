"""Pull and unpack: the image store against `skopeo copy` and `umoci unpack`, and `docker pull` on an engine of its
own, all from one registry on loopback. Ours is on disk for good when it returns; theirs is not asked to be."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

from common import BIN, OUT, ROOT

sys.path.append(os.path.join(ROOT, "tests", "integration", "image"))
from registry import Image, Registry  # noqa: E402

sys.path.append(os.path.join(ROOT, "tests", "support"))
from dockerbox import Engine  # noqa: E402

NAME = "images"
# What this machine has of each kind of layer: few large files, many small ones, a mixture.
LAYERS = [["/usr/lib/x86_64-linux-gnu"], ["/usr/share/doc", "/usr/share/perl"], ["/usr/lib/python3", "/usr/lib/python3.11"]]
LIMIT = {False: 40 << 20, True: 120 << 20}  # bytes of one layer, uncompressed: quick, full


def layer(paths, work, limit):
    """Files below the paths, up to the limit, as the bytes of a tar archive."""
    path = os.path.join(work, "layer.tar")
    size = 0
    with tarfile.open(path, "w") as tar:
        for top in paths:
            for dir, dirs, files in os.walk(top):
                dirs.sort()
                for f in sorted(files):
                    full = os.path.join(dir, f)
                    if os.path.islink(full) or not os.path.isfile(full):
                        continue
                    size += os.path.getsize(full)
                    if size > limit:
                        break
                    tar.add(full, recursive=False)
    with open(path, "rb") as f:
        data = f.read()
    os.unlink(path)
    return data


def gzip(data):
    return subprocess.run(["gzip", "-c", "-6"], input=data, capture_output=True, check=True).stdout


def timed(cmd, **more):
    begin = time.monotonic()
    subprocess.run(cmd, check=True, capture_output=True, **more)
    return time.monotonic() - begin


def ours(host, work):
    return timed([os.path.join(BIN, "image_tool"), os.path.join(work, "store"), "pull", f"{host}/b/image:1"])


def skopeo_umoci(host, work):
    layout = os.path.join(work, "layout")
    copy = timed(["skopeo", "copy", "--src-tls-verify=false", f"docker://{host}/b/image:1", f"oci:{layout}:1"])
    return copy + timed(["umoci", "unpack", "--image", f"{layout}:1", os.path.join(work, "bundle")])


def docker(engine):
    def pull(host, work):
        seconds = timed(["docker", "-H", engine.url, "pull", f"{host}/b/image:1"])
        timed(["docker", "-H", engine.url, "rmi", f"{host}/b/image:1"])
        return seconds
    return pull


def run(opts):
    base = tempfile.mkdtemp(prefix="bench-images-", dir="/var/tmp")
    peers = {"image store": ours, "skopeo + umoci": skopeo_umoci}
    engine = Engine(runtimes=False)
    peers["docker pull"] = docker(engine)
    samples = {name: [] for name in peers}
    registry = None
    try:
        engine.start()
        os.mkdir(f"{base}/registry")
        registry = Registry(f"{base}/registry")
        layers = [layer(paths, base, LIMIT[opts.full]) for paths in LAYERS]
        image = Image(layers, compress=gzip)
        image.push(registry.host, "b/image", "1")
        total, packed = sum(map(len, layers)), sum(map(len, image.blobs))
        for round_no in range(opts.rounds + 1):
            for name, pull in peers.items():
                work = tempfile.mkdtemp(dir=base)
                seconds = pull(registry.host, work)
                shutil.rmtree(work)
                os.sync()  # nobody pays for another's writes
                if round_no:  # the first warms the caches
                    samples[name].append(seconds)
    finally:
        if registry:
            registry.stop()
        engine.close()
        shutil.rmtree(base, ignore_errors=True)
    own = statistics.median(samples["image store"])
    print(f"\npull and unpack, {len(layers)} layers, {packed >> 20} MiB compressed, {total >> 20} MiB unpacked, loopback registry")
    print(f"  {'':18} {'median s':>9} {'best s':>8} {'MiB/s':>7} {'ratio':>7}")
    for name, values in samples.items():
        m = statistics.median(values)
        print(f"  {name:18} {m:9.2f} {min(values):8.2f} {(total >> 20) / m:7.0f} {m / own:6.2f}x")
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "images.json"), "w") as f:
        json.dump({"bytes": total, "compressed": packed, "seconds": samples}, f, indent=1)
