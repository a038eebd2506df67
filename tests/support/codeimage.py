"""The image of the code interpreter, as its recipe builds it: the small one (Python and bash), kept below build/ until the recipe changes."""

import fcntl
import glob
import hashlib
import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPE = os.path.join(ROOT, "images", "code-interpreter")
NAME = "opensandbox/code-interpreter:latest"
ENTRY = "/opt/code-interpreter/code-interpreter.sh"


def fingerprint():
    sha = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(RECIPE, "**", "*"), recursive=True)):
        if os.path.isfile(path):
            sha.update(open(path, "rb").read())
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
                code = subprocess.run([os.path.join(RECIPE, "build"), "-o", directory + ".tar", directory, "python", "bash"], stdin=subprocess.DEVNULL,
                                      stdout=out, stderr=out).returncode
            if code != 0:
                with open(log) as f:
                    text = f.read()
                shutil.rmtree(directory, ignore_errors=True)
                if "Could not resolve" in text or "Unable to fetch" in text or "Temporary failure" in text or code == 3:
                    pytest.skip(f"the image cannot be built without its registries: see {log}")
                raise AssertionError(f"images/code-interpreter/build ended with {code}:\n{text[-3000:]}")
    return directory, directory + ".tar"
