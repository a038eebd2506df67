"""Starting: arguments, configuration, keys, and everything that must stop a start."""

import os
import signal
import socket
import stat
import subprocess

import pytest
from osbserver import BIN, request_body, wait_for

PROGRAM = os.path.join(BIN, "opensandbox-server")


def run(*args, env=None, **more):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **(env or {})}, **more)


def test_help_and_version():
    assert run("--help").returncode == 0 and "init-config" in run("--help").stdout
    assert run("--version").stdout.startswith("opensandbox-server ")
    assert run("--nonsense").returncode == 2
    assert run("nonsense").returncode == 2


def test_init_config(tmp_path):
    path = tmp_path / "a" / "b.toml"
    assert run("init-config", str(path)).returncode == 0
    text = path.read_text()
    for section in ["[server]", "[oci]", "[limits]", "[proxy]", "[renew_intent]", "[renew_intent.redis]"]:
        assert section in text
    assert run("--config", str(path), "--check").returncode == 0
    again = run("init-config", str(path))
    assert again.returncode == 1 and "exists" in again.stdout
    for example in ["oci", "docker"]:
        assert run("init-config", str(path), "--example", example, "--force").returncode == 0
        assert run("--config", str(path), "--check").returncode == 0
    r = run("init-config", str(path), "--example", "k9s", "--force")
    assert r.returncode == 1 and "k9s" in r.stdout
    home = run("init-config", env={"HOME": str(tmp_path)})
    assert home.returncode == 0 and (tmp_path / ".sandbox.toml").exists()


def test_check_says_file_line_and_reason(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[server]\nhost = '127.0.0.1'\nport = 123456\n")
    r = run("--config", str(path), "--check")
    assert r.returncode == 1 and f"{path}:3: server.port: 123456 is not between" in r.stderr
    path.write_text("[server]\nprot = 1\n")
    r = run("--config", str(path), "--check")
    assert r.returncode == 0 and f"{path}:2: server.prot is no option" in r.stderr
    r = run("--check", env={"SANDBOX_CONFIG_PATH": str(tmp_path / "none")})
    assert r.returncode == 1 and "none" in r.stderr
    r = run("--check", env={"SANDBOX_CONFIG_PATH": str(path)})
    assert r.returncode == 0 and str(path) in r.stdout


def test_a_key_is_generated_and_kept(make):
    s = make(key=None)
    path = os.path.join(s.data, "api-key")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert path in s.log_tail()
    s.key = open(path).read().strip()
    assert len(s.key) == 40 and s.list() == []
    assert s.call("GET", "/sandboxes", key=False).status_code == 401
    s.restart()
    assert s.list() == []
    assert s.key not in open(s.log_path).read()


def test_keyless_mode_must_be_wanted(make):
    s = make('[server]\napi_key = ""\n', start=False)
    code, said = s.fails_to_start()
    assert code == 1 and "OPENSANDBOX_INSECURE_SERVER" in said
    s.key = None
    s.start(env={"OPENSANDBOX_INSECURE_SERVER": "YES"})
    assert s.call("GET", "/sandboxes", key=False).status_code == 200


def test_keys_from_the_environment(make):
    s = make('[server]\napi_keys = ["other-key-1"]\n', start=False)
    s.start(env={"OPENSANDBOX_SERVER_API_KEY": "from-the-env"})
    s.key = "from-the-env"
    assert s.list() == []
    assert s.call("GET", "/sandboxes", key=False, headers={"OPEN-SANDBOX-API-KEY": "other-key-1"}).status_code == 401


def test_several_keys_and_reload(make):
    s = make('[server]\napi_keys = ["second-key"]\nmax_sandbox_timeout_seconds = 1000\n')
    with_key = lambda k: s.call("GET", "/sandboxes", key=False, headers={"OPEN-SANDBOX-API-KEY": k}).status_code
    assert with_key(s.key) == 200 and with_key("second-key") == 200
    assert s.call("POST", "/sandboxes", request_body(timeout=1001)).status_code == 400
    s.write_config('[server]\napi_keys = ["third-key"]\nmax_sandbox_timeout_seconds = 0\n[log]\nlevel = "info"\n')
    os.kill(s.pid, signal.SIGHUP)
    wait_for("the reload", lambda: with_key("third-key") == 200)
    assert with_key("second-key") == 401
    s.ok("POST", "/sandboxes", request_body(timeout=1001), status=202)
    s.write_config("[server]\nport = 1\nbacklog = 99\n")
    os.kill(s.pid, signal.SIGHUP)
    wait_for("a remark", lambda: "take effect after a restart" in s.log_tail())
    assert "server.backlog" in s.log_tail()
    with open(s.config_path, "a") as f:
        f.write("[server]\n")
    os.kill(s.pid, signal.SIGHUP)
    wait_for("a refusal", lambda: "was not reloaded" in s.log_tail())
    assert s.list()  # and goes on with what it had


def test_two_servers_on_one_directory(make):
    s = make()
    other = make(start=False)
    other.data = s.data
    other.write_config()
    code, said = other.fails_to_start()
    assert code == 1 and f"pid {s.pid}" in said and s.data in said
    assert s.list() == []
    other.data = os.path.join(other.dir, "data")


def test_two_servers_with_the_same_names(make):
    """Either would remove what it does not know from a control group or bridge that both have."""
    s = make()
    sandbox = s.create()["id"]
    other = make(start=False)
    own = vars(other).copy()
    for name in ["run_dir", "cgroup", "bridge"]:
        setattr(other, name, getattr(s, name))
        other.write_config()
        code, said = other.fails_to_start()
        assert code == 1 and f"pid {s.pid}" in said and f"the same oci.{name}" in said and getattr(s, name) in said
        setattr(other, name, own[name])
    s.stop()
    other.run_dir = s.run_dir
    other.write_config()
    code, said = other.fails_to_start()  # nor when it is not there to say no
    assert code == 1 and "has sandboxes of the server" in said and s.data in said
    s.start()
    assert s.run(sandbox, "echo here")[0].strip() == "here"
    s.delete(sandbox)
    s.stop()
    other.start()  # nothing there to lose
    assert other.list() == []
    other.stop()
    other.run_dir = own["run_dir"]
    other.write_config()


def test_port_in_use(make):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        s = make(f"[server]\nport = {taken.getsockname()[1]}\n", start=False)
        code, said = s.fails_to_start()
        assert code == 1 and "cannot listen on" in said
        s.write_config("")


def test_two_servers_on_one_port(make):
    s = make()
    port = s.url.rsplit(":", 1)[1]
    other = make(f"[server]\nport = {port}\n", start=False)
    code, said = other.fails_to_start()
    assert code == 1 and "cannot listen on" in said
    other.write_config("")


@pytest.mark.parametrize("config,word", [
    ('[oci]\nengine = "no-such-engine"\n', "no-such-engine"),
    ('[oci]\nexecd = "/no/such/execd"\n', "/no/such/execd"),
    ('[runtime]\ntype = "docker"\n[docker]\nhost = "unix:///nowhere"\n', "DOCKER::INITIALIZATION_ERROR"),
])
def test_what_the_runtime_needs_is_checked(make, config, word):
    s = make(config, start=False)
    code, said = s.fails_to_start()
    assert code == 1 and word in said
    s.write_config("")


def test_a_damaged_database_is_refused_untouched(make):
    s = make()
    id = s.create()["id"]
    s.kill()
    path = os.path.join(s.data, "opensandbox.db")
    good = {p: open(p, "rb").read() for p in [path, path + "-wal", path + "-shm"] if os.path.exists(p)}
    for p in good:
        os.unlink(p)
    bad = b"this is no database" * 1000
    with open(path, "wb") as f:
        f.write(bad)
    code, said = s.fails_to_start()
    assert code == 1 and "damaged" in said and path in said
    assert open(path, "rb").read() == bad
    assert id in s.cgroups()  # nor is the sandbox
    for p, content in good.items():
        with open(p, "wb") as f:
            f.write(content)
    s.start()
    assert s.ping(id)


def test_stop_is_quick_and_clean(make):
    s = make()
    s.create()
    assert s.stop(timeout=30) == 0
    assert "stopped" in s.log_tail()
