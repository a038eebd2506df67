"""The README promises no more than the tests before this one found. Last by name, so that they have run."""

import os
import subprocess

import clients


def test_readme_tells_what_was_found():
    r = subprocess.run(["/usr/bin/python3", os.path.join(clients.ROOT, "tools", "gen_compat.py"), "--check"], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
