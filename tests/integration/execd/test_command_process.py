"""The process behind a command: shell, environment, directory, identity, descriptors, groups."""

import os
import pwd

import pytest
from conftest import error, wait_for
from execd_client import Raw, run

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


def test_shell_is_bash_and_no_login_shell(execd):
    ev = run(execd, "echo ${BASH_VERSION:+bash} $0; shopt -q login_shell && echo login; echo $-")
    assert ev.stdout[0] == "bash bash" and "login" not in ev.stdout and "i" not in ev.stdout[-1]


def test_sh_where_there_is_no_bash(launch, tmp_path):
    (tmp_path / "sh").symlink_to("/bin/dash")
    # Neither in PATH nor in the usual places: a root without bash is what test_rootfs.py is for.
    execd = launch(env={"PATH": str(tmp_path)})
    assert run(execd, "echo ok").stdout == ["ok"]


def test_stdin_is_empty(execd):
    assert run(execd, "cat; readlink /proc/self/fd/0").stdout == ["/dev/null"]


def test_no_descriptor_leaks(execd):
    ev = run(execd, "ls /proc/self/fd")
    assert ev.stdout == ["0", "1", "2", "3"]  # 3 is the directory ls reads
    raw = Raw(execd, "POST", "/command", {"command": "sleep 2"})  # others' pipes do not show either
    raw.head()
    raw.until(b"ping")
    assert run(execd, "ls /proc/self/fd").stdout == ["0", "1", "2", "3"]
    raw.close()


def test_own_process_group_and_default_signals(execd):
    ev = run(execd, "ps -o pid=,pgid= -p $$; grep -E '^Sig(Blk|Ign|Cgt)' /proc/$$/status")
    pid, pgid = ev.stdout[0].split()
    assert pid == pgid
    masks = dict(line.split(":\t") for line in ev.stdout[1:])
    assert int(masks["SigBlk"], 16) == 0
    assert int(masks["SigIgn"], 16) == 0


def test_sigpipe_works(execd):
    assert run(execd, "set -o pipefail; yes | head -n 1").exit_code == 141


# ---- environment ----

def test_envs_overlay(execd):
    ev = run(execd, 'echo "$A|$B|$HOME"', envs={"A": "x y", "B": "$HOME `id` \n\"'"})
    assert ev.stdout[0] == "x y|$HOME `id` " and ev.stdout[1].startswith("\"'|/")


def test_environment_is_inherited(launch):
    execd = launch(env={"MARK": "m1"})
    assert run(execd, "echo $MARK").stdout == ["m1"]
    assert run(execd, "echo $MARK", envs={"MARK": "m2"}).stdout == ["m2"]
    assert run(execd, "echo $MARK").stdout == ["m1"]


def test_envs_file(launch, tmp_path):
    envs = tmp_path / "envs"
    execd = launch(env={"EXECD_ENVS": str(envs), "BASE": "b", "OVER": "old"})
    assert run(execd, "echo ${NEW-unset}").stdout == ["unset"]
    envs.write_text("# comment\n\n  NEW = spaced \nOVER=new\nmalformed\n=x\nEXP=$BASE:${BASE}:$NOPE:$OVER\n"
                    "LAST=1\nLAST=2\r\nPATH=/opt/first:$PATH\n")
    ev = run(execd, 'echo "$NEW|$OVER|$EXP|$LAST"; echo $PATH')
    assert ev.stdout[0] == " spaced|new|b:b::old|2" or ev.stdout[0] == "spaced|new|b:b::old|2"
    assert ev.stdout[1].startswith("/opt/first:") and ev.stdout[1] != "/opt/first:"
    envs.write_text("NEW=again\n")  # read for each command
    assert run(execd, "echo $NEW ${LAST-gone}").stdout == ["again gone"]
    assert run(execd, "echo $NEW", envs={"NEW": "request"}).stdout == ["request"]


def test_the_token_is_not_inherited(launch):
    execd = launch(env={"EXECD_ACCESS_TOKEN": "secret-token"})
    execd.http.headers["X-EXECD-ACCESS-TOKEN"] = "secret-token"
    ev = run(execd, "env; tr '\\0' '\\n' < /proc/%d/environ" % execd.pid)
    assert not any("secret-token" in line for line in ev.stdout)


# ---- directory ----

def test_cwd(execd, tmp_path, launch):
    assert run(execd, "pwd", cwd="/tmp").stdout == ["/tmp"]
    assert run(execd, "pwd").stdout == ["/"]  # execd's own
    assert run(execd, "pwd", cwd="").stdout == ["/"]
    assert run(execd, "pwd", cwd="tmp").stdout == ["/tmp"]


def test_cwd_expansion(launch, tmp_path):
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    literal = tmp_path / "$dollar"
    literal.mkdir()
    execd = launch(env={"HOME": str(home), "WHERE": str(home)})
    assert run(execd, "pwd", cwd="~").stdout == [str(home)]
    assert run(execd, "pwd", cwd="~/sub").stdout == [str(home / "sub")]
    assert run(execd, "pwd", cwd="$WHERE/sub").stdout == [str(home / "sub")]
    assert run(execd, "pwd", cwd="${WHERE}/sub").stdout == [str(home / "sub")]
    # the request's own variables count, before and after
    assert run(execd, "pwd", cwd="$X/sub", envs={"X": str(home)}).stdout == [str(home / "sub")]
    # a directory that really is called so
    assert run(execd, "pwd", cwd=str(literal)).stdout == [str(literal)]


def test_home_not_set(launch):
    execd = launch(unset=("HOME",))
    error(execd.post("/command", json={"command": "pwd", "cwd": "~"}), 400, "INVALID_REQUEST_BODY", "HOME")


# ---- identity ----

@needs_root
def test_uid(execd):
    nobody = pwd.getpwnam("nobody")
    ev = run(execd, "id -u; id -g; id -G; echo $HOME; touch /etc/x", uid=nobody.pw_uid)
    assert ev.stdout[:3] == [str(nobody.pw_uid), str(nobody.pw_gid), str(nobody.pw_gid)]
    assert ev.stdout[3] == os.environ.get("HOME", "") and ev.exit_code == 1


@needs_root
def test_uid_and_gid(execd):
    assert run(execd, "id -u; id -g; id -G", uid=12345, gid=54321).stdout == ["12345", "54321", "54321"]


@needs_root
def test_unknown_uid_is_never_in_group_0(execd):
    assert run(execd, "id -u; id -g; id -G", uid=54321).stdout == ["54321", "54321", "54321"]


@needs_root
def test_supplementary_groups(execd):
    name = next((u.pw_name for u in pwd.getpwall()
                 if any(u.pw_name in g.split(":")[3].strip().split(",")
                        for g in open("/etc/group") if g.strip())), None)
    if not name:
        pytest.skip("nobody is in a group here")
    u = pwd.getpwnam(name)
    want = {u.pw_gid} | {int(g.split(":")[2]) for g in open("/etc/group")
                         if name in g.split(":")[3].strip().split(",")}
    assert set(map(int, run(execd, "id -G", uid=u.pw_uid).stdout[0].split())) == want


@needs_root
def test_other_users_can_reopen_their_output(execd):
    ev = run(execd, "echo a > /dev/stdout; echo b > /dev/stderr", uid=65534)
    assert ev.stdout == ["a"] and ev.stderr == ["b"]


@needs_root
def test_start_failure_when_not_root(launch):
    execd = launch(wrap=("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"))
    assert run(execd, "id -u").stdout == ["65534"]
    ev = run(execd, "id", uid=0)
    assert [e["type"] for e in ev.all] == ["init", "ping", "error"]
    assert ev.error["ename"] == "CommandExecError"
    assert ev.error["evalue"] == "Operation not permitted" == ev.error["traceback"][0]
    error(execd.get(f"/command/status/{ev.id}"), 404, "INVALID_REQUEST_BODY")


@needs_root
def test_directory_that_user_may_not_enter(execd, tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    ev = run(execd, "true", cwd=str(private), uid=65534)
    assert ev.error["evalue"] == "Permission denied"


# ---- orphans and memory ----

def test_orphans_are_reaped(execd):
    ev = run(execd, "(setsid sh -c 'exit 0' &) ; (sleep 0.1; exit 3) & disown; echo $!")
    pid = int(ev.stdout[0])
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the orphan's end")
    wait_for(lambda: zombies(execd) == 0, "no zombies")


def zombies(execd):
    with open(f"/proc/{execd.pid}/task/{execd.pid}/children") as f:
        pids = f.read().split()
    n = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as f:
                n += f.read().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            pass
    return n


@needs_root
def test_children_are_better_oom_victims(execd):
    ev = run(execd, "cat /proc/$$/oom_score_adj")
    with open(f"/proc/{execd.pid}/oom_score_adj") as f:
        assert int(f.read()) < int(ev.stdout[0])
