"""That there are two runtimes to test on."""

import pytest


def test_docker_is_there(places):
    if [p.runtime for p in places] != ["embedded", "docker"]:
        pytest.skip("a Docker engine needs root and the package docker.io: the clients were tested on the embedded runtime only")
