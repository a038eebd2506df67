"""The official MCP client library against our server, over both transports and all ways to connect.

The library comes from the package registry that pip is configured for, into build/mcp-client; without
one these tests are skipped.
"""

import fcntl
import json
import os
import subprocess

import pytest

from conftest import EXE, HERE, _cli
from test_protocol import CORE

VERSION = "2.3.0"
DIR = os.path.join(_cli.ROOT, "build", "mcp-client")


def install():
    """The interpreter of an environment that has the library, or a reason why there is none."""
    python = os.path.join(DIR, "bin", "python")
    stamp = os.path.join(DIR, "installed-" + VERSION)
    os.makedirs(os.path.dirname(DIR), exist_ok=True)
    with open(DIR + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(stamp):
            return python, None
        try:
            made = subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", DIR], capture_output=True, text=True,
                                  timeout=120, check=False)
            if made.returncode:
                return None, "no virtual environment: " + (made.stdout + made.stderr).strip()[-200:]
            got = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1",
                                  "--timeout", "15", "mcp==" + VERSION], capture_output=True, text=True, timeout=300,
                                 check=False)
        except subprocess.TimeoutExpired:
            return None, "the package registry does not answer in time"
        if got.returncode:
            return None, "the package registry has no mcp %s: %s" % (VERSION, got.stderr.strip()[-200:])
        with open(stamp, "w"):
            pass
        return python, None


@pytest.fixture(scope="session")
def python():
    exe, reason = install()
    if reason:
        print(reason)
        pytest.skip(reason)
    return exe


def drive(python, env, *args):
    p = subprocess.run([python, os.path.join(HERE, "official_client.py"), *args], capture_output=True, text=True,
                       env=env, timeout=300, check=False)
    assert p.returncode == 0, p.stdout + p.stderr
    seen = json.loads(p.stdout)
    assert seen["tools"] == CORE
    assert seen["progress"] == [[0.1, 1, True], [0.3, 1, True], [0.8, 1, True], [1, 1, True]]
    return seen


@pytest.mark.parametrize("mode, version", [("legacy", "2025-11-25"), ("auto", "2026-07-28"),
                                           ("2026-07-28", "2026-07-28")])
def test_stdio(python, env, mode, version):
    assert drive(python, env, mode, EXE)["version"] == version


@pytest.mark.parametrize("mode, version", [("legacy", "2025-11-25"), ("auto", "2026-07-28"),
                                           ("2026-07-28", "2026-07-28")])
def test_http(python, env, http, mode, version):
    assert drive(python, env, mode, http.url)["version"] == version
