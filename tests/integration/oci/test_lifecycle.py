"""A sandbox's life through the embedded runtime: create, use, pause, resume, end, remove."""

import fcntl
import os
import re
import subprocess
import time

import ocibox
import pytest


@pytest.mark.parametrize("engine", ocibox.ENGINES)
def test_create_use_remove(box, engine):
    if not ocibox.installed(engine):
        pytest.skip(f"{engine} is not installed")
    id = f"life-{engine}"
    box.create(id, "--engine", engine, "--env", "GREETING=hi there", "--hostname", "somewhere")
    assert box.list()[id] == "running"
    r = box.sh(id, 'id -u; echo "$GREETING"; hostname; python3 -c "print(6*7)"; echo oops >&2; exit 5')
    assert r.out.splitlines() == ["0", "hi there", "somewhere", "42"]
    assert r.err == "oops"
    box.tool("remove", id)
    assert id not in box.list()
    assert box.clean_soon() == {}
    box.tool("remove", id)  # gone is success


def test_programs_of_the_host_image(box):
    box.create("tools")
    for command in ("bash --version", "python3 -c 'import ssl, json, sqlite3, ctypes'", "git --version",
                    "curl --version", "perl -e 1", "tar --version", "awk 'BEGIN{exit 0}'",
                    "python3 -c 'import socket; socket.getaddrinfo(\"localhost\", 80)'",
                    "cd /tmp && git init -q r && cd r && git -c user.name=a -c user.email=b commit -q "
                    "--allow-empty -m x", "test -w /root && test -w /tmp && test -w /var/tmp && test -w /etc"):
        assert box.sh("tools", command).code == 0, command
    box.tool("remove", "tools")


def test_pause_and_resume(box, tmp_path):
    os.chmod(tmp_path, 0o755)
    (tmp_path / "beat").write_text("")
    box.create("pausing", "--bind", f"{tmp_path}:/mnt",
               entrypoint=["sh", "-c", "while :; do date +%s%N >/mnt/beat; sleep 0.02; done"])
    box.tool("pause", "pausing")
    assert box.state("pausing")["state"] == "paused"
    box.tool("pause", "pausing")  # again is no mistake of the runtime
    before = (tmp_path / "beat").read_text()
    box.tool("list")
    assert (tmp_path / "beat").read_text() == before
    box.tool("resume", "pausing")
    assert box.state("pausing")["state"] == "running"
    assert box.sh("pausing", "true").code == 0
    box.tool("pause", "pausing")
    box.tool("remove", "pausing")  # frozen processes die too
    assert box.clean_soon() == {}


@pytest.mark.parametrize("script,exit,code", [
    ("exit 0", "code", 0),
    ("exit 3", "code", 3),
    ("kill -TERM $$", "signal", 15),
    ("kill -KILL $$", "signal", 9),
])
def test_how_it_ended(box, script, exit, code):
    box.create("ending", entrypoint=["sh", "-c", script])
    words = box.tool("wait", "ending").out.split(" ", 4)
    assert words[1:4] == ["exited", exit, str(code)]
    # What is not a running process any more is still known to the next start.
    st = box.state("ending")
    assert (st["state"], st["exit"], st["code"]) == ("exited", exit, code)
    assert box.tool("pause", "ending", check=False).err.startswith("oci_tool: conflict")
    box.tool("remove", "ending")


def test_out_of_memory_is_told_apart(box):
    box.create("oom", "--memory", 64 << 20,
               entrypoint=["python3", "-c", "x = []\nwhile True: x.append(bytearray(1 << 20))"])
    words = box.tool("wait", "oom").out.split(" ", 4)
    assert words[1:3] == ["exited", "oom"]
    box.tool("remove", "oom")


def test_entrypoint_that_is_not_there(box):
    box.create("nothere", entrypoint=["/no/such/program"])
    words = box.tool("wait", "nothere").out.split(" ", 4)
    assert words[1:4] == ["exited", "code", "127"]
    assert "/no/such/program" in words[4]
    box.tool("remove", "nothere")


def test_logs(box):
    box.create("logs", entrypoint=["sh", "-c", "echo one; echo two >&2; printf three; exit 0"])
    box.tool("wait", "logs")
    lines = box.tool("logs", "logs").out.splitlines()
    stamp = re.compile(r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z (.*)$")
    assert sorted(stamp.match(x).group(1) for x in lines) == ["one", "three", "two"]
    assert len(box.tool("logs", "logs", 1).out.splitlines()) == 1
    box.tool("remove", "logs")


def test_logs_are_rotated_and_capped(fresh):
    box = fresh(log_max_bytes=65536)
    box.create("chatty", entrypoint=["sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"])
    box.tool("wait", "chatty")
    sizes = [os.path.getsize(f"{box.root}/sandboxes/chatty/log.{i}") for i in (0, 1)]
    assert all(0 < s <= 65536 for s in sizes)
    lines = [x.split(" ", 1)[1] for x in box.tool("logs", "chatty").out.splitlines()]
    assert lines[-1] == "line 19999"
    first = int(lines[0].split()[1])
    assert lines == [f"line {i}" for i in range(first, 20000)]  # in order, none missing in between


def test_stats(box):
    box.create("stats", "--memory", 128 << 20)
    box.sh("stats", "python3 -c 'for i in range(300000): pass'")
    s = dict(line.split() for line in box.tool("stats", "stats").out.splitlines())
    assert int(s["cpu_us"]) > 1000
    assert 0 < int(s["memory"]) < 128 << 20
    assert int(s["memory_limit"]) == 128 << 20
    assert int(s["pids"]) >= 2
    box.tool("remove", "stats")


def test_describe(box):
    box.create("told", "--cpu", 250)
    text = box.tool("describe", "told").out
    assert "engine: crun" in text and "image: host" in text and "cpu limit: 250m" in text
    box.tool("remove", "told")


def test_limits_inside(box):
    box.create("limits", "--cpu", 500, "--memory", 96 << 20, "--pids", 33)
    r = box.sh("limits", "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null;"
                         "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null;"
                         "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null")
    words = r.out.split()
    assert words[:2] == [str(96 << 20), "33"]
    assert words[2] == "50000"
    box.tool("remove", "limits")


def test_disk_limit(box):
    box.create("disk", "--disk", 64 << 20)
    r = box.sh("disk", "dd if=/dev/zero of=/fill bs=1M count=200")
    assert "No space left on device" in r.err
    assert box.sh("disk", "rm /fill && echo again >/root/x && cat /root/x").out == "again"
    assert os.path.getsize(f"{box.root}/sandboxes/disk/disk.img") == 64 << 20
    box.tool("remove", "disk")
    assert box.clean_soon() == {}


def test_read_only_root(box):
    box.create("ro", "--read-only")
    r = box.sh("ro", "touch /x; touch /etc/y; touch /usr/z; touch /tmp/ok && echo fine")
    assert r.out == "fine"
    assert r.err.count("Read-only file system") == 3
    box.tool("remove", "ro")


def test_without_network(box):
    box.create("offline", "--network", "none")
    links = box.sh("offline", "ls /sys/class/net").out.split()
    assert links == ["lo"]
    assert box.sh("offline", "python3 -c 'import socket; s=socket.create_server((\"127.0.0.1\", 80))'").code == 0
    box.tool("remove", "offline")


def test_volume(box, tmp_path):
    os.chmod(tmp_path, 0o755)
    (tmp_path / "in").write_text("from outside")
    box.create("volume", "--bind", f"{tmp_path}:/data/deep/mount", "--bind", f"{tmp_path}:/ro:ro")
    assert box.sh("volume", "cat /data/deep/mount/in").out == "from outside"
    assert box.sh("volume", "echo back >/data/deep/mount/out; touch /ro/x").err.count("Read-only") == 1
    assert (tmp_path / "out").read_text() == "back\n"
    assert os.stat(tmp_path / "out").st_uid == 0  # the sandbox's root is root of its volume, by idmapping
    box.tool("remove", "volume")


def test_rootfs_directory(fresh, tmp_path):
    """A plain directory as an image: busybox, a link where a mount point goes, and nothing else."""
    if not os.path.exists("/bin/busybox"):
        pytest.skip("busybox-static is not installed")
    if os.environ.get("OSB_FLAVOUR") in ("asan", "tsan"):
        pytest.skip("execd is not linked statically")
    root = tmp_path / "rootfs"
    (root / "bin").mkdir(parents=True)
    subprocess.run(["cp", "/bin/busybox", str(root / "bin/busybox")], check=True)
    for name in ("sh", "cat", "ls", "id", "sleep", "printf", "echo", "stat", "readlink"):
        os.symlink("busybox", root / "bin" / name)
    outside = tmp_path / "outside"
    outside.mkdir()
    os.symlink(f"{outside}", root / "opt")          # would lead out of the image
    os.symlink("../../../../../../etc", root / "data")
    os.chmod(tmp_path, 0o711)
    box = fresh(rootfs={"small": str(root)})
    box.create("small", "--image", "small", entrypoint=["/bin/sleep", "1000"])
    assert box.sh("small", "id -u").out == "0"
    assert box.sh("small", "stat -c %u:%g /bin/busybox").out == "0:0"
    assert os.listdir(outside) == []                # the link was resolved inside
    assert not os.path.exists("/opt/opensandbox/execd")
    box.tool("remove", "small")
    assert sorted(os.listdir(root)) == ["bin", "data", "opt"]  # the image itself is untouched


@pytest.mark.parametrize("options,code,words", [
    (["--image", "127.0.0.1:1/no/such:image"], "unavailable", "127.0.0.1:1"),
    (["--memory", "1000"], "invalid", "memory"),
    (["--cpu", "1"], "invalid", "cpu"),
    (["--pids", "1"], "invalid", "pids"),
    (["--disk", "5"], "invalid", "disk"),
    (["--gpu", "1"], "invalid", "gpu"),
    (["--arch", "sparc"], "invalid", "sparc"),
    (["--engine", "kata"], "invalid", "allowed_engines"),
])
def test_what_cannot_be_done_is_said(box, options, code, words):
    r = box.create("never", *options, check=False)
    assert r.code == 1
    assert f"oci_tool: {code}:" in r.err and words in r.err
    assert box.clean_soon() == {}


def test_engine_fails(fresh, tmp_path):
    """The engine's own words are in the error."""
    box = fresh(engine_paths={"runc": "/bin/false"}, engine="runc")
    r = box.create("broken", check=False)
    assert "runc failed with exit code 1" in r.err
    assert box.clean_soon() == {}


def test_engine_missing(fresh):
    box = fresh(engine_paths={"crun": "/no/such/crun"})
    r = box.create("none", check=False)
    assert "crun" in r.err and "not installed" in r.err


def test_execd_that_does_not_start(fresh, tmp_path):
    fake = tmp_path / "execd"
    fake.write_text("#!/bin/sh\necho 'cannot do it' >&2; exit 9\n")
    fake.chmod(0o755)
    box = fresh(execd=str(fake))
    r = box.create("mute", check=False)
    assert "ended before it answered" in r.err and "cannot do it" in r.err
    assert box.clean_soon() == {}


def test_execd_that_says_nothing(fresh, tmp_path):
    fake = tmp_path / "execd"
    fake.write_text("#!/bin/sh\nexec sleep 1000\n")
    fake.chmod(0o755)
    box = fresh(execd=str(fake), start_timeout_seconds=2)
    r = box.create("silent", check=False)
    assert "oci_tool: timeout:" in r.err
    assert box.clean_soon() == {}


def test_one_server_per_directory(fresh, tmp_path):
    box = fresh()
    box.create("holder", entrypoint=["sleep", "1000"])
    p = subprocess.Popen([f"{ocibox.BIN}/oci_tool", box.config, "wait", "holder"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    try:
        with open(f"{box.root}/lock", "r+") as f:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    fcntl.lockf(f, fcntl.LOCK_UN)
                    time.sleep(0.02)
                except OSError:
                    break  # the other one has it
        r = box.tool("list", check=False)
        assert r.code == 1 and "another server" in r.err
    finally:
        p.kill()
        p.wait()


def test_create_again_starts_over(box):
    """The same id once more: what was there before is replaced."""
    box.create("twice")
    box.sh("twice", "touch /root/old")
    box.create("twice")
    assert box.sh("twice", "ls /root").out == ""
    box.tool("remove", "twice")
    assert box.clean_soon() == {}


def test_doctor(box):
    rows = {line.split("  ")[0].strip(): line for line in box.tool("doctor").out.splitlines()}
    for name in ("root", "cgroups", "overlayfs", "user namespaces", "idmapped mounts", "nftables", "crun"):
        assert " ok " in rows[name], rows[name]
