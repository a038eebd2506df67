import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

from runtimes import (  # noqa: E402, F401  (fixtures and hooks)
    engine, make, new_server, pytest_collection_modifyitems, pytest_configure, pytest_generate_tests, runtime)
from serverfixtures import server  # noqa: E402, F401


@pytest.fixture(scope="session")
def shared(request, runtime):  # noqa: F811
    """One server for all tests that do not need one of their own."""
    server = new_server(request, runtime, "[renew_intent]\nenabled = true\nmin_interval_seconds = 1\n").start()
    yield server
    server.close()
