"""What only kernels that execd has started by itself can do."""

import json
import os
import signal
import uuid

import pytest

from conftest import WAIT, Code, Execd, check, texts, wait_for
from execd_client import Events, Raw
from localexecd import Control


def pid_of(code, context):
    return int(texts(code.run("import os; os.getpid()", context))[0])


def gone(pid):
    return not os.path.exists(f"/proc/{pid}")


def test_directory_and_environment_are_as_asked(launch, tmp_path):
    code = launch()
    where = tmp_path / "made" / "for it"
    c = code.create(cwd=str(where), envs={"ONE": "1", "TWO": "a b"})
    assert code.execd.get(f"/code/contexts/{c}").json()["cwd"] == str(where)
    ev = code.run("import os; print(os.getcwd(), os.environ['ONE'], os.environ['TWO'], sep='|')", c)
    assert "".join(ev.stdout) == f"{where}|1|a b\n"


def test_kernels_share_no_history(launch, tmp_path):
    code = launch()
    a, b = code.create(), code.create()
    for c in (a, b):
        assert texts(code.run("get_ipython().history_manager.enabled", c)) == ["False"]
        assert texts(code.run("6 * 7", c)) == ["42"] and texts(code.run("_ + 1", c)) == ["43"]
    assert not list(tmp_path.rglob("history.sqlite"))


def test_a_kernel_that_ends_leaves_nothing(launch, tmp_path):
    code = launch(TMPDIR=str(tmp_path))
    before = code.execd.fds()
    c = code.create()
    pid = pid_of(code, c)
    assert [f for f in os.listdir(tmp_path) if f.startswith(".execd-")]
    child = int(texts(code.run("import subprocess; subprocess.Popen(['sleep', '300']).pid", c))[0])
    assert code.delete(c).status_code == 200
    wait_for(lambda: gone(pid) and gone(child), "the kernel and its children to end", WAIT)
    wait_for(lambda: not [f for f in os.listdir(tmp_path) if f.startswith(".execd-")], "its file to go", WAIT)
    wait_for(lambda: code.execd.fds() <= before + 1, "descriptors to be closed", WAIT)


def test_kernels_end_with_execd(launch):
    code = launch()
    pid = pid_of(code, code.create())
    raw = Raw(code.execd, "POST", "/code", {"code": "import time; time.sleep(300)", "context": {"language": "python"}})
    raw.sock.settimeout(WAIT)
    raw.head()
    first = raw.until(b'"init"')
    code.execd.proc.send_signal(signal.SIGTERM)
    ev = check(Events(first + raw.body()))
    assert "shutting down" in ev.error["evalue"]
    wait_for(lambda: gone(pid), "the kernel to end", WAIT)
    raw.close()


def test_code_that_ignores_interrupts_is_ended(launch):
    code = launch()
    c = code.create()
    raw = Raw(code.execd, "POST", "/code", {"code": "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                                            "print('begun', flush=True)\nwhile True: time.sleep(1)", "context": {"id": c}})
    raw.sock.settimeout(WAIT)
    raw.head()
    first = raw.until(b"begun")
    assert code.interrupt(c).status_code == 200
    ev = check(Events(first + raw.body()))
    assert ev.error["ename"] == "KernelDied" and "did not stop" in ev.error["evalue"]
    assert texts(code.run("3", c)) == ["3"]
    raw.close()


def test_a_stopped_kernel_does_not_hold_its_context(launch):
    """A hung process answers nothing; deleting the context is enough."""
    code = launch()
    c = code.create()
    pid = pid_of(code, c)
    os.kill(pid, signal.SIGSTOP)
    assert code.delete(c).status_code == 200
    wait_for(lambda: gone(pid), "the kernel to be killed", WAIT)


def test_a_kernel_that_cannot_start_says_why(launch, tmp_path):
    for name, argv, language in (("java", ["/no/such/program", "{connection_file}"], "java"),
                                 ("go", ["sh", "-c", "echo it is broken >&2; exit 7"], "go"),
                                 ("ir", ["R"], "R")):  # installed, and none of ours
        os.makedirs(tmp_path / "share/kernels" / name)
        with open(tmp_path / "share/kernels" / name / "kernel.json", "w") as f:
            json.dump({"argv": argv, "display_name": name, "language": language}, f)
    code = launch()
    r = code.execd.post("/code/context", json={"language": "java"})
    assert r.status_code == 500 and "/no/such/program" in r.json()["message"]
    r = code.execd.post("/code/context", json={"language": "go"}, timeout=WAIT)
    assert r.status_code == 500 and "exit status 7" in r.json()["message"] and "it is broken" in r.json()["message"]
    r = code.execd.post("/code/context", json={"language": "typescript"})
    assert r.status_code == 500 and r.json()["message"].endswith("this sandbox has: go, java, python")
    r = code.execd.post("/code/context", json={"language": "R"})
    assert r.status_code == 500 and r.json()["message"].endswith("unknown language: R; this sandbox has: go, java, python")
    assert code.contexts() == []


def test_a_kernel_started_ahead_is_taken_by_the_first(launch):
    code = launch("--code-prestart", "python")
    assert code.contexts() == []
    a, b = code.create(), code.create()
    assert a != b and pid_of(code, a) != pid_of(code, b)
    assert set(code.contexts()) == {a, b}


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_kernel_out_of_memory(launch):
    v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    name = f"osb-code-test-{uuid.uuid4().hex[:8]}"
    d = f"/sys/fs/cgroup/{name}" if v2 else f"/sys/fs/cgroup/memory/{name}"
    try:
        os.makedirs(d)
        with open(f"{d}/{'memory.max' if v2 else 'memory.limit_in_bytes'}", "w") as f:
            f.write(str(200 << 20))
    except OSError as e:
        pytest.skip(f"no memory cgroup here: {e}")
    try:
        code = launch("--workload-cgroup", d)
        c = code.create()
        ev = code.run("x = []\nwhile True: x.append(bytearray(b'1' * 10_000_000))", c)
        assert ev.error["ename"] == "KernelDied" and "out of memory" in ev.error["evalue"]
        assert texts(code.run("6 * 7", c)) == ["42"]
        code.delete(c)
        def empty():
            with open(f"{d}/cgroup.procs") as f:
                return f.read() == ""
        wait_for(empty, "the kernel to end", WAIT)
    finally:
        try:
            os.rmdir(d)
        except OSError:
            pass


@pytest.mark.parametrize("env,pid_stays", [({"USER_ID": "4\"2\n\u00e9"}, True), ({"PYTHONHASHSEED": "7"}, False)])
def test_a_kernel_started_ahead_gets_the_variables_of_its_sandbox(tmp_path, env, pid_stays):
    """As a warm pool does it: execd and a kernel are up before anybody knows whose they will be."""
    control = Control(tmp_path / "control.sock")
    fd = control.listener.fileno()
    e = Execd(tmp_path / "execd.log", ("--control-fd", str(fd), "--code-prestart", "python", "--keep"), init=(), keep_fds=[fd],
              env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "EXECD_ENVS": str(tmp_path / "envs")},
              unset=("JUPYTER_HOST", "JUPYTER_TOKEN"))
    control.listener.close()
    try:
        def kernels():
            with open(f"/proc/{e.pid}/task/{e.pid}/children") as f:
                return f.read().split()
        wait_for(lambda: "a code kernel is ready" in e.log(), "a kernel", WAIT)
        first = kernels()
        status, body = control.ask({"env": env, "entrypoint": ["sleep", "300"]})
        assert status == 200, body
        code = Code(e)
        name, value = next(iter(env.items()))
        assert texts(code.run(f"import os; os.environ[{name!r}]")) == [repr(value)]
        assert "execution_count" in [x["type"] for x in code.run("1").all]
        assert (texts(code.run("os.getpid()")) == first) == pid_stays
    finally:
        e.stop()
