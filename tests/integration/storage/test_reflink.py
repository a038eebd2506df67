"""Snapshots on file systems that can share blocks: nothing is copied, and nothing shows through."""

import json
import os
import shutil
import subprocess
import tempfile

import pytest
from osbserver import Server
from test_snapshots import out, restore, take

MB = 1 << 20
MKFS = {"xfs": ["mkfs.xfs", "-q", "-m", "reflink=1"], "btrfs": ["mkfs.btrfs", "-q"]}


def run(*cmd, **more):
    return subprocess.run(cmd, capture_output=True, text=True, **more)


def kernel_has(kind):
    if shutil.which("modprobe"):
        run("modprobe", kind)
    with open("/proc/filesystems") as f:
        return kind in f.read().split()


@pytest.fixture(params=sorted(MKFS))
def volume(request):
    """A file system of its own, in a file."""
    kind = request.param
    if not kernel_has(kind):
        pytest.skip(f"this kernel has no {kind}")
    top = tempfile.mkdtemp(prefix="osbt-reflink-", dir=os.environ.get("OSB_TEST_TMP", "/var/tmp"))
    os.chmod(top, 0o711)
    image, at = os.path.join(top, "image"), os.path.join(top, "fs")
    os.mkdir(at)
    mounted = False
    try:
        with open(image, "wb") as f:
            f.truncate(2048 * MB)  # it is all holes
        run(*MKFS[kind], image, check=True)
        r = run("mount", "-t", kind, "-o", "loop", image, at)
        if r.returncode != 0:
            pytest.skip(f"{kind} cannot be mounted here: {r.stderr.strip()}")
        mounted = True
        yield at
    finally:
        if mounted:
            run("umount", at, check=True)
        shutil.rmtree(top)


@pytest.fixture
def server(volume):
    s = Server()
    s.data = os.path.join(volume, "data")
    s.write_config('[oci]\ndefault_disk = ""\n')  # a layer with a file system of its own has nothing to share with
    try:
        yield s.start()
    finally:
        s.close()


def extents(path):
    """(all, shared) bytes of a file, as the kernel tells (FIEMAP)."""
    lines = run("filefrag", "-v", "-b1", path, check=True).stdout.splitlines()
    whole = shared = 0
    for line in lines:
        parts = [p.strip() for p in line.split(":")]
        if parts[0].isdigit():
            length = int(parts[3])
            whole += length
            shared += length if "shared" in parts[-1].split(",") else 0
    return whole, shared


def captured(s):
    """What the server says of the last capture."""
    with open(s.log_path) as f:
        lines = [line for line in f if "writable layer captured" in line]
    return lines[-1]


def number(line, name):
    if line.startswith("{"):
        return int(json.loads(line)[name])
    return int(line.split(f"{name}=")[1].split()[0])


def test_a_snapshot_shares_its_blocks(server, volume):
    id = server.create()["id"]
    out(server, id, "head -c 50M /dev/urandom > /root/big; echo small > /root/small; sync -f /root/big")
    sum_ = out(server, id, "sha256sum < /root/big")
    run("sync", "-f", volume, check=True)
    before = os.statvfs(volume)
    snap = take(server, id)
    line = captured(server)
    assert number(line, "shared") >= 50 * MB and number(line, "shared") == number(line, "bytes"), line
    run("sync", "-f", volume, check=True)
    after = os.statvfs(volume)
    assert (before.f_bfree - after.f_bfree) * before.f_frsize < 25 * MB  # half a copy would be too much

    upper = os.path.join(server.data, "oci", "sandboxes", id, "rw", "upper", "root", "big")
    layer = os.path.join(server.data, "images", "layers", f"snap-{snap['id']}")
    [kept] = [os.path.join(d, "big") for d, _, files in os.walk(layer) if "big" in files]
    for path in (upper, kept):
        assert extents(path) == (50 * MB, 50 * MB), path

    # The source goes on by itself; so do those that are made of the snapshot.
    out(server, id, "dd if=/dev/zero of=/root/big bs=1M count=10 conv=notrunc status=none")
    assert out(server, id, "sha256sum < /root/big") != sum_
    a, b = restore(server, snap), restore(server, snap)
    out(server, a, "echo more >> /root/big; echo other > /root/small")
    assert out(server, b, "sha256sum < /root/big; cat /root/small") == f"{sum_}\nsmall"
    for i in (id, a, b):
        server.delete(i)
    server.ok("DELETE", f"/v1/snapshots/{snap['id']}", status=204)
    server.assert_clean()
