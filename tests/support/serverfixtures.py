"""Fixtures that several directories of tests share; a conftest imports them by name."""

import os

import pytest
from osbserver import Server


@pytest.fixture(scope="session", autouse=True)
def needs_root():
    if os.geteuid() != 0:
        pytest.skip("the embedded runtime and network namespaces need root")


def makes(new):
    """The body of a fixture that hands out servers and closes them: make("[limits]\\nsandboxes = 1\\n")."""
    made = []

    def make(config="", start=True, **more):
        s = new(config, **more)
        made.append(s)
        return s.start() if start else s

    yield make
    for s in made:
        s.close()


@pytest.fixture
def make():
    """Servers of a test's own."""
    yield from makes(Server)


@pytest.fixture
def server(shared):
    """The shared server; sandboxes that a test leaves are deleted and leave nothing."""
    yield shared
    shared.sweep()
