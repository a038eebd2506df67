"""HTTPS from real sandboxes of the embedded runtime, with a credential put in on the way: every kind of client trusts
the interceptor out of the box, with the variables and without them, and so do images that are laid out otherwise."""

import json
import os
import shutil
import signal
import subprocess

import pytest
import vaultnet
from egressnet import wait_for
from osbserver import Server
from secureworld import SecureWorld
from test_sandbox import api, policy, worker

SECRET = "sandbox-secret"
URL = "https://good.test"

JAVA = """
import java.net.*;
public class T {
    public static void main(String[] a) throws Exception {
        System.out.println(new String(new URL(a[0]).openConnection().getInputStream().readAllBytes()));
    }
}
"""

# What each client is asked to do; all print the server's answer.
CLIENTS = {
    "curl": f"curl -sS {URL}/curl",
    "requests": f"/usr/bin/python3 -c 'import requests; print(requests.get(\"{URL}/r\").text)'",
    "urllib": f"/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"{URL}/u\").read().decode())'",
    "node": f"node -e 'fetch(\"{URL}/n\").then(r => r.text()).then(t => console.log(t))'",
    "wget": f"wget -q -O - {URL}/wget",  # GnuTLS
    "openssl": f"printf 'GET /s HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n\\r\\n' | openssl s_client -quiet "
               "-verify_return_error -verify_hostname good.test -connect good.test:443 -servername good.test 2>/dev/null | tail -1",
    "java": f"cd /tmp && java -cp /tmp T {URL}/j",
}
# With an empty environment only the stores of the system are left; these look there.
BARE = ("curl", "urllib", "wget", "openssl", "java")


class GitWorld(SecureWorld):
    def __init__(self):
        super().__init__()
        self.git()

    def git(self):
        """A repository that a plain file server can serve, at /files/r.git."""
        env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
        work, bare = f"{self.dir}/w", f"{self.dir}/r.git"
        sh = lambda *a: subprocess.run(["git", *a], check=True, capture_output=True, env=env)  # noqa: E731
        sh("init", "-q", work)
        with open(f"{work}/f", "w") as f:
            f.write("content\n")
        sh("-C", work, "add", "f")
        sh("-C", work, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x")
        sh("clone", "-q", "--bare", work, bare)
        sh("-C", bare, "update-server-info")


@pytest.fixture(scope="module")
def world():
    w = GitWorld()
    yield w
    w.close()


def small_image(path, files, links):
    """A static busybox and an /etc as another distribution has it."""
    for d in ("bin", "etc", "proc", "dev", "sys", "tmp", "root", "opt"):
        os.makedirs(f"{path}/{d}")
    shutil.copy("/usr/bin/busybox" if os.path.exists("/usr/bin/busybox") else "/bin/busybox", f"{path}/bin/busybox")
    for name in ("sh", "cat", "sleep", "grep", "ls", "head", "echo", "tr"):
        os.symlink("busybox", f"{path}/bin/{name}")
    for name, text in files.items():
        os.makedirs(os.path.dirname(f"{path}/{name}"), exist_ok=True)
        with open(f"{path}/{name}", "w") as f:
            f.write(text)
    for name, target in links.items():
        os.makedirs(os.path.dirname(f"{path}/{name}"), exist_ok=True)
        os.symlink(target, f"{path}/{name}")


@pytest.fixture(scope="module")
def server(world):
    small_image(f"{world.dir}/alpine", {"etc/ssl/certs/ca-certificates.crt": "# alpine's own\n", "usr/local/share/ca-certificates/x": ""},
                {"etc/ssl/cert.pem": "certs/ca-certificates.crt"})
    small_image(f"{world.dir}/redhat", {"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": "# red hat's own\n",
                                        "etc/pki/ca-trust/source/anchors/x": ""},
                {"etc/pki/tls/certs/ca-bundle.crt": "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "etc/ssl/certs": "../pki/tls/certs",
                 "etc/pki/tls/cert.pem": "certs/ca-bundle.crt"})
    small_image(f"{world.dir}/bare", {"etc/firefox/policies/policies.json": '{"policies": {"DisableTelemetry": true}}',
                                      "etc/conf/chromium/x": ""}, {"etc/chromium": "conf/chromium"})
    s = Server(f'[oci]\ndns = ["{world.dns}"]\n[oci.rootfs]\n' +
               "".join(f'"{n}" = "{world.dir}/{n}"\n' for n in ("alpine", "redhat", "bare")))
    s.env["OPENSANDBOX_EGRESS_MITMPROXY_UPSTREAM_TRUST_DIR"] = world.trust
    s.start()
    yield s
    s.close()


def sandbox(server, image="host", memory="1Gi"):
    id = server.create(networkPolicy=policy("good.test"), credentialProxy={"enabled": True}, image={"uri": image},
                       resourceLimits={"cpu": "2", "memory": memory})["id"]
    r = api(server, id, "POST", "/credential-vault", {
        "credentials": [{"name": "t", "source": {"type": "inline", "value": SECRET}}],
        "bindings": [{"name": "b", "match": {"hosts": ["good.test"]}, "auth": {"type": "bearer", "credential": "t"}}]})
    assert r.status_code == 201, r.text
    return id


def said(server, id, command, timeout=120):
    out, last = server.run(id, command, timeout=timeout)
    return out.strip(), last


@pytest.fixture(scope="module")
def box(server, world):
    id = sandbox(server)
    with open(f"{world.dir}/T.java", "w") as f:
        f.write(JAVA)
    subprocess.run(["javac", "-d", world.dir, f"{world.dir}/T.java"], check=True, capture_output=True)
    with open(f"{world.dir}/T.class", "rb") as f:
        hex_ = f.read().hex()
    said(server, id, f"python3 -c \"open('/tmp/T.class','wb').write(bytes.fromhex('{hex_}'))\"")
    yield id
    server.delete(id)


def injected(text):
    answer = json.loads(text[text.index("{"):text.rindex("}") + 1])
    return vaultnet.headers_of(answer, "authorization") == ["Bearer " + SECRET]


@pytest.mark.parametrize("client", CLIENTS)
def test_client(server, box, client):
    out, last = said(server, box, CLIENTS[client])
    assert "{" in out and injected(out), (out, last)
    if client in BARE:
        path = "PATH=/usr/bin:/bin"
        out, last = said(server, box, f"cat > /tmp/c.sh <<'END'\n{CLIENTS[client]}\nEND\nenv -i {path} sh /tmp/c.sh")
        assert "{" in out and injected(out), (out, last)


def test_git(server, box):
    out, last = said(server, box, f"cd /tmp && rm -rf out && GIT_CONFIG_GLOBAL=/dev/null git clone -q {URL}/files/r.git out; cat out/f")
    assert out == "content", (out, last)
    # The file server wants the credential, so this is no accident.
    out, _ = said(server, box, "curl -s -o /dev/null -w '%{http_code}' " + URL + "/files/r.git/HEAD")
    assert out == "200"


def test_a_long_upload_from_nowhere(server, box):
    """Streamed through both TLS connections, counted by the server, held nowhere."""
    # Two gigabytes: tests/soak.
    mb = 32 if vaultnet.SANITIZED else 512
    out, last = said(server, box, f"head -c {mb}M /dev/zero | curl -sS -T - -H 'Expect:' -o - {URL}/count", timeout=300)
    answer = json.loads(out)
    assert answer["n"] == mb << 20 and injected(out), last


def test_killed_between_two_requests(server, box):
    """The next sidecar has the vault and the authority of the one before."""
    before = worker(server, box)
    os.kill(before, signal.SIGKILL)
    wait_for("the next sidecar", lambda: worker(server, box) not in (None, before))
    out, last = said(server, box, "for i in $(seq 100); do curl -sS --max-time 20 " + URL + "/again && break; sleep 0.1; done")
    assert "{" in out and injected(out), (out, last)


def test_the_image_keeps_what_it_trusted(server, box):
    out, _ = said(server, box, "grep -c 'BEGIN CERT' /etc/ssl/certs/ca-certificates.crt; grep -c 'BEGIN CERT' $SSL_CERT_FILE; "
                  "grep -l PRIVATE /etc/ssl/certs/*.crt /etc/opensandbox-egress* | wc -l")
    system, ours, private = out.split()
    with open("/etc/ssl/certs/ca-certificates.crt") as f:
        assert int(system) == int(ours) == f.read().count("BEGIN CERT") + 1
    assert private == "0"


def test_browsers_are_told(server, box):
    """Chromium and Firefox look at no store, but read policies."""
    out, _ = said(server, box, "cat /etc/firefox/policies/policies.json | tr -d '\\n '; echo; cat /etc/chromium/policies/managed/*.json; echo; "
                  "cat /etc/opt/chrome/policies/managed/*.json; echo; grep -v -e --- $NODE_EXTRA_CA_CERTS | tr -d '\\n'")
    firefox, chromium, chrome, der = out.split("\n")
    assert json.loads(firefox) == {"policies": {"Certificates": {"Install": ["/etc/opensandbox-egress-ca.pem"]}}}
    assert json.loads(chromium) == json.loads(chrome) == {"CACertificates": [der]}


def test_images_of_other_kinds(server, world):
    mark = "grep -c '# opensandbox-egress: the authority'"
    id = sandbox(server, "alpine", "128Mi")
    out, _ = said(server, id, f"{mark} /etc/ssl/cert.pem; grep -c 'alpine' $SSL_CERT_FILE; head -1 /etc/ssl/cert.pem; "
                  "ls /usr/local/share/ca-certificates")
    assert out.split("\n") == ["1", "1", "# alpine's own", "opensandbox-egress.crt", "x"]
    server.delete(id)
    id = sandbox(server, "redhat", "128Mi")
    out, _ = said(server, id, f"{mark} /etc/pki/tls/cert.pem; {mark} /etc/ssl/certs/ca-bundle.crt; head -1 /etc/pki/tls/certs/ca-bundle.crt; "
                  "ls /etc/pki/ca-trust/source/anchors")
    assert out.split("\n") == ["1", "1", "# red hat's own", "opensandbox-egress.crt", "x"]
    server.delete(id)
    id = sandbox(server, "bare", "128Mi")
    out, _ = said(server, id, f"{mark} $SSL_CERT_FILE; ls /etc | grep -c ssl; echo")
    assert out.split() == ["1", "0"]
    # What the image has for its browsers stays, links too.
    out, _ = said(server, id, "cat /etc/firefox/policies/policies.json | tr -d '\\n '; echo; ls /etc/chromium")
    assert json.loads(out.split("\n")[0]) == {"policies": {"DisableTelemetry": True, "Certificates": {
        "Install": ["/etc/opensandbox-egress-ca.pem"]}}} and out.split("\n")[1:] == ["x"]
    server.delete(id)


def test_a_snapshot_does_not_collect_authorities(server, box):
    """A sandbox made from a snapshot trusts its own interceptor, and no longer the one before."""
    snap = server.ok("POST", f"/v1/sandboxes/{box}/snapshots", {"name": "https"}, status=202)["id"]
    wait_for("the snapshot", lambda: server.ok("GET", f"/v1/snapshots/{snap}")["status"]["state"] == "Ready")
    id = server.create(image=None, snapshotId=snap, networkPolicy=policy("good.test"), credentialProxy={"enabled": True})["id"]
    out, _ = said(server, id, "grep -c '# opensandbox-egress: the authority' /etc/ssl/certs/ca-certificates.crt; "
                  "sed -n '/# opensandbox-egress: the/,/# opensandbox-egress: end/p' $SSL_CERT_FILE | grep -v '^#' | cmp - $NODE_EXTRA_CA_CERTS && echo same")
    assert out.split() == ["1", "same"]
    server.delete(id)
    server.ok("DELETE", f"/v1/snapshots/{snap}", status=204)
