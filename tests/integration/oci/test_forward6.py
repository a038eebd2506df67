"""IPv6 forwarding of the host, in a network namespace that stands for it: a router announces itself there, and the
server, told to give sandboxes IPv6, must neither lose that route nor leave anything behind."""

import contextlib
import ctypes
import os
import secrets
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from osbserver import Server, wait_for  # noqa: E402

CONF = "/proc/sys/net/ipv6/conf"
ANNOUNCE = """import socket, struct
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
s.sendto(struct.pack('!BBHBBHII', 134, 0, 0, 64, 0, 1800, 0, 0), ('ff02::1', 0, 0, socket.if_nametoindex('r0')))
"""


def ip(*args):
    return subprocess.run(["ip", *args], check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def inside(ns):
    """This process, and what it starts, in that network namespace. Not ip netns exec, which has a /sys of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{ns}", os.O_RDONLY)
    try:
        assert libc.setns(there, 0x40000000) == 0, os.strerror(ctypes.get_errno())
        yield
    finally:
        assert libc.setns(home, 0x40000000) == 0
        os.close(home)
        os.close(there)


class Host:
    """up0 leads to a router, side0 nowhere."""

    def __init__(self, tag):
        self.ns, self.router = f"osbf{tag}h", f"osbf{tag}r"

    def make(self):
        for ns in (self.ns, self.router):
            ip("netns", "add", ns)
            ip("-n", ns, "link", "set", "lo", "up")
        ip("link", "add", "up0", "netns", self.ns, "type", "veth", "peer", "name", "r0", "netns", self.router)
        ip("-n", self.ns, "link", "add", "side0", "type", "bridge")
        ip("-n", self.router, "addr", "add", "fe80::1/64", "dev", "r0", "nodad")
        for ns, link in ((self.router, "r0"), (self.ns, "up0"), (self.ns, "side0")):
            ip("-n", ns, "link", "set", link, "up")

    def announce(self):
        """A router advertisement; the kernel makes its checksum."""
        subprocess.run(["ip", "netns", "exec", self.router, "/usr/bin/python3", "-c", ANNOUNCE], check=True)

    def routes(self):
        return [line for line in ip("-n", self.ns, "-6", "route", "show", "default").splitlines() if "proto ra" in line]

    def close(self):
        for ns in (self.ns, self.router):
            subprocess.run(["ip", "netns", "del", ns], capture_output=True)


@pytest.fixture
def host():
    if os.geteuid() != 0 or not os.path.exists(CONF):
        pytest.skip("needs root and IPv6")
    h = Host(secrets.token_hex(3))
    try:
        h.make()
        with inside(h.ns):
            yield h
    finally:
        h.close()


def setting(link, name):
    with open(f"{CONF}/{link}/{name}") as f:
        return int(f.read())


def test_forwarding_comes_and_goes(host):
    with open(f"{CONF}/up0/accept_ra", "w") as f:
        f.write("1")
    wait_for("the announced route", lambda: host.announce() or host.routes())
    per_link = os.path.exists(f"{CONF}/all/force_forwarding")
    name = "force_forwarding" if per_link else "forwarding"
    s = Server('[oci]\nipv6 = "on"\ndns = ["192.0.2.53"]\n')

    def forwards():
        assert host.routes(), "the route that the router announced is gone"
        on = setting("up0", name)
        assert setting("all", "forwarding") == (0 if per_link else on)
        assert setting("side0", name) == (0 if per_link else on)
        assert setting("up0", "accept_ra") == (2 if on and not per_link else 1)
        return on == 1

    try:
        s.start()
        assert forwards()
        s.stop()
        assert not forwards()
        # A crash leaves it on; the next stop in good order takes it back.
        s.start().kill()
        assert forwards()
        s.start()
        # So do sandboxes that go on without the server.
        id = s.create()["id"]
        s.stop()
        assert forwards()
        s.start()
        s.delete(id)
        s.wait_gone(id)
        s.stop()
        assert not forwards()
        # Another configuration: back at the start already.
        s.start().kill()
        s.write_config('[oci]\nipv6 = "off"\n')
        s.start()
        assert not forwards()
    finally:
        s.close()
