"""Every kind of rule, for both families, through the gateway: who is reached, and who is not."""

import pytest

from egressnet import EVIL, EVIL6, GOOD, GOOD6

FAMILIES = {"ipv4": (GOOD, EVIL, "198.51.100.0/24", "198.51.100.64/28", "A"),
            "ipv6": (GOOD6, EVIL6, "2001:db8:100::/64", "2001:db8:100::60/124", "AAAA")}


@pytest.fixture(params=FAMILIES)
def family(request):
    return FAMILIES[request.param]


def reached(net, *addresses):
    """On any port alike."""
    got = net.py(f"[[connect(ip, port) for port in (80, 9999)] for ip in {list(addresses)!r}]")
    assert all((a == "ok") == (b == "ok") for a, b in got), got
    return [a == "ok" for a, _ in got]


def test_addresses_and_networks(net, family):
    good, evil, all_of_it, around_evil, _ = family
    net.policy()
    assert reached(net, good, evil) == [False, False]
    net.policy(f"+{good}")
    assert reached(net, good, evil) == [True, False]
    net.policy(f"+{all_of_it}")
    assert reached(net, good, evil) == [True, True]
    net.policy(f"+{evil}", f"+{all_of_it}", f"-{around_evil}")  # deny wins, wherever it stands
    assert reached(net, good, evil) == [True, False]
    net.policy(f"-{evil}", default="allow")
    assert reached(net, good, evil) == [True, False]
    net.policy(f"-{all_of_it}", f"+{good}", default="allow")
    assert reached(net, good, evil) == [False, False]
    net.policy(default="allow")
    assert reached(net, good, evil) == [True, True]


def test_names(net, family):
    good, evil, _, around_evil, rtype = family

    def look(*names):
        return [net.lookup(n, rtype)["answers"] for n in names]
    net.policy("+good.test")
    assert look("good.test", "www.good.test", "evil.test") == [[good], [], []]
    assert reached(net, good, evil) == [True, False]
    net.policy("+*.good.test")
    assert reached(net, good) == [False]  # learned for a name that is no longer allowed
    assert look("good.test", "www.good.test") == [[], [good]]
    assert reached(net, good, evil) == [True, False]
    net.policy("-evil.test", "+*.test")
    assert look("evil.test", "www.good.test") == [[], [good]]
    assert reached(net, evil) == [False]
    net.policy("+evil.test", f"-{around_evil}")  # a name that is allowed, and an address that is not
    look("evil.test")
    assert reached(net, evil) == [False]
    net.policy("-evil.test", default="allow")
    assert look("evil.test", "good.test") == [[], [good]]
    assert reached(net, evil) == [True]  # only its name is denied


def test_mode_dns_judges_names_only(fresh, family):
    good, evil, _, _, rtype = family
    n = fresh()
    n.start({"egress": [{"action": "allow", "target": "good.test"}]}, OPENSANDBOX_EGRESS_MODE="dns")
    assert n.lookup("good.test", rtype)["answers"] == [good] and n.lookup("evil.test", rtype)["rcode"] == "NXDOMAIN"
    assert reached(n, good, evil) == [True, True]
    assert n.api("GET", "/policy").json()["enforcementMode"] == "dns"
