"""The vault of a real sandbox of the embedded runtime: through the endpoint, trusted inside, over a kill."""

import os
import signal

from egressnet import wait_for
from test_sandbox import api, policy, sh, worker


def vault(server, id):
    return api(server, id, "POST", "/credential-vault", {
        "credentials": [{"name": "t", "source": {"type": "inline", "value": "sandbox-secret"}}],
        "bindings": [{"name": "b", "match": {"hosts": ["api.good.test"], "schemes": ["http"], "ports": [80]},
                      "auth": {"type": "bearer", "credential": "t"}}]})


def test_trust_and_life(server, world):
    id = server.create(networkPolicy=policy("good.test", "api.good.test"), credentialProxy={"enabled": True})["id"]
    out = sh(server, id, "echo $SSL_CERT_FILE $NODE_EXTRA_CA_CERTS $GIT_SSL_CAINFO; grep -c BEGIN $NODE_EXTRA_CA_CERTS; "
             "tail -n +2 $NODE_EXTRA_CA_CERTS | head -1 > /tmp/line; grep -c -F -f /tmp/line $SSL_CERT_FILE; "
             "grep -c PRIVATE $SSL_CERT_FILE")
    bundle = "/etc/opensandbox-egress-bundle.pem"
    assert out.split() == [bundle, "/etc/opensandbox-egress-ca.pem", bundle, "1", "1", "0"]
    r = vault(server, id)
    assert r.status_code == 201, r.text
    assert "sandbox-secret" not in r.text
    before = worker(server, id)
    os.kill(before, signal.SIGKILL)

    def back():
        try:
            return worker(server, id) not in (None, before) and api(server, id, "GET", "/credential-vault").status_code == 200
        except OSError:
            return False
    wait_for("the sidecar with its vault", back)
    assert api(server, id, "GET", "/credential-vault").json()["revision"] == 1
    assert api(server, id, "DELETE", "/credential-vault").status_code == 204
    server.delete(id)


def test_without_it_nothing_is_trusted(server, world):
    id = server.create(networkPolicy=policy("good.test"))["id"]
    assert sh(server, id, "echo ${SSL_CERT_FILE-none}; ls /etc/opensandbox-egress-ca.pem 2>/dev/null | wc -l").split() == ["none", "0"]
    assert vault(server, id).status_code == 412
    server.delete(id)
