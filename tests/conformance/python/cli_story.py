"""The published `osb`, each command at least once. It is loaded once and forked for each command line: the same program, its own
process, without the second that Python needs to load it. What it counts goes to $OSB_RECORD."""

import json
import os
import signal
import subprocess
import sys
import time
import traceback

import click
from opensandbox_cli.main import cli

IMAGE = os.environ.get("OSB_IMAGE", "host")
HOME = os.environ["HOME"]  # one of the test's own
worked, failed = set(), []


def leaves(command, path=()):
    if not isinstance(command, click.Group):
        return [" ".join(path)]
    return [leaf for name, c in command.commands.items() for leaf in leaves(c, (*path, name))]


COMMANDS = leaves(cli)


def name_of(words):
    """The command that these words ask for."""
    found = cli
    path = []
    for w in words:
        if not isinstance(found, click.Group):
            break
        if w in found.commands:
            found = found.commands[w]
            path.append(w)
    return " ".join(path)


def spawn(*words, stdin=subprocess.DEVNULL):
    """A process as `osb words...` is one."""
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            fd = os.open(os.devnull, os.O_RDONLY) if stdin == subprocess.DEVNULL else stdin
            for i, f in enumerate((fd, out_w, err_w)):
                os.dup2(f, i)
            sys.stdin, sys.stdout, sys.stderr = (os.fdopen(i, m) for i, m in ((0, "r"), (1, "w"), (2, "w")))
            signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell has put into the background
            sys.argv = ["osb", *words]
            cli()
            code = 0
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        except BaseException:
            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
    os.close(out_w)
    os.close(err_w)
    return pid, out_r, err_r


def osb(*words, code=0, stdin=None):
    """What it printed; with -o json, decoded."""
    fd = subprocess.DEVNULL
    if stdin is not None:
        fd, w = os.pipe()
        os.write(w, stdin.encode())
        os.close(w)
    pid, out_r, err_r = spawn(*words, stdin=fd)
    if fd != subprocess.DEVNULL:
        os.close(fd)
    with os.fdopen(out_r) as out, os.fdopen(err_r) as err:
        # Errors are a few lines: they fit into the pipe while the other is read.
        said, complained = out.read(), err.read()
    got = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert got == code, f"osb {' '.join(words)}: exit {got}, not {code}\n{said}{complained}"
    if got == 0:
        worked.add(name_of(words))
    return json.loads(said) if "json" in words and code == 0 else said if code == 0 else said + complained


def until(what, fn):
    end = time.monotonic() + 120
    while not (value := fn()):
        assert time.monotonic() < end, what
        time.sleep(0.1)
    return value


def write(name, value):
    path = os.path.join(HOME, name)
    with open(path, "w") as f:
        f.write(value if isinstance(value, str) else json.dumps(value))
    return path


def story(fn):
    try:
        fn()
        print(f"ok {fn.__name__}")
    except Exception:
        failed.append(fn.__name__)
        print(f"not ok {fn.__name__}\n{traceback.format_exc()}")


def configuration():
    osb("config", "init", "-o", "json")
    osb("config", "set", "connection.domain", os.environ["OSB_DOMAIN"])
    osb("config", "set", "connection.api_key", os.environ["OSB_KEY"])
    osb("config", "set", "connection.request_timeout", "120")
    shown = osb("config", "show", "-o", "json")
    assert shown["domain"] == os.environ["OSB_DOMAIN"] and os.environ["OSB_KEY"] not in shown["api_key"]


def create(*more):
    return osb("sandbox", "create", "--image", IMAGE, "--resource", "cpu=1", "--resource", "memory=256Mi", "-t", "10m", "--ready-timeout", "2m",
               "-o", "json", *more)["id"]


def watch(id):
    """A sample, then Ctrl-C."""
    pid, out_r, err_r = spawn("sandbox", "metrics", id, "--watch")
    with os.fdopen(out_r) as out, os.fdopen(err_r) as err:
        line = out.readline()
        os.kill(pid, signal.SIGINT)
        rest = out.read() + err.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert "cpu=" in line and code == 0, f"exit {code}: {line}{rest}"


def sandboxes():
    id = create("-m", "suite=cli", "-e", "GREETING=hello")
    assert osb("sandbox", "get", id, "-o", "json")["status"]["state"] == "Running"
    assert [i["id"] for i in osb("sandbox", "list", "-s", "running", "-m", "suite=cli", "--page", "1", "--page-size", "5", "-o", "json")["items"]] == [id]
    assert id in osb("sandbox", "list"), "as a table"
    assert osb("sandbox", "endpoint", id, "-p", "44772", "-o", "json")["endpoint"]
    assert osb("sandbox", "health", id, "-o", "json")["healthy"] is True
    assert osb("sandbox", "metrics", id, "-o", "json")["cpu_count"] > 0
    watch(id)
    assert osb("sandbox", "renew", id, "-t", "30m", "-o", "json")["sandbox_id"] == id
    osb("sandbox", "pause", id, "-o", "json")
    until("Paused", lambda: osb("sandbox", "get", id, "-o", "json")["status"]["state"] == "Paused")
    osb("sandbox", "resume", id, "--resume-timeout", "2m", "-o", "json")
    assert "hello" in osb("command", "run", id, "-o", "raw", "--", "sh", "-c", "echo $GREETING")
    assert "hello" in osb("--use-server-proxy", "command", "run", id, "--", "sh", "-c", "echo $GREETING")
    assert osb("sandbox", "kill", id, "-o", "json")
    assert "DOCKER::SANDBOX_NOT_FOUND" in osb("sandbox", "get", id, code=1)
    assert osb("--api-key", "wrong", "sandbox", "list", code=1)


def commands():
    id = create()
    assert "a b" in osb("command", "run", id, "-w", "/tmp", "-t", "60", "--argv", "--", "echo", "a b")
    assert "3" in osb("command", "run", id, "--", "sh", "-c", "exit 3", code=1)
    run = osb("command", "run", id, "-d", "-o", "json", "--", "sh", "-c", "echo one; echo two")["execution_id"]
    until("its end", lambda: osb("command", "status", id, run, "-o", "json")["running"] is False)
    assert osb("command", "logs", id, run, "-o", "json")["content"].split() == ["one", "two"]
    run = osb("command", "run", id, "-d", "-o", "json", "--", "sleep", "1000")["execution_id"]
    osb("command", "interrupt", id, run, "-o", "json")
    session = osb("command", "session", "create", id, "-w", "/tmp", "-o", "json")["session_id"]
    osb("command", "session", "run", id, session, "--", "export", "X=kept")
    assert "/tmp" in osb("command", "session", "run", id, session, "--", "pwd")
    osb("command", "session", "delete", id, session, "-o", "json")
    for what in (("logs", "container"), ("events", "lifecycle")):
        osb("diagnostics", what[0], id, "-s", what[1])
    osb("devops", "logs", id, "-n", "10")
    osb("devops", "events", id, "-l", "10")
    assert id in osb("devops", "inspect", id)
    assert osb("devops", "summary", id)
    osb("sandbox", "kill", id)


def files():
    id = create()
    osb("file", "mkdir", id, "/tmp/d", "--mode", "755", "-o", "json")
    osb("file", "write", id, "/tmp/d/a.txt", "-c", "alpha\nbeta\n", "--mode", "644", "-o", "json")
    osb("file", "write", id, "/tmp/d/b.txt", stdin="from standard input")
    assert osb("file", "cat", id, "/tmp/d/a.txt") == "alpha\nbeta\n"
    assert osb("file", "cat", id, "/tmp/d/b.txt") == "from standard input"
    local = write("up.bin", "x" * 300000)
    osb("file", "upload", id, local, "/tmp/d/up.bin", "-o", "json")
    osb("file", "download", id, "/tmp/d/up.bin", os.path.join(HOME, "down", "x.bin"), "-o", "json")
    assert open(os.path.join(HOME, "down", "x.bin")).read() == "x" * 300000
    osb("file", "chmod", id, "/tmp/d/a.txt", "--mode", "600", "-o", "json")
    info = osb("file", "info", id, "/tmp/d/a.txt", "-o", "json")
    assert "600" in json.dumps(info)
    osb("file", "replace", id, "/tmp/d/a.txt", "--old", "beta", "--new", "gamma", "-o", "json")
    osb("file", "mv", id, "/tmp/d/a.txt", "/tmp/d/c.txt", "-o", "json")
    assert [e["path"] for e in osb("file", "search", id, "/tmp/d", "-p", "c*", "-o", "json")] == ["/tmp/d/c.txt"]
    osb("file", "rm", id, "/tmp/d/c.txt", "-o", "json")
    osb("file", "rmdir", id, "/tmp/d", "-o", "json")
    assert osb("file", "cat", id, "/tmp/d/c.txt", code=1)
    osb("sandbox", "kill", id)


def guarded():
    policy = write("policy.json", {"defaultAction": "deny", "egress": [{"action": "allow", "target": "one.example.com"}]})
    id = create("--network-policy-file", policy, "--credential-proxy")
    osb("egress", "patch", id, "--rule", "allow=two.example.com", "-o", "json")
    assert "two.example.com" in json.dumps(osb("egress", "get", id, "-o", "json"))
    binding = {"name": "web", "match": {"hosts": ["two.example.com"], "schemes": ["https"]}, "auth": {"type": "bearer", "credential": "token"}}
    vault = write("vault.json", {"credentials": [{"name": "token", "source": {"type": "inline", "value": "s3cret"}}], "bindings": [binding]})
    assert osb("credential-vault", "create", id, "--file", vault, "-o", "json")["revision"] == 1
    patch = write("patch.json", {"expectedRevision": 1, "credentials": {"add": [{"name": "other", "source": {"type": "inline", "value": "x"}}]}})
    assert osb("credential-vault", "patch", id, "--file", patch, "-o", "json")["revision"] == 2
    assert "s3cret" not in json.dumps(osb("credential-vault", "get", id, "-o", "json"))
    assert osb("credential-vault", "credential", "list", id, "-o", "json")
    assert osb("credential-vault", "credential", "get", id, "token", "-o", "json")["source_type"] == "inline"
    assert osb("credential-vault", "binding", "list", id, "-o", "json")
    assert osb("credential-vault", "binding", "get", id, "web", "-o", "json")["name"] == "web"
    osb("credential-vault", "delete", id, "-o", "json")
    osb("sandbox", "kill", id)


def snapshots():
    id = create()
    osb("file", "write", id, "/root/kept", "-c", "kept")
    snap = osb("snapshot", "create", id, "--name", "cli", "-o", "json")["id"]
    until("Ready", lambda: osb("snapshot", "get", snap, "-o", "json")["status"]["state"] == "Ready")
    assert [s["id"] for s in osb("snapshot", "list", "--sandbox-id", id, "--name", "cli", "-o", "json")["items"]] == [snap]
    again = osb("sandbox", "create", "--snapshot-id", snap, "--resource", "cpu=1", "--resource", "memory=256Mi", "-o", "json")["id"]
    assert osb("file", "cat", again, "/root/kept") == "kept"
    osb("sandbox", "kill", id, again)
    osb("snapshot", "delete", snap, "-o", "json")


def skills():
    names = [s["slug"] for s in osb("skills", "list", "-o", "json")["skills"]]
    osb("skills", "show", names[0], "-o", "json")
    osb("skills", "install", names[0], "--target", "claude", "--scope", "global", "-o", "json")
    osb("skills", "uninstall", names[0], "--target", "claude", "--scope", "global", "-o", "json")


def not_offered():
    osb("template", "create", "--image", IMAGE, "--publish", "s3://bucket/x", code=1)
    osb("template", "get", "tpl_1", code=1)
    osb("template", "list", code=1)
    osb("template", "delete", "tpl_1", code=1)


for one in (configuration, sandboxes, commands, files, guarded, snapshots, skills, not_offered):
    story(one)
with open(os.environ["OSB_RECORD"], "w") as f:
    json.dump({"methods": COMMANDS, "worked": sorted(worked)}, f)
sys.exit(1 if failed else 0)
