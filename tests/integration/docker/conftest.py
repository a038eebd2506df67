import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

from dockerbox import Engine  # noqa: E402
from dockernet import World, load_curl, load_egress  # noqa: E402
from dockerserver import DockerServer  # noqa: E402
from runtimes import docker_engine, make  # noqa: E402, F401
from serverfixtures import server  # noqa: E402, F401

engine = docker_engine(Engine.load_busybox)


@pytest.fixture(scope="session")
def runtime():
    return "docker"


@pytest.fixture(scope="session")
def shared(engine):
    server = DockerServer(engine, "[renew_intent]\nenabled = true\nmin_interval_seconds = 1\n").start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def outside(engine):
    """What sandboxes with a policy can reach or not, our sidecar's image, and one for them with curl."""
    w = World(engine)
    try:
        load_egress(engine, "osbt-sidecar:1", [w.ca])
        load_curl(engine, "osbt-curl:1")
        yield w
    finally:
        w.close()


@pytest.fixture
def world(outside):
    outside.forget()
    return outside
