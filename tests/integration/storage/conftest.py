import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

from runtimes import (  # noqa: E402, F401  (fixtures and hooks)
    engine, make, new_server, pytest_collection_modifyitems, pytest_configure, pytest_generate_tests, runtime)
from serverfixtures import needs_root, server  # noqa: E402, F401


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
