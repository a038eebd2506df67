"""Servers whose names have an IPv6 address too, where nobody answers: clients see their connection accepted, so it is
the interceptor that has to try the other address, and only one that the sandbox may use."""

import json
import subprocess
import time

import pytest
import vaultnet
from vaultnet import GOOD, PY, SERVER, bind, headers_of

PREFIX = "2001:db8:9::"
ROUTER6, REFUSES, REFUSES_TOO, UNNAMED = (PREFIX + x for x in ("10", "11", "12", "13"))
SILENT = "2001:db8:bad::1"  # nobody says anything at all
INNER, RESOLVER = "10.88.0.10", "8.8.8.8"
RECORDS = {"api.example.com": (GOOD, REFUSES), "code.example.com": (GOOD, SILENT), "plain.example.com": (GOOD, REFUSES_TOO),
           "x.wild.example": (REFUSES,), "inner.example.com": (INNER, PREFIX + "21"), "doh.example.com": (RESOLVER, PREFIX + "22")}
ALLOWED = ["api.example.com", "code.example.com", "plain.example.com", "*.wild.example", "inner.example.com",
           "doh.example.com", INNER, PREFIX + "13"]
SECRET = "families-secret"
BEARER = {"type": "bearer", "credential": "t"}


class Net(vaultnet.Net):
    def _network(self):
        super()._network()
        for ns, link, *addresses in (("c", "eth0", "2001:db8:77::2/64"), ("g", "inside", "2001:db8:77::1/64"), ("g", "outside", PREFIX + "1/64"),
                                     ("s", "eth0", *(f"{a}/64" for a in (ROUTER6, REFUSES, REFUSES_TOO, UNNAMED,
                                                                         PREFIX + "21", PREFIX + "22")))):
            for a in addresses:
                vaultnet.run("ip", "-n", self.ns[ns], "addr", "add", a, "dev", link, "nodad")
        vaultnet.run("ip", "-n", self.ns["c"], "-6", "route", "add", "default", "via", "2001:db8:77::1")
        vaultnet.run("ip", "-n", self.ns["g"], "-6", "route", "add", "default", "via", ROUTER6)
        vaultnet.run("ip", "-n", self.ns["s"], "-6", "route", "add", "blackhole", SILENT)
        self.enter("g", "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        for a in (INNER, RESOLVER):
            vaultnet.run("ip", "-n", self.ns["s"], "addr", "add", f"{a}/32", "dev", "lo")
            vaultnet.run("ip", "-n", self.ns["g"], "route", "add", a, "via", GOOD)
        (self.dir / "hosts").write_text("127.0.0.1 localhost\n")
        (self.dir / "resolv.conf").write_text(f"nameserver {GOOD}\n")

    def _servers(self):
        super()._servers()
        for a in (INNER, RESOLVER):
            p = self.popen("s", PY, SERVER, a, 80, stdout=subprocess.PIPE, text=True)
            assert p.stdout.readline() == "ready\n"
        (self.dir / "dnsmasq.conf").write_text("\n".join(
            ["no-resolv", "no-hosts", "keep-in-foreground", "bind-interfaces", f"listen-address={GOOD}", "user=root", "pid-file=",
             "local-ttl=60", "local=/example.com/wild.example/"] +
            [f"host-record={name},{','.join(a)}" for name, a in RECORDS.items()]) + "\n")
        self.popen("s", "/usr/sbin/dnsmasq", f"--conf-file={self.dir}/dnsmasq.conf")

    def client(self, *args, **kw):
        return super().client("sh", "-c", f'mount --bind {self.dir}/resolv.conf /etc/resolv.conf && exec "$@"', "sh", *args, **kw)

    def policy(self, *denied, allowed=ALLOWED):
        rules = [{"action": "deny", "target": t} for t in denied] + [{"action": "allow", "target": t} for t in allowed]
        status, said = self.api("POST", "/policy", {"defaultAction": "deny", "egress": rules})
        assert status == 200, said

    def get(self, url, *args):
        """(status, the echo or what was said instead), over IPv6."""
        r = self.client("curl", "-sS", "-m", "60", "-w", "%{stderr}%{http_code} %{remote_ip}", *args, url, check=False)
        status, peer = r.stderr.split()[-2:]
        assert peer.startswith("2001:db8:"), r.stderr
        return int(status), json.loads(r.stdout) if r.stdout.startswith("{") else r.stdout


@pytest.fixture(scope="module")
def dual():
    n = Net()
    try:
        n.start(env={"OPENSANDBOX_EGRESS_RULES": json.dumps({"defaultAction": "deny", "egress": []})})
        yield n
    finally:
        n.close()


@pytest.fixture
def net(dual):
    dual.policy()
    dual.vault({"t": SECRET}, [bind("api", "api.example.com", BEARER), bind("wild", "*.wild.example", BEARER),
                               bind("plain", "plain.example.com", BEARER, schemes=["http"], ports=[80]),
                               bind("inner", "inner.example.com", BEARER, schemes=["http"], ports=[80]),
                               bind("doh", "doh.example.com", BEARER, schemes=["http"], ports=[80])])
    return dual


@pytest.mark.parametrize("url", ["https://api.example.com/", "http://plain.example.com/"])
def test_opened(net, url):
    status, echo = net.get(url)
    assert status == 200 and headers_of(echo, "authorization") == ["Bearer " + SECRET], echo


def test_spliced(net):
    """A server that says nothing does not use up all the time there is."""
    start = time.monotonic()
    status, echo = net.get("https://code.example.com/")
    assert status == 200 and not headers_of(echo, "authorization"), echo
    assert time.monotonic() - start < 14


def test_spliced_without_a_name(net):
    """Where nothing is looked at, by the only name of the address."""
    net.vault({"t": SECRET}, [])
    assert net.get("http://plain.example.com/")[0] == 200
    assert net.client("getent", "ahosts", "x.wild.example").stdout.startswith(REFUSES)
    assert net.get("https://api.example.com/")[0] == 0, "it has two"


def test_the_other_address_is_denied(net):
    net.policy(GOOD)
    status, said = net.get("https://api.example.com/")
    assert status == 502 and "cannot be reached" in said
    assert net.get("https://plain.example.com/")[0] == 0, "spliced"


def test_the_other_address_is_of_another_name(net):
    assert net.get("https://api.example.com/")[0] == 200, "the same IPv6 address"
    assert net.get("https://x.wild.example/")[0] == 502


def test_a_name_that_is_only_claimed(net):
    assert net.get("https://api.example.com/")[0] == 200
    assert net.get("https://api.example.com/", "--resolve", f"api.example.com:443:[{UNNAMED}]")[0] == 502


@pytest.mark.parametrize("host", ["inner.example.com", "doh.example.com"])
def test_addresses_that_are_never_taken(net, host):
    assert net.curl(f"http://{host}/", "-4")["headers"], "the sandbox itself may"
    assert net.get(f"http://{host}/")[0] == 502


def ended(s):
    try:
        while s.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("last", [{"denied": GOOD}, {"allowed": [REFUSES_TOO]}])
def test_a_later_policy_cuts(net, last):
    """By the address that the connection really goes to: the one the client knows stays allowed."""
    net.vault({"t": SECRET}, [])
    assert net.get("http://plain.example.com/")[0] == 200
    s = net.socket("c", (REFUSES_TOO, 80))
    for other in ("203.0.113.98", "203.0.113.99"):
        s.sendall(b"GET / HTTP/1.1\r\nHost: plain.example.com\r\n\r\n")
        seen = b""
        while not seen.endswith(b"}\n"):
            got = s.recv(65536)
            assert got, "cut too early"
            seen += got
        net.policy(other)
    net.policy(*last.get("denied", "").split(), allowed=last.get("allowed", ALLOWED))
    assert ended(s)
    s.close()
