import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

from osbserver import Server  # noqa: E402


@pytest.fixture(scope="session")
def shared():
    """One server for all tests that do not need one of their own."""
    server = Server("[renew_intent]\nenabled = true\nmin_interval_seconds = 1\n").start()
    yield server
    server.close()


@pytest.fixture
def server(shared):
    """The shared server; sandboxes that a test leaves are deleted and leave nothing."""
    yield shared
    shared.delete_pools()
    for sandbox in shared.list():
        shared.call("DELETE", f"/v1/sandboxes/{sandbox['id']}")
    shared.assert_clean()


@pytest.fixture
def make():
    """Servers of a test's own: make("[limits]\\nsandboxes = 1\\n")."""
    made = []

    def new(config="", start=True, **more):
        s = Server(config, **more)
        made.append(s)
        return s.start() if start else s

    yield new
    for s in made:
        s.close()
