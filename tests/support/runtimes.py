"""Suites that both runtimes pass. A file says so with `pytestmark = pytest.mark.both_runtimes`; what in it is the
embedded runtime's own carries `@pytest.mark.oci_only("why")`. Everything else runs on the embedded runtime.

A conftest takes what it needs by `from runtimes import ...`. OSB_RUNTIME=oci or docker picks one."""

import os

import pytest
from dockerbox import Engine, find
from dockerserver import DockerServer
from osbserver import Server
from serverfixtures import makes

ALL = ("oci", "docker")


def chosen():
    """Under a sanitizer only the embedded runtime: tests/integration/docker has the other's own code."""
    word = os.environ.get("OSB_RUNTIME")
    if word:
        return word.split(",")
    return ["oci"] if os.environ.get("OSB_FLAVOUR") in ("asan", "tsan") else list(ALL)


def pytest_configure(config):
    config.addinivalue_line("markers", "both_runtimes: runs on the embedded runtime and on a Docker engine")
    config.addinivalue_line("markers", "oci_only(why): one of such a file that only the embedded runtime can pass")


def pytest_generate_tests(metafunc):
    if "runtime" not in metafunc.fixturenames:
        return
    both = metafunc.definition.get_closest_marker("both_runtimes")
    only = metafunc.definition.get_closest_marker("oci_only")
    assert only is None or only.args, f"{metafunc.definition.nodeid}: oci_only needs a reason"
    kinds = ALL if both and not only else ("oci",)
    metafunc.parametrize("runtime", [k for k in kinds if k in chosen()], scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """First everything on one runtime, then on the other, file by file: pytest's own order goes to and fro between them, with
    another shared server each time."""
    def place(item):
        return ALL.index(getattr(item, "callspec", None) and item.callspec.params.get("runtime") or ALL[0]), str(item.path)
    items.sort(key=place)


@pytest.fixture(scope="session")
def runtime():
    """Which one: decided above."""
    return "oci"


def docker_engine(load, scope="session", **options):
    """A fixture: one engine for the whole scope, whose image `host` comes by this method of Engine."""
    @pytest.fixture(scope=scope)
    def engine():
        if os.geteuid() != 0 or not find("dockerd"):
            pytest.skip("a Docker engine needs root and the package docker.io")
        e = Engine(**options)
        try:
            e.start()
            load(e, "host:latest")
            yield e
        finally:
            e.close()
    return engine


engine = docker_engine(Engine.load_debian)  # what is installed on this machine


def new_server(request, runtime, config="", **more):
    if runtime == "docker":
        return DockerServer(request.getfixturevalue("engine"), config, **more)
    return Server(config, **more)


@pytest.fixture
def make(request, runtime):
    """Servers of a test's own."""
    yield from makes(lambda config, **more: new_server(request, runtime, config, **more))
