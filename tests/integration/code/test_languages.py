"""The kernels that the code interpreter's image brings itself: Java by the JDK's JShell, and SQL. And the port by which clients see that there
are any."""

import json
import os
import shutil
import socket
import subprocess

import pytest

from conftest import HERE, PYTHON, Code, check, have, start, texts, wait_for
from execd_client import Events, Raw
from localexecd import Control

KERNELS = os.path.join(HERE, "../../../images/code-interpreter/kernels")


def install(directory, name):
    """As the image's recipe does it, into a JUPYTER_PATH."""
    lib = directory / "lib"
    os.makedirs(lib, exist_ok=True)
    shutil.copy(os.path.join(KERNELS, f"{name}_kernel.py"), lib)
    if name == "java":
        subprocess.run(["javac", "--release", "17", "-d", str(lib), os.path.join(KERNELS, "JavaRunner.java")], check=True)
    os.makedirs(directory / "share/kernels" / name)
    with open(directory / "share/kernels" / name / "kernel.json", "w") as f:
        json.dump({"argv": [PYTHON, str(lib / f"{name}_kernel.py"), "-f", "{connection_file}"], "display_name": name, "language": name}, f)


def interrupted(code, text, language):
    """Runs it until it has said that it has begun, and ends it."""
    raw = Raw(code.execd, "POST", "/code", {"code": text, "context": {"language": language}})
    raw.sock.settimeout(120)
    assert raw.head() == 200
    first = raw.until(b"begun" if "begun" in text else b'"init"')
    assert code.interrupt(code.contexts(language=language)[0]).status_code == 200
    ev = check(Events(first + raw.body()))
    raw.close()
    return ev


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    if os.environ.get("OSB_FLAVOUR") == "asan":
        pytest.skip("two VMs are started once, not twice: to execd it is a kernel like the others")
    if not shutil.which("javac"):
        pytest.skip("no JDK is installed")
    tmp = tmp_path_factory.mktemp("java")
    install(tmp, "java")
    e = start(tmp, {"JUPYTER_PORT": "none"})
    yield Code(e)
    assert e.stop() == 0, e.log()


def test_java(java):
    def run(text):
        return java.run(text, language="java")

    ev = run("int a = 20;\nint twice(int x) { return 2 * x; }\ntwice(a) + 2")
    assert texts(ev) == ["42"] and ev.of("execution_count")
    ev = run('System.out.println("gr\u00fc\u00dfe " + a); System.err.print("oops");')
    assert "".join(ev.stdout) == "gr\u00fc\u00dfe 20\n" and "".join(ev.stderr) == "oops" and not texts(ev)
    assert texts(run('"te" + "xt"')) == ["text"] and texts(run("List.of(1, 2)")) == ["[1, 2]"]
    ev = run('System.out.println("before");\nint b = a / 0;\nSystem.out.println("never");')
    assert ev.error["ename"] == "EvalException" and "ArithmeticException: / by zero" in ev.error["evalue"]
    assert "".join(ev.stdout) == "before\n" and any("at " in line for line in ev.error["traceback"])
    ev = run('int c = "no number";')
    assert ev.error["ename"] == "CompilationException" and "incompatible types" in ev.error["evalue"]
    assert run("class A {").error["ename"] == "IncompleteSourceException"
    assert texts(run("System.in.read()")) == ["-1"]  # nobody answers
    ev = run('for (int i = 0; i < 20000; i++) System.out.println("line " + i);')
    assert "".join(ev.stdout) == "".join(f"line {i}\n" for i in range(20000))


def test_java_is_interrupted_and_ended(java):
    ev = interrupted(java, 'int kept = 7; System.out.println("begun"); while (true) Thread.onSpinWait();', "java")
    assert ev.error["ename"] == "InterruptedException"
    assert texts(java.run("kept", language="java")) == ["7"]
    ev = java.run("System.exit(3)", language="java")
    assert ev.error["ename"] == "KernelDied"
    assert java.run("kept", language="java").error["ename"] == "CompilationException"


def rows(ev):
    return [json.loads(t) for t in texts(ev)]


def test_sql(launch, tmp_path):
    install(tmp_path, "sql")
    os.makedirs(tmp_path / "work")
    code = launch(SQL_PORT="1")  # no server is there
    c = code.create("sql", cwd=str(tmp_path / "work"))
    assert code.contexts(language="sql") == [c]

    def run(text):
        return code.run(text, c, language="sql")

    ev = run("CREATE TABLE t (id INTEGER, name TEXT);\nINSERT INTO t VALUES (1, 'a;b <c>'), (2, NULL); -- two\nSELECT * FROM t ORDER BY id")
    assert rows(ev) == [{"columns": ["affected_rows"], "rows": [[0]]}, {"columns": ["affected_rows"], "rows": [[2]]},
                        {"columns": ["id", "name"], "rows": [["1", "a;b <c>"], ["2", None]]}]
    assert "<td>a;b &lt;c&gt;</td>" in ev.of("result")[-1]["results"]["text/html"]
    assert run("SELECT * FROM missing").error["ename"] == "DBQueryError"
    ev = run("INSERT INTO missing VALUES (1)")
    assert ev.error["ename"] == "DBExecError" and "missing" in ev.error["evalue"]
    assert not run("-- nothing").error
    # Each semicolon costs the same, however many there are; and those of a trigger's body do not end it.
    ev = run("CREATE TRIGGER twice AFTER INSERT ON t BEGIN UPDATE t SET id = id + 1 WHERE id = 7; UPDATE t SET id = id + 1 WHERE id = 8; END;\n"
             "INSERT INTO t VALUES (7, '" + "a;" * 200_000 + "'); SELECT id, length(name) FROM t WHERE id > 2; DELETE FROM t WHERE id > 2")
    assert rows(ev)[2] == {"columns": ["id", "length(name)"], "rows": [["9", "400000"]]}
    [long] = rows(run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10001) SELECT i FROM n"))
    assert len(long["rows"]) == 10000 and long["truncated"]
    # The file is there for other languages, too.
    ev = code.run(f"import sqlite3; sqlite3.connect({str(tmp_path / 'work/sandbox.db')!r}).execute('SELECT count(*) FROM t').fetchall()")
    assert texts(ev) == ["[(2,)]"]


def test_sql_is_interrupted(launch, tmp_path):
    install(tmp_path, "sql")
    code = launch(SQL_PORT="1", SQL_DATABASE=":memory:")
    assert not code.run("CREATE TABLE kept (x)", language="sql").error
    ev = interrupted(code, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", "sql")
    assert ev.error["ename"] == "KeyboardInterrupt"
    assert rows(code.run("SELECT count(*) AS n FROM kept", language="sql")) == [{"columns": ["n"], "rows": [["0"]]}]


@pytest.fixture
def mysql(tmp_path):
    """A server with nothing in it, where anybody is root."""
    if not os.path.exists("/usr/sbin/mariadbd") or not have("pymysql"):
        pytest.skip("mariadb-server-core and python3-pymysql are not installed")
    port, data = free_port(), tmp_path / "mysql"
    os.makedirs(data)
    with open(tmp_path / "mysql.log", "w") as log:
        p = subprocess.Popen(["/usr/sbin/mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={data}/socket", "--skip-grant-tables",
                              "--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}", "--innodb-log-file-size=4M"],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for(lambda: answers(port) or p.poll() is not None, "the database", 120)
        assert p.poll() is None, (tmp_path / "mysql.log").read_text()
        yield port
    finally:
        p.terminate()
        p.wait(60)


def test_sql_by_a_server(launch, tmp_path, mysql):
    """As the protocol has it: the database `sandbox`, shared by all contexts."""
    install(tmp_path, "sql")
    code = launch(SQL_PORT=str(mysql))
    assert rows(code.run("SELECT database() AS d", language="sql")) == [{"columns": ["d"], "rows": [["sandbox"]]}]
    assert rows(code.run("CREATE TABLE t (id INT, n TEXT); INSERT INTO t VALUES (1, 'a'), (2, NULL)", language="sql"))[-1]["rows"] == [[2]]
    assert rows(code.run("SELECT * FROM t ORDER BY id", code.create("sql"), "sql")) == [{"columns": ["id", "n"], "rows": [["1", "a"], ["2", None]]}]
    assert code.run("SELECT * FROM missing", language="sql").error["ename"] == "DBQueryError"
    assert interrupted(code, "SELECT sleep(600)", "sql").error["ename"] == "KeyboardInterrupt"
    assert rows(code.run("SELECT count(*) AS n FROM t", language="sql")) == [{"columns": ["n"], "rows": [["2"]]}]


def test_sql_that_is_not_installed(launch):
    code = launch()
    r = code.post("SELECT 1", language="sql")
    assert r.status_code == 500 and 'no kernel for "sql"' in r.json()["message"] and "python" in r.json()["message"]


# ---- the port ----
def answers(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_the_port_says_that_code_can_be_run(launch, tmp_path):
    """What published clients do before they hand out an interpreter, word for word."""
    code = launch()
    probe = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/${JUPYTER_PORT:-44771}' && exit 0 || exit 1"
    r = code.execd.post("/command", json={"command": probe})
    assert not Events(r.content).error
    r = code.execd.get("/proxy/44771/api/kernels")
    assert r.status_code == 404 and "/code" in r.json()["message"]
    other = launch()  # the port is taken: it goes on without
    assert not other.run("1").error


def test_the_port_is_where_it_was_asked_for(launch):
    port = free_port()
    launch(JUPYTER_PORT=str(port))
    assert answers(port) and not answers(44771)


def test_no_port_without_kernels_or_with_jupyter(launch, tmp_path):
    port = free_port()
    launch(JUPYTER_PORT=str(port), JUPYTER_HOST=f"http://127.0.0.1:{port}", JUPYTER_TOKEN="t")
    assert not answers(port)
    launch(JUPYTER_PORT="none")
    assert not answers(44771)


def test_a_port_that_is_known_late(tmp_path):
    """A warm pool's sandbox gets its variables when it gets its user."""
    from conftest import Execd
    control = Control(tmp_path / "control.sock")
    fd, port = control.listener.fileno(), free_port()
    e = Execd(tmp_path / "execd.log", ("--control-fd", str(fd), "--keep"), init=(), keep_fds=[fd],
              env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "EXECD_ENVS": str(tmp_path / "envs")},
              unset=("JUPYTER_HOST", "JUPYTER_TOKEN", "JUPYTER_PORT"))
    control.listener.close()
    try:
        assert answers(44771)
        assert control.ask({"env": {"JUPYTER_PORT": str(port)}, "entrypoint": ["sleep", "300"]})[0] == 200
        wait_for(lambda: answers(port) and not answers(44771), "the other port")
    finally:
        e.stop()
