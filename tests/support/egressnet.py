"""A small internet for the egress tests, all in network namespaces of its own:

    sandbox  --veth--  gateway (the sidecar)  --veth--  world (a real resolver, web servers)

Addresses of the world are documentation ranges, which count as public. With shared=True there is no
gateway: the sidecar and the sandbox live in one namespace, as containers of a pod do.
"""

import json
import os
import random
import signal
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("OSB_BIN", os.path.join(ROOT, "build", "bin"))
WAIT = 30

RESOLVER, RESOLVER6 = "203.0.113.1", "2001:db8:113::1"
GOOD, GOOD6 = "198.51.100.10", "2001:db8:100::10"
EVIL, EVIL6 = "198.51.100.66", "2001:db8:100::66"
OTHER_DNS = "198.51.100.53"
INTERNAL = "10.77.0.1"
METADATA = "169.254.169.254"
RECORDS = {
    "good.test": [GOOD, GOOD6], "www.good.test": [GOOD, GOOD6], "api.good.test": [GOOD],
    "evil.test": [EVIL, EVIL6], "drop.evil.test": [EVIL],
    "rebind.good.test": [INTERNAL], "meta.good.test": [METADATA], "mapped.good.test": ["::ffff:10.77.0.1"],
    "doh.good.test": [OTHER_DNS],
}
CNAMES = {"alias.good.test": "www.good.test", "cdn.good.test": "edge.cdn.test", "trap.good.test": "evil.test"}


def run(*cmd, check=True, **kw):
    return subprocess.run(cmd, check=check, capture_output=True, text=True, timeout=60, **kw)


def wait_for(what, fn, timeout=None):
    end = time.monotonic() + (timeout or WAIT)
    while time.monotonic() < end:
        got = fn()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError(f"timed out waiting for {what}")


class Net:
    def __init__(self, shared=False):
        self.tag = "eg%06x" % random.SystemRandom().randrange(1 << 24)
        self.world, self.gateway, self.sandbox = (f"{self.tag}{x}" for x in "wgs")
        self.shared = shared
        if shared:
            self.sandbox = self.gateway
        self.dir = tempfile.mkdtemp(prefix=self.tag)
        os.chmod(self.dir, 0o755)
        self.procs, self.sidecar, self.token = [], None, "secret-token"
        self.env = {}
        try:
            self.make()
            self.serve()
        except BaseException:
            self.close()
            raise

    # ---- the network ----

    def ip(self, ns, *args):
        run("ip", "-n", ns, *args)

    def make(self):
        for ns in {self.world, self.gateway, self.sandbox}:
            run("ip", "netns", "add", ns)
            self.ip(ns, "link", "set", "lo", "up")
        run("ip", "link", "add", "ext0", "netns", self.gateway, "type", "veth", "peer", "name", "gw0", "netns", self.world)
        for ns, link, v4, v6 in ((self.world, "gw0", f"{RESOLVER}/24", f"{RESOLVER6}/64"),
                                 (self.gateway, "ext0", "203.0.113.2/24", "2001:db8:113::2/64")):
            self.ip(ns, "addr", "add", v4, "dev", link)
            self.ip(ns, "addr", "add", v6, "dev", link, "nodad")
            self.ip(ns, "link", "set", link, "up")
        for a in (GOOD, EVIL, OTHER_DNS, INTERNAL, METADATA):
            self.ip(self.world, "addr", "add", f"{a}/32", "dev", "lo")
        for a in (GOOD6, EVIL6):
            self.ip(self.world, "addr", "add", f"{a}/128", "dev", "lo", "nodad")
        self.ip(self.gateway, "route", "add", "default", "via", RESOLVER)
        self.ip(self.gateway, "-6", "route", "add", "default", "via", RESOLVER6)
        if not self.shared:
            run("ip", "link", "add", "sb0", "netns", self.gateway, "type", "veth", "peer", "name", "eth0", "netns", self.sandbox)
            for ns, link, n in ((self.gateway, "sb0", 1), (self.sandbox, "eth0", 2)):
                self.ip(ns, "addr", "add", f"10.201.0.{n}/30", "dev", link)
                self.ip(ns, "addr", "add", f"fd00:201::{n}/64", "dev", link, "nodad")
                self.ip(ns, "link", "set", link, "up")
            self.ip(self.sandbox, "route", "add", "default", "via", "10.201.0.1")
            self.ip(self.sandbox, "-6", "route", "add", "default", "via", "fd00:201::1")
            self.inside(self.gateway, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")

    def inside(self, ns, *cmd, check=True, **kw):
        return run("ip", "netns", "exec", ns, *cmd, check=check, **kw)

    def background(self, ns, *cmd, log="/dev/null", **kw):
        with open(log, "ab") as f:
            p = subprocess.Popen(["ip", "netns", "exec", ns, *cmd], stdin=subprocess.DEVNULL, stdout=f, stderr=f, **kw)
        self.procs.append(p)
        return p

    def serve(self):
        self.dns_log = f"{self.dir}/dns.log"
        lines = ["no-resolv", "no-hosts", "keep-in-foreground", "log-queries", f"log-facility={self.dns_log}",
                 "bind-interfaces", f"listen-address={RESOLVER},{RESOLVER6},{OTHER_DNS}", "user=root", "local-ttl=20",
                 "pid-file=", "txt-record=good.test,\"hello\"", "local=/test/", "address=/wild.test/" + GOOD,
                 "host-record=edge.cdn.test," + GOOD, "host-record=short.good.test," + GOOD + ",1"]
        for name, addrs in RECORDS.items():
            lines += [f"host-record={name},{','.join(addrs)}"]
        lines += [f"cname={a},{b}" for a, b in CNAMES.items()]
        # An answer that does not fit a datagram.
        lines += [f"txt-record=big.good.test,\"{'x' * 200}{i}\"" for i in range(20)]
        with open(f"{self.dir}/dnsmasq.conf", "w") as f:
            f.write("\n".join(lines) + "\n")
        self.background(self.world, "dnsmasq", f"--conf-file={self.dir}/dnsmasq.conf", log=f"{self.dir}/dnsmasq.out")
        self.background(self.world, "/usr/bin/python3", os.path.join(os.path.dirname(__file__), "egressworld.py"),
                        f"{self.dir}/world.log", log=f"{self.dir}/world.out")
        wait_for("the world", lambda: os.path.exists(f"{self.dir}/world.log") and "ready" in self.world_log())
        wait_for("the resolver", lambda: b"started" in open(self.dns_log, "rb").read() if os.path.exists(self.dns_log) else False)

    def world_log(self):
        """What arrived out there, one line each: kind, our address, port, what."""
        with open(f"{self.dir}/world.log") as f:
            return f.read()

    def asked(self, name):
        """Whether the resolver of the world was ever asked for it."""
        with open(self.dns_log) as f:
            return any(f"] {name} from" in line or f"] {name.lower()} from" in line.lower() for line in f)

    # ---- the sidecar ----

    def start(self, policy=None, wait=True, args=(), **env):
        self.env = {"OPENSANDBOX_EGRESS_MODE": "dns+nft", "OPENSANDBOX_EGRESS_TOKEN": self.token,
                    "OPENSANDBOX_EGRESS_DNS_UPSTREAM": RESOLVER, "OPENSANDBOX_EGRESS_RULES_DIR": f"{self.dir}/rules",
                    "OPENSANDBOX_EGRESS_SANDBOX_ID": "sbx-1", "OPENSANDBOX_EGRESS_DNS_UPSTREAM_TIMEOUT": "5"}
        if not self.shared:
            self.env["OPENSANDBOX_EGRESS_INSIDE"] = "sb0"
        if policy is not None:
            self.env["OPENSANDBOX_EGRESS_RULES"] = policy if isinstance(policy, str) else json.dumps(policy)
        self.env.update({k: v for k, v in env.items() if v is not None})
        return self.restart(wait, args)

    def restart(self, wait=True, args=()):
        full = dict(os.environ, **self.env)
        self.sidecar_log = f"{self.dir}/sidecar.log"
        self.sidecar = self.background(self.gateway, f"{BIN}/opensandbox-egress", *args, log=self.sidecar_log, env=full)
        if wait:
            wait_for("the sidecar", lambda: self.sidecar.poll() is not None or self.healthy())
            assert self.sidecar.poll() is None, self.log()
        return self.sidecar

    def worker(self):
        """The process under --supervise, or None while there is none."""
        with open(f"/proc/{self.sidecar.pid}/task/{self.sidecar.pid}/children") as f:
            return int((f.read().split() or [0])[0]) or None

    def log(self):
        with open(self.sidecar_log) as f:
            return f.read()

    def stop(self, sig=signal.SIGTERM):
        if self.sidecar:
            self.sidecar.send_signal(sig)
            code = self.sidecar.wait(WAIT)
            self.sidecar = None
            return code
        return None

    def healthy(self):
        return self.api("GET", "/healthz").code == 200

    def api(self, method, path, body=None, token=True, raw=None):
        cmd = ["curl", "-s", "-m", "20", "-i", "-X", method, f"http://127.0.0.1:18080{path}"]
        if token:
            cmd += ["-H", f"OPENSANDBOX-EGRESS-AUTH: {self.token if token is True else token}"]
        if body is not None or raw is not None:
            cmd += ["--data-binary", raw if raw is not None else json.dumps(body)]
        return Answer(self.inside(self.gateway, *cmd, check=False).stdout)

    def policy(self, *rules, default="deny"):
        """rules: "+name" allows, "-name" denies."""
        body = {"defaultAction": default, "egress": [{"action": "allow" if r[0] == "+" else "deny", "target": r[1:]} for r in rules]}
        r = self.api("PUT", "/policy", body)
        assert r.code == 200, r

    # ---- what a sandbox does ----

    def py(self, script, *args, ns=None, timeout=60):
        """Runs Python in the sandbox with the helpers of egressclient; its last line is JSON."""
        cmd = ["ip", "netns", "exec", ns or self.sandbox, "/usr/bin/python3",
               os.path.join(os.path.dirname(__file__), "egressclient.py"), script, *args]
        r = subprocess.run(cmd, capture_output=True, text=True, timeout=timeout)
        assert r.returncode == 0, r.stderr
        return json.loads(r.stdout.strip().split("\n")[-1])

    def lookup(self, name, rtype="A", server=RESOLVER, tcp=False, **kw):
        opts = json.dumps(dict(kw, tcp=tcp))
        return self.py(f"lookup({name!r}, {rtype!r}, {server!r}, **json.loads({opts!r}))")

    def connect(self, ip, port=80, proto="tcp"):
        return self.py(f"connect({ip!r}, {port}, {proto!r})")

    def close(self):
        for p in self.procs:
            if p.poll() is None:
                p.terminate()
        for p in self.procs:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        for ns in {self.world, self.gateway, self.sandbox}:
            run("ip", "netns", "del", ns, check=False)
        subprocess.run(["rm", "-rf", self.dir], check=False)


class Answer:
    def __init__(self, text):
        head, _, self.body = text.partition("\n\n")  # text mode has taken the carriage returns
        lines = head.split("\n")
        self.code = int(lines[0].split()[1]) if lines[0].startswith("HTTP/") else 0
        self.headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.code} {self.body!r}"
