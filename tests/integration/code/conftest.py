"""Code contexts against real kernels: execd by itself, execd in front of a Jupyter server, and execd in sandboxes of
the code interpreter's image on both runtimes.

Everything here runs in a network namespace of its own: libzmq looks at all interfaces each time it
binds, and other tests make and remove them by the hundred.
"""

import ctypes
import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../support"))
import codeimage  # noqa: E402
from dockerbox import find  # noqa: E402
from execd_client import Events  # noqa: E402
from localexecd import Execd, wait_for  # noqa: E402, F401

WAIT = 120  # kernels take their time when everything else runs too
PYTHON = "/usr/bin/python3"
TOKEN = "a-token/with+odd=characters"
PORT = 48771  # nobody else is in this namespace
RUNTIMES = ["embedded", "docker"]
ASAN = os.environ.get("OSB_FLAVOUR") == "asan"  # then without sandboxes: execd in them is always the static one
# The image is unpacked by the server and by the engine, and thrown away again: thousands of files that need no disk.
if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 12 << 30:
    os.environ.setdefault("OSB_TEST_TMP", "/dev/shm")


def have(*modules):
    code = "import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in sys.argv[1:]))"
    return subprocess.run([PYTHON, "-c", code, *modules]).returncode == 0


def pytest_configure(config):
    outside = os.open("/proc/self/ns/net", os.O_RDONLY)
    if os.getuid() == 0 and ctypes.CDLL(None, use_errno=True).unshare(0x40000000) == 0:  # CLONE_NEWNET
        codeimage.OUTSIDE = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{outside}"]  # registries are there
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def pytest_collection_modifyitems(items):
    if not have("ipykernel"):
        for item in items:
            item.add_marker(pytest.mark.skip(reason="python3-ipykernel is not installed"))


def kernel_path(directory):
    """A JUPYTER_PATH that has only what Debian's ipykernel installs, under a name of its own."""
    target = os.path.join(directory, "kernels", "python")
    if not os.path.exists(target):
        shutil.copytree("/usr/share/jupyter/kernels/python3", target)
    return directory


class Code:
    """A code-interpreter client of one execd."""

    def __init__(self, execd):
        self.execd = execd

    def create(self, language="python", **fields):
        r = self.execd.post("/code/context", json={"language": language, **fields}, timeout=WAIT)
        assert r.status_code == 200, r.text
        assert r.json()["language"] == language
        return r.json()["id"]

    def post(self, code, context=None, language="python", **kw):
        ctx = {"language": language}
        if context:
            ctx["id"] = context
        return self.execd.post("/code", json={"code": code, "context": ctx}, timeout=WAIT, **kw)

    def run(self, code, context=None, language="python"):
        r = self.post(code, context, language)
        assert r.status_code == 200, r.text
        assert r.headers["Content-Type"] == "text/event-stream"
        return check(Events(r.content))

    def contexts(self, **params):
        r = self.execd.get("/code/contexts", params=params)
        assert r.status_code == 200
        return [c["id"] for c in r.json()]

    def interrupt(self, context):
        return self.execd.delete("/code", params={"id": context})

    def delete(self, context):
        return self.execd.delete(f"/code/contexts/{context}")


def check(ev):
    """What holds for every stream: init and ping first, then exactly one end, and it is the last."""
    types = [e["type"] for e in ev.all]
    assert types[:2] == ["init", "ping"], types
    ends = [t for t in types if t in ("error", "execution_complete")]
    assert len(ends) == 1 and types[-1] == ends[0], types
    for e in ev.of("result"):
        assert all(isinstance(v, str) for v in e["results"].values())
        assert e["results"].get("text") == e["results"].get("text/plain")
    if ev.error:
        assert set(ev.error) == {"ename", "evalue", "traceback"} and isinstance(ev.error["traceback"], list)
    return ev


def texts(ev):
    return [e["results"].get("text") for e in ev.of("result")]


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory):
    """A real Jupyter server, or a skip."""
    if not have("jupyter_server"):
        pytest.skip("python3-jupyter-server is not installed")
    home = tmp_path_factory.mktemp("jupyter")
    env = dict(os.environ, HOME=str(home), JUPYTER_PATH=kernel_path(str(home / "share")))
    log = open(home / "log", "wb")
    p = subprocess.Popen([PYTHON, "-m", "jupyter_server", "--allow-root", "--no-browser", "--ip=127.0.0.1",
                          f"--port={PORT}", "--ServerApp.port_retries=0", f"--ServerApp.token={TOKEN}",
                          f"--ServerApp.root_dir={home}", "--ServerApp.base_url=/jup",
                          "--ServerApp.iopub_data_rate_limit=1e12", "--ServerApp.iopub_msg_rate_limit=1e9"],
                         env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    yield f"http://127.0.0.1:{PORT}/jup"
    p.terminate()
    try:
        p.wait(30)
    except subprocess.TimeoutExpired:
        p.kill()
        p.wait()


def start(tmp, env, args=()):
    full = {"HOME": str(tmp), "JUPYTER_PATH": kernel_path(str(tmp / "share")), "PATH": "/usr/bin:/bin", **env}
    return Execd(tmp / "execd.log", args, env=full, unset=("JUPYTER_HOST", "JUPYTER_TOKEN"))


def ended_well(execd):
    assert execd.stop() == 0, execd.log()
    assert "ERROR: " not in execd.log() and "runtime error" not in execd.log(), execd.log()


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    e = start(tmp_path_factory.mktemp("execd"), {})
    yield Code(e)
    ended_well(e)


@pytest.fixture(scope="module")
def remote(tmp_path_factory, jupyter):
    e = start(tmp_path_factory.mktemp("execd"), {"JUPYTER_HOST": jupyter, "JUPYTER_TOKEN": TOKEN})
    yield Code(e)
    ended_well(e)


# ---- in sandboxes ----
@pytest.fixture(scope="session")
def embedded_server():
    if os.geteuid() != 0:
        pytest.skip("the embedded runtime needs root")
    with codeimage.embedded() as s:
        yield s


@pytest.fixture(scope="session")
def docker_server():
    if os.geteuid() != 0 or not find("dockerd"):
        pytest.skip("a Docker engine needs root and the package docker.io")
    with codeimage.docker() as s:
        yield s


@pytest.fixture(params=RUNTIMES)
def server(request):
    return request.getfixturevalue(request.param + "_server")


@pytest.fixture
def sandbox():
    made = []

    def make(server, **fields):
        made.append(codeimage.Sandbox(server, **fields))
        return Code(made[-1])

    yield make
    for s in made:
        s.kill()


@pytest.fixture(scope="session")
def embedded(embedded_server):
    """One sandbox for all who ask for no more."""
    s = codeimage.Sandbox(embedded_server)
    yield Code(s)
    s.kill()


@pytest.fixture(scope="session")
def docker(docker_server):
    s = codeimage.Sandbox(docker_server)
    yield Code(s)
    s.kill()


@pytest.fixture(scope="module", params=RUNTIMES)
def boxed(request):
    """A client of an execd in a sandbox."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module", params=["local", "remote"] if ASAN else ["local", "remote", *RUNTIMES])
def code(request):
    """A client of an execd: with kernels of its own, with those of a Jupyter server, and in a sandbox of either runtime."""
    client = request.getfixturevalue(request.param)
    client.kind = request.param
    return client


@pytest.fixture
def launch(tmp_path):
    started = []

    def make(*args, **env):
        started.append(start(tmp_path, env, args))
        return Code(started[-1])

    yield make
    for e in started:
        ended_well(e)


@pytest.fixture(scope="module")
def context(code):
    return code.create()
