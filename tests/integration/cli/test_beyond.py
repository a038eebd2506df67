"""osb cp, port-forward, logs, top, doctor, server, completion, and what the server may refuse."""

import json
import os
import signal
import subprocess
import urllib.request

import pytest

from osbserver import Server


def test_cp_file_both_ways(osb, box, tmp_path):
    (tmp_path / "one.txt").write_text("one")
    os.chmod(tmp_path / "one.txt", 0o640)
    osb.ok("cp", str(tmp_path / "one.txt"), box + ":/tmp/cp1.txt")
    assert osb.json("file", "info", box, "/tmp/cp1.txt")[0]["mode"] == 640
    osb.ok("cp", str(tmp_path / "one.txt"), box + ":/tmp")
    assert osb.ok("file", "cat", box, "/tmp/one.txt") == "one"
    osb.ok("cp", box + ":/tmp/cp1.txt", str(tmp_path / "back.txt"))
    assert (tmp_path / "back.txt").read_text() == "one"


def test_cp_tree_both_ways(osb, box, tmp_path):
    src = tmp_path / "tree"
    (src / "a" / "b").mkdir(parents=True)
    (src / "empty").mkdir()
    for i in range(5):
        (src / "a" / "b" / ("f%d" % i)).write_bytes(os.urandom(1000 * i))
    (src / "run.sh").write_text("#!/bin/sh\n")
    os.chmod(src / "run.sh", 0o755)
    (src / "link").symlink_to("/etc/passwd")
    r = osb("cp", str(src), box + ":/tmp/tree-in")
    assert r.returncode == 0 and "Skipped" in r.stderr
    osb.ok("command", "run", box, "--", "ln", "-s", "/etc/passwd", "/tmp/tree-in/outside")
    r = osb("cp", box + ":/tmp/tree-in", str(tmp_path / "out"))
    assert r.returncode == 0 and "Skipped" in r.stderr
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a", "empty", "run.sh"]
    for i in range(5):
        name = "a/b/f%d" % i
        assert (tmp_path / "out" / name).read_bytes() == (src / name).read_bytes()
    assert (tmp_path / "out" / "run.sh").stat().st_mode & 0o777 == 0o755


def test_cp_needs_one_remote_side(local):
    r = local("cp", "a", "b")
    assert r.returncode == 2 and "SANDBOX_ID:PATH" in r.stderr


def test_port_forward(osb, box):
    osb.ok("file", "write", box, "/tmp/www/page.html", "-c", "served from inside")
    eid = osb.json("command", "run", box, "-d", "-w", "/tmp/www", "--", "/usr/bin/python3", "-m", "http.server",
                   "8123")["execution_id"]
    osb.ok("command", "run", box, "--", "sh", "-c",
           "for i in $(seq 100); do /usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123))'"
           " 2>/dev/null && exit 0; sleep 0.1; done; exit 1")
    p = subprocess.Popen([osb.exe, "port-forward", box, "0:8123"], env=osb.env, stdout=subprocess.PIPE, text=True)
    try:
        url = p.stdout.readline().split()[1]
        with urllib.request.urlopen(url + "/page.html", timeout=30) as r:
            assert r.read() == b"served from inside"
    finally:
        p.send_signal(signal.SIGINT)
        assert p.wait(30) == 0
        p.stdout.close()
        osb("command", "interrupt", box, eid)


def test_logs(osb):
    sid = osb.json("sandbox", "create", "-i", "host", "--entrypoint", "sh", "--entrypoint=-c", "--entrypoint",
                   "echo from-the-entrypoint; exec sleep 1000")["id"]
    p = subprocess.Popen([osb.exe, "logs", "-f", sid], env=osb.env, stdout=subprocess.PIPE, text=True)
    assert "from-the-entrypoint" in p.stdout.readline()
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 0
    p.stdout.close()
    assert "from-the-entrypoint" in osb.ok("logs", sid)
    assert "from-the-entrypoint" in osb.ok("diagnostics", "logs", sid, "-s", "container")
    d = osb.json("diagnostics", "events", sid, "-s", "lifecycle")
    assert list(d)[:4] == ["sandbox_id", "kind", "scope", "delivery"] and d["sandbox_id"] == sid
    r = osb("devops", "logs", sid)
    assert "from-the-entrypoint" in r.stdout and "Deprecated" in r.stderr
    assert sid in osb.ok("devops", "inspect", sid) and sid in osb.ok("devops", "summary", sid)
    osb.ok("sandbox", "kill", sid)
    r = osb("devops", "inspect", "00000000-0000-4000-8000-000000000000")
    assert r.returncode == 1 and r.stderr == "Error: Sandbox '00000000-0000-4000-8000-000000000000' not found.\n"


def test_top(osb, box):
    rows = osb.json("top")
    mine = [r for r in rows if r["id"] == box]
    assert mine and mine[0]["cpu"].endswith("%") and "MiB" in mine[0]["memory"]


def test_doctor(osb):
    r = osb("doctor", "-o", "json")
    assert '"server"' in r.stdout and '"api key"' in r.stdout
    r = osb("--domain", "127.0.0.1:1", "doctor")
    assert r.returncode == 1 and "osb server start" in r.stdout


def test_completion(osb, box):
    for shell in ("bash", "zsh", "fish"):
        assert "osb __complete" in osb.ok("completion", shell)
    assert osb("completion", "tcsh").returncode == 2
    assert osb.ok("__complete", "--", "sandb") == "sandbox\n"
    assert osb.ok("__complete", "--", "sandbox", "re") == "resume\nrenew\n"
    assert "--image\n" in osb.ok("__complete", "--", "sandbox", "create", "--im")
    assert osb.ok("__complete", "--", "sandbox", "get", "-o", "j") == "json\n"
    assert box in osb.ok("__complete", "--", "sandbox", "get", box[:4]).split()


def test_bash_accepts_its_script(osb):
    script = osb.ok("completion", "bash")
    r = subprocess.run(["bash", "-c", script + '\nCOMP_WORDS=(osb sandbox cre); COMP_CWORD=2; _osb; echo "$COMPREPLY"'],
                       env={**osb.env, "PATH": os.path.dirname(osb.exe) + ":/usr/bin:/bin"}, capture_output=True,
                       text=True, check=True)
    assert r.stdout == "create\n"


@pytest.mark.parametrize("args", [["snapshot", "get", "no-such"], ["fork", "no-such"]])
def test_what_the_server_refuses_is_passed_on(osb, args):
    r = osb(*args)
    assert r.returncode == 1 and "failed: " in r.stderr and r.stdout == ""


def test_snapshot_restore_and_fork(osb, box):
    osb.ok("exec", box, "--", "sh", "-c", "echo state > /root/x")
    snap = json.loads(osb.ok("snapshot", "create", box, "--name", "before", "-o", "json"))
    assert snap["status"]["state"] == "Ready" and snap["name"] == "before" and snap["sandbox_id"] == box
    assert snap["id"] in osb.ok("snapshot", "list", "--name", "before")
    assert snap["id"] not in osb.ok("snapshot", "list", "--name", "after")
    assert json.loads(osb.ok("snapshot", "get", snap["id"], "-o", "json"))["id"] == snap["id"]
    made = json.loads(osb.ok("fork", box, "-n", "3", "-m", "who=fork", "-e", "WHO=me", "-t", "5m", "-o", "json"))["items"]
    assert len(made) == 3
    for one in made:
        assert one["metadata"]["who"] == "fork" and one["expires_at"]
        assert osb.ok("exec", one["id"], "--", "sh", "-c", "cat /root/x; echo $WHO").split() == ["state", "me"]
        osb.ok("sandbox", "kill", one["id"])
    again = json.loads(osb.ok("sandbox", "create", "--snapshot", snap["id"], "-o", "json"))["id"]
    assert osb.ok("exec", again, "--", "cat", "/root/x") == "state\n"
    osb.ok("sandbox", "kill", again)
    assert "exclude each other" in osb("sandbox", "create", "--snapshot", snap["id"], "-i", "host").stderr
    osb.ok("snapshot", "delete", snap["id"])
    assert osb("snapshot", "get", snap["id"]).returncode == 1


def test_egress_without_a_policy_is_an_error_not_a_crash(osb, box):
    for args in (["egress", "get", box], ["egress", "patch", box, "--rule", "allow=example.com"],
                 ["credential-vault", "get", box]):
        r = osb(*args)
        assert r.returncode == 1 and "failed: " in r.stderr and r.stdout == "", (args, r)


def test_server_status_stop_without_one(local):
    r = local("server", "status", "-o", "json")
    assert r.returncode == 1 and '"stopped"' in r.stdout
    assert local("server", "stop").returncode == 1


@pytest.fixture
def own(server):
    """Another one, on a port of its own, for osb to start; `server` has checked for root."""
    s = Server(key=None)
    yield s
    s.close()


def test_server_start_status_stop(own, local):
    config = own.config_path
    local.env["PATH"] = os.path.abspath(os.path.dirname(local.exe)) + ":" + local.env["PATH"]
    broken = os.path.join(local.home, "broken.toml")
    with open(broken, "w") as f:
        f.write("[server]\nport = 'x'\n")
    r = local("server", "start", "--config-file", broken)
    assert r.returncode == 1 and "broken.toml:2: server.port: expected an integer" in r.stderr
    started = local.json("server", "start", "--config-file", config)
    try:
        assert started["url"].startswith("http://127.0.0.1:")
        assert local.json("server", "status")["status"] == "running"
        assert local("server", "start", "--config-file", config).returncode == 1
        with open(os.path.join(own.data, "api-key")) as f:
            key = f.read().strip()
        assert local.json("--domain", started["url"], "--api-key", key, "sandbox", "list")["items"] == []
    finally:
        local.ok("server", "stop")
    assert local("server", "status").returncode == 1
