"""Published clients against our server, on the embedded runtime and on a Docker engine. Each is installed by the harness in
the version that is pinned in clients.py, from its package registry; where that cannot be had its tests are skipped, and say so."""

import contextlib
import os
import socket
import subprocess
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]

import clients  # noqa: E402
from dockerbox import Engine, find  # noqa: E402
from dockernet import load_egress  # noqa: E402
from dockerserver import DockerServer  # noqa: E402
from osbserver import Server  # noqa: E402

collect_ignore = ["python", "interchange"]  # run by their own interpreter; a suite of its own
USR_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def docker_images(engine):
    engine.load_busybox("host:latest")
    load_egress(engine, "osbt-sidecar:1")
    root = f"{engine.dir}/usr-image"
    for d in ("usr", "tmp", "etc", "root", "var/tmp"):
        os.makedirs(f"{root}/{d}")
    os.chmod(f"{root}/tmp", 0o1777)
    for link, target in USR_LINKS.items():
        os.symlink(target, f"{root}/{link}")
    with open(f"{root}/etc/passwd", "w") as f:
        f.write("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n")
    with open(f"{root}/etc/group", "w") as f:
        f.write("root:x:0:\nnogroup:x:65534:\n")
    engine.load("osbt-usr:1", root)


class Place:
    """A server, and what a client needs to know of it."""

    def __init__(self, runtime, server, **env):
        self.runtime, self.server, self.key = runtime, server, server.key
        self.domain = server.url.split("//")[1]
        self.env = env

    def environ(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OPEN_SANDBOX", "OPENSANDBOX", "PYTEST_"))}
        env.update(OSB_DOMAIN=self.domain, OSB_KEY=self.key, OPENSANDBOX_DISABLE_METRICS="1", NO_PROXY="*", no_proxy="*", **self.env, **more)
        return env


@pytest.fixture(scope="session")
def places():
    """Both runtimes, one server each."""
    with contextlib.ExitStack() as stack:
        server = Server()
        stack.callback(server.close)
        found = [Place("embedded", server.start())]
        if os.geteuid() == 0 and find("dockerd"):
            engine = Engine(runtimes=False)
            stack.callback(engine.close)
            engine.start()
            docker_images(engine)
            server = DockerServer(engine, '[egress]\nimage = "osbt-sidecar:1"\n[storage]\nallowed_host_paths = ["/usr"]\n')
            stack.callback(server.close)
            found.append(Place("docker", server.start(), OSB_CODE_IMAGE="osbt-usr:1", OSB_CODE_PATHS='["/usr"]'))
        yield found


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory):
    """A Redis of the tests' own."""
    dir = tmp_path_factory.mktemp("redis")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    p = subprocess.Popen(["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(dir)],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            break
        except OSError:
            assert p.poll() is None and time.monotonic() < deadline, "redis-server did not start"
            time.sleep(0.02)
    yield port
    p.terminate()
    p.wait(20)


@pytest.fixture(scope="session")
def python_client():
    try:
        return clients.python_env()
    except clients.Unavailable as e:
        clients.unavailable("Python SDK, sync", "opensandbox", "1.1.1", e)
