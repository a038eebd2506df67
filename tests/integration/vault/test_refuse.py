"""What must not happen: a secret for the wrong peer, two readings of one message, a look into what has
no binding."""

import hashlib
import json
import socket
import ssl

import pytest
from vaultnet import BAD, GOOD, PY, bind, headers_of

SECRET = "s3cret-Value"


@pytest.fixture(scope="module")
def api(net):
    net.vault({"t": SECRET}, [
        bind("api", "api.example.com", {"type": "bearer", "credential": "t"}, paths=["/v1/*"]),
        bind("bad", "bad.example.com", {"type": "bearer", "credential": "t"}),
        bind("wild", "*.wild.example", {"type": "bearer", "credential": "t"}),
    ])
    return net


def tls(net, name, address=GOOD, ca=None):
    ctx = ssl.create_default_context(cafile=str(ca or net.bundle))
    return ctx.wrap_socket(net.socket("c", (address, 443)), server_hostname=name)


def talk(net, raw, name="api.example.com"):
    """Everything that comes back until the other side closes."""
    s = tls(net, name)
    s.sendall(raw)
    s.settimeout(20)
    got = b""
    try:
        while data := s.recv(65536):
            got += data
    except OSError:
        pass
    s.close()
    return got


def test_host_and_sni_must_agree(api):
    for host in (b"x.wild.example", b"other.example.net", b"api.example.com.evil.net", b"api.example.com:8443", GOOD.encode()):
        got = talk(api, b"GET /v1/x HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 421 "), got
        assert SECRET.encode() not in got
    got = talk(api, b"GET https://x.wild.example/v1/x HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 400 ")
    got = talk(api, b"GET http://api.example.com/v1/x HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 400 ")
    assert "host_mismatch" in api.read_log()
    # The very name in another spelling is the same name.
    got = talk(api, b"GET /v1/x HTTP/1.1\r\nHost: API.example.com.:443\r\nConnection: close\r\n\r\n")
    assert SECRET.encode() in got


def test_hosts_without_binding_are_not_opened(api):
    """A client that pins the server's own authority never meets ours."""
    s = tls(api, "other.example.net", ca=api.dir / "ca.crt")
    want = ssl.PEM_cert_to_DER_cert((api.dir / "good.crt").read_text())
    assert hashlib.sha256(s.getpeercert(True)).digest() == hashlib.sha256(want).digest()
    # Fronting: the name in the hello has no binding, so nothing is put in, whatever Host says.
    s.sendall(b"GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n")
    got = b""
    while data := s.recv(65536):
        got += data
    assert b"200 OK" in got and SECRET.encode() not in got
    with pytest.raises(ssl.SSLCertVerificationError):
        tls(api, "api.example.com", ca=api.dir / "ca.crt")


def test_no_server_name_is_not_opened(api):
    ctx = ssl.create_default_context(cafile=str(api.dir / "ca.crt"))
    ctx.check_hostname = False
    s = ctx.wrap_socket(api.socket("c", (GOOD, 443)))
    s.sendall(b"GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n")
    got = b""
    while data := s.recv(65536):
        got += data
    assert b"200 OK" in got and SECRET.encode() not in got


def test_bad_upstream_certificate(api):
    r = api.client("curl", "-sS", "-w", "%{http_code}", "https://bad.example.com/")
    assert r.stdout.endswith("502") and "certificate" in r.stdout and SECRET not in r.stdout
    # The right name at an address whose certificate is for another: the same.
    r = api.client("curl", "-sS", "-w", "%{http_code}", "--resolve", f"api.example.com:443:{BAD}", "https://api.example.com/v1/x")
    assert r.stdout.endswith("502")


SMUGGLING = [
    b"POST /v1/x HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/evil HTTP/1.1\r\n",
    b"POST /v1/x HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    b"POST /v1/x HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: +5\r\n\r\nhello",
    b"POST /v1/x HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/x HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/x HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
    b"GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\nHost: x.wild.example\r\n\r\n",
    b"GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\nX: a\n\r\n\r\n",
    b"GET /v1/x HTTP/1.1\nHost: api.example.com\n\n",
    b"GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\nX: a\r\n b\r\n\r\n",
    b"GET /v1/x HTTP/1.1\r\n\r\n",
    b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
    b"TRACE /v1/x HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@pytest.mark.parametrize("raw", SMUGGLING, ids=range(len(SMUGGLING)))
def test_smuggling(api, raw):
    got = talk(api, raw)
    assert got.startswith(b"HTTP/1.1 4") or got.startswith(b"HTTP/1.1 5"), got
    assert SECRET.encode() not in got and got.count(b"HTTP/1.1 ") == 1


def test_malformed_chunks_end_the_connection(api):
    got = talk(api, b"POST /v1/x HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: chunked\r\n\r\n"
                    b"5\r\nhelloXX0\r\n\r\nGET /v1/evil HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
    assert b"evil" not in got and SECRET.encode() not in got


def test_upgrade_to_http2_is_dropped(api):
    got = talk(api, b"GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
                    b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
    a = json.loads(got.split(b"\r\n\r\n", 1)[1])
    assert not headers_of(a, "upgrade") and not headers_of(a, "http2-settings")


@pytest.mark.parametrize("path", ["/v1/../admin", "/v1/%2e%2e/admin", "/v1/.%2E/x", "/v1/a%2fb", "/v1/a\\b", "/v1/..;/x", "/v1/."])
def test_confusing_paths(api, path):
    got = talk(api, b"GET " + path.encode() + b" HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 400 ") and SECRET.encode() not in got


def test_dots_inside_names_are_fine(api):
    got = talk(api, b"GET /v1/a..b/...x/.well-known HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n")
    assert b"200 OK" in got and SECRET.encode() in got


def test_pipelined_requests_are_judged_one_by_one(api):
    got = talk(api, b"GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
                    b"GET /v2/y HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
                    b"GET /v1/z HTTP/1.1\r\nHost: x.wild.example\r\n\r\n")
    assert got.count(b"HTTP/1.1 200 OK") == 2 and b"HTTP/1.1 421 " in got
    assert got.count(b"Bearer " + SECRET.encode()) == 1


def test_policy_is_asked_at_every_request(api):
    """A binding may outlive its rule through an overlay; injection then stops. Through the API it cannot."""
    status, body = api.api("DELETE", "/policy", ["api.example.com"])
    assert status == 400 and "credential vault policy validation" in body
    assert api.api("POST", "/policy", "")[0] == 400
    assert api.api("GET", "/policy")[1]["policy"]["egress"][0]["target"] == "api.example.com"


def test_garbage_is_passed_on(api):
    """Not TLS and not HTTP on a port that is looked at: bytes both ways."""
    s = api.socket("c", (GOOD, 80))
    s.sendall(b"\x00\x01nonsense\r\n\r\n\r\n\r\n")
    s.shutdown(socket.SHUT_WR)
    while s.recv(4096):
        pass
    s.close()


def test_our_port_is_no_open_proxy(api):
    """Who was not redirected is not served."""
    with pytest.raises(OSError):
        s = api.socket("g", ("127.0.0.1", 18081))
        s.sendall(b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
        if not s.recv(100):
            raise OSError
    with pytest.raises(OSError):
        s = api.socket("c", ("10.77.0.1", 18081), timeout=2)


def test_many_half_open_clients(api):
    """Clients that stop in the middle of anything leave nothing behind."""
    fds = api.n_fds()
    for i in range(20):
        s = api.socket("c", (GOOD, 443))
        s.sendall(b"\x16\x03\x01"[:1 + i % 3])
        s.close()
    for cut in (0, 20, 60):
        raw = b"POST /v1/x HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 1000\r\n\r\nabc"
        s = tls(api, "api.example.com")
        s.sendall(raw[:cut] if cut else raw)
        s.close()
    assert api.client(PY, "-c", "import requests; print(requests.get('https://api.example.com/v1/x').status_code)").stdout == "200\n"
    import time
    deadline = time.monotonic() + 30
    while api.n_fds() > fds + 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert api.n_fds() <= fds + 2
