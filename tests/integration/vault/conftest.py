import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "support"))
import vaultnet  # noqa: E402
from serverfixtures import needs_root  # noqa: E402, F401


@pytest.fixture(scope="module")
def net():
    n = vaultnet.Net()
    try:
        n.start()
        yield n
    finally:
        n.close()
