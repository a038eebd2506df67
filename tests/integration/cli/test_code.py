"""osb code: snippets, files, standard input, and a conversation in a terminal."""

import signal
import subprocess

import pytest
from test_terminal import Term


def test_snippet(osb, box):
    assert osb.ok("code", box, "-c", "print('hello')\n6 * 7").split() == ["hello", "42"]
    r = osb("code", box, "-c", "import sys\nprint('err', file=sys.stderr)\n1 / 0")
    assert r.returncode == 1 and "err" in r.stderr and "ZeroDivisionError" in r.stderr
    assert "\x1b" not in r.stderr  # colours are for terminals
    r = osb("code", box, "-l", "cobol", "-c", "x")
    assert r.returncode == 1 and "cobol" in r.stderr


def test_ctrl_c_ends_the_snippet_too(osb, box):
    code = "print('up', flush=True)\nimport time\ntime.sleep(987654)"
    p = subprocess.Popen([osb.exe, "code", box, "-c", code], env=osb.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True)
    assert p.stdout.readline() == "up\n"
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 130 and "KeyboardInterrupt" in err
    assert osb.ok("code", box, "-c", "1") == "1\n"  # its context is free again, at once


def test_a_second_ctrl_c_leaves_the_snippet_and_the_next_one_waits(osb, box):
    code = ("import time\ntry:\n print('up', flush=True)\n time.sleep(987654)\nexcept BaseException:\n"
            " try:\n  print('no', flush=True)\n  time.sleep(2)\n except BaseException: time.sleep(1)\n")
    p = subprocess.Popen([osb.exe, "code", box, "-c", code], env=osb.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True)
    for line in ("up\n", "no\n"):
        assert p.stdout.readline() == line
        p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 130 and "Aborted!" in err
    assert osb.ok("code", box, "-c", "1") == "1\n"


def test_output_comes_as_it_was_written(osb, box):
    pieces = "import time\nfor n in range(3):\n print(n, end=' ', flush=True)\n time.sleep(0.3)"
    assert osb.ok("code", box, "-c", pieces) == "0 1 2 "
    assert osb.ok("code", box, "-c", "print('half', end='')\n42") == "half\n42\n"  # a result has its own line
    long = osb.ok("code", box, "-c", "print('x' * 2_000_000)")
    assert long == "x" * 2_000_000 + "\n"


def test_what_has_no_words_is_named(osb, box):
    html = "display({'text/html': '<b>x</b>', 'image/png': 'AA=='}, raw=True)"
    assert osb.ok("code", box, "-c", html) == "<text/html, image/png>\n"


def test_what_cannot_be_run(osb, box):
    r = osb("code", box, "-c", "")
    assert r.returncode == 1 and "no code" in r.stderr
    r = osb("code", box, "-c", "1", "file.py")
    assert r.returncode == 2 and "not both" in r.stderr


def test_contexts(osb, box):
    made = osb.json("context", "create", box, "-w", "/tmp", "-e", "GREETING=hello")
    assert made["language"] == "python" and made["cwd"] == "/tmp"
    run = ("code", box, "--context", made["id"], "-c")
    assert osb.ok(*run, "import os; kept = os.environ['GREETING']; print(os.getcwd())") == "/tmp\n"
    assert osb.ok(*run, "print(kept)") == "hello\n"
    assert osb.json("context", "get", box, made["id"]) == made
    assert made in osb.json("context", "list", box, "-l", "python") and osb.json("context", "list", box, "-l", "go") == []
    assert made["id"] in osb.ok("context", "list", box)
    osb.ok("context", "interrupt", box, made["id"])
    assert "Deleted" in osb.ok("context", "delete", box, made["id"])
    r = osb("context", "get", box, made["id"])
    assert r.returncode == 1 and "not found" in r.stderr
    r = osb("context", "create", box, "-l", "cobol")
    assert r.returncode == 1 and "this sandbox has: python" in r.stderr
    assert osb("context", "delete", box).returncode == 2
    osb.json("context", "create", box)
    osb.ok("context", "delete", box, "--language", "python")
    assert osb.json("context", "list", box) == []
    assert "Nothing there" in osb.ok("context", "list", box)


def test_a_conversation_in_a_context_leaves_it(osb, box):
    context = osb.json("context", "create", box)["id"]
    for typed, answer in (("kept = 42\n", ""), ("kept\n", "42\n")):
        assert osb.ok("code", box, "--context", context, stdin=typed) == answer
    osb.ok("context", "delete", box, context)


def test_a_block_of_lines(osb, box):
    lines = ["x = [", "20,", "22]", "sum(x)", "def f():", "    return ')'", "", "f()", "'(:'", "%%capture said", "print('kept')", "", "said.stdout"]
    assert osb.ok("code", box, stdin="\n".join(lines) + "\n").split() == ["42", "')'", "'(:'", "'kept\\n'"]


def test_lines_without_a_terminal(osb, box):
    r = osb("code", box, stdin="kept = 20\n1 / 0\nkept + 22\n")
    assert r.stdout == "42\n" and "ZeroDivisionError" in r.stderr and r.returncode == 1
    p = subprocess.Popen([osb.exe, "code", box], env=osb.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    p.stdin.write("import time\nprint('up', flush=True); time.sleep(987654)\n")
    p.stdin.flush()
    assert p.stdout.readline() == "up\n"
    mine = osb.json("context", "list", box)[-1]
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=60)
    assert p.returncode == 130 and mine not in osb.json("context", "list", box)  # the context that it made is gone with it


def test_file_and_stdin(osb, box, tmp_path):
    (tmp_path / "a.py").write_text("x = [i * i for i in range(4)]\nprint(x)\n")
    assert osb.ok("code", box, str(tmp_path / "a.py")) == "[0, 1, 4, 9]\n"
    assert osb.ok("code", box, "-", stdin="print('from stdin')\n") == "from stdin\n"
    assert osb("code", box, str(tmp_path / "none.py")).returncode == 1


@pytest.fixture
def python(osb, box):
    """A conversation, left by Ctrl-D."""
    t = Term([osb.exe, "code", box], osb.env)
    t.expect(">>> ")
    yield t
    t.type("\x04")
    assert t.wait() == 0


def test_conversation(python):
    python.say("kept = 20\n", ">>> ")
    python.type("def twice(n):\n    return 2 * n\n\n")
    python.say("twice(kept) + 2\n", r"\b42\b")
    python.say("1 / 0\n", "ZeroDivisionError", ">>> ")


def test_ctrl_c_interrupts_and_ctrl_d_leaves(python):
    python.say("kept = 7\n", ">>> ")
    for _ in range(2):  # and again: the prompt that came back is as good as the first
        python.say("import time; print('be' + 'gun', flush=True); time.sleep(600)\n", "begun\r\n")
        python.say("\x03", "KeyboardInterrupt", ">>> ")
    python.say("kept * 6\n", r"\b42\b", ">>> ")
    python.say("half of a li\x03", ">>> ")  # at the prompt it drops what was typed
    python.say("def f():\n", r"\.\.\. ")
    python.say("\x03", ">>> ")
    python.say("kept + 1\n", r"\b8\b", ">>> ")


def test_a_second_ctrl_c_does_not_wait(python):
    python.say("import time\nexec(\"while True:\\n try: print('lo'+'op', flush=True); time.sleep(600)\\n except BaseException: pass\")\n",
               "loop")
    python.say("\x03", "loop")
    python.say("\x03", ">>> ")
