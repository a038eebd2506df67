"""What a client of the code interpreter sees, the same with both kinds of kernels and in sandboxes of both runtimes."""

import base64
import concurrent.futures
import contextlib
import json
import os
import threading
import uuid

import pytest

from conftest import WAIT, check, have, texts, wait_for
from execd_client import Events, Raw

PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
       "rkJggg==")


def begin(code, text, context):
    """A run whose stream is read piece by piece; returns when the code itself has begun."""
    raw = Raw(code.execd, "POST", "/code", {"code": text, "context": {"id": context, "language": "python"}})
    raw.sock.settimeout(WAIT)
    assert raw.head() == 200
    return raw


def rest(raw, first):
    ev = check(Events(first + raw.body()))
    raw.close()
    return ev


def test_a_result_comes_with_its_count_and_completes(code, context):
    ev = code.run("2 + 2", context)
    assert ev.id == context and texts(ev) == ["4"] and not ev.error
    types = [e["type"] for e in ev.all if e["type"] != "ping"]
    assert types == ["init", "execution_count", "result", "execution_complete"]
    assert ev.of("execution_count")[0]["execution_count"] >= 1


def test_output_keeps_its_newlines_and_its_stream(code, context):
    ev = code.run("import sys\nprint('a\\nb')\nprint('c', file=sys.stderr)", context)
    assert "".join(ev.stdout) == "a\nb\n" and "".join(ev.stderr) == "c\n"
    assert not ev.of("result")


def test_state_is_kept_and_contexts_are_isolated(code, context):
    other = code.create()
    code.run("x = 'mine'", context)
    assert texts(code.run("x", context)) == ["'mine'"]
    assert code.run("x", other).error["ename"] == "NameError"
    assert texts(code.run("x", context)) == ["'mine'"]
    assert code.delete(other).status_code == 200


def test_errors_have_a_traceback(code, context):
    ev = code.run("def f():\n    raise ValueError('no good')\nf()", context)
    assert ev.error["ename"] == "ValueError" and ev.error["evalue"] == "no good"
    assert any("ValueError" in line for line in ev.error["traceback"])
    assert code.run("1/0", context).error["ename"] == "ZeroDivisionError"
    assert code.run("def (", context).error["ename"] == "SyntaxError"
    assert texts(code.run("1", context)) == ["1"]


def test_output_precedes_the_error(code, context):
    ev = code.run("print('before'); 1/0", context)
    assert "".join(ev.stdout) == "before\n" and ev.all[-1]["type"] == "error"


def test_every_mime_type_comes_through(code, context):
    ev = code.run(f"""
import base64
from IPython.display import display, HTML, Image
display(Image(data=base64.b64decode('{PNG}')))
display({{'application/json': {{'a': [1, 2]}}, 'text/plain': 'x'}}, raw=True)
class Table:
    def _repr_html_(self): return '<table><tr><td>1</td></tr></table>'
    def __repr__(self): return 'Table'
Table()""", context)
    results = [e["results"] for e in ev.of("result")]
    assert base64.b64decode(results[0]["image/png"]) == base64.b64decode(PNG)
    assert json.loads(results[1]["application/json"]) == {"a": [1, 2]}
    assert results[2] == {"text": "Table", "text/plain": "Table",
                          "text/html": "<table><tr><td>1</td></tr></table>"}


@pytest.mark.skipif(not have("matplotlib"), reason="python3-matplotlib is not installed")
def test_plots_come_as_pictures(code, context):
    """As a user writes them: nothing is asked for, and each figure is a result of its own."""
    ev = code.run("import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.title('squares')\nplt.show()\n"
                  "plt.bar(['a', 'b'], [3, 5])\nplt.show()\nprint('done')", context)
    assert not ev.error and "".join(ev.stdout).endswith("done\n")
    pictures = [base64.b64decode(e["results"]["image/png"]) for e in ev.of("result") if "image/png" in e["results"]]
    assert len(pictures) == 2 and all(p.startswith(b"\x89PNG\r\n\x1a\n") and len(p) > 2000 for p in pictures)
    assert pictures[0] != pictures[1]


def test_displays_and_their_updates(code, context):
    ev = code.run("h = display('one', display_id='d1')\nh.update('two')", context)
    assert [(e["display_id"], e["update"], e["results"]["text"]) for e in ev.of("result")] == [
        ("d1", False, "'one'"), ("d1", True, "'two'")]


def test_input_is_refused(code, context):
    ev = code.run("input('name? ')", context)
    assert ev.error["ename"] == "StdinNotImplementedError"
    assert texts(code.run("1", context)) == ["1"]


def test_ten_megabytes_in_one_piece_and_in_many(code, context):
    ev = code.run("print('x' * 10_000_000)", context)
    assert sum(map(len, ev.stdout)) == 10_000_001 and len(ev.stdout) >= 10
    ev = code.run("for i in range(200_000): print('%049d' % i)", context)
    text = "".join(ev.stdout)
    assert len(text) == 10_000_000 and text.endswith("%049d\n" % 199_999)


def test_a_slow_reader_loses_nothing(code, context):
    raw = begin(code, "for i in range(60): print('y' * 100_000, flush=True)", context)
    got = raw.until(b'"init"')
    ev = rest(raw, got)
    assert sum(map(len, ev.stdout)) == 60 * 100_001


def test_odd_characters(code, context):
    ev = code.run("print('nul\\0 \\u2028 \\x85 \\U0001f600 \\x1b[31m')", context)
    assert "".join(ev.stdout) == "nul\ufffd \u2028 \x85 \U0001f600 \x1b[31m\n"
    assert all(len(frame.splitlines()) == 1 for frame in ev.raw.decode().strip().split("\n\n"))


def test_a_busy_context_says_so(code, context):
    raw = begin(code, "print('begun', flush=True)\nimport time\ntime.sleep(300)", context)
    first = raw.until(b"begun")
    ev = code.run("1", context)
    assert ev.error["evalue"] == "session is busy" and ev.error["ename"] == "RUNTIME_ERROR"
    assert code.interrupt(context).status_code == 200
    assert rest(raw, first).error["ename"] == "KeyboardInterrupt"


def test_an_infinite_loop_is_interrupted(code, context):
    for attempt in range(2):
        raw = begin(code, "while True: pass", context)
        first = raw.until(b'"init"')  # at once: also when the kernel has not begun yet
        assert code.interrupt(context).status_code == 200
        assert rest(raw, first).error["ename"] == "KeyboardInterrupt"
    assert texts(code.run("40 + 2", context)) == ["42"]


@contextlib.contextmanager
def waiting(code, context, path):
    """Code that was interrupted and ends when `path` is there, and the answer that a run behind it will get. There is one such place:
    whoever comes second is told that the context is busy."""
    raw = begin(code, "import os, time\ntry:\n  print('begun', flush=True)\n  time.sleep(300)\nexcept KeyboardInterrupt:\n"
                      f"  while not os.path.exists({path!r}): time.sleep(0.01)", context)
    first = raw.until(b"begun")
    assert code.interrupt(context).status_code == 200
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = [pool.submit(code.post, "6 * 7", context) for _ in range(2)]
        done, queued = concurrent.futures.wait(runs, WAIT, concurrent.futures.FIRST_COMPLETED)
        assert check(Events(done.pop().result().content)).error["evalue"] == "session is busy"
        yield queued.pop()
    rest(raw, first)


def test_a_run_waits_for_the_end_of_an_interrupted_one(code, context):
    other, path = code.create(), f"/tmp/osbt-{uuid.uuid4()}"
    with waiting(code, context, path) as answer:
        code.run(f"open({path!r}, 'w').close()", other)
        assert texts(check(Events(answer.result(WAIT).content))) == ["42"]
    code.run(f"import os; os.unlink({path!r})", other)
    code.delete(other)


def test_a_run_that_waits_is_interrupted_and_deleted_too(code):
    context = code.create()
    with waiting(code, context, "/nowhere") as answer:
        assert code.interrupt(context).status_code == 200
        r = answer.result(WAIT)
        assert r.status_code == 500 and "interrupted before its turn" in r.json()["message"]
    with waiting(code, context, "/nowhere") as answer:
        assert code.delete(context).status_code == 200
        r = answer.result(WAIT)
        assert r.status_code == 500 and "was deleted" in r.json()["message"]


def test_an_interrupt_of_nothing(code, context):
    assert code.interrupt(context).status_code == 200
    r = code.interrupt(str(uuid.uuid4()))
    assert r.status_code == 500 and "no such session" in r.json()["message"]
    assert texts(code.run("1", context)) == ["1"]


def test_a_client_that_leaves_does_not_stop_the_code(code, context):
    raw = begin(code, "print('begun', flush=True)\nimport time\ntime.sleep(1)\ndone = 'yes'", context)
    raw.until(b"begun")
    raw.reset()
    wait_for(lambda: not code.run("pass", context).error, "the context to be free", WAIT)
    assert texts(code.run("done", context)) == ["'yes'"]


def test_a_killed_kernel_ends_its_run_and_the_context_goes_on(code):
    context = code.create()
    code.run("x = 1", context)
    ev = code.run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", context)
    assert ev.error["ename"] == "KernelDied" and "state is lost" in ev.error["evalue"]
    assert code.run("x", context).error["ename"] == "NameError"
    assert texts(code.run("1 + 1", context)) == ["2"]
    assert code.delete(context).status_code == 200


def test_contexts_are_listed_got_and_deleted(code):
    before = set(code.contexts())
    a, b = code.create(), code.create()
    assert set(code.contexts(language="python")) >= {a, b} and len(code.contexts()) == len(set(code.contexts()))
    r = code.execd.get(f"/code/contexts/{a}")
    assert r.status_code == 200 and r.json() == {"id": a, "language": "python"}
    assert code.delete(a).status_code == 200
    for r in (code.delete(a), code.execd.get(f"/code/contexts/{a}")):
        assert r.status_code == 404 and r.json() == {"code": "CONTEXT_NOT_FOUND", "message": f"context {a} not found"}
    assert code.contexts(language="go") == []
    assert set(code.contexts()) == before | {b}
    assert code.delete(b).status_code == 200


def test_deleting_a_context_ends_what_runs_in_it(code):
    context = code.create()
    raw = begin(code, "print('begun', flush=True)\nimport time\ntime.sleep(300)", context)
    first = raw.until(b"begun")
    assert code.delete(context).status_code == 200
    assert "deleted" in rest(raw, first).error["evalue"]
    r = code.post("1", context)
    assert r.status_code == 500 and r.json()["message"] == "error running codes context not found"


def test_the_default_context_is_one_and_is_kept(code):
    first = code.run("y = 5")
    again = code.run("y")
    assert first.id == again.id and texts(again) == ["5"]
    assert code.contexts().count(first.id) == 1
    assert code.delete(first.id).status_code == 200
    assert code.run("'y' in globals()").id != first.id


def test_contexts_run_at_once(code):
    ids = [code.create() for _ in range(3)]
    found = {}

    def one(i, cid):
        found[i] = texts(code.run(f"import time; time.sleep(0.5); {i} * 10", cid))

    threads = [threading.Thread(target=one, args=(i, c)) for i, c in enumerate(ids)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {i: [str(i * 10)] for i in range(3)}
    for c in ids:
        assert code.delete(c).status_code == 200


@pytest.mark.skipif(os.environ.get("OSB_FLAVOUR") == "asan", reason="twenty kernels are started once, not twice")
def test_twenty_contexts_at_once(code):
    before = set(code.contexts())
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda i: code.create(), range(20)))
    assert len(set(ids)) == 20 and set(code.contexts()) - before == set(ids)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert all(not ev.error for ev in pool.map(lambda i: code.run(f"z = {i}", ids[i]), range(20)))
        assert [texts(ev) for ev in pool.map(lambda c: code.run("z", c), ids)] == [[str(i)] for i in range(20)]
    if code.kind == "local":
        assert code.execd.rss_kb() < 8192
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert {r.status_code for r in pool.map(code.delete, ids)} == {200}
    assert set(code.contexts()) == before


@pytest.mark.parametrize("body,text", [
    ({"code": ""}, "'code' failed on the 'required' tag"), ({}, "'code'"), ({"code": 3}, "code"), (None, "EOF"),
])
def test_bad_runs(code, body, text):
    r = code.execd.post("/code", json=body) if body is not None else code.execd.post("/code")
    assert r.status_code == 400 and r.json()["code"] == "INVALID_REQUEST_BODY" and text in r.json()["message"]


def test_unknown_languages_are_refused_at_once(code):
    r = code.execd.post("/code/context", json={"language": "cobol"})
    assert r.status_code == 500 and "unknown language: cobol" in r.json()["message"]
    assert "python" in r.json()["message"]
    r = code.post("x", language="cobol")
    assert r.status_code == 500 and r.json()["message"].startswith("error running codes unknown language: cobol")
    assert code.execd.post("/code/context", json={}).status_code == 400
    for language in ("background-command", "command"):
        r = code.execd.get("/code/contexts", params={"language": language})
        assert r.status_code == 500 and "unsupported language context operation" in r.json()["message"]
    r = code.execd.delete("/code/contexts")
    assert r.status_code == 400 and r.json()["code"] == "MISSING_QUERY"


def test_without_a_language_it_is_a_command(code):
    r = code.execd.post("/code", json={"code": "echo from the shell"})
    assert r.status_code == 200 and Events(r.content).stdout == ["from the shell"]
    r = code.execd.post("/code", json={"code": "exit 3", "context": {"language": "command"}})
    assert Events(r.content).error["evalue"] == "3"


def test_deleting_by_language(code):
    code.create()
    r = code.execd.delete("/code/contexts", params={"language": "python"})
    assert r.status_code == 200 and r.content == b""
    assert code.contexts(language="python") == []
    assert code.execd.delete("/code/contexts", params={"language": "nothing"}).status_code == 200
