"""A virtual machine for what this one's kernel does not have: Debian's kernel, and a root file system put together
from the packages that are installed here. Commands run in it as root; nothing of it is kept."""

import glob
import os
import shutil
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.path.join(ROOT, "build", "vm")
PACKAGES = """bash dash coreutils sed grep findutils mount kmod util-linux procps hostname passwd login base-files libc-bin tar gzip
diffutils e2fsprogs iproute2 nftables crun runc strace busybox-static curl git python3-pytest python3-requests
python3-websockets python3-aiohttp python3-yaml libarchive13 libcurl4 libhiredis0.14 libjansson4 libnftables1 libseccomp2
libsqlite3-0 libssl3 libuv1 libyaml-0-2 libzstd1 zlib1g""".split()
ALSO = ["/etc/alternatives", "/etc/passwd", "/etc/group", "/etc/shadow", "/etc/nsswitch.conf", "/etc/ld.so.cache", "/etc/ssl",
        "/usr/share/ca-certificates"]
KERNEL_MODULES = ["virtio_pci", "virtio_blk"]
UP, BOOT_SECONDS, BOOTS = "the machine is up", 90, 3
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /new
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
for m in %s; do /bin/busybox modprobe $m; done
/bin/busybox mount -t ext4 /dev/vda /new || /bin/busybox poweroff -f
exec /bin/busybox switch_root /new /vm-init
"""
SECOND_INIT = """#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
echo %s >/dev/console
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for d in /dev/shm /run /tmp; do mount -t tmpfs tmpfs $d; done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
hostname vm
modprobe -a loop overlay
ip link set lo up
cd /repo
(%s) >/result/out 2>&1
echo $? >/result/code
sync
echo o >/proc/sysrq-trigger
sleep 60
"""


def run(*args, **kw):
    return subprocess.run(args, check=True, capture_output=True, text=True, **kw).stdout


def kernel():
    """Directory with vmlinuz and lib/modules, out of Debian's package; unpacked, not installed."""
    into = os.path.join(CACHE, "kernel")
    if not os.path.exists(into):
        os.makedirs(CACHE, exist_ok=True)
        name = [line.split()[1] for line in run("apt-cache", "depends", "linux-image-cloud-amd64").splitlines()
                if "linux-image-" in line and "Depends" in line][0]
        with tempfile.TemporaryDirectory(dir=CACHE) as d:
            run("apt-get", "download", name, cwd=d)
            run("dpkg-deb", "-x", *glob.glob(f"{d}/*.deb"), f"{d}/kernel")
            version = os.listdir(f"{d}/kernel/lib/modules")[0]
            run("/usr/sbin/depmod", "-b", f"{d}/kernel", version)
            os.rename(f"{d}/kernel", into)
    return into


def initramfs(kernel_dir, path):
    version = os.listdir(f"{kernel_dir}/lib/modules")[0]
    deps = {}
    with open(f"{kernel_dir}/lib/modules/{version}/modules.dep") as f:
        for line in f:
            name, _, rest = line.partition(":")
            deps[os.path.basename(name).split(".")[0].replace("-", "_")] = [name, *rest.split()]
    with tempfile.TemporaryDirectory() as d:
        os.makedirs(f"{d}/bin")
        shutil.copy("/bin/busybox", f"{d}/bin/busybox")
        for m in KERNEL_MODULES:
            for file in deps[m]:
                to = f"{d}/lib/modules/{version}/{file}"
                os.makedirs(os.path.dirname(to), exist_ok=True)
                shutil.copy(f"{kernel_dir}/lib/modules/{version}/{file}", to)
        shutil.copy(f"{kernel_dir}/lib/modules/{version}/modules.dep", f"{d}/lib/modules/{version}/")
        with open(f"{d}/init", "w") as f:
            f.write(INIT % " ".join(KERNEL_MODULES))
        os.chmod(f"{d}/init", 0o755)
        run("sh", "-c", f"find . | cpio -o -H newc --quiet >{path}", cwd=d)


def package_files():
    """Files of the packages and of all they depend on."""
    names = run("apt-cache", "depends", "--recurse", "--installed", "--no-recommends", "--no-suggests", "--no-conflicts",
                "--no-breaks", "--no-replaces", "--no-enhances", *PACKAGES)
    names = sorted({n for n in names.splitlines() if n and n[0].isalnum()})
    known = run("dpkg-query", "-W", "-f", "${binary:Package} ${Package} ${db:Status-Abbrev}\n").splitlines()
    installed = {w for line in known if line.split()[-1] == "ii" for w in line.split()[:2]}
    return sorted(set(run("dpkg-query", "-L", *[n for n in names if n in installed]).splitlines()))


def tree(root, kernel_dir):
    for d in ("bin", "sbin", "lib", "lib64"):
        os.makedirs(f"{root}/usr/{d}", exist_ok=True)
        os.symlink(f"usr/{d}", f"{root}/{d}")
    paths = {os.path.join(os.path.realpath(os.path.dirname(f)), os.path.basename(f)) for f in package_files()
             if f.startswith("/") and not f.startswith(("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/"))}
    files = sorted(f for f in paths if os.path.lexists(f) and (os.path.islink(f) or not os.path.isdir(f)))
    files += [f for f in ALSO if os.path.exists(f)]
    tar = f"tar -c -C / --ignore-failed-read --null -T - | tar -x -C {root} --keep-directory-symlink"
    subprocess.run(["sh", "-c", tar], input="\0".join(f.lstrip("/") for f in files).encode(), check=True, stderr=subprocess.DEVNULL)
    shutil.copytree(f"{kernel_dir}/lib/modules", f"{root}/usr/lib/modules", symlinks=True)
    for d in ("proc", "sys", "dev", "run", "tmp", "root", "result", "var/tmp", "var/lib"):
        os.makedirs(f"{root}/{d}", exist_ok=True)
    os.chmod(f"{root}/tmp", 0o1777)
    os.chmod(f"{root}/var/tmp", 0o1777)


def boot(kernel_dir, d):
    """A machine that is up. The emulator may hang before the kernel's first line, with both processors busy: then once more."""
    console = f"{d}/console"
    for _ in range(BOOTS):
        qemu = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "3G", "-smp", "2", "-nographic", "-nodefaults", "-no-reboot",
             "-kernel", glob.glob(f"{kernel_dir}/boot/vmlinuz-*")[0], "-initrd", f"{d}/initramfs",
             "-append", "console=ttyS0 panic=-1 quiet", "-serial", f"file:{console}",
             "-drive", f"file={d}/disk,format=raw,if=virtio,cache=unsafe"])
        for _ in range(BOOT_SECONDS * 2):
            time.sleep(0.5)
            if UP in said(console) or qemu.poll() is not None:
                return qemu
        qemu.kill()
        qemu.wait()
        print(f"the machine did not come up in {BOOT_SECONDS} s: {said(console)[-500:]!r}")
    raise AssertionError(f"the machine did not come up in {BOOTS} attempts")


def said(console):
    try:
        with open(console, errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def execute(command, copy, timeout=300):
    """Runs a shell command in a fresh machine, below /repo with the named files and directories of this one there
    ({path: path below /repo}). Returns exit code and output; None as code: the machine did not get that far."""
    kernel_dir = kernel()
    with tempfile.TemporaryDirectory(dir=CACHE) as d:
        root, disk = f"{d}/root", f"{d}/disk"
        os.mkdir(root)
        tree(root, kernel_dir)
        for here, there in copy.items():
            to = f"{root}/repo/{there}"
            os.makedirs(os.path.dirname(to), exist_ok=True)
            run("cp", "-aL", here, to)
        with open(f"{root}/vm-init", "w") as f:
            f.write(SECOND_INIT % (UP, command))
        os.chmod(f"{root}/vm-init", 0o755)
        run("/usr/sbin/mke2fs", "-q", "-t", "ext4", "-d", root, disk, "6G")
        shutil.rmtree(root)
        initramfs(kernel_dir, f"{d}/initramfs")
        qemu = boot(kernel_dir, d)
        try:
            qemu.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        finally:
            qemu.kill()
            qemu.wait()
        out = run("/usr/sbin/debugfs", "-R", "cat /result/out", disk)
        code = run("/usr/sbin/debugfs", "-R", "cat /result/code", disk).strip()
        return int(code) if code.isdigit() else None, out if code.isdigit() else out + said(f"{d}/console")[-4000:]
