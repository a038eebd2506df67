"""Code contexts in sandboxes of the embedded runtime, through the server's proxy, in the image `host`: it has the kernels this machine has."""

import importlib.util
import os

import pytest
import requests

from conftest import HERE, WAIT, Code, texts

spec = importlib.util.spec_from_file_location("cli_conftest", os.path.join(HERE, "../cli/conftest.py"))
cli = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cli)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the embedded runtime needs root")


@pytest.fixture(scope="module")
def server():
    s = cli.Server()
    yield s
    s.stop()


class Sandbox:
    """An execd behind the server's proxy."""

    def __init__(self, server, image, **fields):
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.headers["OPEN-SANDBOX-API-KEY"] = server.key
        self.api = server.url.rstrip("/") + "/v1/sandboxes"
        body = {"image": {"uri": image}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
                "resourceLimits": {"memory": "1Gi"}, **fields}
        r = self.http.post(self.api, json=body, timeout=WAIT)
        assert r.status_code == 202, r.text
        self.id = r.json()["id"]
        r = self.http.get(f"{self.api}/{self.id}/endpoints/44772", params={"use_server_proxy": "true"}, timeout=WAIT)
        assert r.status_code == 200, r.text
        self.url = "http://" + r.json()["endpoint"]
        self.http.headers.update(r.json().get("headers") or {})

    def request(self, method, path, **kw):
        kw.setdefault("timeout", WAIT)
        return self.http.request(method, self.url + path, **kw)

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, **kw):
        return self.request("POST", path, **kw)

    def delete(self, path, **kw):
        return self.request("DELETE", path, **kw)

    def kill(self):
        self.http.delete(f"{self.api}/{self.id}", timeout=WAIT)
        self.http.close()


@pytest.fixture
def sandbox(server):
    made = []

    def make(image, **fields):
        made.append(Sandbox(server, image, **fields))
        return Code(made[-1])

    yield make
    for s in made:
        s.kill()


def test_code_in_the_image_host(sandbox):
    """Whatever image has ipykernel is a code interpreter."""
    code = sandbox("host", env={"WHOSE": "mine"})
    c = code.create(cwd="/tmp/work")
    assert "".join(code.run("import os; print(os.getcwd(), os.environ['WHOSE'])", c).stdout) == "/tmp/work mine\n"
    assert texts(code.run("2 + 2", c)) == ["4"]
    assert code.run("import os; os.kill(os.getpid(), 9)", c).error["ename"] == "KernelDied"
    assert texts(code.run("2 + 3", c)) == ["5"]
    ev = code.run("x = []\nwhile True: x.append(bytearray(b'1' * 50_000_000))", c)
    assert ev.error["ename"] == "KernelDied" and "out of memory" in ev.error["evalue"]
    assert texts(code.run("2 + 4", c)) == ["6"]
