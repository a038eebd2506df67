"""The published reference server beside ours, on the tests' own Docker engine. It is installed from its package registry in the
version that is pinned here. Its execd is published as an image only, which no package registry has, and its Go module is not
published either: the image it takes execd from is made here, of our execd and bootstrap.sh in the places it expects, so that what
is tried is the server. Where somebody has the reference's own execd, OSB_REFERENCE_EXECD names it, and the benchmark takes it besides."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time

import osbserver

ROOT = osbserver.ROOT
PIN = "opensandbox-server==1.1.1"
IMAGE = "osbt-reference-execd:1"


class Missing(Exception):
    """It cannot be installed here."""


def install():
    """Its command."""
    env = os.path.join(ROOT, "build", "reference", PIN.replace("==", "-"))
    if not os.path.exists(os.path.join(env, "ready")):
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", env], check=True)
        r = subprocess.run([os.path.join(env, "bin", "python"), "-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check",
                            PIN, "-c", os.path.join(ROOT, "tests", "support", "refserver.txt")],
                           capture_output=True, text=True)
        if r.returncode != 0:
            raise Missing("the Python package registry cannot be reached: " + (r.stderr.strip().splitlines() or ["?"])[-1][:200])
        open(os.path.join(env, "ready"), "w").close()
    return os.path.join(env, "bin", "opensandbox-server")


OTHER = os.environ.get("OSB_REFERENCE_EXECD")
OTHER_BOOTSTRAP = """#!/bin/sh
/opt/opensandbox/execd &
exec "$@"
"""


def load_execd_image(engine, name, other):
    """execd and bootstrap.sh at the root, and a `tail`, which it is started with."""
    with tempfile.TemporaryDirectory(dir=engine.dir) as root:
        os.makedirs(f"{root}/bin")
        os.makedirs(f"{root}/dev")
        shutil.copy(shutil.which("busybox") or "/bin/busybox", f"{root}/bin/busybox")
        for applet in ("sh", "tail"):
            os.symlink("busybox", f"{root}/bin/{applet}")
        shutil.copy(OTHER if other else osbserver.EXECD_BIN, f"{root}/execd")
        shutil.copy(os.path.join(ROOT, "images", "bootstrap.sh"), f"{root}/bootstrap.sh")
        if other:
            with open(f"{root}/bootstrap.sh", "w") as f:
                f.write(OTHER_BOOTSTRAP)
        os.chmod(f"{root}/execd", 0o755)
        os.chmod(f"{root}/bootstrap.sh", 0o755)
        engine.load(name, root)


class Reference(osbserver.Server):
    """The calls of osbserver's Server, with the reference behind them."""

    def __init__(self, engine, key="reference-key-0123456789", other=False):
        self.engine, self.key = engine, key
        self.command = install()
        self.image = "osbt-other-execd:1" if other else IMAGE
        load_execd_image(engine, self.image, other)
        self.dir = tempfile.mkdtemp(prefix="osbt-reference-", dir=engine.dir)
        self.log_path = os.path.join(self.dir, "server.log")
        self.process = self.url = None
        self.session = osbserver.requests.Session()
        self.session.trust_env = False

    def start(self, env=None):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        config = os.path.join(self.dir, "config.toml")
        with open(config, "w") as f:
            f.write(f'[server]\nhost = "127.0.0.1"\nport = {port}\napi_key = "{self.key}"\n'
                    f'[runtime]\ntype = "docker"\nexecd_image = "{self.image}"\n'
                    f'[docker]\nnetwork_mode = "bridge"\nhost_ip = "127.0.0.1"\n'
                    f'[store]\ntype = "sqlite"\npath = "{self.dir}/store.db"\n')
        full = {k: v for k, v in os.environ.items() if not k.startswith(("OPENSANDBOX_", "OPEN_SANDBOX", "DOCKER_", "SANDBOX_"))}
        full.update(DOCKER_HOST=self.engine.url, HOME=self.dir, **(env or {}))
        full.pop("PYTHONDONTWRITEBYTECODE", None)  # it starts more than once
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([self.command, "--config", config], env=full, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=self.dir)
        self.url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError, osbserver.requests.RequestException):
                if self.call("GET", "/health").status_code == 200:
                    return self
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the reference did not start:\n{self.log_tail()}")
            time.sleep(0.1)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self, timeout=60):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()

    def close(self):
        """Its containers go with the engine."""
        self.stop(10)
        self.session.close()
