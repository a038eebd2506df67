import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import ocibox  # noqa: E402
from sandboxworld import server, world  # noqa: E402, F401
from serverfixtures import needs_root  # noqa: E402, F401


@pytest.fixture(scope="module")
def box():
    b = ocibox.Box(id_ranges=16)
    yield b
    b.close()


class Sandbox:
    def __init__(self, box, id, engine):
        self.box, self.id, self.engine = box, id, engine

    def sh(self, command, **kw):
        return self.box.sh(self.id, command, **kw)

    def py(self, source, **kw):
        return self.box.py(self.id, source, **kw)

    @property
    def pid(self):
        return self.box.record(self.id)["pid"]


@pytest.fixture(scope="module", params=ocibox.ENGINES)
def sandbox(request, box):
    """One sandbox per engine and file, in which everything runs as root."""
    if not ocibox.installed(request.param):
        pytest.skip(f"{request.param} is not installed")
    id = f"victim-{request.param}"
    box.create(id, "--engine", request.param, "--memory", 512 << 20, "--pids", 400)
    yield Sandbox(box, id, request.param)
    box.tool("remove", id, check=False)
