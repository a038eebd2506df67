"""Shell sessions: what is kept between runs, and that nothing else is."""

import os
import threading
import time
import uuid

import pytest
from conftest import error, empty_ok, wait_for
from execd_client import Events, Raw, check_stream, run, run_session


@pytest.fixture
def sid(execd):
    r = execd.post("/session")
    assert r.status_code == 200 and list(r.json()) == ["session_id"]
    sid = r.json()["session_id"]
    yield sid
    execd.delete(f"/session/{sid}")


def test_create(execd, tmp_path):
    for body in (None, "{}", "null", '{"cwd":null}', '{"CWD":""}'):
        r = execd.post("/session", data=body, headers={"Content-Type": "application/json"})
        assert r.status_code == 200
        assert str(uuid.UUID(r.json()["session_id"])) == r.json()["session_id"]
    made = tmp_path / "a" / "b"
    r = execd.post("/session", json={"cwd": str(made)})
    assert made.is_dir()
    assert run_session(execd, r.json()["session_id"], "pwd").stdout == [str(made)]


def test_create_errors(execd, tmp_path):
    error(execd.post("/session", data="{"), 400, "INVALID_REQUEST_BODY", "error parsing request. ")
    error(execd.post("/session", json={"cwd": 1}), 400, "INVALID_REQUEST_BODY", "error parsing request. ")
    (tmp_path / "file").write_text("")
    error(execd.post("/session", json={"cwd": str(tmp_path / "file")}), 500, "RUNTIME_ERROR",
          "error creating session. ")
    error(execd.post("/session", json={"cwd": "$NOPE_"}), 500, "RUNTIME_ERROR", "error creating session. ")


def test_run_errors(execd, sid):
    path, code = f"/session/{sid}/run", "INVALID_REQUEST_BODY"
    error(execd.post(path, data=""), 400, code, "error parsing request. ")
    error(execd.post(path, json={"command": 3}), 400, code, "error parsing request. ")
    error(execd.post(path, json={}), 400, code, "invalid request. ")
    error(execd.post(path, json={"command": "x", "timeout": -1}), 400, code, "invalid request. ")
    error(execd.post(path, json={"command": "x", "cwd": "/no/such"}), 400, code,
          "invalid request. working directory does not exist: /no/such")
    error(execd.post("/session/none/run", json={"command": "x"}), 404, "CONTEXT_NOT_FOUND",
          "error running in session. context not found")
    error(execd.delete("/session/none"), 404, "CONTEXT_NOT_FOUND", "session none not found")


def test_init_is_the_session(execd, sid):
    assert run_session(execd, sid, "true").id == sid
    assert run_session(execd, sid, "true").id == sid
    assert execd.get(f"/command/status/{sid}").status_code == 404


def test_exported_variables_and_directory(execd, sid):
    run_session(execd, sid, "export A='x y'; cd /usr/lib")
    assert run_session(execd, sid, "echo $A; pwd; sh -c 'echo $A'").stdout == ["x y", "/usr/lib", "x y"]
    run_session(execd, sid, "unset A; cd ..")
    assert run_session(execd, sid, "echo ${A-gone}; pwd; echo $OLDPWD").stdout == ["gone", "/usr", "/usr/lib"]


def test_exit_code(execd, sid):
    assert run_session(execd, sid, "sh -c 'exit 7'").exit_code == 7
    ev = run_session(execd, sid, "false")
    assert ev.error == {"ename": "CommandExecError", "evalue": "1", "traceback": ["exit status 1"]}


NASTY = ["$HOME `id` $(id)", "a'b\"c\\d", "tab\there", "line\nbreak\n\n", "back\\slash\\n", "", " lead ",
         "*?[a]", "!history", "%s%n", "-n", "export X=1", "#execd-end", "\u00e5\u20ac\U0001f600", "\x01\x02\x7f",
         "$'x'", "\\$", "=", "a" * 50000]


def test_values_with_any_content(execd, sid):
    """Set in one run, read in the next, and in the one after: nothing is lost, nothing grows."""
    script = "".join(f"export V{i}={quote(v)}\n" for i, v in enumerate(NASTY))
    run_session(execd, sid, script)
    for _ in range(3):
        ev = run_session(execd, sid, "".join(f'printf "%s" "$V{i}" | od -An -v -tx1 | tr -d " \\n"; echo\n'
                                             for i in range(len(NASTY))))
        got = [bytes.fromhex(s.strip()).decode() for s in ev.stdout]
        assert got == NASTY


def quote(s):
    return "'" + s.replace("'", "'\\''") + "'"


def test_every_byte(execd, sid, tmp_path):
    data = bytes(range(1, 256))
    (tmp_path / "bytes").write_bytes(data)
    run_session(execd, sid, f'export X="$(cat {tmp_path}/bytes)"')
    for i in range(2):
        run_session(execd, sid, f'printf %s "$X" > {tmp_path}/out{i}')
        assert (tmp_path / f"out{i}").read_bytes() == data


def test_shell_state(execd, sid):
    run_session(execd, sid, "plain=1; declare -a arr=(1 '2 3'); declare -A map=([k x]='v w'); readonly RO=r\n"
                            "f() { echo \"f:$1\"; cat <<E\nhere $1\nE\n}\nalias hi='echo aliased'\n"
                            "set -o noglob; shopt -s extglob; umask 027; declare -i num=5")
    ev = run_session(execd, sid, 'echo $plain "${arr[1]}" "${map[k x]}" $RO $num; f z; hi; umask; echo *; '
                                 "shopt -q extglob && echo ext; num=num+1; echo $num")
    assert ev.stdout == ["1 2 3 v w r 5", "f:z", "here z", "aliased", "0027", "*", "ext", "6"]
    run_session(execd, sid, "unset -f f; unalias hi; set +o noglob; shopt -u extglob")
    ev = run_session(execd, sid, "type f; hi; shopt -q extglob || echo off")
    assert ev.stdout[-1] == "off" and any("f: not found" in s for s in ev.stdout)


def test_options_do_not_disturb_the_session(execd, sid):
    assert run_session(execd, sid, "set -x; echo a").stdout == ["++ echo a", "a"]
    assert run_session(execd, sid, "echo b; set +x").stdout == ["++ echo b", "b", "++ set +x"]
    assert run_session(execd, sid, "set -u; set -C; IFS=,").stdout == []
    assert run_session(execd, sid, 'x=a,b; echo $x; set +u').stdout == ["a b"]
    assert run_session(execd, sid, "set -e").exit_code == 0
    ev = run_session(execd, sid, "export LOST=1; false; echo not reached")
    assert ev.exit_code == 1 and ev.stdout == []
    assert run_session(execd, sid, "set +e; false; echo ${LOST-lost}").stdout == ["lost"]
    assert run_session(execd, sid, "trap 'echo debug' DEBUG; true").stdout == ["debug"]
    assert run_session(execd, sid, "echo clean").stdout == ["clean"]


def test_functions_that_shadow_builtins(execd, sid):
    run_session(execd, sid, "cd() { builtin cd \"$@\" && echo wrapped; }; printf() { echo no; }; "
                            "declare() { echo no; }; export E=1")
    ev = run_session(execd, sid, "cd /tmp; echo $E; unset -f printf declare")
    assert ev.stdout == ["wrapped", "1"]
    assert run_session(execd, sid, "pwd; printf '%s\\n' ok").stdout == ["/tmp", "ok"]


def test_exit_and_exec_leave_the_session_as_it_was(execd, sid):
    run_session(execd, sid, "export A=1")
    assert run_session(execd, sid, "export A=2; exit 9").exit_code == 9
    assert run_session(execd, sid, "export A=3; exec sh -c 'exit 8'").exit_code == 8
    assert run_session(execd, sid, "export A=4; kill -9 $$").error["traceback"] == ["signal: killed"]
    assert run_session(execd, sid, "echo $A").stdout == ["1"]


def test_syntax_errors(execd, sid):
    for text in ("if", "echo 'unclosed", "echo $(", "}", "cat <<E\nno end", "foo ("):
        run_session(execd, sid, text)
    assert run_session(execd, sid, "echo fine").stdout == ["fine"]


def test_messages_have_the_users_line_numbers(execd, sid):
    run_session(execd, sid, "true")
    assert run_session(execd, sid, "\n\nno_such_cmd").stdout[-1] == "bash: line 3: no_such_cmd: command not found"


def test_output_cannot_pretend_to_be_state(execd, sid):
    run_session(execd, sid, "export A=real")
    run_session(execd, sid, "echo '#execd-end'; echo 'declare -x A=\"fake\"'; echo '__execd_opts() { A=fake; }'")
    assert run_session(execd, sid, "echo $A").stdout == ["real"]


def test_internals_do_not_show(execd, sid):
    run_session(execd, sid, "export A=1")
    ev = run_session(execd, sid, "set | grep -c __execd; env | grep -ci execd_; declare -F; alias; echo $# $0; "
                                 "ls /proc/self/fd | tr '\\n' ' '")
    assert ev.stdout == ["0", "0", "0 bash", "0 1 2 3 "]


def test_cwd_of_a_run_stays(execd, sid):
    assert run_session(execd, sid, "pwd", cwd="/tmp").stdout == ["/tmp"]
    assert run_session(execd, sid, "pwd").stdout == ["/tmp"]
    assert run_session(execd, sid, "cd /usr; pwd", cwd="/etc").stdout == ["/usr"]
    assert run_session(execd, sid, "pwd").stdout == ["/usr"]


def test_directory_that_is_gone(execd, sid, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    run_session(execd, sid, f"cd {gone}")
    gone.rmdir()
    ev = run_session(execd, sid, "echo on; pwd")
    assert "No such file or directory" in ev.stdout[0] and ev.stdout[1:] == ["on", "/"]


def test_output_is_merged_and_blank_lines_stay(execd, sid):
    ev = run_session(execd, sid, "printf 'a\\r\\n\\nb\\rc\\n'; echo err >&2; printf tail")
    assert ev.stdout == ["a", "\n", "b\rc", "err", "tail"] and ev.stderr == []


def test_long_line(execd, sid):
    ev = run_session(execd, sid, "head -c 20000000 /dev/zero | tr '\\0' x")
    assert "".join(ev.stdout) == "x" * 20000000


def test_long_command(execd, sid):
    ev = run_session(execd, sid, f"X='{'y' * 500000}'; export Y=${{#X}}; unset X; echo $Y")
    assert ev.stdout == ["500000"]
    assert run_session(execd, sid, "echo $Y").stdout == ["500000"]


def test_stdin_is_empty(execd, sid):
    assert run_session(execd, sid, "cat; readlink /proc/self/fd/0").stdout == ["/dev/null"]


def test_runs_are_serialised(execd, sid):
    run_session(execd, sid, "export N=0")
    results = []

    def one():
        r = __import__("requests").post(f"{execd.url}/session/{sid}/run", timeout=60,
                                        json={"command": "n=$N; sleep 0.02; export N=$((n+1)); echo $N"})
        results.append(check_stream(Events(r.content)).stdout[0])

    threads = [threading.Thread(target=one) for _ in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(map(int, results)) == list(range(1, 13))
    assert run_session(execd, sid, "echo $N").stdout == ["12"]


def test_too_many_waiting_runs(execd, sid):
    waiting = [Raw(execd, "POST", f"/session/{sid}/run", {"command": "sleep 300"}) for _ in range(64)]
    for w in waiting:
        assert w.head() == 200
    r = execd.post(f"/session/{sid}/run", json={"command": "true"})
    assert r.status_code == 503 and r.json()["code"] == "LIMIT_EXCEEDED"
    empty_ok(execd.delete(f"/session/{sid}"))
    for i, w in enumerate(waiting):
        e = Events(w.body()).error
        assert e["traceback"] == ["signal: killed"] if i == 0 else "deleted" in e["evalue"]
        w.close()


def test_timeout_ends_the_whole_group(execd, sid, tmp_path):
    pidfile = tmp_path / "pid"
    run_session(execd, sid, "export A=1")
    start = time.monotonic()
    r = execd.post(f"/session/{sid}/run",
                   json={"command": f"sleep 300 & echo $! > {pidfile}; echo x; wait", "timeout": 1000})
    ev = check_stream(Events(r.content))
    assert time.monotonic() - start < 30
    assert ev.stdout == ["x"]
    assert ev.error == {"ename": "RUNTIME_ERROR", "evalue": "error running in session. timeout after 1s",
                        "traceback": ["signal: killed", "timeout after 1s"]}
    wait_for(lambda: not os.path.exists(f"/proc/{pidfile.read_text().strip()}"), "the child's end")
    assert run_session(execd, sid, "echo $A").stdout == ["1"]


def test_disconnect_ends_the_whole_group(execd, sid, tmp_path):
    pidfile = tmp_path / "pid"
    raw = Raw(execd, "POST", f"/session/{sid}/run",
              {"command": f"sleep 300 & echo $! > {pidfile}; echo up; wait"})
    raw.head()
    raw.until(b'"up"')
    raw.close()
    pid = pidfile.read_text().strip()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the child's end")
    assert run_session(execd, sid, "echo next").stdout == ["next"]


def test_disconnect_while_waiting(execd, sid, tmp_path):
    fifo, mark = tmp_path / "fifo", tmp_path / "mark"
    os.mkfifo(fifo)
    first = Raw(execd, "POST", f"/session/{sid}/run", {"command": f"cat {fifo}; echo done"})
    first.head()
    second = Raw(execd, "POST", f"/session/{sid}/run", {"command": f"touch {mark}"})
    second.head()
    second.until(b"ping")
    second.close()
    third = Raw(execd, "POST", f"/session/{sid}/run", {"command": "echo third"})
    third.head()
    time.sleep(0.1)
    with open(fifo, "w"):
        pass
    assert b'"done"' in first.body()
    assert b'"third"' in third.body()
    assert not mark.exists()
    first.close()
    third.close()


def test_delete_kills(execd, tmp_path):
    sid = execd.post("/session").json()["session_id"]
    pidfile = tmp_path / "pid"
    raw = Raw(execd, "POST", f"/session/{sid}/run",
              {"command": f"sleep 300 & echo $! > {pidfile}; echo up; wait"})
    raw.head()
    text = raw.until(b'"up"')
    empty_ok(execd.delete(f"/session/{sid}"))
    ev = Events(text + raw.body())
    assert ev.error == {"ename": "CommandExecError", "evalue": "-1", "traceback": ["signal: killed"]}
    wait_for(lambda: not os.path.exists(f"/proc/{pidfile.read_text().strip()}"), "the child's end")
    assert execd.post(f"/session/{sid}/run", json={"command": "x"}).status_code == 404
    raw.close()


def test_interrupt_route_deletes_a_session(execd):
    sid = execd.post("/session").json()["session_id"]
    empty_ok(execd.delete("/code", params={"id": sid}))
    assert execd.delete(f"/session/{sid}").status_code == 404


def test_background_jobs_survive_a_run(execd, sid, tmp_path):
    out = tmp_path / "out"
    run_session(execd, sid, f"(sleep 0.3; echo later; echo x > {out}) &")
    wait_for(out.exists, "the job's end")


def test_no_files_are_left_behind(launch, tmp_path):
    execd = launch(env={"TMPDIR": str(tmp_path / "t")})
    sid = execd.post("/session").json()["session_id"]
    for text in ("export A=1", "exit 3", "kill -9 $$", "exec true", "echo 'x"):
        execd.post(f"/session/{sid}/run", json={"command": text})
    assert os.listdir(tmp_path / "t") == []
    ev = run_session(execd, sid, f"ls -la {tmp_path}/t | tail -n +4; echo $A")
    assert ev.stdout[0].startswith("-rw-------") and ev.stdout[-1] == "1"
    # the directory may go in the middle of a run
    ev = run_session(execd, sid, f"rm -rf {tmp_path}/t; export A=2")
    assert ev.exit_code == 0
    assert run_session(execd, sid, "echo $A").stdout == ["1"]


def test_full_disk_says_that_state_is_lost(launch):
    if os.getuid() != 0:
        pytest.skip("needs root")
    script = "mount -t tmpfs -o size=16k none /mnt; exec \"$@\""
    execd = launch(wrap=("unshare", "-m", "sh", "-c", script, "sh"), env={"TMPDIR": "/mnt"})
    sid = execd.post("/session").json()["session_id"]
    run_session(execd, sid, "export A=1")
    ev = run_session(execd, sid, "export A=2 B=$(head -c 100000 /dev/zero | tr '\\0' x)")
    assert ev.exit_code == 0
    assert ["execd: the state of this session was not kept" in s for s in ev.stderr] == [True]
    assert run_session(execd, sid, "echo $A ${#B}").stdout == ["1 0"]


def test_sessions_are_apart(execd):
    a, b = (execd.post("/session").json()["session_id"] for _ in range(2))
    run_session(execd, a, "export A=1; cd /usr")
    assert run_session(execd, b, "echo ${A-none}; pwd").stdout == ["none", "/"]
    assert run(execd, "echo ${A-none}").stdout == ["none"]


def test_environment_at_creation(launch, tmp_path):
    envs = tmp_path / "envs"
    envs.write_text("FILE=1\n")
    execd = launch(env={"EXECD_ENVS": str(envs), "BASE": "b"})
    sid = execd.post("/session").json()["session_id"]
    assert run_session(execd, sid, "echo ${FILE-none} $BASE").stdout == ["none b"]
    run_session(execd, sid, "unset BASE")
    assert run_session(execd, sid, "echo ${BASE-none}").stdout == ["none"]


def test_too_many_sessions(launch):
    execd = launch()
    for _ in range(1024):
        assert execd.post("/session").status_code == 200
    error(execd.post("/session"), 500, "RUNTIME_ERROR", "error creating session. ")


def test_posix_shell(launch, tmp_path):
    """Without bash: exported variables, directory, options, aliases and umask are kept."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    hide = "".join(f"[ -e {d}/bash ] && mount --bind /dev/null {d}/bash; " for d in ("/usr/bin", "/usr/local/bin"))
    execd = launch(wrap=("unshare", "-m", "sh", "-c", hide + "exec \"$@\"", "sh"))
    assert run(execd, "echo ${BASH_VERSION-sh}").stdout == ["sh"]
    sid = execd.post("/session").json()["session_id"]
    run_session(execd, sid, "export A=" + quote("x'y\n$HOME\\") + "; cd /usr; set -f; umask 027; alias hi='echo hello'")
    ev = run_session(execd, sid, 'printf "%s\n" "$A"; pwd; echo *; umask; hi; sh -c "exit 6"')
    assert ev.stdout[0] == "x'y" and ev.stdout[2:] == ["/usr", "*", "0027", "hello"] and ev.exit_code == 6
    run_session(execd, sid, "unset A; exit 0")
    assert run_session(execd, sid, 'echo "${A+set}"; cd /; unset A').stdout == ["set"]
    assert run_session(execd, sid, 'echo "${A-gone}" $PWD $OLDPWD').stdout == ["gone / /usr"]
    ev = run_session(execd, sid, "sleep 60", timeout=200)
    assert ev.error["evalue"] == "error running in session. timeout after 200ms"


def test_no_shell_at_all(launch):
    if os.getuid() != 0:
        pytest.skip("needs root")
    hide = "".join(f"[ -e {d}/{s} ] && mount --bind /dev/null {d}/{s}; "
                   for s in ("bash", "dash") for d in ("/usr/bin", "/usr/local/bin"))
    execd = launch(wrap=("unshare", "-m", "/bin/bash", "-c", hide + "exec \"$@\"", "sh"))
    ev = run(execd, "true")
    assert ev.error["ename"] == "CommandExecError" and ev.error["evalue"]
    sid = execd.post("/session").json()["session_id"]
    ev = run_session(execd, sid, "true")
    assert ev.error["ename"] == "RUNTIME_ERROR"
    assert ev.error["evalue"].startswith("error running in session. cannot start the shell: ")
