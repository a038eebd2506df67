"""osb image, against a real server and a real registry."""

import json
import os
import pty
import subprocess
import tarfile

import pytest
from osbserver import BIN
from registry import tar_of


@pytest.fixture
def osb(server, tmp_path):
    def run(*args, stdin=None, check=True, env=None):
        p = subprocess.run([os.path.join(BIN, "osb"), "--domain", server.url, "--api-key", server.key,
                            "--config", str(tmp_path / "none.toml"), "image", *args],
                           capture_output=True, input=stdin, timeout=120, env={**os.environ, "HOME": str(tmp_path), **(env or {})})
        if check:
            assert p.returncode == 0, (p.stdout, p.stderr)
        return p
    return run


def test_pull_list_inspect_remove(osb, server, app):
    server.ok("POST", "/v1/images/prune", {})
    p = osb("pull", app)
    assert app in p.stdout.decode() and "sha256:" in p.stdout.decode()
    assert b"\r" not in p.stderr  # no terminal: lines
    listed = json.loads(osb("ls", "-o", "json").stdout)
    assert [x["name"] for x in listed["items"]] == [app]
    assert app in osb("ls", env={"COLUMNS": "200"}).stdout.decode()
    one = json.loads(osb("inspect", app, "-o", "json").stdout)
    assert one["config"]["user"] == "app" and one["in_use"] is False
    osb("rm", app)
    p = osb("inspect", app, check=False)
    assert p.returncode == 1 and b"not in the store" in p.stderr


def test_failures_are_told(osb, registry):
    p = osb("pull", f"{registry.host}/t/none:1", check=False)
    assert p.returncode == 1 and b"404" in p.stderr
    p = osb("pull", "--username", "u", "x", check=False)
    assert p.returncode != 0 and b"OSB_REGISTRY_PASSWORD" in p.stderr
    p = osb("prune", "--keep", "many", check=False)
    assert p.returncode == 2
    p = osb("import", "/no/such/file", check=False)
    assert p.returncode == 1 and b"/no/such/file" in p.stderr


def test_files_and_registries(osb, registry, base, tmp_path):
    archive, out = tmp_path / "root.tar", tmp_path / "out.tar"
    archive.write_bytes(base)
    assert b"docker.io/cli/box:1" in osb("import", str(archive), "--name", "cli/box:1").stdout
    osb("export", "cli/box:1", str(out))
    with tarfile.open(out) as tar:
        assert "oci-layout" in tar.getnames()
    piped = osb("export", "cli/box:1", "-").stdout
    assert piped == out.read_bytes()
    osb("rm", "cli/box:1")
    assert b"docker.io/cli/box:1" in osb("import", "-", stdin=piped).stdout
    osb("push", "cli/box:1", f"{registry.host}/cli/box:2")
    osb("pull", f"{registry.host}/cli/box:2")
    p = osb("export", "no/such:1", str(tmp_path / "no.tar"), check=False)
    assert p.returncode == 1 and not (tmp_path / "no.tar").exists()
    assert b"Removed" in osb("prune").stdout
    assert json.loads(osb("ls", "-o", "json").stdout)["items"] == []


def test_a_bar_on_a_terminal(server, registry, tmp_path):
    from registry import Image
    Image([tar_of([("usr", None), ("usr/big", os.urandom(30_000_000))])], compress=None).push(registry.host, "t/big", "1")
    main, side = pty.openpty()
    p = subprocess.Popen([os.path.join(BIN, "osb"), "--domain", server.url, "--api-key", server.key, "--config",
                          str(tmp_path / "none.toml"), "image", "pull", f"{registry.host}/t/big:1"],
                         stdout=subprocess.DEVNULL, stderr=side)
    os.close(side)
    seen = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(main)
    assert p.wait(60) == 0
    assert b"\r" in seen and (b"[#" in seen or b"[." in seen or b"unpacking" in seen), seen
