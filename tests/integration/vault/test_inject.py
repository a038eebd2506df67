"""Credentials on their way: every kind of auth, every client, every way a request can look."""

import base64
import hashlib
import json
import os
import ssl
import subprocess

import pytest
from vaultnet import GOOD, PY, SANITIZED, bind, headers_of

SECRET = "s3cret-Value/+="


def bearer(name="t"):
    return {"type": "bearer", "credential": name}


@pytest.fixture
def api(net):
    net.vault({"t": SECRET}, [bind("api", "api.example.com", bearer())])
    return net


def test_bearer(api):
    a = api.curl("https://api.example.com/v1/x?y=1")
    assert headers_of(a, "authorization") == ["Bearer " + SECRET]
    assert a["target"] == "/v1/x?y=1"


def test_client_header_is_replaced(api):
    a = api.curl("https://api.example.com/", "-H", "authorization: Bearer mine", "-H", "X-Other: kept")
    assert headers_of(a, "authorization") == ["Bearer " + SECRET]
    assert headers_of(a, "x-other") == ["kept"]


def test_other_auth_types(net):
    basic = base64.b64encode(b"user:pass").decode()
    net.vault({"b": basic, "k": "key-1", "x": "x-1", "y": "y-1"}, [
        bind("basic", "api.example.com", {"type": "basic", "credential": "b"}, paths=["/basic"]),
        bind("key", "api.example.com", {"type": "apiKey", "name": "x-api-key", "credential": "k"}, paths=["/key"]),
        bind("custom", "*.wild.example", {"type": "customHeaders", "headers": [
            {"name": "X-One", "credential": "x"}, {"name": "PRIVATE-TOKEN", "credential": "y"}]}),
    ])
    assert headers_of(net.curl("https://api.example.com/basic"), "authorization") == ["Basic " + basic]
    assert headers_of(net.curl("https://api.example.com/key"), "x-api-key") == ["key-1"]
    a = net.curl("https://x.wild.example/")
    assert headers_of(a, "x-one") == ["x-1"] and headers_of(a, "private-token") == ["y-1"]
    assert headers_of(net.curl("https://api.example.com/none"), "authorization") == []


def test_only_what_matches(net):
    net.vault({"t": SECRET}, [bind("api", "api.example.com", bearer(), paths=["/v1/*"], methods=["GET"])])
    assert headers_of(net.curl("https://api.example.com/v1/a"), "authorization")
    assert not headers_of(net.curl("https://api.example.com/v2/a"), "authorization")
    assert not headers_of(net.curl("https://api.example.com/v1/a", "-d", "x"), "authorization")


def test_plain_http(net):
    net.vault({"t": SECRET}, [bind("p", "plain.example.com", bearer(), schemes=["http"], ports=[80])])
    assert headers_of(net.curl("http://plain.example.com/"), "authorization") == ["Bearer " + SECRET]
    assert not headers_of(net.curl("http://other.example.net/"), "authorization")
    assert not headers_of(net.curl("https://plain.example.com/"), "authorization")


def test_substitution(net):
    subs = [{"credential": "t", "placeholder": "__TOKEN__", "in": ["path", "query", "header", "body"]}]
    net.vault({"t": SECRET}, [bind("s", "api.example.com", {"type": "passthrough", "substitutions": subs})])
    enc = "s3cret-Value%2F%2B%3D"
    a = net.curl("https://api.example.com/bot__TOKEN__/x?key=__TOKEN__&z=1", "-H", "X-Key: a __TOKEN__ b")
    assert a["target"] == f"/bot{enc}/x?key={enc}&z=1"
    assert headers_of(a, "x-key") == [f"a {SECRET} b"]
    a = net.curl("https://api.example.com/", "-d", "a=__TOKEN__&b=1")
    assert a["body"] == f"a={enc}&b=1" and headers_of(a, "content-length") == [str(len(a["body"]))]
    a = net.curl("https://api.example.com/", "-H", "Content-Type: application/json", "-d", '{"k":"__TOKEN__"}')
    assert json.loads(a["body"]) == {"k": SECRET}
    # Longer than what is collected: the length is not known in advance, so it goes in chunks.
    big = net.dir / "big"
    big.write_bytes(b"x" * 65530 + b"__TOKEN__" + b"y" * 200000 + b"__TOKEN__")
    a = net.curl("https://api.example.com/", "-H", "Content-Type: text/plain", "-H", "Expect:", "--data-binary", f"@{big}")
    want = big.read_bytes().replace(b"__TOKEN__", SECRET.encode())
    assert a["n"] == len(want) and a["sha256"] == hashlib.sha256(want).hexdigest()
    a = net.curl("https://api.example.com/", "-F", "f=__TOKEN__")
    assert "__TOKEN__" in a["body"]
    # Not bound, not replaced.
    assert "__TOKEN__" in net.curl("https://code.example.com/?k=__TOKEN__")["target"]


def test_redaction_and_no_quic(api):
    r = api.client("curl", "-sS", "-D", "-", "-o", "/dev/null", "https://api.example.com/reflect")
    assert "X-Reflected: a [REDACTED] b" in r.stdout and SECRET not in r.stdout
    assert "alt-svc" not in r.stdout.lower()


def test_a_secret_that_is_a_length(net):
    net.vault({"t": "7"}, [bind("api", "api.example.com", bearer())])
    assert net.client("curl", "-sS", "https://api.example.com/download/7").stdout == "\0" * 7


def test_streaming_and_trailers(api):
    r = api.client("curl", "-sS", "-N", "-v", "https://api.example.com/stream")
    assert r.stdout == "data: 0\ndata: 1\ndata: 2\n"
    assert SECRET not in r.stderr


def test_upload_chunked_and_expect(api):
    data = os.urandom(3 << 20)
    (api.dir / "up").write_bytes(data)
    for args in (["-T", str(api.dir / "up")], ["-T", str(api.dir / "up"), "-H", "Transfer-Encoding: chunked"],
                 ["-T", str(api.dir / "up"), "-H", "Expect: 100-continue"]):
        a = api.curl("https://api.example.com/up", *args)
        assert a["n"] == len(data) and a["sha256"] == hashlib.sha256(data).hexdigest()
        assert headers_of(a, "authorization") == ["Bearer " + SECRET]


def test_early_answer(api):
    """The server refuses, closes and resets while the client still uploads; the client learns why."""
    (api.dir / "early").write_bytes(bytes(3 << 20))
    for _ in range(3):
        r = api.client("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Expect:", "-T",
                       str(api.dir / "early"), "https://api.example.com/early", check=False)
        assert r.stdout.startswith("413")


def test_large_both_ways(api):
    """200 MB through TLS on both sides, in memory that does not grow with it."""
    n = 200 << 20
    r = api.client(PY, "-c", f"""
import http.client, ssl, json
c = http.client.HTTPSConnection("api.example.com")
block = bytes(1 << 20)
c.request("PUT", "/up", (block for _ in range({n} >> 20)), {{"Content-Length": "{n}"}})
print(json.load(c.getresponse())["n"])
c.request("GET", "/download/{n}")
a = c.getresponse(); t = 0
while (b := a.read(1 << 20)): t += len(b)
print(t)
""", timeout=170)
    assert r.stdout.split() == [str(n), str(n)]
    assert SANITIZED or api.rss_kb() < 64 << 10


def test_keep_alive_uses_one_connection(api):
    r = api.client("curl", "-sS", *["https://api.example.com/"] * 5)
    answers = [json.loads(x) for x in r.stdout.splitlines()]
    assert len({a["conn"] for a in answers}) == 1 and len(answers) == 5
    assert all(headers_of(a, "authorization") == ["Bearer " + SECRET] for a in answers)


def test_websocket(api):
    s = tls(api, "api.example.com", alpn=["http/1.1"])
    s.sendall(b"GET /ws HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
              b"Sec-WebSocket-Key: x\r\n\r\nearly")
    got = b""
    while not got.endswith(b"early"):
        got += s.recv(4096)
    assert got.startswith(b"HTTP/1.1 101")
    s.sendall(b"more")
    assert s.recv(4096) == b"more"
    s.close()


def tls(net, name, alpn=None, cafile=None, verify=True):
    ctx = ssl.create_default_context(cafile=str(cafile or net.bundle))
    if not verify:
        ctx.check_hostname = False
        ctx.verify_mode = ssl.CERT_NONE
    if alpn:
        ctx.set_alpn_protocols(alpn)
    return ctx.wrap_socket(net.socket("c", (GOOD, 443)), server_hostname=name)


def test_http2_is_refused_by_alpn(api):
    s = tls(api, "api.example.com", alpn=["h2", "http/1.1"])
    assert s.selected_alpn_protocol() == "http/1.1"
    s.close()
    with pytest.raises(ssl.SSLError):
        tls(api, "api.example.com", alpn=["h2"])


def test_requests_node_git(api, tmp_path):
    r = api.client(PY, "-c", "import requests; s = requests.Session(); "
                   "print(s.get('https://api.example.com/a').text); print(s.post('https://api.example.com/b', json={'a': 1}).text)")
    answers = [json.loads(x) for x in r.stdout.splitlines() if x]
    assert all(headers_of(a, "authorization") == ["Bearer " + SECRET] for a in answers) and len(answers) == 2
    r = api.client("node", "-e", "fetch('https://api.example.com/n', {method: 'POST', body: 'x'.repeat(100000)})"
                   ".then(r => r.text()).then(t => console.log(t))")
    a = json.loads(r.stdout)
    assert headers_of(a, "authorization") == ["Bearer " + SECRET] and a["n"] == 100000


def test_git(net, tmp_path):
    """Clone over HTTPS from a plain file server that wants a credential."""
    net.vault({"t": SECRET}, [bind("g", "code.example.com", bearer())])
    work, bare = tmp_path / "w", tmp_path / "srv" / "r.git"
    env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
    sh = lambda *a, **k: subprocess.run(a, check=True, capture_output=True, env=env, **k)  # noqa: E731
    sh("git", "init", "-q", str(work))
    (work / "f").write_text("content\n")
    sh("git", "-C", str(work), "add", "f")
    sh("git", "-C", str(work), "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x")
    sh("git", "clone", "-q", "--bare", str(work), str(bare))
    sh("git", "-C", str(bare), "update-server-info")
    net.enter("s", "ip", "addr", "replace", "203.0.113.12/24", "dev", "eth0")
    code = f"""
import http.server, ssl, os
os.chdir({str(bare.parent)!r})
class H(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Authorization") != "Bearer {SECRET}":
            self.send_response(401); self.send_header("Content-Length", "0"); self.end_headers(); return
        super().do_GET()
s = http.server.ThreadingHTTPServer(("203.0.113.12", 443), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain({str(net.dir / 'good.crt')!r}, {str(net.dir / 'good.key')!r})
s.socket = c.wrap_socket(s.socket, server_side=True)
print("ready", flush=True); s.serve_forever()
"""
    p = net.popen("s", PY, "-c", code, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert p.stdout.readline() == "ready\n"
    net.client("git", "-c", "http.curloptResolve=code.example.com:443:203.0.113.12", "clone", "-q",
               "https://code.example.com/r.git", str(tmp_path / "out"), env={"GIT_CONFIG_GLOBAL": "/dev/null"})
    assert (tmp_path / "out" / "f").read_text() == "content\n"
    p.kill()
    p.wait()


def test_many_requests_do_not_grow(api):
    code = """
import http.client, sys
for _ in range(4):
    c = http.client.HTTPSConnection("api.example.com")
    for i in range(250):
        c.request("GET", "/%d" % i)
        assert c.getresponse().read()
    c.close()
for _ in range(30):
    c = http.client.HTTPSConnection("api.example.com"); c.request("GET", "/"); c.getresponse().read(); c.close()
"""
    api.client(PY, "-c", code)
    rss, fds = api.rss_kb(), api.n_fds()
    api.client(PY, "-c", code)
    api.client(PY, "-c", code)
    assert SANITIZED or api.rss_kb() - rss < 1024
    assert api.n_fds() <= fds + 4


def test_nothing_secret_in_the_log(api):
    log = api.read_log()
    assert "credential injected" in log
    assert SECRET not in log and "s3cret" not in log and "x-1" not in log
    env = open(f"/proc/{api.sidecar.pid}/environ").read()
    assert "s3cret" not in env


