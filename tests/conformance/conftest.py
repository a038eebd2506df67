"""Published clients against our server. Each is installed by the harness, in the version that is pinned here, from its
package registry; where that cannot be reached its tests are skipped, and say so."""

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from osbserver import Server  # noqa: E402

collect_ignore = ["python"]  # run by their own interpreter
PYTHON_PINS = ["opensandbox==1.1.1", "opensandbox-code-interpreter==1.1.1"]


@pytest.fixture(scope="session")
def server():
    s = Server().start()
    yield s
    s.close()


@pytest.fixture(scope="session")
def python_client():
    """An interpreter that has the SDK, and pytest from the system."""
    env = os.path.join(ROOT, "build", "conformance", "python-" + "-".join(p.split("==")[1] for p in PYTHON_PINS))
    python = os.path.join(env, "bin", "python")
    if not os.path.exists(os.path.join(env, "ready")):
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", "--system-site-packages", env], check=True)
        r = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PYTHON_PINS], capture_output=True, text=True)
        if r.returncode != 0:
            pytest.skip("the Python package registry cannot be reached: " + (r.stderr.strip().splitlines() or ["?"])[-1][:200])
        open(os.path.join(env, "ready"), "w").close()
    return python
