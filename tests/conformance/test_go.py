"""The Go client: what the module proxy says of it."""

import os

import clients
import pytest

MODULES = ["github.com/alibaba/OpenSandbox/sdks/sandbox/go", "github.com/opensandbox-group/OpenSandbox/sdks/sandbox/go"]


@pytest.mark.parametrize("module", MODULES)
def test_go_not_published(module, tmp_path):
    env = dict(os.environ, GOPATH=str(tmp_path / "path"), GOCACHE=str(tmp_path / "cache"), GOFLAGS="-modcacherw", GOTOOLCHAIN="local")
    env["PATH"] += ":/usr/local/go/bin"
    client = "Go SDK, " + module.split("/")[1]
    try:
        version = clients.must(["go", "list", "-m", module + "@latest"], cwd=tmp_path, env=env, timeout=300).split()[-1]
    except (clients.Unavailable, FileNotFoundError) as e:
        clients.unavailable(client, module, "", e)
    clients.unavailable(client, module, version, "the registry has it since this suite was written, and it is not in it")
