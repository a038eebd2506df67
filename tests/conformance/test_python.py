"""The Python SDK: its tests run in an interpreter of their own."""

import os
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("suite", ["test_sync.py", "test_code.py"])
def test_python(server, python_client, suite):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPEN_SANDBOX", "PYTEST_"))}
    env.update(OSB_DOMAIN=server.url.split("//")[1], OSB_KEY=server.key)
    r = subprocess.run([python_client, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", os.path.join(HERE, "python", suite)],
                       env=env, capture_output=True, text=True)
    print(r.stdout)
    assert r.returncode == 0, r.stdout[-8000:] + r.stderr[-2000:]
