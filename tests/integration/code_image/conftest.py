"""The image of the code interpreter on both runtimes: the embedded one, from its directory and from its archive, and a Docker engine."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import requests

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../support"), os.path.join(HERE, "../execd")]

import codeimage  # noqa: E402
from dockerbox import Engine, find  # noqa: E402
from dockerserver import DockerServer  # noqa: E402
from execd_client import Events  # noqa: E402
from osbserver import BIN, Server  # noqa: E402

WAIT = 120
# The image is unpacked by the server and by the engine, and thrown away again: thousands of files that need no disk.
if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 4 << 30:
    os.environ.setdefault("OSB_TEST_TMP", "/dev/shm")


def pytest_collection_modifyitems(items):
    reason = "needs root" if os.geteuid() != 0 else "the programs in it are the same" if os.environ.get("OSB_FLAVOUR") == "asan" else ""
    for item in items if reason else ():
        item.add_marker(pytest.mark.skip(reason=reason))


class Sandbox:
    """One sandbox, and its execd through the server's proxy."""

    def __init__(self, server, **fields):
        self.server = server
        body = {"image": {"uri": codeimage.NAME}, "entrypoint": [codeimage.ENTRY], "timeout": 600, "resourceLimits": {"memory": "2Gi"}, **fields}
        self.id = server.create(**body)["id"]
        answer = server.ok("GET", f"/v1/sandboxes/{self.id}/endpoints/44772?use_server_proxy=true")
        self.url = "http://" + answer["endpoint"]
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.headers.update({"OPEN-SANDBOX-API-KEY": server.key, **(answer.get("headers") or {})})

    def call(self, method, path, body=None):
        r = self.http.request(method, self.url + path, json=body, timeout=WAIT)
        assert r.status_code == 200, r.text
        return r

    def context(self, language, **fields):
        return self.call("POST", "/code/context", {"language": language, **fields}).json()["id"]

    def run(self, code, language="python", context=None):
        ctx = {"language": language, **({"id": context} if context else {})}
        return Events(self.call("POST", "/code", {"code": code, "context": ctx}).content)

    def value(self, code, language="python", context=None):
        ev = self.run(code, language, context)
        assert not ev.error, ev.error
        return ev.of("result")[-1]["results"]["text"]

    def command(self, command):
        ev = Events(self.call("POST", "/command", {"command": command}).content)
        assert not ev.error, (ev.error, ev.stderr)
        return "\n".join(ev.stdout)

    def kill(self):
        self.http.close()
        self.server.delete(self.id)


@pytest.fixture(scope="session")
def image():
    return codeimage.build()


@pytest.fixture(scope="session")
def languages(image):
    found = set()
    kernels = os.path.join(image[0], "usr/local/share/jupyter/kernels")
    for name in os.listdir(kernels):
        with open(os.path.join(kernels, name, "kernel.json")) as f:
            found.add(json.load(f)["language"])
    return found


@pytest.fixture(scope="session")
def embedded(image):
    """Has it twice: imported from its archive, and as a directory."""
    s = Server(f'[oci.rootfs]\ncode-interpreter = "{image[0]}"\n')
    try:
        s.start()
        env = dict(os.environ, HOME=s.dir, OPEN_SANDBOX_DOMAIN=s.url, OPEN_SANDBOX_API_KEY=s.key)
        subprocess.run([os.path.join(BIN, "osb"), "image", "import", image[1], "--name", codeimage.NAME], env=env, check=True,
                       stdout=subprocess.DEVNULL)
        yield s
    finally:
        s.close()


@pytest.fixture(scope="session")
def docker(image):
    if not find("dockerd"):
        pytest.skip("a Docker engine needs the package docker.io")
    e = Engine(runtimes=False)
    try:
        e.start()
        with open(image[1], "rb") as archive:
            e.ok("POST", "/images/load?quiet=1", raw=archive, timeout=300)
        s = DockerServer(e)
        try:
            yield s.start()
        finally:
            s.close()
    finally:
        e.close()


@pytest.fixture(params=["embedded", "docker"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def sandbox(request):
    made = []

    def make(server, **fields):
        made.append(Sandbox(server, **fields))
        return made[-1]

    yield make
    for s in made:
        s.kill()
