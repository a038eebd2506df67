"""Real sandboxes of the embedded runtime behind their gateway, a resolver and a web server beyond the host."""

import base64
import os
import signal

from egressnet import wait_for


def policy(*allowed, default="deny"):
    return {"defaultAction": default, "egress": [{"action": "allow", "target": t} for t in allowed]}


def sh(server, id, command):
    return server.run(id, command)[0]


def fetch(server, id, host, resolve=None):
    """What curl says inside: "200", or its exit code as "curl 7"."""
    cmd = f"curl -s -m 10 -o /dev/null -w '%{{http_code}}' {resolve or ''} http://{host}/ || echo \" curl $?\""
    return sh(server, id, cmd).strip()


def sidecar(server, id):
    """Process ids of the sidecar: the watcher and the worker, as the kernel sees them."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cgroup") as f, open(f"/proc/{pid}/status") as g:
                if f"{id}-egress" in f.read():
                    found[int(pid)] = g.read()
        except OSError:
            pass
    return found


def worker(server, id):
    return max(sidecar(server, id), default=None)


def api(server, id, method, path, body=None):
    e = server.ok("GET", f"/v1/sandboxes/{id}/endpoints/18080")
    return server.session.request(method, f"http://{e['endpoint']}{path}", json=body, headers=e["headers"], timeout=30)


def test_only_what_is_allowed_is_reached(server, world):
    id = server.create(networkPolicy=policy("good.test"))["id"]
    assert fetch(server, id, "good.test") == "200"
    assert "200" not in fetch(server, id, "evil.test")
    assert "200" not in fetch(server, id, world.evil)
    assert fetch(server, id, world.good) == "200"  # learned from the answer
    with open(f"{world.dir}/dns.log") as f:
        assert "evil.test" not in f.read().replace("host-record", "")
    server.delete(id)
    server.wait_gone(id)
    wait_for("the sidecar's end", lambda: not sidecar(server, id))


def test_policy_through_the_endpoint_and_it_cuts_connections(server, world):
    id = server.create(networkPolicy=policy("good.test"))["id"]
    r = api(server, id, "GET", "/policy")
    assert r.status_code == 200 and r.json()["policy"]["egress"] == [{"action": "allow", "target": "good.test"}]
    assert r.json()["enforcementMode"] == "dns+nft"
    assert server.session.get(r.url, timeout=30).status_code in (401, 403)
    script = ("import socket,sys,time\ns=socket.create_connection(('good.test',9999),20)\ns.settimeout(30)\n"
              "s.sendall(b'a');s.recv(1);open('/tmp/open','w').close()\n"
              "try:\n  while True:\n    s.sendall(b'b');s.recv(1);time.sleep(0.1)\nexcept OSError as e:\n  open('/tmp/cut','w').write(str(e))\n")
    code = base64.b64encode(script.encode()).decode()
    sh(server, id, f"echo {code} | base64 -d > /tmp/c.py; nohup python3 /tmp/c.py >/tmp/c.out 2>&1 &")
    wait_for("the connection", lambda: "yes" in sh(server, id, "test -e /tmp/open && echo yes || cat /tmp/c.out"))
    assert api(server, id, "PATCH", "/policy", [{"action": "allow", "target": "other.test"}]).status_code == 200
    assert "yes" not in sh(server, id, "test -e /tmp/cut && echo yes || true")
    assert api(server, id, "DELETE", "/policy", ["good.test"]).status_code == 200
    wait_for("the cut", lambda: "yes" in sh(server, id, "test -e /tmp/cut && echo yes || true"))
    assert "200" not in fetch(server, id, "good.test")
    server.delete(id)


def test_a_killed_sidecar_fails_closed_and_comes_back_with_its_policy(server, world):
    id = server.create(networkPolicy=policy("nothing.test"))["id"]
    assert api(server, id, "PATCH", "/policy", [{"action": "allow", "target": "good.test"}]).status_code == 200
    assert fetch(server, id, "good.test") == "200"
    for _ in range(2):
        old = worker(server, id)
        os.kill(old, signal.SIGKILL)
        assert "200" not in fetch(server, id, world.evil)
        wait_for("another worker", lambda: (worker(server, id) or 0) != old and len(sidecar(server, id)) == 2)
        wait_for("its answer", lambda: fetch(server, id, "good.test") == "200")
        assert "200" not in fetch(server, id, world.evil)
    server.delete(id)


def test_the_sidecar_has_next_to_no_privileges(server):
    id = server.create(networkPolicy=policy())["id"]
    status = dict(line.split(":\t", 1) for line in sidecar(server, id)[worker(server, id)].splitlines() if ":\t" in line)
    assert set(status["Uid"].split()) != {"0"} and "0" not in status["Uid"].split()
    assert int(status["CapEff"], 16) == 1 << 12 | 1 << 14 and int(status["CapPrm"], 16) == 1 << 12 | 1 << 14
    assert status["NoNewPrivs"] == "1"
    server.delete(id)


def test_survives_a_restart_of_the_server(server, world):
    id = server.create(networkPolicy=policy("good.test"))["id"]
    before = set(sidecar(server, id))
    server.kill()
    server.start()
    assert set(sidecar(server, id)) == before
    assert fetch(server, id, "good.test") == "200"
    assert "200" not in fetch(server, id, world.evil)
    assert api(server, id, "GET", "/policy").status_code == 200
    server.delete(id)
    server.wait_gone(id)
    wait_for("the sidecar's end", lambda: not sidecar(server, id))


def test_without_a_policy_there_is_no_sidecar(server, world):
    id = server.create()["id"]
    assert not sidecar(server, id)
    assert fetch(server, id, world.evil) == "200"
    server.delete(id)


def test_a_policy_that_means_nothing_is_refused(server):
    for bad in ({"defaultAction": "block"}, {"egress": [{"action": "maybe", "target": "a.test"}]},
                {"egress": [{"action": "allow", "target": "http://a.test"}]}):
        r = server.call("POST", "/v1/sandboxes", {"image": {"uri": "host"}, "entrypoint": ["sleep", "9"], "timeout": 60,
                                                  "resourceLimits": {"cpu": "1", "memory": "128Mi"}, "networkPolicy": bad})
        assert r.status_code >= 400, (bad, r.text)


def test_nothing_is_left(server):
    server.sweep()
