import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "support"))
import egressnet  # noqa: E402
from sandboxworld import server, world  # noqa: E402, F401
from serverfixtures import needs_root  # noqa: E402, F401


@pytest.fixture(scope="module")
def net():
    """One network and one sidecar per file; tests set the policy they need."""
    n = egressnet.Net()
    try:
        n.start({"defaultAction": "deny", "egress": []})
        yield n
    finally:
        n.close()


@pytest.fixture
def fresh():
    """Networks of one's own, with nothing started."""
    made = []

    def make(**kw):
        made.append(egressnet.Net(**kw))
        return made[-1]

    yield make
    for n in made:
        n.close()
