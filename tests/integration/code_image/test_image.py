"""What the image promises: every language it was built with, versions to choose from, a kernel that is up before it is asked for."""

import json
import os

import pytest

import codeimage
from osbserver import wait_for

HELLO = {
    "python": ("print('hello')", "1 / 0"),
    "bash": ("echo hello", None),
    "javascript": ("console.log('hello')", "throw new Error('x')"),
    "typescript": ("const s: string = 'hello'\nconsole.log(s)", "const n: number = 'x'"),
    "java": ('System.out.println("hello")', "int x = 1 / 0;"),
    "go": ('import "fmt"\n%%\nfmt.Println("hello")', None),
    "sql": ("SELECT 'hello' AS word", "SELECT * FROM missing"),
}
PID = "import os; os.getpid()"


def said(ev):
    """What was printed, or the one value there is."""
    return "".join(ev.stdout).strip() or json.loads(ev.of("result")[0]["results"]["text"])["rows"][0][0]


def test_every_language(server, sandbox, languages):
    """In one sandbox of the archive, side by side; the Python kernel among them has been up before."""
    assert {"python", "bash"} <= languages <= set(HELLO)
    s = sandbox(server)
    up = wait_for("a kernel ahead of its user", lambda: s.command("pgrep -o -f '[i]pykernel_launcher' || true"))
    for language in ["python", *sorted(languages - {"python"})]:
        hello, wrong = HELLO[language]
        ev = s.run(hello, language)
        assert not ev.error and said(ev) == "hello", (language, ev.all)
        if wrong:
            assert s.run(wrong, language).error, language
    assert s.value(PID) == up
    # What published clients look at, and where their examples find the entry script.
    s.command("bash -c 'exec 3<>/dev/tcp/127.0.0.1/44771'")
    s.command(f"test -x {codeimage.ENTRY} -a -x /opt/opensandbox/code-interpreter.sh")


def test_the_directory(embedded, sandbox):
    """Without the archive's configuration nothing is started ahead, and all else is the same."""
    s = sandbox(embedded, image={"uri": "code-interpreter"}, env={"WHOSE": "mine"})
    assert s.command("pgrep -f '[i]pykernel_launcher' || echo none") == "none"
    c = s.context("python", cwd="/tmp/made")
    assert s.value("import os; os.getcwd() + os.environ['WHOSE']", context=c) == "'/tmp/mademine'"


def test_versions(embedded, sandbox):
    """The newest that fits; for a context, for a sandbox, and for its commands."""
    s = sandbox(embedded, image={"uri": "code-interpreter"})
    for v in ("9.9", "9.10.1"):
        s.command(f"python3 -m venv --system-site-packages --without-pip /opt/python/{v}")
    prefix = "import sys; sys.prefix"
    for asked, home in (("9", "/opt/python/9.10.1"), ("9.9", "/opt/python/9.9"), ("9.10", "/opt/python/9.10.1"), ("8", "/usr"), ("", "/usr")):
        assert s.value(prefix, context=s.context("python", envs={"PYTHON_VERSION": asked})) == repr(home)
        out = s.command(f"PYTHON_VERSION={asked} EXECD_ENVS=/tmp/envs-{asked} {codeimage.ENTRY} sh -c 'command -v python3' 2>&1").splitlines()
        assert out[-1] == f"{home}/bin/python3"
        assert s.command(f"cat /tmp/envs-{asked}").startswith(f"PATH={home}/bin:" if home != "/usr" else "PATH=/")
        assert ("there is no python 8" in "\n".join(out)) == (asked == "8")
    for language, probe, variable in (("java", 'System.getProperty("java.specification.version")', "JAVA_VERSION"),
                                      ("javascript", "console.log(process.versions.node)", "NODE_VERSION")):
        for v in os.listdir(f"{codeimage.build()[0]}/opt/{language.replace('javascript', 'node')}") if language in installed() else ():
            ev = s.run(probe, language, s.context(language, envs={variable: v}))
            text = "".join(ev.stdout) or ev.of("result")[0]["results"]["text"]
            assert text.strip().startswith(v), (language, v, ev.all)


def installed():
    return os.listdir(f"{codeimage.build()[0]}/usr/local/share/jupyter/kernels")


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


def test_a_pool_has_kernels_that_are_up(embedded, sandbox):
    """Its first code meets a kernel that was there before the sandbox had a user, and has the user's variables all the same."""
    embedded.ok("POST", "/v1/pools", {"name": "code", "template": {"image": {"uri": codeimage.NAME}, "entrypoint": [codeimage.ENTRY],
                                                                 "env": {"EXECD_CODE_PRESTART": "python", "PYTHONUTF8": "1"},
                                                                 "resourceLimits": {"memory": "1Gi"}},
                                      "capacitySpec": {"bufferMin": 1, "bufferMax": 1, "poolMin": 0, "poolMax": 1}}, status=201)
    try:
        wait_for("a member", lambda: embedded.ok("GET", "/v1/pools/code")["status"]["available"] == 1)
        ahead = wait_for("its kernel", lambda: kernels(embedded))
        s = sandbox(embedded, image=None, resourceLimits=None, extensions={"poolRef": "code"}, env={"WHOSE": "mine"})
        assert s.value(PID) in ahead.values() and len(ahead) == 1
        assert set(ahead) <= set(kernels(embedded))  # the very same process
        assert s.value("os.environ['WHOSE']") == "'mine'"
    finally:
        embedded.delete_pools()
