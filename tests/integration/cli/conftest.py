"""A real server on the embedded runtime and osb beside it."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import uuid

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("OSB_BIN", os.path.join(ROOT, "build", "bin"))
# Inside the sandboxes always the static execd: one with a sanitizer needs its libraries and memory.
EXECD = os.path.join(BIN, "execd")
if os.environ.get("OSB_FLAVOUR") in ("asan", "tsan") and os.path.exists(os.path.join(ROOT, "build", "bin", "execd")):
    EXECD = os.path.join(ROOT, "build", "bin", "execd")

CONFIG = """
[server]
host = "127.0.0.1"
port = 0
data_dir = "{dir}/data"
[runtime]
type = "oci"
[oci]
execd = "{execd}"
run_dir = "/run/{name}"
bridge = "{name}"
subnet = "10.{net}.0.0/16"
nft_table = "{name}"
cgroup_parent = "{name}"
netns_pool = 2
"""


class Server:
    def __init__(self):
        self.name = "ocl" + uuid.uuid4().hex[:5]
        self.dir = tempfile.mkdtemp(prefix=self.name)
        config = os.path.join(self.dir, "server.toml")
        with open(config, "w") as f:
            f.write(CONFIG.format(dir=self.dir, execd=os.path.abspath(EXECD), name=self.name,
                                  net=100 + os.getpid() % 100))
        self.log = open(os.path.join(self.dir, "log"), "w")
        self.process = subprocess.Popen([os.path.join(BIN, "opensandbox-server"), "--config", config],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.url = None
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.url = line.split()[2]
                break
        if not self.url:
            with open(self.log.name) as f:
                pytest.exit("the server does not start: " + f.read()[-400:], 1)
        with open(os.path.join(self.dir, "data", "api-key")) as f:
            self.key = f.read().strip()

    def stop(self):
        self.kill_all()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        sweep(self.name)
        shutil.rmtree(self.dir, ignore_errors=True)

    def kill_all(self):
        osb = Osb(self, self.dir)
        listed = osb("sandbox", "list", "--page-size", "100", "-o", "json")
        for item in json.loads(listed.stdout)["items"] if listed.returncode == 0 else []:
            osb("sandbox", "kill", item["id"])


def sweep(name):
    """What a server leaves on the machine for its next start."""
    subprocess.run(["ip", "link", "delete", name], stderr=subprocess.DEVNULL, check=False)
    subprocess.run(["nft", "delete", "table", "inet", name], stderr=subprocess.DEVNULL, check=False)
    subprocess.run(["sh", "-c", f"umount /run/{name}/netns/* /run/{name}/*/* /run/{name}"], stderr=subprocess.DEVNULL,
                   check=False)
    subprocess.run(["find", f"/sys/fs/cgroup/{name}", "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"],
                   stderr=subprocess.DEVNULL, check=False)
    shutil.rmtree(f"/run/{name}", ignore_errors=True)


class Osb:
    """Runs osb with a home of its own."""

    def __init__(self, server, home):
        self.exe = os.path.join(BIN, "osb")
        self.home = str(home)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("OPEN_SANDBOX_") and k != "NO_COLOR"}
        self.env.pop("COLUMNS", None)
        self.env.update(HOME=self.home, LC_ALL="C.UTF-8")
        if server:
            self.env.update(OPEN_SANDBOX_DOMAIN=server.url, OPEN_SANDBOX_API_KEY=server.key)

    def __call__(self, *args, stdin="", env=None, timeout=120, cwd=None):
        return subprocess.run([self.exe, *args], input=stdin, capture_output=True, text=True, cwd=cwd,
                              env={**self.env, **(env or {})}, timeout=timeout, check=False)

    def ok(self, *args, **kw):
        r = self(*args, **kw)
        assert r.returncode == 0, (args, r.returncode, r.stdout, r.stderr)
        return r.stdout

    def json(self, *args, **kw):
        at = args.index("--") if "--" in args else len(args)
        return json.loads(self.ok(*args[:at], "-o", "json", *args[at:], **kw))


@pytest.fixture(scope="session")
def server():
    if os.geteuid() != 0:
        pytest.skip("the embedded runtime needs root")
    s = Server()
    yield s
    s.stop()


@pytest.fixture
def osb(server, tmp_path):
    return Osb(server, tmp_path)


@pytest.fixture
def local(tmp_path):
    """osb without a server."""
    return Osb(None, tmp_path)


@pytest.fixture(scope="session")
def box(server, tmp_path_factory):
    """One sandbox for all tests that only look or add."""
    osb = Osb(server, tmp_path_factory.mktemp("home"))
    sid = osb.json("sandbox", "create", "-i", "host", "-m", "made=shared")["id"]
    yield sid
    osb("sandbox", "kill", sid)
