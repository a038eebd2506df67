"""One sandbox takes what it can get; the others, the host and its own execd go on."""

import os
import time

import ocibox
import pytest


@pytest.fixture(scope="module")
def neighbour(box):
    box.create("neighbour")
    yield "neighbour"
    box.tool("remove", "neighbour")


def answers(box, id):
    return box.sh(id, "echo here").out == "here"


def victim(box, engine, *options):
    if not ocibox.installed(engine):
        pytest.skip(f"{engine} is not installed")
    id = f"hog-{engine}"
    box.create(id, "--engine", engine, *options)
    return id


@pytest.mark.parametrize("engine", ["crun", "runc"])
def test_fork_bomb(box, neighbour, engine):
    id = victim(box, engine, "--pids", 64)
    box.sh(id, "python3 - >/dev/null 2>&1 <<'E' &\nimport os, time\nwhile True:\n    try:\n        os.fork()\n"
               "    except OSError:\n        time.sleep(0.01)\nE")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        stats = dict(x.split() for x in box.tool("stats", id).out.splitlines())
        if int(stats["pids"]) >= 64:
            break
    assert int(stats["pids"]) >= 64
    assert int(stats["pids"]) <= 64 + 64  # and execd's headroom
    assert answers(box, neighbour)
    # execd of the bombed sandbox serves files and still starts commands: it has tasks of its own.
    assert "200 OK" in box.tool("get", id, 44772, "/ping").out
    box.tool("remove", id)
    assert box.clean_soon(keep=(neighbour,)) == {}


@pytest.mark.parametrize("engine", ["crun", "runc"])
def test_memory(box, neighbour, engine):
    id = victim(box, engine, "--memory", 64 << 20)
    r = box.sh(id, "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'; echo ended $?")
    assert "ended 137" in r.out, r
    assert answers(box, id)  # the same execd, not a new one
    assert answers(box, neighbour)
    assert box.state(id)["state"] == "running"
    box.tool("remove", id)


def test_memory_of_gvisor(box, neighbour):
    """There the sandbox is one process of the host: it is confined, and says why it ended."""
    id = victim(box, "runsc", "--memory", 256 << 20)
    box.tool("run", id, "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'", check=False)
    assert answers(box, neighbour)
    box.tool("remove", id)


@pytest.mark.parametrize("engine", ["crun", "runc"])
def test_memory_in_tmpfs(box, neighbour, engine):
    """/dev/shm has a size, and what is in it counts."""
    id = victim(box, engine, "--memory", 96 << 20)
    r = box.sh(id, "dd if=/dev/zero of=/dev/shm/x bs=1M count=500 2>&1; df -k /dev/shm | tail -1")
    assert "No space left" in r.out or "Killed" in r.out + r.err, r
    assert answers(box, id) and answers(box, neighbour)
    box.tool("remove", id)


@pytest.mark.parametrize("engine", ocibox.ENGINES)
def test_disk(box, neighbour, engine):
    id = victim(box, engine, "--disk", 64 << 20)
    before = os.statvfs(box.root)
    r = box.sh(id, "dd if=/dev/zero of=/fill bs=1M count=1000 2>&1 | cat")
    assert "No space left on device" in r.out, r
    after = os.statvfs(box.root)
    assert (before.f_bfree - after.f_bfree) * after.f_frsize < 512 << 20
    assert "200 OK" in box.tool("get", id, 44772, "/ping").out  # execd survives its full disk
    assert answers(box, id) and answers(box, neighbour)
    # Inodes are disk, too.
    r = box.sh(id, "rm -f /fill; cd /root; i=0; while : >f$i 2>/dev/null; do i=$((i+1)); [ $i -gt 40000 ] && break; "
                   "done; echo $i", timeout=300) if engine == "crun" else None
    if r:
        assert int(r.out.split()[-1]) <= 40000, r
    box.tool("remove", id)
    assert box.clean_soon(keep=(neighbour,)) == {}


@pytest.mark.parametrize("engine", ["crun", "runc"])
def test_processor(box, neighbour, engine):
    id = victim(box, engine, "--cpu", 100)
    box.sh(id, "for i in 1 2 3 4; do (while :; do :; done) & done 2>/dev/null >&2")
    first = dict(x.split() for x in box.tool("stats", id).out.splitlines())
    t0 = time.monotonic()
    assert answers(box, id)
    assert answers(box, neighbour)
    while time.monotonic() - t0 < 2:
        answers(box, neighbour)
    last = dict(x.split() for x in box.tool("stats", id).out.splitlines())
    used = (int(last["cpu_us"]) - int(first["cpu_us"])) / 1e6 / (time.monotonic() - t0)
    assert used < 0.5, used  # a tenth of a processor for the workload, as much for execd at most
    box.tool("remove", id)


def test_open_files(box, neighbour):
    id = victim(box, "crun")
    r = box.py(id, """
import os
n = 0
try:
    while True:
        os.dup(0)
        n += 1
except OSError as e:
    print('stopped', n)
""")
    assert r.out.startswith("stopped"), r
    assert answers(box, id) and answers(box, neighbour)
    box.tool("remove", id)


def test_first_process_cannot_be_killed_from_inside(sandbox):
    if sandbox.engine == "runsc":
        pytest.skip("gVisor lets a sandbox end itself that way")
    r = sandbox.sh("kill -9 1; kill -STOP 1; kill -SEGV 1; kill -ABRT 1; sleep 0.2; echo still here")
    assert r.out == "still here", r
    assert answers(sandbox.box, sandbox.id)
