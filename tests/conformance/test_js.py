"""The JavaScript SDK, and the word of its registry on the package that is not there."""

import json
import os
import re
import shutil
import subprocess

import clients
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "0.1.11"
NOT_OFFERED = re.compile(r"^isolation\.|getSignedEndpoint")


def npm(where):
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, "js", name), where)
    clients.must(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=where)


@pytest.fixture(scope="session")
def package():
    if not shutil.which("npm"):
        clients.unavailable("JavaScript SDK", "@alibaba-group/opensandbox", VERSION, "npm is not installed")
    try:
        return clients.install("js-" + VERSION, npm)
    except clients.Unavailable as e:
        clients.unavailable("JavaScript SDK", "@alibaba-group/opensandbox", VERSION, e)


@clients.on_both
def test_js(place, package, tmp_path):
    path = tmp_path / "record.json"
    r = subprocess.run(["node", "--test", os.path.join(HERE, "js", "conformance.mjs")], env=place.environ(OSB_JS=package, OSB_RECORD=str(path)),
                       capture_output=True, text=True, timeout=600)
    print(r.stdout)
    assert path.exists(), r.stdout[-8000:] + r.stderr[-2000:]
    got = json.loads(path.read_text())
    offered = {m for m in got["methods"] if not NOT_OFFERED.search(m)}
    clients.record("JavaScript SDK", "@alibaba-group/opensandbox", VERSION, place.runtime, got["methods"], got["worked"],
                   set(got["methods"]) - offered, "passed" if r.returncode == 0 else "failed")
    assert r.returncode == 0, r.stdout[-8000:] + r.stderr[-2000:]
    assert offered <= set(got["worked"]), sorted(offered - set(got["worked"]))


def test_js_code_interpreter():
    """It is in the clients' repository and has not been published."""
    name = "@alibaba-group/opensandbox-code-interpreter"
    try:
        version = clients.must(["npm", "view", name, "version", "--loglevel=error"]).strip()
    except (clients.Unavailable, FileNotFoundError) as e:
        clients.unavailable("JavaScript code interpreter", name, "", e)
    clients.unavailable("JavaScript code interpreter", name, version, "it has been published since this suite was written, and is not in it")
