"""Downloads: whole, ranges at every edge, lines, names in headers, clients that vanish."""

import email.utils
import os
import socket
import subprocess
import threading
import time
from urllib.parse import quote

import pytest

from conftest import empty_ok, error, wait_for


def download(execd, path, headers=None, **params):
    return execd.get("/files/download", params={"path": str(path), **params}, headers=headers)


@pytest.fixture
def hundred(tmp_path):
    f = tmp_path / "hundred.bin"
    f.write_bytes(bytes(range(100)))
    return f


def test_whole(execd, hundred):
    r = download(execd, hundred)
    assert r.status_code == 200 and r.content == bytes(range(100))
    assert r.headers["Content-Type"] == "application/octet-stream"
    assert r.headers["Content-Length"] == "100"
    assert r.headers["Accept-Ranges"] == "bytes"
    assert r.headers["Content-Disposition"] == 'attachment; filename="hundred.bin"'
    assert "ETag" not in r.headers
    want = int(os.stat(hundred).st_mtime)
    assert email.utils.parsedate_to_datetime(r.headers["Last-Modified"]).timestamp() == want


def test_empty_file(execd, tmp_path):
    (tmp_path / "e").touch()
    r = download(execd, tmp_path / "e")
    assert r.status_code == 200 and r.content == b"" and r.headers["Content-Length"] == "0"


def test_errors(execd, tmp_path):
    assert error(execd.get("/files/download"), 400, "MISSING_QUERY") == "missing query parameter 'path'"
    error(execd.get("/files/download?path="), 400, "MISSING_QUERY")
    error(download(execd, tmp_path / "no"), 404, "FILE_NOT_FOUND", "file not found. ")
    error(download(execd, tmp_path), 400, "INVALID_FILE", "path is a directory")
    os.mkfifo(tmp_path / "p")
    error(download(execd, tmp_path / "p"), 400, "INVALID_FILE", "not a regular file")
    error(download(execd, "/dev/zero"), 400, "INVALID_FILE", "not a regular file")
    (tmp_path / "loop").symlink_to("loop")
    error(download(execd, tmp_path / "loop"), 500, "RUNTIME_ERROR", "error accessing file: ")
    error(download(execd, "$NO_SUCH_VARIABLE/x"), 500, "RUNTIME_ERROR")
    error(execd.get("/files/download?path=/a%00b"), 500, "RUNTIME_ERROR")


def test_follows_links(execd, hundred):
    (hundred.parent / "l").symlink_to("hundred.bin")
    assert download(execd, hundred.parent / "l").content == bytes(range(100))


@pytest.mark.parametrize("value,start,end", [
    ("bytes=0-9", 0, 9), ("bytes=0-0", 0, 0), ("bytes=99-99", 99, 99), ("bytes=99-", 99, 99),
    ("bytes=0-", 0, 99), ("bytes=0-99", 0, 99), ("bytes=0-100", 0, 99), ("bytes=50-99999", 50, 99),
    ("bytes=50-99999999999999999999999", 50, 99), ("bytes=-1", 99, 99), ("bytes=-100", 0, 99),
    ("bytes=-1000", 0, 99), ("bytes=5-6,8-9", 5, 6), ("bytes=500-,8-9", 8, 9), ("bytes= 1 - 2", 1, 2)])
def test_range(execd, hundred, value, start, end):
    r = download(execd, hundred, {"Range": value})
    assert r.status_code == 206, r.text
    assert r.headers["Content-Range"] == f"bytes {start}-{end}/100"
    assert r.headers["Content-Length"] == str(end - start + 1)
    assert r.content == bytes(range(start, end + 1))


@pytest.mark.parametrize("value", ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=9999999999999999999999-"])
def test_range_beyond(execd, hundred, value):
    r = download(execd, hundred, {"Range": value})
    assert r.status_code == 416
    assert r.headers["Content-Range"] == "bytes */100"
    assert r.headers["Content-Type"].startswith("text/plain")
    assert int(r.headers["Content-Length"]) == len(r.content) > 0


@pytest.mark.parametrize("value", ["bytes=9-5", "bytes=-", "bytes=x-y", "bytes=5", "lines=1-2", "0-9",
                                   "bytes=--1", "bytes=1-2,z"])
def test_range_malformed(execd, hundred, value):
    r = download(execd, hundred, {"Range": value})
    error(r, 416, "UNKNOWN")
    assert r.json() == {"code": "UNKNOWN"}
    empty_ok(execd.get("/ping"))  # the connection is in order


@pytest.mark.parametrize("value", ["bytes=0-", "bytes=-5", "bytes=5-9", "bytes=0-0"])
def test_range_of_an_empty_file(execd, tmp_path, value):
    (tmp_path / "e").touch()
    r = download(execd, tmp_path / "e", {"Range": value})
    assert r.status_code == 200 and r.content == b""


def test_range_in_a_large_file(execd, tmp_path):
    f = tmp_path / "sparse"
    with open(f, "wb") as out:
        out.seek(5_000_000_000)
        out.write(b"the end")
    r = download(execd, f, {"Range": "bytes=4999999999-"})
    assert r.status_code == 206 and r.content == b"\0the end"
    assert r.headers["Content-Range"] == "bytes 4999999999-5000000006/5000000007"
    assert download(execd, f, {"Range": "bytes=-3"}).content == b"end"


def test_conditionals(execd, hundred):
    when = download(execd, hundred).headers["Last-Modified"]
    r = download(execd, hundred, {"If-Modified-Since": when})
    assert r.status_code == 304 and r.content == b""
    r = download(execd, hundred, {"If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"})
    assert r.status_code == 200
    assert download(execd, hundred, {"If-Modified-Since": "rubbish"}).status_code == 200
    r = download(execd, hundred, {"Range": "bytes=0-1", "If-Range": "Thu, 01 Jan 1970 00:00:00 GMT"})
    assert r.status_code == 206
    r = download(execd, hundred, {"Range": "bytes=0-1", "If-Modified-Since": when})
    assert r.status_code == 206


@pytest.mark.parametrize("name,want", [
    ("a b.txt", 'attachment; filename="a b.txt"'),
    ('say "hi".txt', 'attachment; filename="say \\"hi\\".txt"'),
    ("back\\slash", 'attachment; filename="back\\\\slash"'),
    ("ü.txt", "attachment; filename=\"%C3%BC.txt\"; filename*=UTF-8''%C3%BC.txt"),
    ("new\nline", "attachment; filename=\"new%0Aline\"; filename*=UTF-8''new%0Aline"),
    ("x\r\nSet-Cookie: a=b", "attachment; filename=\"x%0D%0ASet-Cookie%3A%20a%3Db\"; "
                             "filename*=UTF-8''x%0D%0ASet-Cookie%3A%20a%3Db"),
    ("$HOME", 'attachment; filename="$HOME"')])
def test_names(execd, tmp_path, name, want):
    (tmp_path / name).write_text("x")
    r = download(execd, tmp_path / name)
    assert r.content == b"x"
    assert r.headers["Content-Disposition"] == want
    assert "Set-Cookie" not in r.headers


def test_invalid_utf8_name(execd, tmp_path):
    raw = os.fsencode(str(tmp_path)) + b"/\xff\xfe"
    with open(raw, "w") as f:
        f.write("x")
    r = execd.get("/files/download?path=" + quote(raw))
    assert r.content == b"x"
    assert r.headers["Content-Disposition"] == \
        "attachment; filename=\"%FF%FE\"; filename*=UTF-8''%EF%BF%BD%EF%BF%BD"


def test_proc_files_are_not_empty(execd):
    r = download(execd, "/proc/version")
    with open("/proc/version", "rb") as f:
        assert r.content == f.read()
    assert r.headers["Content-Length"] == str(len(r.content))


# ---- lines ----

@pytest.mark.parametrize("text,params,want", [
    (b"a\nb\nc\n", {"offset": 1, "limit": 2}, b"a\nb"), (b"a\nb\nc\n", {"offset": 2}, b"b\nc"),
    (b"a\nb\nc\n", {"limit": 1}, b"a"), (b"a\nb\nc", {"offset": 3, "limit": 5}, b"c"),
    (b"a\nb\n", {"offset": 3, "limit": 1}, b""), (b"a\nb\n", {"offset": 99}, b""),
    (b"", {"offset": 1}, b""), (b"a\r\nb\r\r\nc\r", {"offset": 1}, b"a\nb\nc"),
    (b"\n\nx\n", {"offset": 1, "limit": 3}, b"\n\nx"), (b"\xff\n\0\n", {"offset": 1}, b"\xff\n\0"),
    (b"x\n" * 10, {"offset": 1, "limit": 99999999999999}, b"\n".join([b"x"] * 10))])
def test_lines(execd, tmp_path, text, params, want):
    (tmp_path / "f").write_bytes(text)
    r = download(execd, tmp_path / "f", **params)
    assert r.status_code == 200 and r.content == want
    assert r.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert r.headers["Content-Length"] == str(len(want))


@pytest.mark.parametrize("name", ["offset", "limit"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "99999999999999999999999"])
def test_lines_bad_numbers(execd, hundred, name, value):
    r = download(execd, hundred, **{name: value})
    assert error(r, 400, "INVALID_REQUEST_BODY") == f"invalid query parameter '{name}': {value}"


def test_lines_and_range(execd, hundred):
    r = download(execd, hundred, {"Range": "bytes=0-1"}, offset=1)
    error(r, 400, "INVALID_REQUEST_BODY", "mutually exclusive")


def test_lines_errors(execd, tmp_path):
    error(download(execd, tmp_path / "no", offset=1), 404, "FILE_NOT_FOUND", "file not found. ")
    error(download(execd, tmp_path, offset=1), 400, "INVALID_FILE")


def test_lines_of_a_large_file_in_flat_memory(execd, tmp_path):
    f = tmp_path / "big"
    lines = 400_000
    f.write_bytes(b"".join(b"line %d with some text behind it to make it longer\r\n" % i for i in range(lines)))
    want = f.read_bytes().replace(b"\r\n", b"\n")[:-1]
    before = execd.rss_kb()
    r = download(execd, f, offset=1)
    assert r.content == want
    r = download(execd, f, offset=lines, limit=1)
    assert r.content == b"line %d with some text behind it to make it longer" % (lines - 1)
    assert execd.rss_kb() < before + 3072 or execd.sanitized()


def test_one_endless_line(execd, tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"\rx" * 3_000_000 + b"\r\nsecond\n")
    r = download(execd, f, limit=1)
    assert r.content == b"\rx" * 3_000_000


# ---- large, and clients that vanish ----

def test_hundred_megabytes_in_flat_memory(execd, tmp_path):
    f = tmp_path / "big"
    block = os.urandom(1_000_000)
    f.write_bytes(block * 100)
    before, peaks = execd.rss_kb(), []
    with execd.get("/files/download", params={"path": str(f)}, stream=True) as r:
        n = 0
        for piece in r.iter_content(1_000_000):
            assert piece == block
            n += 1
            peaks.append(execd.rss_kb())
    assert n == 100
    assert max(peaks) < before + 2048 or execd.sanitized()


@pytest.mark.parametrize("params", ["", "&offset=1"])
@pytest.mark.parametrize("read", [0, 1, 100_000])
def test_client_vanishes(execd, tmp_path, read, params):
    f = tmp_path / "big"
    f.write_bytes(b"some line of text\n" * 1_000_000)
    fds = execd.fds()
    for _ in range(5):
        s = socket.create_connection(("127.0.0.1", execd.port))
        s.sendall(f"GET /files/download?path={quote(str(f))}{params} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        got = 0
        while got < read:
            got += len(s.recv(read - got))
        s.close()
    wait_for(lambda: execd.fds() <= fds, "closing descriptors")
    empty_ok(execd.get("/ping"))


def test_client_that_does_not_read_costs_nothing(execd, tmp_path):
    f = tmp_path / "big"
    f.write_bytes(b"x" * 50_000_000)
    before = execd.rss_kb()
    conns = []
    for params in ["", "&offset=1"] * 5:
        s = socket.create_connection(("127.0.0.1", execd.port))
        s.sendall(f"GET /files/download?path={quote(str(f))}{params} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        conns.append(s)
    for s in conns:
        s.recv(1)
    empty_ok(execd.get("/ping"))
    assert execd.rss_kb() < before + 8192 or execd.sanitized()
    for s in conns:
        s.close()


def test_file_shrinks_while_it_is_sent(execd, tmp_path):
    """The length was promised: the connection breaks off, so that nobody takes it for the whole."""
    f = tmp_path / "f"
    f.write_bytes(b"x" * 30_000_000)
    s = socket.create_connection(("127.0.0.1", execd.port))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    s.sendall(f"GET /files/download?path={quote(str(f))} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    s.recv(1000)
    os.truncate(f, 10)
    s.settimeout(60)
    n = 0
    try:
        while data := s.recv(1_000_000):
            n += len(data)
    except ConnectionResetError:
        pass
    assert n < 30_000_000
    s.close()
    empty_ok(execd.get("/ping"))


def test_replaced_while_it_is_sent(execd, tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"old" * 5_000_000)
    with execd.get("/files/download", params={"path": str(f)}, stream=True) as r:
        next(r.iter_content(10))
        (tmp_path / "g").write_bytes(b"new")
        os.rename(tmp_path / "g", f)
        data = b"".join(r.iter_content(1_000_000))
    assert set(data) == set(b"old")


def test_many_at_once(execd, tmp_path):
    f = tmp_path / "f"
    f.write_bytes(os.urandom(2_000_000))
    want, bad = f.read_bytes(), []

    def one():
        out = subprocess.run(["curl", "-sS", f"{execd.url}/files/download?path={quote(str(f))}"],
                             capture_output=True, timeout=60)
        if out.stdout != want:
            bad.append(out.stderr)

    threads = [threading.Thread(target=one) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad


def test_hanging_file_does_not_hold_up_others(execd, tmp_path):
    """Opening happens in a worker: a FIFO or slow file system cannot stop the loop."""
    os.mkfifo(tmp_path / "p")
    start = time.monotonic()
    error(download(execd, tmp_path / "p"), 400, "INVALID_FILE")
    assert time.monotonic() - start < 30
