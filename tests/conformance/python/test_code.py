"""The published code interpreter SDK for Python, on an image with ipykernel and nothing else for it."""

import json
import os
from datetime import timedelta

import pytest
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.sandboxes import Host, Volume
from sdk import FLAVOUR, CodeInterpreter, ExecutionHandlers, create, go, handler, run, story, text


@pytest.fixture(scope="module")
def interpreter():
    # On an engine the image has links where Debian has them, and the machine's /usr is a volume.
    volumes = [Volume(name=f"v{i}", host=Host(path=p), mount_path=p, read_only=True) for i, p in
               enumerate(json.loads(os.environ.get("OSB_CODE_PATHS", "[]")))]
    s = run(create(os.environ.get("OSB_CODE_IMAGE", "host"), resource={"cpu": "2", "memory": "1Gi"}, volumes=volumes or None))
    i = run(go(CodeInterpreter.create(s)))
    yield i
    run(go(i.aclose() if FLAVOUR == "async" else i.close()))
    run(go(s.destroy()))


@story
async def test_quickstart(interpreter):
    code = "import sys\nprint('hello')\nsys.stderr.write('oops\\n')\n2 ** 10"
    seen = []
    got = await go(interpreter.codes.run(code, language="python", handlers=ExecutionHandlers(on_result=handler(lambda r: seen.append(r.text)))))
    assert text(got.logs.stdout).strip() == "hello" and "oops" in text(got.logs.stderr)
    assert got.result[0].text == "1024" == seen[0] and got.error is None
    assert await go(interpreter.codes.ping()) and await go(interpreter.ping())
    assert interpreter.id == interpreter.sandbox.id
    assert (await go(interpreter.metrics.get_metrics(interpreter.id))).cpu_count > 0
    assert (await go(interpreter.commands.run("true"))).exit_code == 0
    await go(interpreter.files.write_file("/tmp/f", "from outside"))
    assert (await go(interpreter.codes.run("print(open('/tmp/f').read())", language="python"))).logs.stdout[0].text.strip() == "from outside"


@story
async def test_contexts(interpreter):
    one, two = [await go(interpreter.codes.create_context("python")) for _ in range(2)]
    await go(interpreter.codes.run("x = 41", context=one))
    assert (await go(interpreter.codes.run("x + 1", context=one))).result[0].text == "42"
    assert (await go(interpreter.codes.run("x", context=two))).error.name == "NameError"
    assert {one.id, two.id} <= {c.id for c in await go(interpreter.codes.list_contexts("python"))}
    assert (await go(interpreter.codes.get_context(one.id))).language == "python"
    await go(interpreter.codes.delete_context(one.id))
    with pytest.raises(SandboxApiException):
        await go(interpreter.codes.get_context(one.id))
    await go(interpreter.codes.delete_contexts("python"))
    assert not await go(interpreter.codes.list_contexts("python"))


@story
async def test_error_and_interrupt(interpreter):
    got = await go(interpreter.codes.run("1 / 0", language="python"))
    assert got.error.name == "ZeroDivisionError" and got.error.traceback
    ids = []

    def on_init(event):
        ids.append(event.id)

    async def stop(event):
        if "begun" in event.text:
            await interpreter.codes.interrupt(ids[0])

    def stop_now(event):
        if "begun" in event.text:
            interpreter.codes.interrupt(ids[0])
    handlers = ExecutionHandlers(on_init=handler(on_init), on_stdout=stop if FLAVOUR == "async" else stop_now)
    got = await go(interpreter.codes.run("import time\nprint('begun', flush=True)\ntime.sleep(600)", language="python", handlers=handlers))
    assert got.error.name == "KeyboardInterrupt"


@story
async def test_health(interpreter):
    """The client's own idea of health: something listens where Jupyter would."""
    assert await go(interpreter.is_healthy())
    await go(interpreter.check_ready(timedelta(seconds=60), timedelta(milliseconds=100)))
