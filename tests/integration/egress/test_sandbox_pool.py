"""Warm pools whose template has a network policy: whoever waits is behind its gateway already."""

import os

from egressnet import wait_for
from test_sandbox import api, fetch, policy, sh, sidecar


def make_pool(server, name, **more):
    template = {"image": {"uri": "host"}, "entrypoint": ["sleep", "infinity"], "resourceLimits": {"cpu": "1", "memory": "128Mi"}, **more}
    server.ok("POST", "/v1/pools", {"name": name, "template": template, "capacitySpec": {
        "bufferMin": 1, "bufferMax": 1, "poolMin": 0, "poolMax": 5}}, status=201)
    return wait_waiting(server, name)


def wait_waiting(server, name):
    """The one that waits: started, with its sidecar. What is still being removed has to go first."""
    known = {s["id"] for s in server.list()}

    def waiting():
        found = set(os.listdir(os.path.join(server.data, "oci", "sandboxes"))) - known
        n = server.ok("GET", f"/v1/pools/{name}", status=200)["status"]["available"]
        return found if n == 1 and len(found) == 1 else None
    return wait_for("a member", waiting).pop()


def take(server, name, **more):
    got = server.ok("POST", "/v1/sandboxes", {"extensions": {"poolRef": name}, "timeout": 600, **more}, status=202)
    return got if got["status"]["state"] == "Running" else server.wait_state(got["id"], "Running")


def check(server, world, id):
    assert fetch(server, id, "good.test") == "200"
    assert "200" not in fetch(server, id, "evil.test")
    assert "200" not in fetch(server, id, world.evil)
    r = api(server, id, "GET", "/policy")
    assert r.status_code == 200, r.text
    assert r.json()["policy"] == policy("good.test")
    assert server.session.get(r.url, timeout=30).status_code in (401, 403)  # only with its token


def test_a_member_has_its_policy_and_its_token(server, world):
    waiting = make_pool(server, "walled", networkPolicy=policy("good.test"))
    before = set(sidecar(server, waiting))
    assert len(before) == 2
    id = take(server, "walled", env={"MINE": "1"}, metadata={"a": "b"})["id"]
    assert id == waiting and set(sidecar(server, id)) == before  # the very one, not made again
    assert sh(server, id, "echo $MINE") == "1"
    check(server, world, id)
    assert api(server, id, "PATCH", "/policy", [{"action": "allow", "target": "evil.test"}]).status_code == 200
    assert fetch(server, id, "evil.test") == "200"

    # The next one has nothing of that, and a token of its own.
    other = wait_waiting(server, "walled")
    assert take(server, "walled")["id"] == other
    check(server, world, other)
    tokens = [server.ok("GET", f"/v1/sandboxes/{i}/endpoints/18080")["headers"]["OPENSANDBOX-EGRESS-AUTH"] for i in (id, other)]
    assert tokens[0] != tokens[1] and all(tokens)

    # A member survives the server, and so do its rules.
    third = wait_waiting(server, "walled")
    server.kill()
    server.start()
    assert take(server, "walled")["id"] == third
    check(server, world, third)
    for i in (id, other, third):
        server.delete(i)
    server.ok("DELETE", "/v1/pools/walled")
    wait_for("the sidecars' end", lambda: not any(sidecar(server, i) for i in (id, other, third)))


def test_the_credential_proxy_of_a_template(server, world):
    waiting = make_pool(server, "vaulted", networkPolicy=policy("good.test"), credentialProxy={"enabled": True})
    id = take(server, "vaulted")["id"]
    assert id == waiting
    assert sh(server, id, "echo $SSL_CERT_FILE; grep -c BEGIN $NODE_EXTRA_CA_CERTS").split() == ["/etc/opensandbox-egress-bundle.pem", "1"]
    r = api(server, id, "POST", "/credential-vault", {
        "credentials": [{"name": "t", "source": {"type": "inline", "value": "pool-secret"}}],
        "bindings": [{"name": "b", "match": {"hosts": ["good.test"], "schemes": ["http"], "ports": [80]},
                      "auth": {"type": "bearer", "credential": "t"}}]})
    assert r.status_code == 201 and "pool-secret" not in r.text, r.text
    assert "hello" in sh(server, id, "curl -s -m 20 -A '' -H Accept: http://good.test/")  # short: 80 bytes of it are kept
    with open(world.log) as f:  # what arrived outside has what the sandbox never saw
        arrived = [bytes.fromhex(line.split()[-1]) for line in f if line.startswith(f"tcp-data {world.good} 80")]
    assert arrived and b"pool-secret" in arrived[-1], arrived
    server.delete(id)
    server.ok("DELETE", "/v1/pools/vaulted")


def test_a_policy_belongs_to_the_template(server):
    make_pool(server, "plain")
    r = server.call("POST", "/v1/sandboxes", {"extensions": {"poolRef": "plain"}, "networkPolicy": policy("good.test")})
    assert r.status_code == 400 and "template" in r.json()["message"], r.text
    r = server.call("POST", "/v1/pools", {"name": "half", "capacitySpec": {"bufferMin": 0, "bufferMax": 0, "poolMin": 0, "poolMax": 1},
                                          "template": {"image": "host", "credentialProxy": {"enabled": True}}})
    assert r.status_code == 400 and "requires networkPolicy" in r.json()["message"], r.text
    server.ok("DELETE", "/v1/pools/plain")


def test_a_declared_pool(server, world):
    server.stop()
    plain = server.extra
    server.write_config(plain + """[pool.declared]
image = "host"
buffer_min = 1
buffer_max = 1
pool_max = 3
resource_limits = { cpu = "1", memory = "128Mi" }
network_policy = { defaultAction = "deny", egress = [{ action = "allow", target = "good.test" }] }
""")
    server.start()
    waiting = wait_waiting(server, "declared")
    assert take(server, "declared")["id"] == waiting
    check(server, world, waiting)
    server.delete(waiting)
    server.stop()
    server.write_config(plain)  # no longer declared: goes at the next start
    server.start()
    assert server.call("GET", "/v1/pools/declared").status_code == 404


def test_nothing_is_left(server):
    server.delete_pools()
    for s in server.list():
        server.call("DELETE", f"/v1/sandboxes/{s['id']}")
    server.assert_clean()
