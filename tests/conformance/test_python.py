"""The Python SDK and its code interpreter, both halves of each: their tests run in an interpreter of their own."""

import json
import os
import re
import subprocess

import clients
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
# What our server does not offer on these runtimes: golden-image templates, namespaces inside a sandbox, signed routes (Kubernetes).
NOT_OFFERED = re.compile(r"template|Isolation|get_signed_endpoint")


@pytest.mark.parametrize("half", ["sync", "async"])
@clients.on_both
def test_python(place, python_client, redis_port, tmp_path, half):
    path = tmp_path / "record.json"
    r = subprocess.run([python_client, "-m", "pytest", "-q", "--tb=short", "--durations=8", "-p", "no:cacheprovider", os.path.join(HERE, "python")],
                       env=place.environ(OSB_CLIENT=half, OSB_RECORD=str(path), OSB_REDIS_PORT=str(redis_port)), capture_output=True, text=True)
    print(r.stdout)
    result = "passed" if r.returncode == 0 else "failed"
    counts = json.loads(path.read_text())
    missed = set()
    for package, client in (("opensandbox", f"Python SDK, {half}"), ("code_interpreter", f"Python code interpreter, {half}")):
        c = counts[package]
        offered = {m for m in c["methods"] if not NOT_OFFERED.search(m)}
        missed |= offered - set(c["worked"])
        pypi = {"code_interpreter": "opensandbox-code-interpreter"}.get(package, package)
        clients.record(client, pypi, "1.1.1", place.runtime, c["methods"], c["worked"],
                       sorted(set(c["methods"]) - offered - set(c["worked"])), result)
    assert r.returncode == 0, r.stdout[-8000:] + r.stderr[-2000:]
    assert not missed, f"no test calls {sorted(missed)} with success"
