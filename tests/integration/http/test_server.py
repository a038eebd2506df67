"""The server with clients that people use: curl, requests, and many of them at once."""

import concurrent.futures
import hashlib
import os
import subprocess
import time

import pytest
import requests

from conftest import TIMEOUT, Demo


def url(demo, path):
    return f"http://127.0.0.1:{demo.port}{path}"


def curl(*args, data=None):
    r = subprocess.run(["curl", "-sS", "--max-time", "60", *args], input=data, capture_output=True, check=True)
    return r.stdout


@pytest.fixture(scope="module")
def blob(tmp_path_factory):
    path = tmp_path_factory.mktemp("http") / "blob"
    path.write_bytes(os.urandom(5 << 20))
    return path


def digest(data):
    return hashlib.sha256(data).hexdigest()


def test_curl_upload_waits_for_the_invitation(demo, blob):
    """curl sends Expect: 100-continue for a body of this size; it would wait a second without an answer."""
    out = subprocess.run(
        ["curl", "-sv", "--expect100-timeout", "30", "-H", "Expect: 100-continue", "--data-binary", f"@{blob}",
         url(demo, "/sink")], capture_output=True, check=True, timeout=60)
    assert out.stdout == b"%d" % blob.stat().st_size
    assert b"100 Continue" in out.stderr


@pytest.mark.parametrize("headers", [[], ["-H", "Transfer-Encoding: chunked"]])
def test_curl_echo(demo, blob, headers):
    out = curl("-H", "Expect:", *headers, "--data-binary", f"@{blob}", url(demo, "/echo"))
    assert digest(out) == digest(blob.read_bytes())


def test_curl_ranges(demo, blob):
    data = blob.read_bytes()
    target = url(demo, f"/file?path={blob}")
    assert curl(target) == data
    assert curl("-r", "100-199", target) == data[100:200]
    assert curl("-r", "-7", target) == data[-7:]
    head = curl("-I", target).decode()
    assert f"Content-Length: {len(data)}" in head


def test_curl_resumes_a_download(demo, blob, tmp_path):
    part = tmp_path / "part"
    part.write_bytes(blob.read_bytes()[:1000])
    curl("-C", "-", "-o", str(part), url(demo, f"/file?path={blob}"))
    assert part.read_bytes() == blob.read_bytes()


def test_curl_http10(demo):
    assert curl("--http1.0", url(demo, "/bytes/10?chunked=1")) == b"\0" * 10


def test_session_keeps_its_connection(demo):
    with requests.Session() as s:
        for i in range(50):
            assert s.get(url(demo, "/hello"), timeout=TIMEOUT).text == "Hello, World!"
            assert s.post(url(demo, "/work"), data=b"x" * i, timeout=TIMEOUT).content == b"x" * i
            assert s.get(url(demo, "/nowhere"), timeout=TIMEOUT).status_code == 404
        pool = s.get_adapter("http://").poolmanager.connection_from_host("127.0.0.1", demo.port)
        assert pool.num_connections == 1


def test_events_arrive_one_by_one(demo):
    with requests.get(url(demo, "/sse?n=3"), stream=True, timeout=TIMEOUT) as r:
        assert r.headers["Content-Type"] == "text/event-stream"
        lines = [line for line in r.iter_lines() if line]
    assert lines == [b"event: tick", b'data: {"n":0}', b"event: tick", b'data: {"n":1}', b"event: tick", b'data: {"n":2}']


def test_leaving_an_event_stream_is_noticed(start_demo):
    demo = start_demo()
    r = requests.get(url(demo, "/sse"), stream=True, timeout=TIMEOUT)
    next(r.iter_lines())
    r.close()
    deadline = time.monotonic() + TIMEOUT
    while not any("left by its client" in line for line in demo.errors) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert any("left by its client" in line for line in demo.errors)


def test_many_at_once_on_several_loops(start_demo, blob):
    demo = start_demo("--loops", "2")
    data = blob.read_bytes()[: 1 << 20]

    def one(i):
        path, want = [
            ("/hello", b"Hello, World!"), ("/bytes/100000", b"\0" * 100000), ("/work-stream?n=100000", b"\0" * 100000),
        ][i % 3]
        assert requests.get(url(demo, path), timeout=60).content == want
        assert requests.post(url(demo, "/echo"), data=data, timeout=60).content == data

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(one, range(60)))


def test_terminates_while_busy():
    demo = Demo()
    streams = [requests.get(url(demo, "/sse"), stream=True, timeout=TIMEOUT) for _ in range(5)]
    demo.stop()
    for s in streams:
        s.close()
