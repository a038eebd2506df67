"""Three network namespaces: a client, the gateway with the sidecar, and servers with a test CA.

The client's /etc/hosts (in a mount namespace of its own) says where names are; nothing of the machine
is changed."""

import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("OSB_BIN", ROOT / "build" / "bin"))
# Sanitizers have memory of their own, and do not let mlock() through.
SANITIZED = os.environ.get("OSB_FLAVOUR") in ("asan", "tsan")
TOKEN = "test-token"
PY = "/usr/bin/python3"
SERVER = str(ROOT / "tests/support/echo_server.py")
GOOD, BAD, NET = "203.0.113.10", "203.0.113.11", "203.0.113.0/24"
HOSTS = {"api.example.com": GOOD, "code.example.com": GOOD, "x.wild.example": GOOD, "plain.example.com": GOOD,
         "bad.example.com": BAD, "other.example.net": GOOD}
RULES = [{"action": "allow", "target": t} for t in
         ["api.example.com", "code.example.com", "*.wild.example", "plain.example.com", "bad.example.com", NET]]


def run(*args, **kw):
    return subprocess.run([str(a) for a in args], check=True, capture_output=True, text=True, **kw)


class Net:
    made = 0

    def __init__(self):
        Net.made += 1
        self.tag = f"osbv{os.getpid()}n{Net.made}"
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="osb-vault-"))
        self.procs, self.sidecar, self.log = [], None, None
        self.ns = {k: f"{self.tag}{k}" for k in "cgs"}
        try:
            self._network()
            self._certificates()
            self._servers()
        except BaseException:
            self.close()
            raise

    # ---- building ----

    def _network(self):
        for n in self.ns.values():
            run("ip", "netns", "add", n)
            run("ip", "-n", n, "link", "set", "lo", "up")
        for side, name, gw, peer in (("c", "inside", "10.77.0.1/24", "10.77.0.2/24"),
                                     ("s", "outside", "203.0.113.1/24", f"{GOOD}/24")):
            run("ip", "-n", self.ns["g"], "link", "add", name, "type", "veth", "peer", "name", "eth0",
                "netns", self.ns[side])
            run("ip", "-n", self.ns["g"], "addr", "add", gw, "dev", name)
            run("ip", "-n", self.ns["g"], "link", "set", name, "up")
            run("ip", "-n", self.ns[side], "addr", "add", peer, "dev", "eth0")
            run("ip", "-n", self.ns[side], "link", "set", "eth0", "up")
            run("ip", "-n", self.ns[side], "route", "add", "default", "via", gw.split("/")[0])
        run("ip", "-n", self.ns["s"], "addr", "add", f"{BAD}/24", "dev", "eth0")
        self.enter("g", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        (self.dir / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{ip} {n}\n" for n, ip in HOSTS.items()))

    def _certificate(self, name, ca, names):
        key, crt = self.dir / f"{name}.key", self.dir / f"{name}.crt"
        ext = self.dir / f"{name}.ext"
        ext.write_text("subjectAltName=" + ",".join(f"DNS:{n}" for n in names) + "\n")
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
            "-subj", f"/CN={name}", "-out", self.dir / f"{name}.csr")
        run("openssl", "x509", "-req", "-in", self.dir / f"{name}.csr", "-CA", self.dir / f"{ca}.crt", "-CAkey",
            self.dir / f"{ca}.key", "-CAcreateserial", "-days", "2", "-extfile", ext, "-out", crt)

    def _certificates(self):
        for ca in ("ca", "otherca"):
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.dir / f"{ca}.key", "-out", self.dir / f"{ca}.crt", "-days", "2", "-subj", f"/CN=test {ca}",
                "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        self._certificate("good", "ca", [n for n in HOSTS if n != "bad.example.com"])
        self._certificate("bad", "otherca", ["bad.example.com"])
        self.trust = self.dir / "trust"
        self.trust.mkdir()
        shutil.copy(self.dir / "ca.crt", self.trust / "ca.pem")
        run("openssl", "rehash", self.trust)

    def _servers(self):
        for args in ((GOOD, 443, self.dir / "good.crt", self.dir / "good.key"), (GOOD, 80),
                     (BAD, 443, self.dir / "bad.crt", self.dir / "bad.key")):
            p = self.popen("s", PY, SERVER, *args, stdout=subprocess.PIPE, text=True)
            assert p.stdout.readline() == "ready\n"

    def command(self, ns, *args):
        return ["nsenter", f"--net=/run/netns/{self.ns[ns]}", *(str(a) for a in args)]

    def enter(self, ns, *args, **kw):
        return run(*self.command(ns, *args), **kw)

    def popen(self, ns, *args, **kw):
        p = subprocess.Popen(self.command(ns, *args), **kw)
        self.procs.append(p)
        return p

    # ---- the sidecar ----

    def start(self, keep_fd=None, env=None, args=(), group=None):
        """group: the cgroup.procs file of a control group to run in."""
        ca_dir = self.dir / "handed"
        e = dict(os.environ, OPENSANDBOX_EGRESS_MODE="dns+nft", OPENSANDBOX_EGRESS_TOKEN=TOKEN,
                 OPENSANDBOX_EGRESS_RULES=json.dumps({"defaultAction": "deny", "egress": RULES}),
                 OPENSANDBOX_EGRESS_INSIDE="inside", OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT="true",
                 OPENSANDBOX_EGRESS_MITMPROXY_UPSTREAM_TRUST_DIR=str(self.trust),
                 OPENSANDBOX_EGRESS_CA_DIR=str(ca_dir), OPENSANDBOX_EGRESS_RULES_DIR=str(self.dir / "none"),
                 OPENSANDBOX_EGRESS_DNS_UPSTREAM=GOOD)
        e.update(env or {})
        fds = ()
        if keep_fd is not None:
            e["OPENSANDBOX_EGRESS_VAULT_FD"] = str(keep_fd)
            fds = (keep_fd,)
        self.log = open(self.dir / "sidecar.log", "ab")
        into = ("sh", "-c", f'echo $$ > {group} && exec "$@"', "sh") if group else ()
        self.sidecar = self.popen("g", *into, BIN / "opensandbox-egress", *args, env=e, stdout=self.log, stderr=self.log,
                                  pass_fds=fds)
        self.log.close()
        deadline = time.monotonic() + 60
        while True:
            try:
                if self.api("GET", "/healthz")[0] == 200:
                    break
            except OSError:
                pass
            if self.sidecar.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the sidecar does not start:\n" + self.read_log())
            time.sleep(0.05)
        self.ca = ca_dir / "mitmproxy-ca-cert.pem"
        self.bundle = self.dir / "bundle.pem"
        self.bundle.write_text(self.ca.read_text() + (self.dir / "ca.crt").read_text())

    def read_log(self):
        return (self.dir / "sidecar.log").read_text(errors="replace")

    def stop(self, signo=signal.SIGTERM):
        self.sidecar.send_signal(signo)
        return self.sidecar.wait(timeout=60)

    def rss_kb(self):
        for line in pathlib.Path(f"/proc/{self.sidecar.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])

    def n_fds(self):
        return len(os.listdir(f"/proc/{self.sidecar.pid}/fd"))

    # ---- talking ----

    def socket(self, ns, address, timeout=30):
        """Connected from inside a namespace; only one thread of this process goes there."""
        out = []

        def work():
            try:
                fd = os.open(f"/run/netns/{self.ns[ns]}", os.O_RDONLY)
                import ctypes
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(fd, 0x40000000) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
                os.close(fd)
                out.append(socket.create_connection(address, timeout=timeout))
            except OSError as e:
                out.append(e)

        t = threading.Thread(target=work)
        t.start()
        t.join()
        if isinstance(out[0], OSError):
            raise out[0]
        return out[0]

    def api(self, method, path, body=None, token=TOKEN, ns="g", address=("127.0.0.1", 18080)):
        c = http.client.HTTPConnection(*address)
        c.sock = self.socket(ns, address)
        headers = {"OPENSANDBOX-EGRESS-AUTH": token} if token else {}
        c.request(method, path, json.dumps(body) if isinstance(body, (dict, list)) else body, headers)
        r = c.getresponse()
        data = r.read().decode()
        c.close()
        if r.getheader("content-type", "").startswith("application/json") and data:
            data = json.loads(data)
        return r.status, data

    def vault(self, credentials, bindings):
        self.api("DELETE", "/credential-vault")
        creds = [{"name": k, "source": {"type": "inline", "value": v}} for k, v in credentials.items()]
        status, body = self.api("POST", "/credential-vault", {"credentials": creds, "bindings": bindings})
        assert status == 201, body
        return body

    def client(self, *args, check=True, env=None, cwd=None, timeout=120):
        """Runs a program in the client's network, with our hosts file."""
        script = f'mount --bind "{self.dir}/hosts" /etc/hosts && exec "$@"'
        e = dict(os.environ, SSL_CERT_FILE=str(self.bundle), REQUESTS_CA_BUNDLE=str(self.bundle),
                 CURL_CA_BUNDLE=str(self.bundle), NODE_EXTRA_CA_CERTS=str(self.bundle), GIT_SSL_CAINFO=str(self.bundle),
                 HOME=str(self.dir), NO_PROXY="*", **(env or {}))
        for k in list(e):
            if k.lower() in ("http_proxy", "https_proxy", "all_proxy"):
                del e[k]
        r = subprocess.run(self.command("c", "unshare", "-m", "sh", "-c", script, "sh", *args), capture_output=True,
                           text=True, env=e, cwd=cwd, timeout=timeout)
        if check and r.returncode:
            raise AssertionError(f"{args}: {r.returncode}\n{r.stdout[-2000:]}\n{r.stderr[-2000:]}\n" + self.read_log()[-3000:])
        return r

    def curl(self, url, *args, check=True):
        r = self.client("curl", "-sS", "-m", "60", *args, url, check=check)
        return json.loads(r.stdout) if check and r.stdout.startswith("{") else r

    def close(self):
        log = self.read_log() if (self.dir / "sidecar.log").exists() else ""
        self._clean()
        if "AddressSanitizer" in log or "runtime error:" in log:
            raise AssertionError(log[-5000:])

    def _clean(self):
        for p in reversed(self.procs):
            if p.poll() is None:
                p.kill()
                p.wait()
            if p.stdout:
                p.stdout.close()
        for n in self.ns.values():
            subprocess.run(["ip", "netns", "del", n], capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)


def bind(name, host, auth, **match):
    return {"name": name, "match": {"hosts": [host], **match}, "auth": auth}


def headers_of(answer, name):
    return [v for k, v in answer["headers"] if k.lower() == name.lower()]
