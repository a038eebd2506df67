"""The image of the code interpreter, as its recipe builds it, kept below build/ until the recipe changes; and sandboxes of it.

A language whose registry does not answer is not in it: `languages()` says which are."""

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
import subprocess

import pytest
from dockerbox import Engine
from dockerserver import DockerServer
from execd_client import Caller
from osbserver import Server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPE = os.path.join(ROOT, "images", "code-interpreter")
NAME = "opensandbox/code-interpreter:latest"
ENTRY = "/opt/code-interpreter/code-interpreter.sh"
LEFT_OUT = 3  # how the recipe ends when a registry did not answer
OUTSIDE = []  # goes in front of the recipe, where a suite has no network of its own


def fingerprint():
    sha = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(RECIPE, "**", "*"), recursive=True)):
        if os.path.isfile(path):
            with open(path, "rb") as f:
                sha.update(f.read())
    return sha.hexdigest()[:12]


def build():
    """(directory, archive). OSB_CODE_IMAGE names another one that is already there: DIR and DIR.tar."""
    given = os.environ.get("OSB_CODE_IMAGE")
    if given:
        return given, given + ".tar"
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        pytest.skip("the image needs root and the package mmdebstrap")
    parent = os.path.join(ROOT, "build", "images")
    os.makedirs(parent, exist_ok=True)
    with open(os.path.join(parent, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        directory = os.path.join(parent, "code-interpreter-" + fingerprint())
        if not os.path.exists(directory):
            for old in glob.glob(os.path.join(parent, "code-interpreter-*")):
                shutil.rmtree(old) if os.path.isdir(old) else os.unlink(old)
            log = os.path.join(parent, "code-interpreter.log")
            with open(log, "w") as out:
                code = subprocess.run([*OUTSIDE, os.path.join(RECIPE, "build"), "-o", directory + ".tar", directory], stdin=subprocess.DEVNULL,
                                      stdout=out, stderr=out).returncode
            if code not in (0, LEFT_OUT):
                shutil.rmtree(directory, ignore_errors=True)
                with open(log) as f:
                    text = f.read()
                if any(word in text for word in ("Could not resolve", "Unable to fetch", "Temporary failure")):
                    pytest.skip(f"the image cannot be built without a Debian mirror: see {log}")
                raise AssertionError(f"images/code-interpreter/build ended with {code}:\n{text[-3000:]}")
    return directory, directory + ".tar"


def languages():
    """What this image can run."""
    found = set()
    for path in glob.glob(os.path.join(build()[0], "usr/local/share/jupyter/kernels/*/kernel.json")):
        with open(path) as f:
            found.add(json.load(f)["language"])
    return found


class Sandbox(Caller):
    """One sandbox, and its execd through the server's proxy: used like an execd of one's own."""

    def __init__(self, server, **fields):
        self.server = server
        body = {"image": {"uri": NAME}, "entrypoint": [ENTRY], "timeout": 1800, "resourceLimits": {"memory": "4Gi"}, **fields}
        self.id = server.create(**body)["id"]
        answer = server.ok("GET", f"/v1/sandboxes/{self.id}/endpoints/44772?use_server_proxy=true")
        super().__init__("http://" + answer["endpoint"], {"OPEN-SANDBOX-API-KEY": server.key, **(answer.get("headers") or {})})

    def command(self, command):
        out, last = self.server.run(self.id, command, timeout=120)
        assert last["type"] == "execution_complete", (out, last)
        return out

    def kill(self):
        self.http.close()
        self.server.delete(self.id)


@contextlib.contextmanager
def embedded(config=""):
    """A server that has the image twice: imported from its archive as NAME, and its directory as `code-interpreter`."""
    directory, archive = build()
    s = Server(f'{config}\n[oci.rootfs]\ncode-interpreter = "{directory}"\n')
    try:
        s.start()
        env = dict(os.environ, HOME=s.dir, OPEN_SANDBOX_DOMAIN=s.url, OPEN_SANDBOX_API_KEY=s.key)
        subprocess.run([os.path.join(s.bin, "osb"), "image", "import", archive, "--name", NAME], env=env, check=True, stdout=subprocess.DEVNULL)
        yield s
    finally:
        s.close()


@contextlib.contextmanager
def docker(config=""):
    """A server on an engine that has loaded the archive."""
    e = Engine(runtimes=False)
    try:
        e.start()
        with open(build()[1], "rb") as archive:
            e.ok("POST", "/images/load?quiet=1", raw=archive, timeout=600)
        s = DockerServer(e, config)
        try:
            yield s.start()
        finally:
            s.close()
    finally:
        e.close()


if __name__ == "__main__":  # ahead of the suites that want it
    try:
        print(*build())
    except pytest.skip.Exception as e:
        print(e)
