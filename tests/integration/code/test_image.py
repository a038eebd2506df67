"""What the image promises, in sandboxes of both runtimes: every language of the protocol, versions to choose from, a kernel that is up before
it is asked for, and what a kernel does to its sandbox and to no more."""

import json

import pytest

import codeimage
from conftest import ASAN, WAIT, check, texts
from execd_client import Events, Raw
from osbserver import wait_for

# A first line, one that goes wrong, one that leaves a value behind and the one that finds it, and one without end.
LANGUAGES = {
    "python": ("print('hello')", "1 / 0", "kept = 41", "print(kept + 1)", "while True: pass"),
    "bash": ("echo hello", "ls /no/such/place", "kept=41", "echo $((kept + 1))", "while true; do :; done"),
    "javascript": ("console.log('hello')", "throw new Error('x')", "var kept = 41", "console.log(kept + 1)", "while (true) ;"),
    "typescript": ("const s: string = 'hello'\nconsole.log(s)", "const n: number = 'x'", "var kept: number = 41", "console.log(kept + 1)", "while (true) ;"),
    "java": ('System.out.println("hello")', "int x = 1 / 0;", "int kept = 41;", "System.out.println(kept + 1);", "while (true) ;"),
    "go": ('import "fmt"\n%%\nfmt.Println("hello")', "%%\nmissing()", "var kept = 41", '%%\nfmt.Println(kept + 1)', "%%\nfor {}"),
    "sql": ("SELECT 'hello' AS word", "SELECT * FROM missing", "CREATE TABLE kept AS SELECT 41 AS n", "SELECT n + 1 AS n FROM kept",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"),
}
PID = "import os; os.getpid()"
pytestmark = pytest.mark.skipif(ASAN, reason="the programs in the image are the same")


def said(ev):
    """What was printed, or the one value there is."""
    assert not ev.error, ev.error
    return "".join(ev.stdout).strip() or json.loads(texts(ev)[0])["rows"][0][0]


def value(code, text, context=None):
    ev = code.run(text, context)
    assert not ev.error, ev.error
    return texts(ev)[-1]


def endless(code, text, language, context):
    """Begins it, ends it, and returns how it ended."""
    raw = Raw(code.execd, "POST", "/code", {"code": text, "context": {"id": context, "language": language}})
    raw.sock.settimeout(WAIT)
    assert raw.head() == 200
    first = raw.until(b'"init"')
    assert code.interrupt(context).status_code == 200
    ev = check(Events(first + raw.body()))
    raw.close()
    return ev


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language(boxed, language):
    """In one sandbox, beside the others."""
    if language not in codeimage.languages():
        pytest.skip(f"the registry that {language} comes from did not answer: see build/images/code-interpreter.log")
    hello, wrong, keep, find, loop = LANGUAGES[language]
    c = boxed.create(language)
    assert said(boxed.run(hello, c, language)) == "hello"
    error = boxed.run(wrong, c, language).error
    assert error["ename"] and error["evalue"] and (error["traceback"] or language == "bash"), error
    assert not boxed.run(keep, c, language).error
    assert said(boxed.run(find, c, language)) == "42"
    assert endless(boxed, loop, language, c).error
    assert said(boxed.run(hello, c, language)) == "hello"
    assert boxed.contexts(language=language) == [c] and boxed.delete(c).status_code == 200


# What a program sees of where it runs; a database has neither.
PLACES = {
    "python": "import os\nprint(os.getcwd(), os.environ['ASKED'])",
    "bash": 'echo "$PWD $ASKED"',
    "javascript": "console.log(process.cwd(), process.env.ASKED)",
    "typescript": "console.log(process.cwd(), process.env.ASKED)",
    "java": 'System.out.println(System.getProperty("user.dir") + " " + System.getenv("ASKED"))',
    "go": 'import (\n"fmt"\n"os"\n)\n%%\nd, _ := os.Getwd()\nfmt.Println(d, os.Getenv("ASKED"))',
}


@pytest.mark.parametrize("language", PLACES)
def test_directory_and_environment_are_as_asked(boxed, language):
    if language not in codeimage.languages():
        pytest.skip(f"the registry that {language} comes from did not answer: see build/images/code-interpreter.log")
    c = boxed.create(language, cwd="/tmp/a place", envs={"ASKED": "for this"})
    assert said(boxed.run(PLACES[language], c, language)) == "/tmp/a place for this"
    assert boxed.delete(c).status_code == 200


def test_a_long_script_in_bash(boxed):
    """Its kernel is given line after line, and must not fall out of step."""
    text = "\n".join(f"for i in {n}; do\n  x{n}=$i\ndone\ncat <<END\nline $x{n}\nEND" for n in range(50))
    c = boxed.create("bash")
    ev = boxed.run(text + "\nread -r y <<<'last'; echo $y", c, "bash")
    assert not ev.error, ev.error
    assert "".join(ev.stdout).split("\n") == [*(f"line {n}" for n in range(50)), "last", ""]
    assert boxed.delete(c).status_code == 200


def test_a_table_of_pandas(boxed):
    ev = boxed.run("import pandas as pd\npd.DataFrame({'name': ['a <b>', 'c'], 'n': [1, 2.5]})")
    assert not ev.error, ev.error
    [result] = [e["results"] for e in ev.of("result")]
    assert "<table" in result["text/html"] and "a &lt;b&gt;" in result["text/html"] and "2.5" in result["text"]


def test_the_out_of_memory_killer(server, sandbox):
    """Takes the kernel that asked for too much; its neighbour, its context and the sandbox go on."""
    code = sandbox(server, resourceLimits={"memory": "512Mi"})
    neighbour, greedy = code.create(), code.create()
    assert not code.run("kept = 'here'", neighbour).error
    ev = code.run("x = []\nwhile True: x.append(bytearray(b'1' * 20_000_000))", greedy)
    assert ev.error["ename"] == "KernelDied" and "out of memory" in ev.error["evalue"]
    assert value(code, "6 * 7", greedy) == "42"
    assert value(code, "kept", neighbour) == "'here'"


def test_a_kernel_is_ahead_of_its_user(server, sandbox):
    code = sandbox(server)
    up = wait_for("a kernel", lambda: code.execd.command("pgrep -o -f '[i]pykernel_launcher' || true"))
    assert value(code, PID) == up
    # What published clients look at, and where their examples find the entry script.
    code.execd.command("bash -c 'exec 3<>/dev/tcp/127.0.0.1/44771'")
    code.execd.command(f"test -x {codeimage.ENTRY} -a -x /opt/opensandbox/code-interpreter.sh")


def test_the_directory(embedded_server, sandbox):
    """Without the archive's configuration nothing is started ahead, and all else is the same."""
    code = sandbox(embedded_server, image={"uri": "code-interpreter"}, env={"WHOSE": "mine"})
    assert code.execd.command("pgrep -f '[i]pykernel_launcher' || echo none") == "none"
    c = code.create(cwd="/tmp/made")
    assert value(code, "import os; os.getcwd() + os.environ['WHOSE']", c) == "'/tmp/mademine'"


def test_any_image_with_a_kernel(embedded_server, sandbox):
    """This machine's own programs: no entry script, no configuration."""
    code = sandbox(embedded_server, image={"uri": "host"}, entrypoint=["tail", "-f", "/dev/null"])
    assert value(code, "2 + 2") == "4"


PROBES = {
    "python": ("PYTHON_VERSION", "import sys; print(sys.version)"),
    "java": ("JAVA_VERSION", 'System.out.println(System.getProperty("java.specification.version"))'),
    "node": ("NODE_VERSION", "console.log(process.versions.node)"),
    "go": ("GO_VERSION", 'import (\n"fmt"\n"runtime"\n)\n%%\nfmt.Println(runtime.Version()[2:])'),
}


def test_every_version_that_is_there(boxed):
    for kind, (variable, probe) in PROBES.items():
        language = "javascript" if kind == "node" else kind
        there = boxed.execd.command(f"ls /opt/{kind}").split() if language in codeimage.languages() else []
        for v in there:
            c = boxed.create(language, envs={variable: v})
            assert said(boxed.run(probe, c, language)).startswith(v), (kind, v)
            assert boxed.delete(c).status_code == 200


def test_the_newest_version_that_fits(embedded_server, sandbox):
    """For a context, for a sandbox, and for its commands."""
    code = sandbox(embedded_server, image={"uri": "code-interpreter"})
    for v in ("9.9", "9.10.1"):
        code.execd.command(f"python3 -m venv --system-site-packages --without-pip /opt/python/{v}")
    prefix = "import sys; sys.prefix"
    for asked, home in (("9", "/opt/python/9.10.1"), ("9.9", "/opt/python/9.9"), ("9.10", "/opt/python/9.10.1"), ("8", "/usr"), ("", "/usr")):
        assert value(code, prefix, code.create(envs={"PYTHON_VERSION": asked})) == repr(home)
        out = code.execd.command(f"PYTHON_VERSION={asked} EXECD_ENVS=/tmp/envs-{asked} {codeimage.ENTRY} sh -c 'command -v python3' 2>&1").splitlines()
        assert out[-1] == f"{home}/bin/python3"
        assert code.execd.command(f"cat /tmp/envs-{asked}").startswith(f"PATH={home}/bin:" if home != "/usr" else "PATH=/")
        assert ("there is no python 8" in "\n".join(out)) == (asked == "8")


def kernels(server):
    """Of the sandboxes of a server, by their number on this machine: the one they have inside."""
    found = {}
    for pid in server.processes():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if b"ipykernel_launcher" not in f.read():
                    continue
            with open(f"/proc/{pid}/status") as f:
                found[pid] = next(line for line in f if line.startswith("NSpid:")).split()[-1]
        except OSError:
            continue
    return found


def test_a_pool_has_kernels_that_are_up(embedded_server, sandbox):
    """Its first code meets a kernel that was there before the sandbox had a user, and has the user's variables all the same."""
    before = set(kernels(embedded_server))
    embedded_server.ok("POST", "/v1/pools", {"name": "code", "template": {"image": {"uri": codeimage.NAME}, "entrypoint": [codeimage.ENTRY],
                                                                        "env": {"EXECD_CODE_PRESTART": "python", "PYTHONUTF8": "1"},
                                                                        "resourceLimits": {"memory": "1Gi"}},
                                             "capacitySpec": {"bufferMin": 1, "bufferMax": 1, "poolMin": 0, "poolMax": 1}}, status=201)
    try:
        wait_for("a member", lambda: embedded_server.ok("GET", "/v1/pools/code")["status"]["available"] == 1)
        [ahead] = wait_for("its kernel", lambda: set(kernels(embedded_server)) - before)
        inside = kernels(embedded_server)[ahead]
        code = sandbox(embedded_server, image=None, resourceLimits=None, extensions={"poolRef": "code"}, env={"WHOSE": "mine"})
        assert value(code, PID) == inside
        assert ahead in kernels(embedded_server)  # the very same process
        assert value(code, "os.environ['WHOSE']") == "'mine'"
    finally:
        embedded_server.delete_pools()
