"""The same server behind TLS."""

import hashlib
import os
import socket
import ssl
import subprocess
import time

import pytest

from conftest import TIMEOUT, Demo, read_all, statuses

GET = b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def cert(tmp_path_factory):
    d = tmp_path_factory.mktemp("tls")
    cert, key = str(d / "cert.pem"), str(d / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )
    return cert, key


@pytest.fixture(scope="module")
def secure(cert):
    d = Demo("--cert", cert[0], "--key", cert[1], "--head-ms", "2000")
    yield d
    d.stop()


def connect(demo, cert):
    ctx = ssl.create_default_context(cafile=cert[0])
    ctx.set_alpn_protocols(["h2", "http/1.1"])
    return ctx.wrap_socket(demo.connect(), server_hostname="127.0.0.1")


def test_hello(secure, cert):
    with connect(secure, cert) as s:
        assert s.selected_alpn_protocol() == "http/1.1"
        s.sendall(GET)
        assert read_all(s).endswith(b"Hello, World!")


def test_keep_alive_and_pipelining(secure, cert):
    with connect(secure, cert) as s:
        s.sendall(b"GET /bytes/5 HTTP/1.1\r\nHost: a\r\n\r\n" * 100 + GET)
        assert statuses(read_all(s)) == [200] * 101


def test_large_bodies(secure, cert):
    data = os.urandom(5 << 20)
    with connect(secure, cert) as s:
        s.settimeout(60)
        s.sendall(b"POST /sink HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(data) + data)
        assert read_all(s).endswith(b"\r\n\r\n%d" % len(data))


@pytest.mark.parametrize("path", ["/bytes/8388608", "/bytes/8388608?chunked=1", "/work-stream?n=8388608"])
def test_large_download_by_a_slow_reader(secure, cert, path):
    """The socket is full again and again, in the middle of records."""
    with connect(secure, cert) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        time.sleep(0.2)
        out = read_all(s)
    assert statuses(out[:200]) == [200]
    assert out.count(b"\0") == 8388608


def test_file(secure, cert, tmp_path):
    data = os.urandom(3 << 20)
    (tmp_path / "file").write_bytes(data)
    with connect(secure, cert) as s:
        s.sendall(f"GET /file?path={tmp_path}/file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        body = read_all(s).split(b"\r\n\r\n", 1)[1]
    assert hashlib.sha256(body).digest() == hashlib.sha256(data).digest()


def test_refusal_is_seen(secure, cert):
    with connect(secure, cert) as s:
        s.sendall(b"GET / HTTP/1.1\nHost: a\n\n")
        assert statuses(read_all(s)) == [400]


def test_plain_client(secure):
    """Speaking HTTP to it ends the connection, not the server."""
    with secure.connect() as s:
        s.sendall(GET)
        assert b"HTTP/1.1 200" not in read_all(s)


def test_handshake_never_comes(secure, cert):
    with secure.connect() as s:
        s.settimeout(TIMEOUT)
        assert read_all(s) == b""
    with connect(secure, cert) as s:
        s.sendall(GET)
        assert statuses(read_all(s)) == [200]


def test_client_leaves_in_the_handshake(secure, cert):
    for n in (0, 1, 5, 50):
        s = secure.connect()
        s.sendall((b"\x16\x03\x01\x02\x00\x01" + b"\0" * 60)[:n])
        s.shutdown(socket.SHUT_RDWR)
        s.close()
    with connect(secure, cert) as s:
        s.sendall(GET)
        assert statuses(read_all(s)) == [200]
