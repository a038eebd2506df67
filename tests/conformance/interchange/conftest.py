import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

import refserver  # noqa: E402
from dockerbox import Engine  # noqa: E402
from dockerserver import DockerServer  # noqa: E402
from runtimes import docker_engine  # noqa: E402
from serverfixtures import makes  # noqa: E402

engine = docker_engine(Engine.load_busybox, runtimes=False)


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
    yield from makes(lambda config: DockerServer(engine, config))
