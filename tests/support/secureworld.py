"""The world of real sandboxes (sandboxworld.py) with HTTPS servers in the place of the others: good.test, and evil.test,
which belongs to somebody else. Both have certificates of one authority that only the sidecar is told of."""

import os
import subprocess

from sandboxworld import World

SUPPORT = os.path.dirname(os.path.abspath(__file__))


class SecureWorld(World):
    def __init__(self):
        super().__init__()
        os.chmod(self.dir, 0o755)
        self.trust = f"{self.dir}/trust"
        os.mkdir(self.trust)
        self.sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out",
                "trust/ca.pem", "-days", "2", "-subj", "/CN=world", "-addext", "basicConstraints=critical,CA:TRUE")
        self.sh("openssl", "rehash", "trust")
        self.procs.pop(1).terminate()
        for name, ip in (("good.test", self.good), ("evil.test", self.evil)):
            self.serve(name, ip)

    def sh(self, *cmd):
        subprocess.run(cmd, check=True, capture_output=True, cwd=self.dir)

    def serve(self, name, ip):
        self.sh("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-subj",
                f"/CN={name}", "-out", f"{name}.csr")
        with open(f"{self.dir}/ext", "w") as f:
            f.write(f"subjectAltName=DNS:{name}\n")
        self.sh("openssl", "x509", "-req", "-in", f"{name}.csr", "-CA", "trust/ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", "ext", "-out", f"{name}.crt")
        p = subprocess.Popen(["ip", "netns", "exec", self.ns, "/usr/bin/python3", f"{SUPPORT}/echo_server.py", ip, "443",
                              f"{self.dir}/{name}.crt", f"{self.dir}/{name}.key", self.dir], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, text=True)
        self.procs.append(p)
        assert p.stdout.readline() == "ready\n"
