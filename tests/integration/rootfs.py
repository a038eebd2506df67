"""Small root file systems to start execd in, made of what Debian packages put on this machine.

    empty     execd and mount points, nothing else
    busybox   a static busybox
    musl      the same, and musl's loader with a program that needs it; no glibc, no bash
    debian    this machine's /usr, read-only, with an /etc of its own

Each is a directory that execd sees as "/" in namespaces of its own (mount, PID); the network is the
test's, so that it can be reached.
"""

import os
import shutil
import stat
import struct
import subprocess

PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
GROUP = "root:x:0:\nnogroup:x:65534:\n"
APPLETS = ("sh ash ls cat echo sleep ps kill env id mkdir rm touch head tail wc grep sed true false test "
           "printf pwd dd stat tr sort uname chmod chown ln mv cp seq date yes").split()
MUSL_PROGRAM = r"""
#include <stdio.h>
#include <pwd.h>
int main(int argc, char **argv)
{
    struct passwd *p = getpwuid(0);
    printf("musl says hello to %s, %d arguments\n", p ? p->pw_name : "nobody", argc - 1);
    return 0;
}
"""


def is_static(path):
    """No PT_INTERP among the program headers of a 64-bit ELF file."""
    with open(path, "rb") as f:
        head = f.read(64)
        if head[:5] != b"\x7fELF\x02":
            return False
        phoff, = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        f.seek(phoff)
        data = f.read(size * count)
    return all(struct.unpack_from("<I", data, i * size)[0] != 3 for i in range(count))


class Rootfs:
    def __init__(self, path, execd):
        self.path = str(path)
        self.binds = []  # (host directory, directory inside), read-only
        self.shell = None
        for d in ["proc", "dev"]:
            os.makedirs(os.path.join(self.path, d), exist_ok=True)
        os.chmod(self.path, 0o755)
        shutil.copy(execd, os.path.join(self.path, "execd"))
        os.chmod(os.path.join(self.path, "execd"), 0o755)

    def file(self, name, content="", mode=0o644):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(content)
        os.chmod(path, mode)
        return path

    def dir(self, name, mode=0o755):
        path = os.path.join(self.path, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        return path

    def usual(self):
        self.file("etc/passwd", PASSWD)
        self.file("etc/group", GROUP)
        self.dir("root", 0o700)
        self.dir("tmp", 0o1777)
        null = os.path.join(self.path, "dev/null")  # every runtime provides it
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.chmod(null, 0o666)

    def wrap(self, user=None):
        """The command line to put in front of "/execd ...": namespaces, mounts, chroot."""
        r = self.path
        script = f"mount --bind {r} {r} && mount -t proc proc {r}/proc"
        for host, inside in self.binds:
            script += f" && mount --bind {host} {r}/{inside} && mount -o remount,bind,ro {r}/{inside}"
        as_user = f"--userspec={user}:{user} --groups= " if user else ""
        script += f' && exec /usr/sbin/chroot {as_user}{r} "$@"'
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
                "sh", "-c", script, "sh"]


def empty(path, execd):
    return Rootfs(path, execd)


def busybox(path, execd):
    fs = Rootfs(path, execd)
    fs.usual()
    fs.dir("bin")
    shutil.copy(shutil.which("busybox"), os.path.join(fs.path, "bin/busybox"))
    for name in APPLETS:
        os.symlink("busybox", os.path.join(fs.path, "bin", name))
    fs.shell = "sh"
    return fs


def musl(path, execd):
    fs = busybox(path, execd)
    source = fs.file("tmp/hello.c", MUSL_PROGRAM)
    subprocess.run(["musl-gcc", "-O1", "-o", os.path.join(fs.path, "bin/hello"), source], check=True)
    assert not is_static(os.path.join(fs.path, "bin/hello"))
    fs.dir("lib")
    loader = "ld-musl-x86_64.so.1"
    shutil.copy(os.path.realpath("/lib/" + loader), os.path.join(fs.path, "lib", loader))
    os.remove(source)
    return fs


def debian(path, execd):
    fs = Rootfs(path, execd)
    fs.usual()
    fs.dir("usr")
    fs.binds.append(("/usr", "usr"))
    for name in ["bin", "sbin", "lib", "lib64"]:
        os.symlink("usr/" + name, os.path.join(fs.path, name))
    fs.shell = "bash"
    return fs


KINDS = {"empty": empty, "busybox": busybox, "musl": musl, "debian": debian}


def available(kind):
    """Why this one cannot be made here, or None."""
    if kind in ("busybox", "musl"):
        tool = shutil.which("busybox")
        if not tool or not is_static(os.path.realpath(tool)):
            return "busybox-static is not installed"
    if kind == "musl" and not shutil.which("musl-gcc"):
        return "musl-tools is not installed"
    return None
