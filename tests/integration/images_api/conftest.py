import os
import shutil
import sys
import tarfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "support"))
sys.path.insert(0, os.path.join(HERE, "..", "image"))

from osbserver import Server  # noqa: E402
from serverfixtures import make, needs_root  # noqa: E402, F401
from registry import Image, Registry, tar_of  # noqa: E402

APPLETS = "sh cat echo sleep ls id env pwd touch stat true head tail test grep".split()


def directory(name, mode, uid=0, gid=0):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, mode, uid, gid
    return info


def busybox_layer(more=()):
    """A root file system with a shell, as the bytes of a layer."""
    with open(os.path.realpath(shutil.which("busybox")), "rb") as f:
        busybox = f.read()
    program = tarfile.TarInfo("bin/busybox")
    program.mode = 0o755
    members = [("bin", None), (program, busybox), ("etc", None), (directory("tmp", 0o1777), None), ("root", None),
               ("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\napp:x:1234:1235:app:/home/app:/bin/sh\n"),
               ("etc/group", b"root:x:0:\napp:x:1235:\nextra:x:1300:app\n")]
    for name in APPLETS:
        link = tarfile.TarInfo("bin/" + name)
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        members.append((link, None))
    return tar_of([*members, *more])


@pytest.fixture(scope="session")
def registry(tmp_path_factory):
    r = Registry(str(tmp_path_factory.mktemp("registry")))
    yield r
    r.stop()


@pytest.fixture(scope="session")
def base():
    return busybox_layer()


@pytest.fixture(scope="session")
def app(registry, base):
    """An image of two layers with a config; the name to create it by."""
    top = tar_of([("etc/motd", b"from the top\n"), ("home", None), (directory("home/app", 0o755, 1234, 1235), None)])
    image = Image([base, top], config={
        "Env": ["GREETING=hello", "PATH=/bin:/sbin", "HOME=/home/app"], "WorkingDir": "/home/app", "User": "app",
        "Entrypoint": ["/bin/false"], "Labels": {"maker": "test"}})
    image.push(registry.host, "t/app", "1")
    return f"{registry.host}/t/app:1"


@pytest.fixture(scope="module")
def server():
    s = Server("[images]\ndocker_config = \"\"\n").start()
    yield s
    s.close()
