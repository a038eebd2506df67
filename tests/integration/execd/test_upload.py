"""Uploads: every shape of multipart clients send, every error, and nothing half-written ever."""

import json
import os
import socket
import stat
import subprocess
import threading
import time

import pytest
import requests

from conftest import empty_ok, error, wait_for

B = "----b0undary"


def part(name, data, filename=None, ctype=None, eol=b"\r\n"):
    head = f'Content-Disposition: form-data; name="{name}"'
    if filename is not None:
        head += f'; filename="{filename}"'
    if ctype:
        head += f"\r\nContent-Type: {ctype}"
    return head.encode() + b"\r\n\r\n" + data + eol


def body(*parts, boundary=B, end=True):
    out = b"".join(b"--" + boundary.encode() + b"\r\n" + p for p in parts)
    return out + (b"--" + boundary.encode() + b"--\r\n" if end else b"")


def meta(path, **more):
    return part("metadata", json.dumps({"path": str(path), **more}).encode(), "metadata",
                "application/json")


def content(data, filename="f"):
    return part("file", data, filename, "application/octet-stream")


def upload(execd, data, boundary=B, **kw):
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    return execd.post("/files/upload", data=data, headers=headers, **kw)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def only(tmp_path, *names):
    """Nothing but these is there: above all no temporary file."""
    assert sorted(os.listdir(tmp_path)) == sorted(names)


# ---- success ----

def test_new_file(execd, tmp_path):
    f = tmp_path / "f"
    empty_ok(upload(execd, body(meta(f), content(b"hello\r\n--not\r\n"))))
    assert f.read_bytes() == b"hello\r\n--not\r\n"
    assert mode(f) == 0o755  # what mode 0 comes to under umask 022
    only(tmp_path, "f")


def test_mode_owner_group(execd, tmp_path):
    f = tmp_path / "a/b/f"
    empty_ok(upload(execd, body(meta(f, mode=640, owner="nobody", group="nogroup"), content(b"x"))))
    st = os.stat(f)
    assert (mode(f), st.st_uid, st.st_gid) == (0o640, 65534, 65534)
    assert mode(tmp_path / "a") == 0o755
    empty_ok(upload(execd, body(meta(f, mode=4711, owner="5", group="6"), content(b"y"))))
    assert (mode(f), os.stat(f).st_uid, os.stat(f).st_gid) == (0o4711, 5, 6)
    empty_ok(upload(execd, body(meta(f, mode=None, owner=None, group=None), content(b"z"))))
    assert (mode(f), os.stat(f).st_uid) == (0o4711, 5)  # what exists keeps what is not changed


def test_empty_file(execd, tmp_path):
    empty_ok(upload(execd, body(meta(tmp_path / "f"), content(b""))))
    assert (tmp_path / "f").read_bytes() == b""


def test_many_files_in_order_of_pairs(execd, tmp_path):
    parts = []
    for i in range(150):
        parts += [meta(tmp_path / f"f{i}"), content(f"content {i}".encode())]
    empty_ok(upload(execd, body(*parts)))
    assert all((tmp_path / f"f{i}").read_text() == f"content {i}" for i in range(150))
    assert len(os.listdir(tmp_path)) == 150


def test_files_before_metadata(execd, tmp_path):
    data = os.urandom(2_000_000)
    empty_ok(upload(execd, body(content(data), content(b"2"), meta(tmp_path / "a"), meta(tmp_path / "b"))))
    assert (tmp_path / "a").read_bytes() == data and (tmp_path / "b").read_bytes() == b"2"
    only(tmp_path, "a", "b")


def test_metadata_first_then_all_files(execd, tmp_path):
    empty_ok(upload(execd, body(meta(tmp_path / "a"), meta(tmp_path / "b"), content(b"1"), content(b"2"))))
    assert (tmp_path / "a").read_bytes() == b"1" and (tmp_path / "b").read_bytes() == b"2"


def test_same_target_twice_last_wins(execd, tmp_path):
    f = tmp_path / "f"
    empty_ok(upload(execd, body(meta(f), content(b"1"), meta(f), content(b"2"))))
    assert f.read_bytes() == b"2"


def test_other_parts_are_ignored(execd, tmp_path):
    empty_ok(upload(execd, body(part("x", b"1"), meta(tmp_path / "f"), part("note", b"2", "n.txt"),
                                content(b"data"), part("file", b"a field, not a file"))))
    assert (tmp_path / "f").read_bytes() == b"data"


def test_metadata_without_filename(execd, tmp_path):
    m = part("metadata", json.dumps({"path": str(tmp_path / "f")}).encode())
    empty_ok(upload(execd, body(m, content(b"data"))))
    assert (tmp_path / "f").read_bytes() == b"data"


def test_filename_of_the_part_is_never_a_path(execd, tmp_path):
    empty_ok(upload(execd, body(meta(tmp_path / "f"), content(b"x", "/etc/execd-test-upload"))))
    empty_ok(upload(execd, body(meta(tmp_path / "f"), content(b"x", "../../execd-test-upload"))))
    assert not os.path.exists("/etc/execd-test-upload")
    only(tmp_path, "f")


def test_quoted_boundary_and_keys_in_any_case(execd, tmp_path):
    m = part("metadata", json.dumps({"PATH": str(tmp_path / "f"), "Mode": 600, "x": 1}).encode())
    empty_ok(upload(execd, body(m, content(b"x"), boundary="a b:c"), boundary='"a b:c"'))
    assert mode(tmp_path / "f") == 0o600


def test_chunked_body(execd, tmp_path):
    data = os.urandom(1_500_000)
    whole = body(meta(tmp_path / "f"), content(data))

    def pieces():
        at = 0
        for size in [1, 2, 3, 50, 100, 65535, 65537, 1, 10_000_000]:
            yield whole[at:at + size]
            at += size

    empty_ok(upload(execd, pieces()))
    assert (tmp_path / "f").read_bytes() == data


def test_byte_by_byte(execd, tmp_path):
    whole = body(meta(tmp_path / "f"), content(b"\r\n--" + B.encode()[:-1] + b"\r\n\r"))
    empty_ok(upload(execd, (whole[i:i + 1] for i in range(len(whole)))))
    assert (tmp_path / "f").read_bytes() == b"\r\n--" + B.encode()[:-1] + b"\r\n\r"


def test_requests_own_multipart(execd, tmp_path):
    data = os.urandom(100_000)
    files = []
    for n in ["one", "zw ei", "$dr\nei"]:
        files += [("metadata", ("metadata", json.dumps({"path": str(tmp_path / n)}), "application/json")),
                  ("file", (str(tmp_path / n), data, "application/octet-stream"))]
    empty_ok(execd.post("/files/upload", files=files))
    only(tmp_path, "one", "zw ei", "$dr\nei")
    assert (tmp_path / "$dr\nei").read_bytes() == data


def test_curl_with_expect(execd, tmp_path):
    src = tmp_path / "src"
    src.write_bytes(os.urandom(3_000_000))
    m = tmp_path / "meta.json"
    m.write_text(json.dumps({"path": str(tmp_path / "dst")}))
    out = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H",
                          "Expect: 100-continue", "-F", f"metadata=@{m}", "-F", f"file=@{src}",
                          execd.url + "/files/upload"], capture_output=True, text=True, timeout=60)
    assert out.stdout == "200", out
    assert (tmp_path / "dst").read_bytes() == src.read_bytes()


def test_through_a_link(execd, tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "l1").symlink_to("l2")
    (tmp_path / "l2").symlink_to(tmp_path / "real")
    empty_ok(upload(execd, body(meta(tmp_path / "l1"), content(b"new"))))
    assert (tmp_path / "real").read_text() == "new" and (tmp_path / "l1").is_symlink()
    (tmp_path / "dangling").symlink_to("made")
    empty_ok(upload(execd, body(meta(tmp_path / "dangling"), content(b"x"))))
    assert (tmp_path / "made").read_text() == "x"


def test_mtime_grows(execd, tmp_path):
    f = tmp_path / "f"
    empty_ok(upload(execd, body(meta(f), content(b"1"))))
    os.utime(f, (1, 1))
    empty_ok(upload(execd, body(meta(f), content(b"2"))))
    assert os.stat(f).st_mtime > 1


def test_hundred_megabytes_in_flat_memory(execd, tmp_path):
    size = 100_000_000
    head = body(meta(tmp_path / "big"), end=False) + b"--" + B.encode() + b"\r\n" + content(b"")[:-2]
    block = os.urandom(1_000_000)
    peaks = []

    def stream():
        yield head
        for _ in range(size // len(block)):
            yield block
            peaks.append(execd.rss_kb())
        yield b"\r\n--" + B.encode() + b"--\r\n"

    before = execd.rss_kb()
    empty_ok(upload(execd, stream()))
    assert os.path.getsize(tmp_path / "big") == size
    assert max(peaks) < before + 4096 or execd.sanitized()


# ---- errors ----

@pytest.mark.parametrize("headers,data", [
    ({}, b"x"),
    ({"Content-Type": "application/json"}, b"{}"),
    ({"Content-Type": "multipart/form-data"}, b"x"),
    ({"Content-Type": "multipart/form-data; boundary="}, b"x"),
    ({"Content-Type": f"multipart/form-data; boundary={B}"}, b""),
    ({"Content-Type": f"multipart/form-data; boundary={B}"}, b"rubbish"),
    ({"Content-Type": f"multipart/form-data; boundary={B}"}, b"--" + B.encode() + b"\r\nbad header\r\n\r\nx"),
])
def test_not_multipart(execd, headers, data):
    r = execd.post("/files/upload", data=data, headers=headers)
    assert error(r, 400, "INVALID_FILE") == "multipart form is empty"


def test_cut_before_the_closing_boundary(execd, tmp_path):
    (tmp_path / "f").write_text("old")
    r = upload(execd, body(meta(tmp_path / "f"), content(b"half"), end=False))
    assert error(r, 400, "INVALID_FILE") == "multipart form is empty"
    assert (tmp_path / "f").read_text() == "old"
    only(tmp_path, "f")


def test_no_parts(execd):
    r = upload(execd, body(part("x", b"1")))
    assert error(r, 400, "INVALID_FILE_METADATA") == "metadata file is missing"


def test_file_missing(execd, tmp_path):
    r = upload(execd, body(meta(tmp_path / "f")))
    assert error(r, 400, "INVALID_FILE_CONTENT") == "file is missing"
    r = upload(execd, body(content(b"x")))
    assert error(r, 400, "INVALID_FILE_METADATA") == "metadata file is missing"


def test_count_mismatch_writes_nothing(execd, tmp_path):
    r = upload(execd, body(meta(tmp_path / "a"), content(b"1"), meta(tmp_path / "b")))
    assert error(r, 400, "INVALID_FILE") == "metadata and file count mismatch: 2 vs 1"
    r = upload(execd, body(meta(tmp_path / "a"), content(b"1"), content(b"2")))
    assert error(r, 400, "INVALID_FILE") == "metadata and file count mismatch: 1 vs 2"
    only(tmp_path)


@pytest.mark.parametrize("text,message", [
    (b"", "invalid metadata format. "), (b"{", "invalid metadata format. "),
    (b'{"path": 5}', "invalid metadata format. "), (b'{"path": "/x", "mode": "644"}', "invalid metadata"),
    (b"{}", "metadata path is empty"), (b'{"path": ""}', "metadata path is empty"),
    (b"null", "metadata path is empty")])
def test_bad_metadata(execd, text, message):
    r = upload(execd, body(part("metadata", text, "metadata"), content(b"x")))
    error(r, 400, "INVALID_FILE_METADATA", message)


def test_metadata_too_large(execd):
    r = upload(execd, body(part("metadata", b" " * 100_000 + b"{}", "metadata"), content(b"x")))
    error(r, 400, "INVALID_FILE")


def test_failure_leaves_earlier_files_written(execd, tmp_path):
    (tmp_path / "blocker").touch()
    r = upload(execd, body(meta(tmp_path / "a"), content(b"1"), meta(tmp_path / "blocker/b"),
                           content(b"2"), meta(tmp_path / "c"), content(b"3")))
    error(r, 500, "RUNTIME_ERROR", "error creating target directory ")
    only(tmp_path, "a", "blocker")
    assert (tmp_path / "a").read_text() == "1"


def test_targets_that_are_no_files(execd, tmp_path):
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "p")
    for n in ["d", "p"]:
        r = upload(execd, body(meta(tmp_path / n), content(b"x")))
        error(r, 500, "RUNTIME_ERROR", "error opening destination file ")
    (tmp_path / "loop").symlink_to("loop")
    error(upload(execd, body(meta(tmp_path / "loop"), content(b"x"))), 500, "RUNTIME_ERROR")
    only(tmp_path, "d", "p", "loop")


def test_bad_permissions_change_nothing(execd, tmp_path):
    f = tmp_path / "f"
    f.write_text("old")
    for more in [{"mode": 999}, {"owner": "no such user"}, {"group": "no such group"}]:
        r = upload(execd, body(meta(f, **more), content(b"new")))
        error(r, 500, "RUNTIME_ERROR", "error chmoding file ")
    assert f.read_text() == "old"
    only(tmp_path, "f")


def test_undefined_variable(execd):
    r = upload(execd, body(meta("$NO_SUCH_VARIABLE/f"), content(b"x")))
    error(r, 500, "RUNTIME_ERROR", "error resolving target path $NO_SUCH_VARIABLE/f. ")


def test_error_is_told_before_a_long_body_ends(execd, tmp_path):
    """A client that listens while it sends learns at once; the connection stays usable for both."""
    (tmp_path / "blocker").touch()
    head = body(meta(tmp_path / "blocker/f"), end=False) + b"--" + B.encode() + b"\r\n" + content(b"")[:-2]
    s = socket.create_connection(("127.0.0.1", execd.port))
    s.sendall((f"POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n"
               f"Content-Type: multipart/form-data; boundary={B}\r\n\r\n").encode() + head)
    sent = len(head)
    s.settimeout(60)
    answer = b""
    while b"\r\n\r\n" not in answer:  # keep sending until the answer is there
        s.sendall(b"x" * 100_000)
        sent += 100_000
        assert sent < 49_000_000, "no answer before the end"
        s.setblocking(False)
        try:
            answer += s.recv(65536)
        except BlockingIOError:
            pass
        s.setblocking(True)
    assert answer.startswith(b"HTTP/1.1 500 "), answer
    s.sendall(b"x" * (50_000_000 - sent))
    s.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
    rest = answer.split(b"\r\n\r\n", 1)[1]
    while b"HTTP/1.1 200 OK" not in rest:
        got = s.recv(65536)
        assert got, rest
        rest += got
    s.close()


# ---- clients that vanish ----

@pytest.mark.parametrize("cut", ["head", "metadata", "between", "file", "most", "end"])
def test_client_vanishes(execd, tmp_path, cut):
    f = tmp_path / "f"
    f.write_text("old")
    m, c = meta(f), content(os.urandom(3_000_000))
    whole = body(m, c)
    where = {"head": 5, "metadata": len(B) + 30, "between": len(m) + len(B) + 20, "file": 1_000_000,
             "most": len(whole) - 100, "end": len(whole) - 3}[cut]
    fds = execd.fds()
    s = socket.create_connection(("127.0.0.1", execd.port))
    s.sendall((f"POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Length: {len(whole)}\r\n"
               f"Content-Type: multipart/form-data; boundary={B}\r\n\r\n").encode() + whole[:where])
    s.close()
    wait_for(lambda: execd.fds() <= fds and os.listdir(tmp_path) == ["f"], "cleaning up")
    assert f.read_text() == "old"


def test_killed_execd_leaves_no_temporary_file(launch, tmp_path):
    d = tmp_path / "d"
    d.mkdir()
    (d / "f").write_text("old")
    e = launch()
    whole = body(meta(d / "f"), content(os.urandom(3_000_000)))
    s = socket.create_connection(("127.0.0.1", e.port))
    s.sendall((f"POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Length: {len(whole) + 9}\r\n"
               f"Content-Type: multipart/form-data; boundary={B}\r\n\r\n").encode() + whole)
    e.proc.kill()
    e.proc.wait()
    s.close()
    assert (d / "f").read_text() == "old"
    assert os.listdir(d) == ["f"]


def test_two_uploads_to_one_file(execd, tmp_path):
    f = tmp_path / "f"
    results = []

    def one(byte):
        data = bytes([byte]) * 1_000_000
        r = requests.post(execd.url + "/files/upload", data=body(meta(f), content(data)),
                          headers={"Content-Type": f"multipart/form-data; boundary={B}"}, timeout=60)
        results.append(r.status_code)

    threads = [threading.Thread(target=one, args=(b,)) for b in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [200] * 8
    data = f.read_bytes()
    assert len(data) == 1_000_000 and len(set(data)) == 1
    only(tmp_path, "f")


# ---- places that do not take temporary files ----

def test_mount_point_is_written_in_place(launch, tmp_path):
    """A file that is a mount of its own, as /etc/hosts is in containers."""
    (tmp_path / "real").write_text("old")
    (tmp_path / "at").write_text("")
    script = f"mount --bind {tmp_path}/real {tmp_path}/at && exec \"$@\""
    e = launch(wrap=["unshare", "-m", "sh", "-c", script, "sh"])
    empty_ok(upload(e, body(meta(tmp_path / "at", mode=600), content(b"new and longer"))))
    assert (tmp_path / "real").read_text() == "new and longer"
    assert mode(tmp_path / "real") == 0o600
    only(tmp_path, "real", "at", "execd.0.log")


def test_writable_file_in_a_closed_directory(launch, tmp_path):
    d = tmp_path / "d"
    d.mkdir()
    (d / "f").write_text("a longer old content")
    os.chown(d / "f", 65534, 65534)
    for p in [tmp_path, *tmp_path.parents][:3]:
        p.chmod(0o755)
    e = launch(wrap=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    empty_ok(upload(e, body(meta(d / "f"), content(b"new"))))
    assert (d / "f").read_text() == "new"
    error(upload(e, body(meta(d / "other"), content(b"new"))), 500, "RUNTIME_ERROR",
          "error opening destination file ")
    error(upload(e, body(meta(d / "f", owner="root"), content(b"new2"))), 500, "RUNTIME_ERROR")
    only(d, "f")


def test_full_disk(launch, tmp_path):
    """The upload fails and says why; the old file stays; everything else goes on."""
    full = tmp_path / "full"
    full.mkdir()
    script = f"mount -t tmpfs -o size=4m none {full} && exec \"$@\""
    e = launch(wrap=["unshare", "-m", "sh", "-c", script, "sh"])
    empty_ok(upload(e, body(meta(full / "f"), content(b"old"))))
    r = upload(e, body(meta(full / "f"), content(b"x" * 20_000_000)))
    error(r, 500, "RUNTIME_ERROR", "error copying file ")
    assert "No space left" in r.json()["message"]
    r = e.get("/files/download", params={"path": str(full / "f")})
    assert r.content == b"old"
    r = e.get("/directories/list", params={"path": str(full)})
    assert [os.path.basename(x["path"]) for x in r.json()] == ["f"]
    big = tmp_path / "big"
    big.write_bytes(b"y" * 6_000_000)
    r = e.post("/files/mv", json=[{"src": str(big), "dest": str(full / "moved")}])
    error(r, 500, "RUNTIME_ERROR", "No space left")
    assert big.exists()
    r = e.post("/files/replace", json={str(full / "f"): {"old": "o", "new": "z" * 5_000_000}})
    error(r, 500, "RUNTIME_ERROR", "No space left")
    r = e.get("/directories/list", params={"path": str(full)})
    assert [os.path.basename(x["path"]) for x in r.json()] == ["f"]
    empty_ok(e.get("/ping"))
    empty_ok(upload(e, body(meta(full / "g"), content(b"fits"))))


def test_slow_client_holds_up_nobody(execd, tmp_path):
    s = socket.create_connection(("127.0.0.1", execd.port))
    head = body(meta(tmp_path / "f"), end=False) + b"--" + B.encode() + b"\r\n" + content(b"")[:-2]
    s.sendall((f"POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"
               f"Content-Type: multipart/form-data; boundary={B}\r\n\r\n").encode() + head)
    for _ in range(20):
        s.sendall(b"drip")
        empty_ok(execd.get("/ping"))
        time.sleep(0.005)
    s.close()
    wait_for(lambda: os.listdir(tmp_path) == [], "cleaning up")
