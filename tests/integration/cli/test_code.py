"""osb code: snippets, files, standard input, and a conversation in a terminal."""

import signal
import subprocess
import time

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
    assert p.returncode == 130 and "Aborted!" in err
    deadline = time.monotonic() + 60  # its context is free again
    while osb("code", box, "-c", "1").returncode != 0:
        assert time.monotonic() < deadline, "the code goes on"
        time.sleep(0.05)


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
