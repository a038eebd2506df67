"""A world for real sandboxes: a network namespace that is reached through the host, with a resolver and servers that
write down whatever arrives (egressworld.py)."""

import os
import random
import socket
import subprocess
import tempfile

import pytest
from egressnet import run, wait_for
from osbserver import Server


class World:
    """One resolver, one address of each family that is allowed, one that is not."""

    def __init__(self):
        k = self.number()
        self.ns = "egw%06x" % random.SystemRandom().randrange(1 << 24)
        self.dns, self.host = f"203.0.113.{4 * k + 2}", f"203.0.113.{4 * k + 1}"
        self.good, self.evil = f"198.51.100.{2 * k + 1}", f"198.51.100.{2 * k + 2}"
        self.good6, self.evil6 = f"2001:db8:1:{k + 1:x}::1", f"2001:db8:1:{k + 1:x}::2"
        self.internal, self.internal6 = f"10.77.{k}.1", f"fd77:77:77:{k + 1:x}::1"
        self.dir = tempfile.mkdtemp(prefix=self.ns)
        run("ip", "netns", "add", self.ns)
        run("ip", "link", "add", self.ns, "type", "veth", "peer", "name", "eth0", "netns", self.ns)
        run("ip", "addr", "add", f"{self.host}/30", "dev", self.ns)
        run("ip", "link", "set", self.ns, "up")
        for cmd in (f"addr add {self.dns}/30 dev eth0", f"addr add {self.good}/32 dev lo", f"addr add {self.evil}/32 dev lo",
                    f"addr add {self.internal}/32 dev lo", "link set lo up", "link set eth0 up", f"route add default via {self.host}"):
            run("ip", "-n", self.ns, *cmd.split())
        for a in (self.good, self.evil, self.internal):
            run("ip", "route", "add", f"{a}/32", "via", self.dns)
        run("ip", "addr", "add", f"2001:db8:2:{k:x}::1/64", "dev", self.ns, "nodad")
        run("ip", "-n", self.ns, "addr", "add", f"2001:db8:2:{k:x}::2/64", "dev", "eth0", "nodad")
        run("ip", "-n", self.ns, "-6", "route", "add", "default", "via", f"2001:db8:2:{k:x}::1")
        for a in (self.good6, self.evil6, self.internal6):
            run("ip", "-n", self.ns, "addr", "add", f"{a}/128", "dev", "lo", "nodad")
            run("ip", "-6", "route", "add", f"{a}/128", "via", f"2001:db8:2:{k:x}::2")
        self.log = f"{self.dir}/world.log"
        conf = ["no-resolv", "no-hosts", "keep-in-foreground", "log-queries", f"log-facility={self.dir}/dns.log", "bind-interfaces",
                f"listen-address={self.dns}", "user=root", "pid-file=", "local-ttl=30", "local=/test/",
                f"host-record=good.test,{self.good},{self.good6}", f"host-record=evil.test,{self.evil},{self.evil6}",
                f"host-record=v4.good.test,{self.good}", f"host-record=v6.good.test,{self.good6}",
                f"host-record=rebind.good.test,{self.internal}", f"host-record=rebind6.good.test,{self.internal6}",
                "host-record=meta.good.test,169.254.169.254", "host-record=meta6.good.test,fd00:ec2::254",
                f"host-record=mapped.good.test,::ffff:{self.internal}"]
        with open(f"{self.dir}/conf", "w") as f:
            f.write("\n".join(conf) + "\n")
        support = os.path.dirname(os.path.abspath(__file__))
        self.procs = [subprocess.Popen(["ip", "netns", "exec", self.ns, *cmd], stdin=subprocess.DEVNULL) for cmd in (
            ["dnsmasq", f"--conf-file={self.dir}/conf"], ["/usr/bin/python3", f"{support}/egressworld.py", self.log])]
        wait_for("the world", lambda: os.path.exists(self.log) and "ready" in open(self.log).read()
                 and os.path.exists(f"{self.dir}/dns.log") and "started" in open(f"{self.dir}/dns.log").read())

    def number(self):
        """One of sixty that no other world on this machine has now: addresses follow from it."""
        for k in random.SystemRandom().sample(range(60), 60):
            self.lock = socket.socket(socket.AF_UNIX)
            try:
                self.lock.bind(f"\0osb-test-world-{k}")  # goes with the process
                return k
            except OSError:
                self.lock.close()
        raise AssertionError("sixty worlds at once")

    def arrived(self):
        """One line each: kind, our address, port, what."""
        with open(self.log) as f:
            return f.read()

    def asked(self, name):
        with open(f"{self.dir}/dns.log") as f:
            return any(f"] {name.lower()} from" in line.lower() for line in f)

    def close(self):
        for p in self.procs:
            p.terminate()
            p.wait(20)
        run("ip", "netns", "del", self.ns, check=False)
        run("ip", "link", "del", self.ns, check=False)
        run("rm", "-rf", self.dir)
        self.lock.close()


@pytest.fixture(scope="module")
def world():
    """One per file."""
    w = World()
    yield w
    w.close()


@pytest.fixture(scope="module")
def server(request, world):
    """Asks the world for names; a file may say OCI for more of that section."""
    s = Server(f'[oci]\ndns = ["{world.dns}"]\n' + getattr(request.module, "OCI", "")).start()
    yield s
    s.close()
