"""The DNS proxy against a real resolver: what is answered, what leaves, what is learned."""

import pytest

from egressnet import EVIL, GOOD, GOOD6, OTHER_DNS, RESOLVER, wait_for


@pytest.fixture(autouse=True)
def policy(net):
    net.policy("+good.test", "+*.good.test", "-evil.test")


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize("rtype,want", [("A", GOOD), ("AAAA", GOOD6)])
def test_an_allowed_name_resolves_and_is_reachable(net, tcp, rtype, want):
    r = net.lookup("www.good.test", rtype, tcp=tcp)
    assert (r["rcode"], r["answers"]) == ("NOERROR", [want])
    assert net.connect(want) == "ok"


@pytest.mark.parametrize("rtype", ["A", "AAAA", "TXT", "MX", "HTTPS", "NULL", "ANY"])
@pytest.mark.parametrize("tcp", [False, True])
def test_a_denied_name_does_not_leave(net, rtype, tcp):
    r = net.lookup(f"{rtype.lower()}{int(tcp)}.evil.test", rtype, tcp=tcp, edns=1232)
    assert (r["rcode"], r["counts"]) == ("NXDOMAIN", [1, 0, 0, 0])
    assert r["flags"] & 0xFFF0 == 0x8100  # QR and RD; neither AA nor RA
    assert not net.asked(f"{rtype.lower()}{int(tcp)}.evil.test")


def test_whatever_server_is_asked_it_is_ours(net):
    r = net.lookup("evil.test", server=OTHER_DNS)
    assert r["rcode"] == "NXDOMAIN"
    assert net.lookup("good.test", server="192.0.2.99")["answers"] == [GOOD]
    assert net.lookup("good.test", server="2001:db8:dead::53")["answers"] == [GOOD]


def test_names_match_without_case_and_answers_keep_it(net):
    assert net.lookup("WwW.GoOd.TeSt")["answers"] == [GOOD]
    assert net.lookup("DROP.eViL.test")["rcode"] == "NXDOMAIN"


def test_aliases(net):
    assert net.lookup("alias.good.test")["answers"] == ["www.good.test", GOOD]
    # The end of a chain need not be allowed itself, but it must not be denied by a rule.
    assert net.lookup("cdn.good.test")["answers"] == ["edge.cdn.test", GOOD]
    r = net.lookup("trap.good.test")
    assert (r["rcode"], r["answers"]) == ("NXDOMAIN", [])
    assert net.connect(EVIL) != "ok"


@pytest.mark.parametrize("name,rtype", [("rebind.good.test", "A"), ("meta.good.test", "A"), ("mapped.good.test", "AAAA")])
def test_internal_addresses_are_refused_unless_allowed(net, name, rtype):
    assert net.lookup(name, rtype)["rcode"] == "NXDOMAIN"
    net.policy("+*.good.test", "+10.77.0.0/16", "+169.254.169.254")
    assert len(net.lookup(name, rtype)["answers"]) == 1


def test_large_answers_come_over_tcp(net):
    r = net.lookup("big.good.test", "TXT")
    assert r["tc"] and r["size"] <= 512 and not r["answers"]
    r = net.lookup("big.good.test", "TXT", edns=4096)
    assert r["tc"] and r["size"] <= 1232
    r = net.lookup("big.good.test", "TXT", tcp=True)
    assert not r["tc"] and len(r["answers"]) == 20


def test_records_that_hide_names_are_not_given(net):
    for rtype in ("HTTPS", "SVCB"):
        r = net.lookup("good.test", rtype)
        assert (r["rcode"], r["answers"]) == ("NOERROR", [])


def test_types_that_only_carry_data_are_refused(net):
    for rtype in ("NULL", "ANY", 65399):
        assert net.lookup("tunnel.good.test", rtype)["rcode"] == "REFUSED"
    assert not net.asked("tunnel.good.test")
    assert net.lookup("good.test", "TXT")["answers"] == [b"\x05hello".hex()]


def test_payload_below_a_wildcard_does_not_leave(net):
    name = ".".join(["a" * 60] * 3) + ".good.test"
    assert net.lookup(name)["rcode"] == "NXDOMAIN"
    assert not net.asked(name)
    deep = ".".join("abcdefghijklm") + ".good.test"
    assert net.lookup(deep)["rcode"] == "NXDOMAIN"
    assert not net.asked(deep)


def test_malformed_queries(net):
    def raw(message):
        return net.py(f"(lambda a: a and read_answer(a))(exchange(bytes.fromhex({message.hex()!r}), {RESOLVER!r}, timeout=3))")
    assert raw(b"\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00" + b"\0\0\1\0\1" * 2)["rcode"] == "FORMERR"
    assert raw(b"\x12\x34\x29\x00\x00\x01\x00\x00\x00\x00\x00\x00" + b"\0\0\1\0\1")["rcode"] == "NOTIMP"
    assert raw(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + b"\xc0\x0c\0\1\0\1")["rcode"] == "FORMERR"
    assert raw(b"\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00" + b"\0\0\1\0\1") is None


def test_the_cache_answers_with_the_time_that_is_left(net):
    first = net.lookup("api.good.test")
    again = net.lookup("API.good.test", edns=1232)
    assert again["answers"] == first["answers"] and again["ttl"] <= first["ttl"] <= 300
    asked = sum("api.good.test from" in line.lower() for line in open(net.dns_log))
    assert asked == 1


def test_what_was_refused_is_counted_and_logged(net):
    before = net.api("GET", "/events").json()
    net.lookup("counted.evil.test")
    events = net.api("GET", "/events").json()
    assert events["total"] - events["packets"] == before["total"] - before["packets"] + 1
    assert any(e["kind"] == "name" and e["target"] == "counted.evil.test" for e in events["events"])
    assert '"target.host":"counted.evil.test"' in net.log()


def test_the_webhook_is_told(fresh):
    """In spite of the policy, which denies the webhook's own host; its lookup is no event."""
    n = fresh()
    n.start({"egress": []}, OPENSANDBOX_EGRESS_DENY_WEBHOOK="http://good.test/hook?a=b")
    assert n.lookup("Told.Evil.test")["rcode"] == "NXDOMAIN"
    wait_for("the call", lambda: b"POST /hook?a=b".hex() in n.world_log())
    assert n.api("GET", "/events").json()["total"] == 1
    assert n.connect(GOOD) != "ok"
