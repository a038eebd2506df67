import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

import refserver  # noqa: E402
from dockerbox import Engine, find  # noqa: E402
from dockerserver import DockerServer  # noqa: E402


@pytest.fixture(scope="session")
def engine():
    if os.geteuid() != 0 or not find("dockerd"):
        pytest.skip("a Docker engine needs root and the package docker.io")
    e = Engine(runtimes=False)
    try:
        e.start()
        e.load_busybox("host:latest")
        yield e
    finally:
        e.close()


@pytest.fixture(scope="session")
def theirs(engine):
    """The reference server."""
    try:
        r = refserver.Reference(engine)
    except refserver.Missing as why:
        pytest.skip(str(why))
    try:
        yield r.start()
    finally:
        r.close()


@pytest.fixture
def ours(engine):
    """Starts servers of ours on the same engine."""
    made = []

    def start(config=""):
        made.append(DockerServer(engine, config))
        return made[-1].start()

    yield start
    for s in made:
        s.close()
