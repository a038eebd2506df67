import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "support"))
import vaultnet  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def needs_root():
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")


@pytest.fixture(scope="module")
def net():
    n = vaultnet.Net()
    try:
        n.start()
        yield n
    finally:
        n.close()
