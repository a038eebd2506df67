"""What osb does without a server: usage, help, configuration."""

import re


def test_version_and_help(local):
    assert re.fullmatch(r"opensandbox, version \S+\n", local.ok("--version"))
    assert "Commands:\n" in local.ok() and "sandbox" in local.ok("-h")
    assert local.ok("sandbox").startswith("Usage: osb sandbox [OPTIONS] COMMAND [ARGS]...\n")
    assert local.ok("sandbox", "create", "--help").startswith("Usage: osb sandbox create [OPTIONS]\n")


def test_usage_errors(local):
    r = local("sandbox", "get")
    assert r.returncode == 2 and r.stdout == ""
    assert r.stderr == ("Usage: osb sandbox get [OPTIONS] SANDBOX_ID\nTry 'osb sandbox get -h' for help.\n\n"
                        "Error: Missing argument 'SANDBOX_ID'.\n")
    r = local("sandbox", "lst")
    assert r.returncode == 2 and "Error: No such command 'lst'. Did you mean 'list'?\n" in r.stderr
    r = local("sandbox", "create", "--imgae", "x")
    assert r.returncode == 2 and "No such option: --imgae Did you mean --image?" in r.stderr
    for bad in (["sandbox", "renew", "x"], ["sandbox", "renew", "x", "-t", "10x"], ["sandbox", "endpoint", "x", "-p", "0"],
                ["egress", "patch", "x", "--rule", "maybe=a"], ["sandbox", "create", "-e", "novalue"],
                ["credential-vault", "create", "x", "--file", "/no/such/file"], ["sandbox", "get", "a", "b"],
                ["--protocol", "ftp", "sandbox", "list"], ["--no-such"]):
        r = local(*bad)
        assert r.returncode == 2 and "\n\nError: " in r.stderr, (bad, r)


def test_config_file(local, tmp_path):
    path = tmp_path / ".opensandbox" / "config.toml"
    r = local("config", "set", "connection.domain", "x")
    assert r.returncode == 1 and "config init" in r.stderr
    local.ok("config", "init")
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_text()
    r = local("config", "init")
    assert r.returncode == 0 and "⚠️" in r.stderr and path.read_text() == before
    local.ok("config", "set", "connection.domain", "example:1")
    local.ok("config", "set", "connection.api_key", "abcdefgh")
    local.ok("config", "set", "output.color", "false")
    local.ok("config", "set", "extra.thing", 'quo"te')
    show = local.json("config", "show")
    assert list(show) == ["api_key", "domain", "protocol", "request_timeout", "use_server_proxy", "color",
                          "default_image", "default_timeout", "config_path", "config_file_exists"]
    assert show["api_key"] == "ab****gh" and show["domain"] == "example:1" and show["color"] is False
    assert path.read_text().count("# request_timeout") == 1
    r = local("config", "set", "nodot", "1")
    assert r.returncode == 1


def test_precedence(local):
    local.ok("config", "init")
    local.ok("config", "set", "connection.domain", "file:1")
    assert local.json("config", "show")["domain"] == "file:1"
    env = {"OPEN_SANDBOX_DOMAIN": "env:2", "OPEN_SANDBOX_REQUEST_TIMEOUT": "x", "OPEN_SANDBOX_USE_SERVER_PROXY": "on"}
    show = local.json("config", "show", env=env)
    assert show["domain"] == "env:2" and show["request_timeout"] == 30 and show["use_server_proxy"] is True
    show = local.json("--domain", "flag:3", "--no-use-server-proxy", "config", "show", env=env)
    assert show["domain"] == "flag:3" and show["use_server_proxy"] is False


def test_broken_file_can_be_mended(local, tmp_path):
    (tmp_path / ".opensandbox").mkdir()
    (tmp_path / ".opensandbox" / "config.toml").write_text("[[[")
    r = local("sandbox", "list")
    assert r.returncode == 1 and "config.toml" in r.stderr
    local.ok("config", "init", "--force")
    local.ok("config", "show")
