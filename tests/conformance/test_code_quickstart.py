"""The quick starts of the published code interpreter SDK, on the image that our recipe builds, on both runtimes."""

import os
import subprocess

import codeimage
import pytest
from osbserver import Server

HERE = os.path.dirname(os.path.abspath(__file__))
README_IMAGE = "opensandbox/code-interpreter:v1.1.0"


@pytest.fixture(scope="module", params=["embedded", "docker"])
def server(request):
    """Has the image by the name that the quick starts ask for."""
    if request.param == "docker":
        with codeimage.docker() as s:
            repo, tag = README_IMAGE.split(":")
            s.engine.ok("POST", f"/images/{codeimage.NAME}/tag?repo={repo}&tag={tag}")
            yield s
        return
    s = Server(f'[oci.rootfs]\n"{README_IMAGE}" = "{codeimage.build()[0]}"\n')
    try:
        yield s.start()
    finally:
        s.close()


@pytest.mark.parametrize("half", ["async", "sync"])
def test_quickstart(server, python_client, half):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPEN_SANDBOX", "OPENSANDBOX"))}
    env.update(OSB_DOMAIN=server.url.split("//")[1], OSB_KEY=server.key, OPENSANDBOX_DISABLE_METRICS="1", NO_PROXY="*", no_proxy="*")
    r = subprocess.run([python_client, os.path.join(HERE, "python/quickstart.py"), str(["async", "sync"].index(half))], env=env, capture_output=True,
                       text=True, timeout=300)
    assert r.returncode == 0, r.stderr[-4000:]
    assert r.stdout.strip().splitlines()[-1] == "4"
    assert not server.list()  # it cleans up
