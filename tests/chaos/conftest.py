import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from osbserver import Server  # noqa: E402


@pytest.fixture
def make():
    """Servers of a test's own."""
    made = []

    def new(config="", start=True, **more):
        s = Server(config, **more)
        made.append(s)
        return s.start() if start else s

    yield new
    for s in made:
        s.close()
