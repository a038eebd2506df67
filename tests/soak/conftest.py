import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from osbserver import Server  # noqa: E402


@pytest.fixture
def server():
    s = Server().start()
    yield s
    s.close()
