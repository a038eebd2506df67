"""The published code interpreter SDK for Python, on an image with ipykernel and nothing else for it."""

import os
from datetime import timedelta

import pytest
from code_interpreter import CodeInterpreterSync
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.sync.sandbox import SandboxSync


@pytest.fixture(scope="module")
def interpreter():
    config = ConnectionConfigSync(domain=os.environ["OSB_DOMAIN"], api_key=os.environ["OSB_KEY"], disable_metrics=True,
                                  request_timeout=timedelta(seconds=120))
    sandbox = SandboxSync.create(os.environ.get("OSB_IMAGE", "host"), connection_config=config, resource={"cpu": "2", "memory": "1Gi"})
    # Its check looks for a Jupyter server at a port inside; here execd speaks to the kernels by itself.
    yield CodeInterpreterSync.create(sandbox, skip_health_check=True)
    sandbox.destroy()


def test_quickstart(interpreter):
    got = interpreter.codes.run("import sys\nprint('hello')\nsys.stderr.write('oops\\n')\n2 ** 10", language="python")
    assert "".join(m.text for m in got.logs.stdout).strip() == "hello"
    assert "oops" in "".join(m.text for m in got.logs.stderr)
    assert got.result[0].text == "1024" and got.error is None


def test_contexts(interpreter):
    one, two = (interpreter.codes.create_context("python") for _ in range(2))
    interpreter.codes.run("x = 41", context=one)
    assert interpreter.codes.run("x + 1", context=one).result[0].text == "42"
    assert interpreter.codes.run("x", context=two).error.name == "NameError"
    assert {one.id, two.id} <= {c.id for c in interpreter.codes.list_contexts("python")}
    assert interpreter.codes.get_context(one.id).language == "python"
    interpreter.codes.delete_context(one.id)
    with pytest.raises(SandboxApiException):
        interpreter.codes.get_context(one.id)
    interpreter.codes.delete_contexts("python")
    assert not interpreter.codes.list_contexts("python")


def test_error(interpreter):
    got = interpreter.codes.run("1 / 0", language="python")
    assert got.error.name == "ZeroDivisionError" and got.error.traceback
