import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

from dockerbox import Engine, find  # noqa: E402
from dockernet import World, load_curl, load_egress  # noqa: E402
from dockerserver import DockerServer  # noqa: E402


@pytest.fixture(scope="session")
def engine():
    """One engine for the whole run."""
    if os.geteuid() != 0 or not find("dockerd"):
        pytest.skip("a Docker engine needs root and the package docker.io")
    e = Engine()
    try:
        e.start()
        e.load_busybox("host:latest")
        yield e
    finally:
        e.close()


@pytest.fixture(scope="session")
def shared(engine):
    server = DockerServer(engine, "[renew_intent]\nenabled = true\nmin_interval_seconds = 1\n").start()
    yield server
    server.close()


@pytest.fixture
def server(shared):
    yield shared
    for sandbox in shared.list():
        shared.call("DELETE", f"/v1/sandboxes/{sandbox['id']}")
    shared.assert_clean()


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


@pytest.fixture
def make(engine):
    made = []

    def new(config="", start=True, **more):
        s = DockerServer(engine, config, **more)
        made.append(s)
        return s.start() if start else s

    yield new
    for s in made:
        s.close()
