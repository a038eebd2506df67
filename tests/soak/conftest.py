import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from osbserver import Server  # noqa: E402


@pytest.fixture
def server():
    # As wide as the default: an address rests for a while before it is used again, and the small networks of
    # the other tests would run out at fifty sandboxes a second.
    s = Server('[oci]\nsubnet = "10.231.0.0/16"\n').start()
    yield s
    s.close()
