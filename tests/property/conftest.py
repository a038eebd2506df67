"""Property-based testing of everything in specs/ with schemathesis, against the real servers. It is installed by the
harness from its package registry, in the versions pinned here; where that cannot be reached the tests are skipped, and
say so."""

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

PIN = "schemathesis-4.32.5"  # with what it needs: requirements.txt


@pytest.fixture(scope="session")
def schemathesis():
    """The command, in an environment of its own."""
    env = os.path.join(ROOT, "build", "property", PIN)
    if not os.path.exists(os.path.join(env, "ready")):
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", env], check=True)
        r = subprocess.run([os.path.join(env, "bin", "python"), "-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check",
                            "-r", os.path.join(HERE, "requirements.txt")],
                           capture_output=True, text=True)
        if r.returncode != 0:
            pytest.skip("the Python package registry cannot be reached: " + (r.stderr.strip().splitlines() or ["?"])[-1][:200])
        open(os.path.join(env, "ready"), "w").close()
    return os.path.join(env, "bin", "schemathesis")
