import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "support"))
import ocibox  # noqa: E402
from serverfixtures import needs_root  # noqa: E402, F401


@pytest.fixture(scope="module")
def box():
    """One instance per file; each test uses ids of its own."""
    b = ocibox.Box()
    yield b
    b.close()


@pytest.fixture
def fresh():
    """Instances with options of their own."""
    made = []

    def make(**options):
        made.append(ocibox.Box(**options))
        return made[-1]

    yield make
    for b in made:
        b.close()
