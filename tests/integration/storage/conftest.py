import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

from runtimes import (  # noqa: E402, F401  (fixtures and hooks)
    engine, make, new_server, pytest_collection_modifyitems, pytest_configure, pytest_generate_tests, runtime)


@pytest.fixture(scope="session", autouse=True)
def needs_root():
    if os.geteuid() != 0:
        pytest.skip("the embedded runtime needs root")


@pytest.fixture(scope="module")
def shared(request, runtime):  # noqa: F811
    """One server per file."""
    s = new_server(request, runtime)
    s.allowed = os.path.join(s.dir, "allowed")
    s.outside = os.path.join(s.dir, "outside")
    s.buckets = os.path.join(s.dir, "buckets")
    os.mkdir(s.allowed)
    os.mkdir(s.outside)
    s.write_config(f'[storage]\nallowed_host_paths = ["{s.allowed}", "{s.allowed}/inner"]\n'
                   f'ossfs_mount_root = "{s.buckets}"\n')
    s.start()
    yield s
    s.close()


@pytest.fixture
def server(shared):
    yield shared
    for sandbox in shared.list():
        shared.call("DELETE", f"/v1/sandboxes/{sandbox['id']}")
    shared.assert_clean()
