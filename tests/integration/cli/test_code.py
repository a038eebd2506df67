"""osb code: snippets, files, standard input, and a conversation in a terminal."""

from test_terminal import Term


def test_snippet(osb, box):
    assert osb.ok("code", box, "-c", "print('hello')\n6 * 7").split() == ["hello", "42"]
    r = osb("code", box, "-c", "import sys\nprint('err', file=sys.stderr)\n1 / 0")
    assert r.returncode == 1 and "err" in r.stderr and "ZeroDivisionError" in r.stderr
    assert "\x1b" not in r.stderr  # colours are for terminals
    r = osb("code", box, "-l", "cobol", "-c", "x")
    assert r.returncode == 1 and "cobol" in r.stderr


def test_file_and_stdin(osb, box, tmp_path):
    (tmp_path / "a.py").write_text("x = [i * i for i in range(4)]\nprint(x)\n")
    assert osb.ok("code", box, str(tmp_path / "a.py")) == "[0, 1, 4, 9]\n"
    assert osb.ok("code", box, "-", stdin="print('from stdin')\n") == "from stdin\n"
    assert osb("code", box, str(tmp_path / "none.py")).returncode == 1


def test_conversation(osb, box):
    t = Term([osb.exe, "code", box], osb.env)
    t.expect(">>> ")
    t.type("kept = 20\n")
    t.expect(">>> ")
    t.type("def twice(n):\n    return 2 * n\n\n")
    t.type("twice(kept) + 2\n")
    t.expect(r"\b42\b")
    t.type("1 / 0\n")
    t.expect("ZeroDivisionError")
    t.expect(">>> ")
    t.type("\x04")
    assert t.wait() == 0


def test_ctrl_c_interrupts_and_ctrl_d_leaves(osb, box):
    t = Term([osb.exe, "code", box], osb.env)
    t.expect(">>> ")
    t.type("kept = 7\n")
    t.expect(">>> ")
    for _ in range(2):  # and again: the prompt that came back is as good as the first
        t.type("import time; print('be' + 'gun', flush=True); time.sleep(600)\n")
        t.expect("begun\r\n")
        t.type("\x03")
        t.expect("KeyboardInterrupt")
        t.expect(">>> ")
    t.type("kept * 6\n")
    t.expect(r"\b42\b")
    t.expect(">>> ")
    t.type("half of a li\x03")  # at the prompt it drops what was typed
    t.expect(">>> ")
    t.type("def f():\n")
    t.expect(r"\.\.\. ")
    t.type("\x03")
    t.expect(">>> ")
    t.type("kept + 1\n")
    t.expect(r"\b8\b")
    t.expect(">>> ")
    t.type("\x04")
    assert t.wait() == 0


def test_a_second_ctrl_c_does_not_wait(osb, box):
    t = Term([osb.exe, "code", box], osb.env)
    t.expect(">>> ")
    t.type("import time\nexec(\"while True:\\n try: print('lo'+'op', flush=True); time.sleep(600)\\n except BaseException: pass\")\n")
    t.expect("loop")
    t.type("\x03")
    t.expect("loop")
    t.type("\x03")
    t.expect(">>> ")
    t.type("\x04")
    assert t.wait() == 0
