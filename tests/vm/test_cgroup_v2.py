"""The embedded runtime on a machine whose control groups are version 2 only, as Debian 12 boots by itself. The machine is
emulated and slow, so the walk through it is a shell script that speaks to the server with osb."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import vm  # noqa: E402

BIN = os.environ.get("OSB_BIN", os.path.join(vm.ROOT, "build", "bin"))
HERE = os.path.dirname(os.path.abspath(__file__))


def test_cgroup_v2():
    copy = {os.path.join(BIN, p): f"bin/{p}" for p in ("opensandbox-server", "opensandbox-layer", "execd", "osb")}
    copy[os.path.join(HERE, "walk.sh")] = "walk.sh"
    copy[os.path.join(vm.ROOT, "images", "bootstrap.sh")] = "images/bootstrap.sh"
    code, out = vm.execute("bash walk.sh", copy)
    print(out)
    assert code == 0 and out.rstrip().endswith("walked"), out[-6000:]
