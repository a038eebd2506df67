"""Code contexts in sandboxes of the embedded runtime, through the server's proxy: in the image `host`, which has the kernels
this machine has, and in the code interpreter's own root file system where that has been built."""

import importlib.util
import json
import os

import pytest
import requests

from conftest import HERE, WAIT, Code, texts

ROOT = os.path.abspath(os.path.join(HERE, "../../.."))
IMAGE = os.path.join(ROOT, "build/images/code-interpreter")
spec = importlib.util.spec_from_file_location("cli_conftest", os.path.join(HERE, "../cli/conftest.py"))
cli = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cli)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the embedded runtime needs root")


@pytest.fixture(scope="module")
def server():
    cli.CONFIG += f'[oci.rootfs]\ncode-interpreter = "{IMAGE}"\n' if os.path.exists(IMAGE) else ""
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


HELLO = {
    "python": ("print('hello')", "1 / 0"),
    "bash": ("echo hello", None),
    "javascript": ("console.log('hello')", "throw new Error('x')"),
    "typescript": ("const s: string = 'hello'\nconsole.log(s)", None),
    "go": ('import "fmt"\n%%\nfmt.Println("hello")', None),
}


def installed():
    found = set()
    for name in os.listdir(os.path.join(IMAGE, "usr/local/share/jupyter/kernels")):
        with open(os.path.join(IMAGE, "usr/local/share/jupyter/kernels", name, "kernel.json")) as f:
            found.add(json.load(f)["language"])
    return found


@pytest.mark.skipif(not os.path.exists(os.path.join(IMAGE, "opt/code-interpreter/code-interpreter.sh")),
                    reason="build/images/code-interpreter is not there: images/code-interpreter/build makes it")
@pytest.mark.parametrize("language", sorted(HELLO))
def test_every_language_of_the_image(sandbox, language):
    if language not in installed():
        pytest.skip(f"no kernel for {language} could be had when the image was built")
    code = sandbox("code-interpreter", entrypoint=["/opt/opensandbox/code-interpreter.sh"])
    hello, wrong = HELLO[language]
    ev = code.run(hello, language=language)
    assert "".join(ev.stdout).strip() == "hello" and not ev.error
    if wrong:
        assert code.run(wrong, language=language).error
