"""opensandbox-layer, which reads what strangers packed: what it can still do, whom it outlives, and what a
store makes of its death."""

import gzip
import os
import re
import select
import shutil
import socket
import subprocess
import time

import pytest

from registry import sha256, tar_of
from test_store import BIN, TOOL, store, tool  # noqa: F401

LAYER = os.path.join(BIN, "opensandbox-layer")
SANITIZED = os.environ.get("OSB_FLAVOUR") in ("asan", "tsan")
ROOTFS = tar_of([("etc", None), ("etc/name", b"x"), ("bin", None)])
HALF = tar_of([("etc", None), ("large", bytes(2 << 20))])[:1 << 20]  # an archive whose other half never comes


def start(verb, root, parent=None, **more):
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return subprocess.Popen([LAYER, verb, str(parent or os.getpid()), str(fd)], pass_fds=[fd], env={},
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)
    finally:
        os.close(fd)


def status(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(re.findall(r"^(\w+):\s*(.*)$", f.read(), re.M))


def wait_for(what, predicate):
    deadline = time.monotonic() + 60
    while not predicate():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_unpacks_and_says_so_in_one_line(tmp_path):
    p = start("unpack", tmp_path)
    out, _ = p.communicate(gzip.compress(ROOTFS), timeout=60)
    assert out.decode() == f"ok 1 3 0 {sha256(ROOTFS)}\n" and p.returncode == 0
    assert (tmp_path / "etc/name").read_text() == "x"


def test_gives_away_what_it_does_not_need(tmp_path):
    """Halfway through an archive: looked at from outside."""
    p = start("unpack", tmp_path)
    try:
        p.stdin.write(HALF)
        p.stdin.flush()
        wait_for("the first file", (tmp_path / "etc").exists)
        s = status(p.pid)
        assert s["NoNewPrivs"] == "1"
        assert os.path.samefile(f"/proc/{p.pid}/root", tmp_path)
        assert os.path.samefile(f"/proc/{p.pid}/cwd", tmp_path)
        # CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, SYS_ADMIN, MKNOD, SETFCAP: and no other.
        allowed = sum(1 << n for n in (0, 1, 2, 3, 4, 21, 27, 31))
        assert int(s["CapPrm"], 16) & ~allowed == 0 and int(s["CapEff"], 16) & ~allowed == 0
        if not SANITIZED:  # which cannot live with these two
            assert s["Seccomp"] == "2"
            with open(f"/proc/{p.pid}/limits") as f:
                assert int(re.search(r"Max address space\s+(\d+)", f.read()).group(1)) <= 2 << 30
        with open(f"/proc/{p.pid}/environ") as f:
            assert f.read() == ""
        assert len(os.listdir(f"/proc/{p.pid}/fd")) <= 6  # the standard three, the root, its parent, a file
    finally:
        p.kill()
        p.communicate()


def test_dies_with_the_process_that_wants_it(tmp_path):
    """The store's directories are swept at the next start: nobody may be writing there by then."""
    ours, its = socket.socketpair()
    ours.settimeout(60)
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    os.dup2(fd, 63)  # out of the way of the shell's own
    os.close(fd)
    parent = subprocess.Popen(["sh", "-c", 'exec 3<&0; "$0" unpack $$ 63 <&3 3<&- & echo $!; wait', LAYER],
                              pass_fds=[63], stdin=its, stdout=subprocess.PIPE, text=True)
    os.close(63)
    its.close()
    try:
        pidfd = os.pidfd_open(int(parent.stdout.readline()))
        ours.sendall(HALF)
        wait_for("the first file", (tmp_path / "etc").exists)
        parent.kill()
        parent.wait()
        assert select.select([pidfd], [], [], 60)[0], "it goes on"
        os.close(pidfd)
    finally:
        parent.kill()
        ours.close()
        parent.communicate(timeout=60)


def test_does_not_start_for_somebody_else(tmp_path):
    p = start("unpack", tmp_path, parent=1 if os.getpid() != 1 else 2)
    out, _ = p.communicate(ROOTFS, timeout=60)
    assert out == b"error unavailable 0 the server is gone\n" and os.listdir(tmp_path) == []


@pytest.fixture
def beside(tmp_path):
    """The store's program beside a reader that the test provides."""
    place = tmp_path / "bin"
    place.mkdir()
    shutil.copy(TOOL, place / "image_tool")

    def provide(script):
        path = place / "opensandbox-layer"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def run(store, *args):
        return subprocess.run([place / "image_tool", store, *args], input=ROOTFS, capture_output=True, timeout=60)

    provide("exit 0")
    return provide, run


@pytest.mark.parametrize("script, says", [
    ("kill -SEGV $$", b"invalid: layer is damaged: its reader ended with signal 11"),
    ("kill -KILL $$", b"unavailable: opensandbox-layer was killed"),
    ("exit 3", b"internal: opensandbox-layer exited with code 3"),
    ("exit 0", b"internal: opensandbox-layer: no result"),
    ("echo ok 1 1 0 sha256:no", b"internal: opensandbox-layer: unreadable result"),
    ("head -c 100000 /dev/zero", b"internal: opensandbox-layer: no result"),
    ("echo error limit 0 too much", b"limit: too much"),
])
def test_a_reader_that_breaks_leaves_nothing(beside, store, script, says):  # noqa: F811
    provide, run = beside
    provide(f'cd "/proc/self/fd/$3" && mkdir -p usr && echo x >usr/file\n{script}\n')
    r = run(store, "import", "x:1")
    assert r.returncode == 1 and says in r.stderr, r.stderr
    assert [os.listdir(os.path.join(store, d)) for d in ("tmp", "layers", "refs")] == [[], [], []]
    assert tool(store, "import", "x:1", stdin=ROOTFS, text=False).returncode == 0


def test_no_reader_no_store(beside, store):  # noqa: F811
    _, run = beside
    os.unlink(os.path.join(os.path.dirname(store), "bin", "opensandbox-layer"))
    r = run(store, "list")
    assert r.returncode == 1 and b"opensandbox-layer, which reads the layers of images: No such file" in r.stderr
