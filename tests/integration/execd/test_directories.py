"""Directories: list, create, remove."""

import os
import stat
import subprocess

import pytest

from conftest import empty_ok, error


def listing(execd, path, depth=None):
    params = {"path": str(path)} if depth is None else {"path": str(path), "depth": depth}
    r = execd.get("/directories/list", params=params)
    assert r.status_code == 200, r.text
    return [os.path.relpath(x["path"], path) for x in r.json()]


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def tree(tmp_path):
    for d in ["b/x/deep", "a", "b-", "B"]:
        (tmp_path / d).mkdir(parents=True)
    for f in ["b/f", "b/x/g", "z", ".dot"]:
        (tmp_path / f).touch()
    (tmp_path / "link").symlink_to("b")
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


def test_list_one_level(execd, tree):
    assert listing(execd, tree) == [".dot", "B", "a", "b", "b-", "link", "loop", "z"]
    assert listing(execd, tree, 1) == listing(execd, tree)


def test_list_is_preorder(execd, tree):
    assert listing(execd, tree, 2) == [".dot", "B", "a", "b", "b/f", "b/x", "b-", "link", "loop", "z"]
    deep = [".dot", "B", "a", "b", "b/f", "b/x", "b/x/deep", "b/x/g", "b-", "link", "loop", "z"]
    assert listing(execd, tree, 3) == deep
    assert listing(execd, tree, 99999999999999999999999) == deep


def test_list_depth_zero(execd, tree):
    assert listing(execd, tree, 0) == []


def test_list_entries_have_every_key(execd, tree):
    r = execd.get("/directories/list", params={"path": str(tree)})
    for x in r.json():
        assert set(x) == {"path", "type", "size", "modified_at", "created_at", "owner", "group", "mode"}
    assert {x["type"] for x in r.json()} == {"file", "directory", "symlink"}


@pytest.mark.parametrize("depth", ["-1", "x", "1.5", " 1", "0x1"])
def test_list_bad_depth(execd, tree, depth):
    r = execd.get("/directories/list", params={"path": str(tree), "depth": depth})
    assert error(r, 400, "INVALID_REQUEST_BODY") == f"invalid query parameter 'depth': {depth}"


def test_list_errors(execd, tree):
    assert error(execd.get("/directories/list"), 400, "MISSING_QUERY") == \
        "missing query parameter 'path'"
    error(execd.get("/directories/list", params={"path": str(tree / "no")}), 404, "FILE_NOT_FOUND",
          "file not found. ")
    r = execd.get("/directories/list", params={"path": str(tree / "link")})
    assert error(r, 400, "INVALID_REQUEST_BODY") == \
        f"path is a symbolic link, refusing to traverse: {tree / 'link'}"
    r = execd.get("/directories/list", params={"path": str(tree / "z")})
    assert error(r, 400, "INVALID_REQUEST_BODY") == f"path is not a directory: {tree / 'z'}"


def test_list_root(execd):
    assert "etc" in listing(execd, "/")


def test_list_unreadable_directory(launch, tmp_path):
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "closed/in").mkdir()
    for p in [tmp_path, *tmp_path.parents][:3]:
        p.chmod(0o755)
    e = launch(wrap=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    assert listing(e, tmp_path, 1) == ["closed", "execd.0.log"]
    r = e.get("/directories/list", params={"path": str(tmp_path), "depth": 2})
    error(r, 500, "RUNTIME_ERROR", f"error listing directory {tmp_path}. ")
    r = e.get("/directories/list", params={"path": str(tmp_path / "closed")})
    error(r, 500, "RUNTIME_ERROR", f"error listing directory {tmp_path}/closed. ")
    r = e.get("/files/search", params={"path": str(tmp_path)})
    error(r, 500, "RUNTIME_ERROR", "error searching files. ")
    (tmp_path / "closed").chmod(0o755)


def test_list_many_entries(execd, tmp_path):
    for i in range(5000):
        (tmp_path / f"{i:05}").touch()
    assert listing(execd, tmp_path) == [f"{i:05}" for i in range(5000)]


# ---- create ----

def test_create(execd, tmp_path):
    empty_ok(execd.post("/directories", json={
        str(tmp_path / "a/b/c"): {"mode": 700, "owner": "nobody", "group": "nogroup"},
        str(tmp_path / "d"): {}}))
    c = tmp_path / "a/b/c"
    assert mode(c) == 0o700 and os.stat(c).st_uid == 65534 and os.stat(c).st_gid == 65534
    assert mode(tmp_path / "a") == mode(tmp_path / "a/b") == 0o755  # only the leaf is changed
    assert os.stat(tmp_path / "a").st_uid == 0
    assert mode(tmp_path / "d") == 0o755


def test_create_existing_is_left_alone(execd, tmp_path):
    d = tmp_path / "d"
    d.mkdir(mode=0o700)
    empty_ok(execd.post("/directories", json={str(d): {"mode": 755, "owner": "nobody"}}))
    assert mode(d) == 0o700 and os.stat(d).st_uid == 0
    empty_ok(execd.post("/directories", json={"/": None}))


def test_create_sticky(execd, tmp_path):
    empty_ok(execd.post("/directories", json={str(tmp_path / "t"): {"mode": 1777}}))
    assert mode(tmp_path / "t") == 0o1777


def test_create_over_a_file(execd, tmp_path):
    (tmp_path / "f").touch()
    for p in ["f", "f/below"]:
        error(execd.post("/directories", json={str(tmp_path / p): {}}), 500, "RUNTIME_ERROR",
              "error accessing file: ")


def test_create_below_a_link(execd, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    empty_ok(execd.post("/directories", json={str(tmp_path / "link/new"): {}}))
    assert (tmp_path / "real/new").is_dir()


@pytest.mark.parametrize("p", [{"mode": 999}, {"owner": "no such user"}])
def test_create_bad_permission(execd, tmp_path, p):
    error(execd.post("/directories", json={str(tmp_path / "x"): p}), 500, "RUNTIME_ERROR")


def test_create_on_a_read_only_file_system(execd):
    r = execd.post("/directories", json={"/proc/nothing": {}})
    assert r.status_code in (404, 500)  # what /proc says differs between kernels
    assert r.json()["code"] in ("FILE_NOT_FOUND", "RUNTIME_ERROR")


# ---- remove ----

def test_remove(execd, tree):
    empty_ok(execd.delete("/directories", params=[("path", str(tree / "b")), ("path", str(tree / "z"))]))
    assert sorted(os.listdir(tree)) == [".dot", "B", "a", "b-", "link", "loop"]


def test_remove_missing_is_success(execd, tmp_path):
    empty_ok(execd.delete("/directories", params={"path": str(tmp_path / "no")}))
    empty_ok(execd.delete("/directories", params={"path": str(tmp_path / "no/no")}))
    empty_ok(execd.delete("/directories"))


def test_remove_never_follows_links(execd, tmp_path):
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep/f").touch()
    (tmp_path / "d").mkdir()
    (tmp_path / "d/out").symlink_to(tmp_path / "keep")
    (tmp_path / "top").symlink_to("keep")
    for n in ["d", "top"]:
        empty_ok(execd.delete("/directories", params={"path": str(tmp_path / n)}))
    assert sorted(os.listdir(tmp_path)) == ["keep"] and (tmp_path / "keep/f").exists()


@pytest.mark.parametrize("path", ["/", "//", "/.", "/tmp/..", "/../..", "/./"])
def test_remove_root_is_refused(execd, path):
    r = execd.delete("/directories", params={"path": path})
    error(r, 500, "RUNTIME_ERROR", f"error removing directory {path}. ")
    assert os.path.exists("/etc/passwd")


def test_remove_what_cannot_be_removed(execd):
    r = execd.delete("/directories", params={"path": "/proc/self"})
    error(r, 500, "RUNTIME_ERROR", "error removing directory /proc/self. ")


def test_remove_immutable(execd, tmp_path):
    (tmp_path / "d").mkdir()
    f = tmp_path / "d/f"
    f.touch()
    if subprocess.run(["chattr", "+i", str(f)], capture_output=True).returncode != 0:
        pytest.skip("no immutable files here")
    try:
        r = execd.delete("/directories", params={"path": str(tmp_path / "d")})
        error(r, 500, "RUNTIME_ERROR", "error removing directory ")
    finally:
        subprocess.run(["chattr", "-i", str(f)], check=True)


def test_remove_a_large_tree_while_answering(execd, tmp_path):
    for i in range(50):
        d = tmp_path / f"t/{i}"
        d.mkdir(parents=True)
        for k in range(100):
            (d / f"{k}").touch()
    empty_ok(execd.delete("/directories", params={"path": str(tmp_path / "t")}))
    assert os.listdir(tmp_path) == []


# The leak checker needs to trace the process itself, and /proc.
NO_LEAK_CHECK = {"ASAN_OPTIONS": "detect_leaks=0", "LSAN_OPTIONS": "detect_leaks=0"}


def test_kernel_without_openat2(launch, tmp_path):
    """Old kernels, and filters that do not know the call."""
    inject = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=openat2", "-e",
              "inject=openat2:error=ENOSYS"]
    if subprocess.run([*inject, "true"], capture_output=True).returncode != 0:
        pytest.skip("strace cannot be used here")
    e = launch(wrap=inject, env=NO_LEAK_CHECK)
    e.proc.send_signal = lambda signo: os.kill(e.events[0]["pid"], signo)  # strace ignores them
    d = tmp_path / "d"
    empty_ok(e.post("/directories", json={str(d / "x/y"): {}}))
    (d / "x/f").write_text("a")
    (d / "x/l").symlink_to("/etc")
    empty_ok(e.post("/files/replace", json={str(d / "x/f"): {"old": "a", "new": "b"}}))
    assert e.get("/files/download", params={"path": str(d / "x/f")}).content == b"b"
    assert listing(e, d, 3) == ["x", "x/f", "x/l", "x/y"]
    empty_ok(e.delete("/directories", params={"path": str(d)}))
    assert not d.exists() and os.path.exists("/etc/passwd")
