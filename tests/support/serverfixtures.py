"""Fixtures that several directories of tests share; a conftest imports them by name."""

import pytest
from osbserver import Server


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
