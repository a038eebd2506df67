"""What sandboxes of the tests' Docker engine find outside: a resolver on the bridge's address, and web servers on
public-looking addresses that the bridge has as well, so that nothing is forwarded and no rule of the machine is touched."""

import http.server
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

from osbserver import wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))

import images  # noqa: E402

PYTHON = "/usr/bin/python3"


def egress_binary():
    """The one without a sanitizer: that has libraries and memory of its own."""
    own = os.environ.get("OSB_BIN") or os.path.join(ROOT, "build", "bin")
    plain = os.path.join(ROOT, "build", "bin", "opensandbox-egress")
    if os.environ.get("OSB_FLAVOUR") in ("asan", "tsan") and os.path.exists(plain):
        return plain
    return os.path.join(own, "opensandbox-egress")


class Sniffer:
    """Everything that comes out of the engine's containers: (source, destination, protocol, destination port)."""

    def __init__(self, bridge):
        self.seen = set()
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.socket.bind((bridge, 3))
        self.socket.settimeout(0.2)
        self.stopping = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stopping:
            try:
                data, address = self.socket.recvfrom(65536)
            except TimeoutError:
                continue
            if address[2] == socket.PACKET_OUTGOING:
                continue
            if address[1] == 0x86DD:
                self.seen.add(("ipv6", data[8:40].hex(), data[6], 0))
            elif address[1] == 0x0800:
                at = (data[0] & 15) * 4
                port = int.from_bytes(data[at + 2:at + 4], "big") if data[9] in (6, 17) else 0
                self.seen.add((socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20]), data[9], port))

    def close(self):
        self.stopping = True
        self.thread.join()
        self.socket.close()


class Evil:
    """A web server that remembers who came."""

    def __init__(self, address):
        self.seen = seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", "5")
                self.end_headers()
                self.wfile.write(b"evil\n")

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer((address, 80), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class World:
    """good.test and evil.test; `ca` signs what good.test shows."""

    def __init__(self, engine):
        self.engine = engine
        self.dir = tempfile.mkdtemp(prefix="osbt-world-", dir=os.environ.get("OSB_TEST_TMP", "/var/tmp"))
        net = engine.gateway.rsplit(".", 1)[0].replace("10.", "11.", 1)
        self.good, self.evil = f"{net}.10", f"{net}.66"
        self.procs, self.bad, self.heard = [], None, 0
        try:
            for a in (self.good, self.evil):
                self._run("ip", "addr", "add", f"{a}/32", "dev", engine.name)
            self._certificates()
            self._serve()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _run(*cmd):
        subprocess.run(cmd, check=True, capture_output=True)

    def _certificates(self):
        ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        self.ca, key = f"{self.dir}/ca.pem", f"{self.dir}/ca.key"
        self._run("openssl", "req", "-x509", *ec, "-keyout", key, "-out", self.ca, "-days", "2", "-subj", "/CN=world",
                  "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
        with open(f"{self.dir}/ext", "w") as f:
            f.write("subjectAltName=DNS:good.test\n")
        self._run("openssl", "req", *ec, "-keyout", f"{self.dir}/good.key", "-subj", "/CN=good.test", "-out", f"{self.dir}/good.csr")
        self._run("openssl", "x509", "-req", "-in", f"{self.dir}/good.csr", "-CA", self.ca, "-CAkey", key, "-CAcreateserial",
                  "-days", "2", "-extfile", f"{self.dir}/ext", "-out", f"{self.dir}/good.crt")

    def _serve(self):
        self.dns_log = f"{self.dir}/dns.log"
        with open(f"{self.dir}/dnsmasq.conf", "w") as f:
            f.write("\n".join(["no-resolv", "no-hosts", "keep-in-foreground", "log-queries", f"log-facility={self.dns_log}",
                               "bind-interfaces", f"listen-address={self.engine.gateway}", "user=root", "pid-file=",
                               "local-ttl=30", "local=/test/", f"host-record=good.test,{self.good}",
                               f"host-record=evil.test,{self.evil}"]) + "\n")
        self.procs.append(subprocess.Popen(["/usr/sbin/dnsmasq", f"--conf-file={self.dir}/dnsmasq.conf"], stdin=subprocess.DEVNULL))
        echo = os.path.join(os.path.dirname(os.path.abspath(__file__)), "echo_server.py")
        for args in ((self.good, "80"), (self.good, "443", f"{self.dir}/good.crt", f"{self.dir}/good.key")):
            p = subprocess.Popen([PYTHON, echo, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            self.procs.append(p)
            assert p.stdout.readline() == "ready\n"
        self.bad = Evil(self.evil)
        wait_for("the resolver", lambda: os.path.exists(self.dns_log) and "started" in self.lookups())

    def lookups(self):
        with open(self.dns_log) as f:
            return f.read()[self.heard:]

    def forget(self):
        """What was asked and who came until now."""
        self.bad.seen.clear()
        self.heard += len(self.lookups())

    def close(self):
        for p in self.procs:
            p.terminate()
            p.wait(20)
            if p.stdout:
                p.stdout.close()
        if self.bad:
            self.bad.close()
        for a in (self.good, self.evil):
            subprocess.run(["ip", "addr", "del", f"{a}/32", "dev", self.engine.name], capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)


def load_egress(engine, name, cas=()):
    """Our sidecar's image, as `make images` builds it."""
    path = f"{engine.dir}/egress.tar"
    image = images.build_egress(egress_binary(), path, name, cas)
    with open(path, "rb") as f:
        status, said = engine.call("POST", "/images/load?quiet=1", raw=f.read())
    assert status == 200, said
    return image


def load_curl(engine, name):
    """A sandbox image with an ordinary client."""
    root = f"{engine.dir}/curl"
    shutil.copytree(f"{engine.dir}/busybox", root, symlinks=True)
    tree = images.Tree()
    tree.add_program("usr/bin/curl", shutil.which("curl", path="/usr/bin:/bin"))
    for path, (info, data) in tree.entries.items():
        if info.isdir():
            os.makedirs(f"{root}/{path}", exist_ok=True)
    for path, (info, data) in tree.entries.items():
        if info.isfile():
            with open(f"{root}/{path}", "wb") as f:
                f.write(data)
            os.chmod(f"{root}/{path}", 0o755)
    engine.load(name, root, ["ENV PATH=/bin:/usr/bin"])
