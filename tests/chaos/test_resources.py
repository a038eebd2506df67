"""Full disk, no descriptors, a clock that jumps."""

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import tempfile
import time

import pytest
from osbserver import request_body, wait_for


@contextlib.contextmanager
def small_disk(megabytes):
    """An ext4 file system in a file: full means full, for the database and for the sandboxes."""
    top = tempfile.mkdtemp(prefix="osbt-disk-", dir="/var/tmp")
    image, mnt = os.path.join(top, "image"), os.path.join(top, "mnt")
    os.mkdir(mnt)
    with open(image, "wb") as f:
        f.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, mnt], capture_output=True).returncode != 0:
        shutil.rmtree(top)
        pytest.skip("no loop devices here")
    try:
        os.chmod(mnt, 0o711)
        os.chmod(top, 0o711)
        yield mnt
    finally:
        wait_for("unmounting", lambda: subprocess.run(["umount", mnt], capture_output=True).returncode == 0
                 or not os.path.ismount(mnt))
        shutil.rmtree(top)


def fill(mnt):
    path = os.path.join(mnt, "ballast")
    with open(path, "wb") as f:
        left = os.statvfs(mnt).f_bavail * os.statvfs(mnt).f_frsize
        os.posix_fallocate(f.fileno(), 0, left - (left >> 6))
    with contextlib.suppress(OSError), open(path, "ab", buffering=0) as f:
        while f.write(b"\1" * 4096):
            pass
    return path


def test_full_disk(make):
    with small_disk(2048) as mnt, contextlib.closing(make(start=False)) as s:
        s.data = os.path.join(mnt, "data")
        s.write_config()
        s.start()
        before = s.create()["id"]
        ballast = fill(mnt)
        r = s.call("POST", "/v1/sandboxes", request_body())
        assert r.status_code >= 500 and r.json()["code"] and r.json()["message"], r.text
        assert s.call("GET", f"/v1/sandboxes/{before}").status_code == 200
        # Whatever cannot be written is refused; what is there can be deleted, or is once there is room.
        r = s.call("DELETE", f"/v1/sandboxes/{before}")
        assert r.status_code in (204, 500, 503), r.text
        os.unlink(ballast)
        s.wait_gone(before, timeout=90)
        after = s.create()["id"]
        assert s.ping(after)
        s.restart()
        assert s.ping(after)
        s.delete(after)
        s.assert_clean()


def test_no_descriptors(make):
    s = make(start=False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256 if hard > 256 else hard))
    try:
        s.start()
    finally:
        with contextlib.suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    id = s.create()["id"]
    host, port = s.url.split("//")[1].split(":")
    socks = []
    for _ in range(400):  # more than it can have
        with contextlib.suppress(OSError):
            socks.append(socket.create_connection((host, int(port)), timeout=5))
    time.sleep(0.5)
    assert s.process.poll() is None
    for sock in socks:
        sock.close()
    wait_for("the server coming back", lambda: _ping(s, id))
    again = s.create()["id"]
    assert s.ping(again)
    s.delete(id)
    s.delete(again)
    s.assert_clean()


def _ping(s, id):
    import requests
    try:
        return s.ping(id)
    except requests.exceptions.RequestException:
        return False


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
static const volatile long *offset;
__attribute__((constructor)) static void start(void)
{
    int fd = open(getenv("CLOCK_FILE"), O_RDONLY | O_CLOEXEC);
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    offset = p == MAP_FAILED ? NULL : p;
}
int clock_gettime(clockid_t id, struct timespec *ts)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) {
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int r = real(id, ts);
    if (r == 0 && id == CLOCK_REALTIME && offset) {
        ts->tv_sec += *offset;
    }
    return r;
}
"""


class Clock:
    """A wall clock for one server that can be set."""

    def __init__(self, directory):
        self.file = os.path.join(directory, "clock")
        with open(self.file, "wb") as f:
            f.write(b"\0" * 4096)
        source, self.lib = os.path.join(directory, "clock.c"), os.path.join(directory, "clock.so")
        with open(source, "w") as f:
            f.write(CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.lib, source, "-ldl"], check=True)
        self.env = {"LD_PRELOAD": self.lib, "CLOCK_FILE": self.file}

    def set(self, seconds):
        with open(self.file, "r+b") as f:
            f.write(seconds.to_bytes(8, "little", signed=True))


def test_clock_jumps(make):
    s = make(start=False)
    clock = Clock(s.dir)
    s.env = clock.env
    s.start()
    short, long = s.create(timeout=60), s.create(timeout=3600)
    for jump in (7200, -86400, 0):
        clock.set(jump)
        wait_for("noticing", lambda: "by_ms" in s.log_tail(5), timeout=30)
        with open(s.log_path, "a") as f:
            f.write("\n" * 6)
        assert s.ping(short["id"]) and s.ping(long["id"]), jump
        time.sleep(1.2)
        assert s.state(short["id"]) == "Running", "a jump ended it"
    # The records moved along: a restart after a jump ends nothing either.
    clock.set(7200)
    wait_for("the record", lambda: s.get(long["id"])["expiresAt"][:13] > long["expiresAt"][:13])
    s.restart()
    assert s.ping(short["id"]) and s.ping(long["id"]), s.log_tail()


def test_expiry_after_a_jump_back(make):
    import datetime
    s = make(start=False)
    clock = Clock(s.dir)
    s.env = clock.env
    s.start()
    id = s.create(timeout=60)["id"]
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=4)
    s.ok("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expiresAt": at.isoformat()})
    clock.set(-86400)  # a day back: it must not live a day longer
    s.wait_gone(id, timeout=30)
    s.assert_clean()
