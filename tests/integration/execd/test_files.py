"""Files: info, delete, permissions, move, search, replace. Each route's success and every error."""

import json
import os
import re
import socket
import stat
import subprocess
import threading
from urllib.parse import quote

import pytest

from conftest import empty_ok, error

NAMES = ["plain", "with space", "new\nline", "$HOME", "$UNSET_VAR", "${x}", "quote\"s'", "back\\slash",
         "~", "*glob?[x]", "ünïcode-☺", "-rf", ".hidden", "a&b=c+d%20e", "tab\there", "\x01ctl"]
RFC3339 = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")


def info(execd, *paths):
    r = execd.get("/files/info", params=[("path", p) for p in paths])
    assert r.status_code == 200, r.text
    return r.json()


def check_info(i, path, kind):
    assert set(i) == {"path", "type", "size", "modified_at", "created_at", "owner", "group", "mode"}
    assert i["path"] == str(path)
    assert i["type"] == kind
    assert RFC3339.match(i["modified_at"]) and RFC3339.match(i["created_at"])
    assert isinstance(i["size"], int) and isinstance(i["mode"], int)


# ---- info ----

def test_info(execd, tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"12345")
    f.chmod(0o644)
    (tmp_path / "d").mkdir(mode=0o755)
    (tmp_path / "l").symlink_to("nowhere")
    os.mkfifo(tmp_path / "p")
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(tmp_path / "s"))
    s.close()
    got = info(execd, f, tmp_path / "d", tmp_path / "l", tmp_path / "p", tmp_path / "s")
    assert list(got) == [str(tmp_path / n) for n in ["f", "d", "l", "p", "s"]]
    check_info(got[str(f)], f, "file")
    assert got[str(f)]["size"] == 5 and got[str(f)]["mode"] == 644
    assert got[str(f)]["owner"] == "root" and got[str(f)]["group"] == "root"
    check_info(got[str(tmp_path / "d")], tmp_path / "d", "directory")
    assert got[str(tmp_path / "d")]["size"] == os.stat(tmp_path / "d").st_size
    check_info(got[str(tmp_path / "l")], tmp_path / "l", "symlink")
    check_info(got[str(tmp_path / "p")], tmp_path / "p", "other")
    check_info(got[str(tmp_path / "s")], tmp_path / "s", "other")


def test_info_mode_is_nine_bits(execd, tmp_path):
    d = tmp_path / "d"
    d.mkdir()
    d.chmod(0o1777)
    assert info(execd, d)[str(d)]["mode"] == 777


def test_info_owner_without_name_is_a_number(execd, tmp_path):
    f = tmp_path / "f"
    f.touch()
    os.chown(f, 54321, 54322)
    i = info(execd, f)[str(f)]
    assert (i["owner"], i["group"]) == ("54321", "54322")


def test_info_no_path_is_empty(execd):
    r = execd.get("/files/info")
    assert r.status_code == 200 and r.json() == {}
    assert r.headers["Content-Type"] == "application/json; charset=utf-8"


def test_info_key_is_the_request_path_is_absolute(execd, tmp_path):
    (tmp_path / "f").touch()
    asked = f"{tmp_path}//x/../f"
    i = info(execd, asked)
    assert list(i) == [asked] and i[asked]["path"] == str(tmp_path / "f")


def test_info_same_path_twice(execd, tmp_path):
    r = execd.get("/files/info", params=[("path", str(tmp_path))] * 2)
    assert r.text.count('"modified_at"') == 1


def test_info_first_failure_aborts(execd, tmp_path):
    r = execd.get("/files/info", params=[("path", str(tmp_path)), ("path", str(tmp_path / "no"))])
    error(r, 404, "FILE_NOT_FOUND", "file not found. ")


def test_info_below_a_file_is_500(execd, tmp_path):
    (tmp_path / "f").touch()
    r = execd.get("/files/info", params={"path": f"{tmp_path}/f/x"})
    error(r, 500, "RUNTIME_ERROR", "error accessing file: ")


@pytest.mark.parametrize("path", ["/a\0b", "/" + "x" * 300, "/" + "y/" * 3000])
def test_info_impossible_paths(execd, path):
    error(execd.get("/files/info", params={"path": path}), 500, "RUNTIME_ERROR",
          "error accessing file: ")


def test_info_times(execd, tmp_path):
    f = tmp_path / "f"
    f.write_text("x")
    os.utime(f, ns=(0, 1_000_000_123_456_789))
    i = info(execd, f)[str(f)]
    assert i["modified_at"].startswith("1970-01-12T13:46:40.123456")
    assert not i["created_at"].startswith("1970")  # ctime


@pytest.mark.parametrize("name", NAMES)
def test_any_name(execd, tmp_path, name):
    """Create, look, search, replace, move, remove: the name is data all the way."""
    f = tmp_path / name
    f.write_text("old")
    i = info(execd, f)[str(f)]
    check_info(i, f, "file")
    r = execd.get("/files/search", params={"path": str(tmp_path)})
    assert [x["path"] for x in r.json()] == [str(f)]
    empty_ok(execd.post("/files/replace", json={str(f): {"old": "old", "new": "new"}}))
    assert f.read_text() == "new"
    empty_ok(execd.post("/files/mv", json=[{"src": str(f), "dest": str(tmp_path / "moved")}]))
    empty_ok(execd.post("/files/mv", json=[{"src": str(tmp_path / "moved"), "dest": str(f)}]))
    if name == "$HOME":  # defined, and nothing of that name exists any more: expanded
        f = tmp_path / os.environ["HOME"].lstrip("/")
    assert f.read_text() == "new"
    empty_ok(execd.delete("/files", params={"path": str(f)}))
    assert not f.exists()


def test_invalid_utf8_name(execd, tmp_path):
    raw = os.fsencode(str(tmp_path)) + b"/bad\xff\xfename"
    with open(raw, "w"):
        pass
    r = execd.get("/files/info?path=" + quote(raw))
    assert r.status_code == 200, r.text
    (key, i), = r.json().items()
    assert key == i["path"] == str(tmp_path) + "/bad\ufffd\ufffdname"
    r = execd.get("/files/search", params={"path": str(tmp_path), "pattern": "bad??name"})
    assert len(r.json()) == 1
    r = execd.get("/directories/list", params={"path": str(tmp_path)})
    assert r.json()[0]["path"].endswith("bad\ufffd\ufffdname")
    empty_ok(execd.delete("/files?path=" + quote(raw)))
    assert not os.path.exists(raw)


def test_variables_and_home(launch, tmp_path):
    e = launch(env={"DIR": str(tmp_path), "HOME": str(tmp_path)})
    (tmp_path / "f").touch()
    for asked in ["$DIR/f", "${DIR}/f", "~/f"]:
        got = info(e, asked)
        assert got[asked]["path"] == str(tmp_path / "f")
    error(e.get("/files/info", params={"path": "$NOT_THERE/f"}), 500, "RUNTIME_ERROR",
          "undefined environment variables: NOT_THERE")
    error(e.get("/files/info", params={"path": "/x/$NOT_THERE"}), 404, "FILE_NOT_FOUND")
    (tmp_path / "$DIR").touch()  # what exists as it is written is not expanded
    assert info(e, f"{tmp_path}/$DIR")[f"{tmp_path}/$DIR"]["path"] == f"{tmp_path}/$DIR"


def test_home_unset(launch):
    e = launch(unset=["HOME"])
    error(e.get("/files/info", params={"path": "~/f"}), 500, "RUNTIME_ERROR", "HOME")


def test_relative_is_to_the_working_directory(launch, tmp_path):
    (tmp_path / "f").touch()
    e = launch(cwd=str(tmp_path))
    assert info(e, "f")["f"]["path"] == str(tmp_path / "f")
    assert info(e, "../" + tmp_path.name + "/f")


# ---- delete ----

def test_delete(execd, tmp_path):
    for n in "abc":
        (tmp_path / n).touch()
    empty_ok(execd.delete("/files", params=[("path", str(tmp_path / n)) for n in "ab"]))
    assert sorted(os.listdir(tmp_path)) == ["c"]


def test_delete_missing_is_success(execd, tmp_path):
    empty_ok(execd.delete("/files", params={"path": str(tmp_path / "no")}))
    empty_ok(execd.delete("/files", params={"path": str(tmp_path / "no/such/dir")}))
    empty_ok(execd.delete("/files"))


def test_delete_directory_is_refused_and_stops(execd, tmp_path):
    (tmp_path / "a").touch()
    (tmp_path / "d").mkdir()
    (tmp_path / "z").touch()
    r = execd.delete("/files", params=[("path", str(tmp_path / n)) for n in "adz"])
    d = tmp_path / "d"
    assert error(r, 500, "RUNTIME_ERROR") == f"error removing file {d}. path is a directory: {d}"
    assert sorted(os.listdir(tmp_path)) == ["d", "z"]
    error(execd.delete("/files", params={"path": "/"}), 500, "RUNTIME_ERROR", "path is a directory")


def test_delete_links_not_their_targets(execd, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "f").touch()
    for name, to in [("to_dir", "d"), ("to_file", "f"), ("dangling", "no"), ("loop", "loop")]:
        (tmp_path / name).symlink_to(to)
        empty_ok(execd.delete("/files", params={"path": str(tmp_path / name)}))
    assert sorted(os.listdir(tmp_path)) == ["d", "f"]


# ---- permissions ----

def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_permissions(execd, tmp_path):
    f, g = tmp_path / "f", tmp_path / "g"
    f.touch()
    g.touch()
    empty_ok(execd.post("/files/permissions", json={
        str(f): {"mode": 640, "owner": "nobody", "group": "nogroup"}, str(g): {"mode": 0}}))
    st = os.stat(f)
    assert (mode(f), st.st_uid, st.st_gid) == (0o640, 65534, 65534)
    empty_ok(execd.post("/files/permissions", json={str(f): {"mode": None, "owner": None, "group": ""}}))
    empty_ok(execd.post("/files/permissions", json={str(f): None}))
    assert (mode(f), os.stat(f).st_uid) == (0o640, 65534)


def test_permissions_special_bits_and_numbers(execd, tmp_path):
    f, d = tmp_path / "f", tmp_path / "d"
    f.touch()
    d.mkdir()
    empty_ok(execd.post("/files/permissions", json={
        str(f): {"mode": 4755, "owner": "1234", "group": "4321"}, str(d): {"mode": 1777}}))
    assert (mode(f), os.stat(f).st_uid, os.stat(f).st_gid) == (0o4755, 1234, 4321)
    assert mode(d) == 0o1777


def test_permissions_follow_links(execd, tmp_path):
    (tmp_path / "f").touch()
    (tmp_path / "l").symlink_to("f")
    empty_ok(execd.post("/files/permissions", json={str(tmp_path / "l"): {"mode": 600, "owner": "7"}}))
    assert mode(tmp_path / "f") == 0o600 and os.stat(tmp_path / "f").st_uid == 7
    assert os.lstat(tmp_path / "l").st_uid == 0


@pytest.mark.parametrize("p,text", [
    ({"mode": 888}, "mode"), ({"mode": 77777}, "mode"), ({"mode": -1}, "mode"),
    ({"owner": "no such user"}, "no such user"), ({"group": "no such group"}, "no such group"),
    ({"owner": "4294967295"}, "unknown user")])
def test_permissions_refused(execd, tmp_path, p, text):
    (tmp_path / "f").touch()
    r = execd.post("/files/permissions", json={str(tmp_path / "f"): p})
    message = error(r, 500, "RUNTIME_ERROR", text)
    assert message.startswith(f"error changing permissions for {tmp_path}/f. ")


def test_permissions_missing_file_is_500(execd, tmp_path):
    r = execd.post("/files/permissions", json={str(tmp_path / "no"): {"mode": 644}})
    error(r, 500, "RUNTIME_ERROR", "error changing permissions for ")
    (tmp_path / "l").symlink_to("l")
    r = execd.post("/files/permissions", json={str(tmp_path / "l"): {"mode": 644}})
    error(r, 500, "RUNTIME_ERROR", "error changing permissions for ")


BAD_BODIES = [b"", b"   ", b"{", b"[1]", b"5", b'"x"', b'{"/f": 5}', b'{"/f": {"mode": "755"}}',
              b'{"/f": {"owner": 1}}', b"nonsense"]


@pytest.mark.parametrize("body", BAD_BODIES)
@pytest.mark.parametrize("path", ["/files/permissions", "/directories"])
def test_map_bodies_refused(execd, path, body):
    error(execd.post(path, data=body), 400, "INVALID_REQUEST_BODY",
          "error parsing request, MAYBE invalid body format. ")


@pytest.mark.parametrize("path", ["/files/permissions", "/files/replace", "/directories", "/files/mv"])
def test_lenient_bodies(execd, path):
    empty_ok(execd.post(path, data=b"null"))
    empty_ok(execd.post(path, data=(b"[]" if path == "/files/mv" else b"{}") + b" trailing rubbish"))


def test_bad_body_changes_nothing(execd, tmp_path):
    f = tmp_path / "f"
    f.touch(mode=0o600)
    body = json.dumps({str(f): {"mode": 777}, str(tmp_path): {"mode": "x"}})
    error(execd.post("/files/permissions", data=body), 400, "INVALID_REQUEST_BODY")
    assert mode(f) == 0o600


def test_keys_in_any_case_and_unknown_ones(execd, tmp_path):
    f = tmp_path / "f"
    f.touch()
    empty_ok(execd.post("/files/permissions", json={str(f): {"MODE": 600, "Owner": "7", "extra": [1]}}))
    assert mode(f) == 0o600 and os.stat(f).st_uid == 7


# ---- move ----

def test_move(execd, tmp_path):
    (tmp_path / "f").write_text("x")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/in").write_text("y")
    empty_ok(execd.post("/files/mv", json=[
        {"src": str(tmp_path / "f"), "dest": str(tmp_path / "new/deep/f2")},
        {"src": str(tmp_path / "d"), "dest": str(tmp_path / "d2")}]))
    assert (tmp_path / "new/deep/f2").read_text() == "x" and (tmp_path / "d2/in").read_text() == "y"
    assert mode(tmp_path / "new") == 0o755
    assert not (tmp_path / "f").exists()


def test_move_missing_source(execd, tmp_path):
    r = execd.post("/files/mv", json=[{"src": str(tmp_path / "no"), "dest": str(tmp_path / "x")}])
    error(r, 404, "FILE_NOT_FOUND", "file not found. ")


@pytest.mark.parametrize("kind", ["file", "dir", "dangling"])
def test_move_never_replaces(execd, tmp_path, kind):
    src, dest = tmp_path / "f", tmp_path / "dest"
    src.write_text("x")
    {"file": dest.touch, "dir": dest.mkdir, "dangling": lambda: dest.symlink_to("no")}[kind]()
    r = execd.post("/files/mv", json=[{"src": str(src), "dest": str(dest)}])
    assert error(r, 500, "RUNTIME_ERROR") == \
        f"error accessing file: destination path already exists: {dest}"
    assert src.read_text() == "x"


def test_move_is_sequential_without_rollback(execd, tmp_path):
    (tmp_path / "a").touch()
    r = execd.post("/files/mv", json=[{"src": str(tmp_path / "a"), "dest": str(tmp_path / "b")},
                                      {"src": str(tmp_path / "a"), "dest": str(tmp_path / "c")}])
    error(r, 404, "FILE_NOT_FOUND")
    assert os.listdir(tmp_path) == ["b"]


def test_move_into_itself(execd, tmp_path):
    (tmp_path / "d").mkdir()
    r = execd.post("/files/mv", json=[{"src": str(tmp_path / "d"), "dest": str(tmp_path / "d/x/y")}])
    error(r, 500, "RUNTIME_ERROR", "error accessing file: ")


@pytest.mark.parametrize("body", [b"{}", b"5", b"[5]", b'[{"src": 5}]', b"", b"["])
def test_move_bad_body(execd, body):
    error(execd.post("/files/mv", data=body), 400, "INVALID_REQUEST_BODY",
          "error parsing request, MAYBE invalid body format. ")


def test_move_to_another_file_system(execd, tmp_path):
    other = f"/dev/shm/osb-files-{os.getpid()}"
    if os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("/dev/shm is no file system of its own here")
    d = tmp_path / "d"
    (d / "sub").mkdir(parents=True)
    (d / "f").write_bytes(os.urandom(300_000))
    (d / "f").chmod(0o4751)
    os.chown(d / "f", 11, 12)
    os.chmod(d / "f", 0o4751)
    os.utime(d / "f", ns=(5, 1_000_000_000_000_000_005))
    (d / "sub/l").symlink_to("../f")
    os.mkfifo(d / "sub/p", 0o640)
    (d / "$ \n").touch()
    want = (d / "f").read_bytes()
    try:
        empty_ok(execd.post("/files/mv", json=[{"src": str(d), "dest": other}]))
        assert not d.exists()
        st = os.stat(other + "/f")
        assert stat.S_IMODE(st.st_mode) == 0o4751 and (st.st_uid, st.st_gid) == (11, 12)
        assert st.st_mtime_ns == 1_000_000_000_000_000_005
        with open(other + "/f", "rb") as f:
            assert f.read() == want
        assert os.readlink(other + "/sub/l") == "../f"
        assert stat.S_ISFIFO(os.stat(other + "/sub/p").st_mode)
        assert os.path.exists(other + "/$ \n")
        r = execd.post("/files/mv", json=[{"src": other, "dest": str(tmp_path)}])
        error(r, 500, "RUNTIME_ERROR", "already exists")
        empty_ok(execd.post("/files/mv", json=[{"src": other + "/f", "dest": str(tmp_path / "back")}]))
        assert (tmp_path / "back").read_bytes() == want
        assert not any(n.startswith(".osb-") for n in os.listdir("/dev/shm") + os.listdir(tmp_path))
    finally:
        subprocess.run(["rm", "-rf", other], check=True)


# ---- search ----

@pytest.fixture
def tree(tmp_path):
    for n in ["a.py", "b.txt", "sub/c.py", "sub/deep/d.py", "sub/deep/e.tsx", ".hid.py", "A.PY"]:
        (tmp_path / n).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / n).touch()
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "dirlink").symlink_to("sub")
    (tmp_path / "dir.py").mkdir()
    return tmp_path


def search(execd, path, pattern=None):
    params = {"path": str(path)} if pattern is None else {"path": str(path), "pattern": pattern}
    r = execd.get("/files/search", params=params)
    assert r.status_code == 200, r.text
    return [os.path.relpath(x["path"], path) for x in r.json()]


def test_search_default_finds_every_file_in_order(execd, tree):
    assert search(execd, tree) == [".hid.py", "A.PY", "a.py", "b.txt", "dirlink", "link.py", "sub/c.py",
                                   "sub/deep/d.py", "sub/deep/e.tsx"]


@pytest.mark.parametrize("pattern,want", [
    ("*.py", [".hid.py", "a.py", "link.py", "sub/c.py", "sub/deep/d.py"]),
    ("**/*.py", [".hid.py", "a.py", "link.py", "sub/c.py", "sub/deep/d.py"]),
    ("?.{py,ts{x,}}", ["a.py", "sub/c.py", "sub/deep/d.py", "sub/deep/e.tsx"]),
    ("[a-b].*", ["a.py", "b.txt"]), ("[!a-c].py", ["sub/deep/d.py"]),
    ("!(a).py", [".hid.py", "link.py", "sub/c.py", "sub/deep/d.py"]),
    ("sub/*.py", ["sub/c.py"]), ("sub/**", ["sub/c.py", "sub/deep/d.py", "sub/deep/e.tsx"]),
    ("*/deep/*", ["sub/deep/d.py", "sub/deep/e.tsx"]), ("none*", [])])
def test_search_patterns(execd, tree, pattern, want):
    assert search(execd, tree, pattern) == want


def test_search_info_shape(execd, tree):
    r = execd.get("/files/search", params={"path": str(tree), "pattern": "link.py"})
    check_info(r.json()[0], tree / "link.py", "symlink")


def test_search_a_single_file(execd, tree):
    r = execd.get("/files/search", params={"path": str(tree / "a.py"), "pattern": "*.py"})
    assert [x["path"] for x in r.json()] == [str(tree / "a.py")]


def test_search_errors(execd, tree):
    r = execd.get("/files/search")
    assert error(r, 400, "MISSING_QUERY") == "missing query parameter 'path'"
    error(execd.get("/files/search?path="), 400, "MISSING_QUERY")
    error(execd.get("/files/search", params={"path": str(tree / "no")}), 404, "FILE_NOT_FOUND",
          "file not found. ")
    (tree / "dangling").symlink_to("no")
    error(execd.get("/files/search", params={"path": str(tree / "dangling")}), 404, "FILE_NOT_FOUND")


@pytest.mark.parametrize("pattern", ["[", "[]", "{a", "a\\", "!", "a!b", "!(x", "x" * 2000])
def test_search_bad_pattern(execd, tree, pattern):
    r = execd.get("/files/search", params={"path": str(tree), "pattern": pattern})
    error(r, 500, "RUNTIME_ERROR", "error searching files. ")


def test_search_hostile_pattern_ends(execd, tmp_path):
    (tmp_path / ("a" * 200)).touch()
    r = execd.get("/files/search", params={"path": str(tmp_path), "pattern": "a*" * 100 + "b"})
    error(r, 500, "RUNTIME_ERROR", "too complex")


def test_search_link_loops_and_deep_trees(execd, tmp_path):
    (tmp_path / "loop").symlink_to(".")
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):  # deeper than the descriptors of a process
        os.mkdir("d", dir_fd=fd)
        nxt = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = nxt
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    r = execd.get("/files/search", params={"path": str(tmp_path), "pattern": "{bottom,loop}"})
    assert [os.path.basename(x["path"]) for x in r.json()] == ["bottom", "loop"]
    empty_ok(execd.delete("/directories", params={"path": str(tmp_path / "d")}))
    assert os.listdir(tmp_path) == ["loop"]


def test_search_in_proc(execd):
    r = execd.get("/files/search", params={"path": "/proc/sys/kernel", "pattern": "ostype"})
    assert [x["path"] for x in r.json()] == ["/proc/sys/kernel/ostype"]


def test_search_while_the_tree_changes(execd, tmp_path):
    """Files and directories come and go, directories become links: never an escape, never a hang."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").touch()
    stop = threading.Event()

    def churn():
        d = str(tmp_path / "tree/x")
        while not stop.is_set():
            try:
                os.mkdir(d)
                open(d + "/f", "w").close()
                os.unlink(d + "/f")
                os.rmdir(d)
                os.symlink(str(tmp_path / "outside"), d)
                os.unlink(d)
            except OSError:
                pass

    t = threading.Thread(target=churn)
    t.start()
    try:
        for _ in range(100):
            r = execd.get("/files/search", params={"path": str(tmp_path / "tree")})
            assert r.status_code == 200, r.text
            assert "secret" not in r.text
    finally:
        stop.set()
        t.join()


# ---- replace ----

def test_replace(execd, tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"aXbXc\r\n\xffX")
    f.chmod(0o640)
    os.chown(f, 5, 6)
    r = execd.post("/files/replace", json={str(f): {"old": "X", "new": "YY"}})
    empty_ok(r)
    assert f.read_bytes() == b"aYYbYYc\r\n\xffYY"
    assert mode(f) == 0o640 and os.stat(f).st_uid == 5


def test_replace_verbose(execd, tmp_path):
    f, g = tmp_path / "f", tmp_path / "g"
    f.write_text("aaa")
    g.write_text("b")
    asked = f"{tmp_path}/./f"
    body = {asked: {"old": "a", "new": ""}, str(g): {"old": "zz", "new": "y"}}
    r = execd.post("/files/replace?verbose=true", json=body)
    assert r.status_code == 200
    assert r.json() == {asked: {"replacedCount": 3}, str(g): {"replacedCount": 0}}
    assert f.read_text() == "" and g.read_text() == "b"
    empty_ok(execd.post("/files/replace?verbose=1", json={str(g): {"old": "b", "new": "c"}}))


def test_replace_always_rewrites(execd, tmp_path):
    f = tmp_path / "f"
    f.write_text("x")
    os.utime(f, (1, 1))
    empty_ok(execd.post("/files/replace", json={str(f): {"old": "none", "new": ""}}))
    assert os.stat(f).st_mtime > 1


def test_replace_non_overlapping_left_to_right(execd, tmp_path):
    f = tmp_path / "f"
    f.write_text("aaaaa")
    r = execd.post("/files/replace?verbose=true", json={str(f): {"old": "aa", "new": "b"}})
    assert r.json()[str(f)]["replacedCount"] == 2 and f.read_text() == "bba"


def test_replace_across_chunks(execd, tmp_path):
    f = tmp_path / "big"
    unit = b"0123456789needle"
    f.write_bytes(unit * 100_000)
    r = execd.post("/files/replace?verbose=true", json={str(f): {"old": "needle", "new": "pin"}})
    assert r.json()[str(f)]["replacedCount"] == 100_000
    assert f.read_bytes() == b"0123456789pin" * 100_000


def test_replace_through_link_keeps_the_link(execd, tmp_path):
    (tmp_path / "f").write_text("a")
    (tmp_path / "l").symlink_to("f")
    empty_ok(execd.post("/files/replace", json={str(tmp_path / "l"): {"old": "a", "new": "b"}}))
    assert (tmp_path / "l").is_symlink() and (tmp_path / "f").read_text() == "b"


def test_replace_errors(execd, tmp_path):
    f = tmp_path / "f"
    f.write_text("x")
    error(execd.post("/files/replace", json={str(tmp_path / "no"): {"old": "", "new": ""}}), 404,
          "FILE_NOT_FOUND", "file not found. ")
    for item in [{"old": "", "new": "y"}, {"new": "y"}, {"old": None}, None]:
        r = execd.post("/files/replace", json={str(f): item})
        assert error(r, 400, "INVALID_REQUEST_BODY") == "old content must not be empty"
    error(execd.post("/files/replace", json={str(tmp_path): {"old": "a"}}), 500, "RUNTIME_ERROR",
          "error accessing file: ")
    os.mkfifo(tmp_path / "p")
    error(execd.post("/files/replace", json={str(tmp_path / "p"): {"old": "a"}}), 500, "RUNTIME_ERROR")
    for body in BAD_BODIES[:6] + [b'{"/f": {"old": 5}}']:
        error(execd.post("/files/replace", data=body), 400, "INVALID_REQUEST_BODY", "error parsing request")
    assert sorted(os.listdir(tmp_path)) == ["f", "p"] and f.read_text() == "x"


def test_readers_never_see_half_a_replacement(execd, tmp_path):
    f = tmp_path / "f"
    f.write_text("a" * 500_000)
    stop, seen = threading.Event(), set()

    def read():
        while not stop.is_set():
            seen.add(f.read_text())

    t = threading.Thread(target=read)
    t.start()
    try:
        for i in range(20):
            old, new = ("a" * 5000, "b" * 5000) if i % 2 == 0 else ("b" * 5000, "a" * 5000)
            empty_ok(execd.post("/files/replace", json={str(f): {"old": old, "new": new}}))
    finally:
        stop.set()
        t.join()
    assert seen <= {"a" * 500_000, "b" * 500_000}


# ---- in general ----

@pytest.mark.parametrize("method,path", [
    ("POST", "/files/info"), ("GET", "/files"), ("PUT", "/files/mv"), ("GET", "/files/replace"),
    ("GET", "/files/nothing"), ("POST", "/directories/list"), ("PATCH", "/directories")])
def test_unknown_routes_are_404_text(execd, method, path):
    r = execd.request(method, path)
    assert r.status_code == 404 and r.text == "404 page not found"
    assert r.headers["Content-Type"].startswith("text/plain")


def test_trailing_slash_is_the_same(execd, tmp_path):
    r = execd.get("/files/info/", params={"path": str(tmp_path)}, allow_redirects=False)
    assert r.status_code == 200


def test_request_id_comes_back(execd):
    r = execd.get("/files/info", headers={"X-Request-ID": "abc-1"})
    assert r.headers["X-Request-ID"] == "abc-1"


def test_token_guards_files(launch, tmp_path):
    e = launch("--access-token", "s3cret")
    (tmp_path / "f").touch()
    r = e.delete("/files", params={"path": str(tmp_path / "f")})
    assert r.status_code == 401 and (tmp_path / "f").exists()
    h = {"X-EXECD-ACCESS-TOKEN": "s3cret"}
    empty_ok(e.delete("/files", params={"path": str(tmp_path / "f")}, headers=h))


def test_magic_links_are_not_followed(execd):
    for path in ["/proc/self/fd/0", "/proc/self/exe", "/proc/1/root/etc/passwd", "/proc/self/cwd/etc"]:
        r = execd.get("/files/download", params={"path": path})
        error(r, 500, "RUNTIME_ERROR", "error accessing file: ")


def test_hundreds_of_operations_leak_nothing(execd, tmp_path):
    def round_trip(i):
        f = str(tmp_path / f"f{i}")
        open(f, "w").close()
        execd.get("/files/info", params={"path": f})
        execd.get("/files/search", params={"path": str(tmp_path)})
        execd.get("/files/info", params={"path": f + "/x"})
        execd.post("/files/replace", json={f: {"old": "a", "new": "b"}})
        execd.post("/files/mv", json=[{"src": f, "dest": f + ".m"}])
        execd.delete("/files", params={"path": f + ".m"})

    for i in range(30):
        round_trip(i)
    fds, rss = execd.fds(), execd.rss_kb()
    for i in range(200):
        round_trip(i)
    assert execd.fds() == fds
    assert execd.rss_kb() < rss + 512 or execd.sanitized()
