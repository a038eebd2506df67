"""Hosts with v1 only and with v2 only, on whatever this one is: the other hierarchies are taken out of sight,
in a mount namespace around each call."""

import subprocess

import ocibox
import pytest

HIDE = {
    "v1": r"""
for m in $(awk '$3 == "cgroup2" {print $2}' /proc/mounts); do umount "$m" || exit 77; done
grep -q ' cgroup ' /proc/mounts || exit 77
""",
    "v2": r"""
umount -R /sys/fs/cgroup || exit 77
mount -t cgroup2 none /sys/fs/cgroup || exit 77
""",
}


class Host(ocibox.Box):
    def __init__(self, mode, **options):
        super().__init__(**options)
        self.mode = mode

    def tool(self, *args, check=True, timeout=180, env=None):
        script = f"mount --make-rprivate / && {HIDE[self.mode]}\nexec \"$@\""
        p = subprocess.run(["unshare", "-m", "bash", "-c", script, "x", f"{ocibox.BIN}/oci_tool", self.config,
                            *map(str, args)], capture_output=True, text=True, timeout=timeout,
                           stdin=subprocess.DEVNULL)
        if p.returncode == 77:
            pytest.skip(f"cannot pretend to be a {self.mode} host here")
        if check and p.returncode != 0:
            raise AssertionError(f"{args}: exit {p.returncode}\n{p.stdout}{p.stderr}")
        return ocibox.Result(p.returncode, p.stdout, p.stderr)


@pytest.fixture(params=["v1", "v2"])
def host(request):
    # Controllers that v1 hierarchies hold are not there for v2: then nothing can be limited.
    h = Host(request.param, pids_limit=0)
    yield h
    h.close()


def test_life(host):
    host.create("a")
    assert f"({host.mode})" in host.tool("describe", "a").out
    assert host.sh("a", "echo here").out == "here"
    host.tool("pause", "a")
    assert host.state("a")["state"] == "paused"
    host.tool("resume", "a")
    assert host.sh("a", "echo again; (sleep 1000 &); (setsid sleep 1000 &); true").out == "again"
    host.tool("pause", "a")
    host.tool("remove", "a")
    assert host.clean_soon() == {}


def test_how_it_ended(host):
    host.create("b", entrypoint=["sh", "-c", "exit 4"])
    assert host.tool("wait", "b").out.split()[1:4] == ["exited", "code", "4"]
    host.tool("remove", "b")
    assert host.clean_soon() == {}


@pytest.mark.parametrize("engine", ["runc", "runsc"])
def test_other_engines(host, engine):
    if not ocibox.installed(engine):
        pytest.skip(f"{engine} is not installed")
    host.create("c", "--engine", engine)
    assert host.sh("c", "echo here").out == "here"
    host.tool("remove", "c")
    assert host.clean_soon() == {}


def test_a_limit_that_cannot_be_kept(host):
    r = host.create("d", "--memory", 64 << 20, check=False)
    if r.code == 0:  # v1 with its memory controller
        assert host.sh("d", "cat /sys/fs/cgroup/memory/memory.limit_in_bytes").out == str(64 << 20)
        host.tool("remove", "d")
    else:
        assert "oci_tool: unsupported: memory" in r.err
    assert host.clean_soon() == {}
