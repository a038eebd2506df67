"""The egress sidecar's seam: an image that plays it, its environment, its network, its end."""

import json
import os
import shutil

import pytest
from dockerserver import DockerServer
from osbserver import request_body

SIDECAR = """#!/bin/sh
mkdir -p /www
echo ok > /www/healthz
env > /www/env
exec httpd -f -p 18080 -h /www
"""


@pytest.fixture(scope="module")
def guarded(engine):
    root = f"{engine.dir}/sidecar"
    shutil.copytree(f"{engine.dir}/busybox", root, symlinks=True)
    with open(f"{root}/bin/egress", "w") as f:
        f.write(SIDECAR)
    os.chmod(f"{root}/bin/egress", 0o755)
    engine.load("osbt-egress:1", root, ['CMD ["/bin/egress"]'])
    s = DockerServer(engine, '[egress]\nimage = "osbt-egress:1"\nmode = "dns+nft"\n').start()
    yield s
    for sandbox in s.list():
        s.delete(sandbox["id"])
    s.assert_clean()
    s.close()


def sidecar_of(engine, id):
    return engine.ok("GET", f"/containers/sandbox-egress-{id}/json")


def test_a_policy_starts_the_sidecar(guarded, engine):
    policy = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "pkg.example.org"}]}
    id = guarded.create(networkPolicy=policy)["id"]
    side, main = sidecar_of(engine, id), engine.inspect(id)
    env = dict(e.split("=", 1) for e in side["Config"]["Env"])
    assert json.loads(env["OPENSANDBOX_EGRESS_RULES"]) == policy
    assert env["OPENSANDBOX_EGRESS_MODE"] == "dns+nft" and len(env["OPENSANDBOX_EGRESS_TOKEN"]) == 32
    assert side["Config"]["Labels"]["opensandbox.io/egress-sidecar-for"] == id
    assert side["HostConfig"]["CapAdd"] == ["NET_ADMIN"]
    assert side["HostConfig"]["Sysctls"]["net.ipv6.conf.all.disable_ipv6"] == "1"
    assert main["HostConfig"]["NetworkMode"] == f"container:{side['Id']}"
    assert "NET_ADMIN" in main["HostConfig"]["CapDrop"]
    assert main["Config"]["Labels"]["opensandbox.io/egress-auth-token"] == env["OPENSANDBOX_EGRESS_TOKEN"]
    assert guarded.run(id, "wget -qO- http://127.0.0.1:18080/healthz")[0] == "ok", "one network"
    seen = guarded.ok("GET", f"/v1/sandboxes/{id}/endpoints/18080")
    assert seen["headers"] == {"OPENSANDBOX-EGRESS-AUTH": env["OPENSANDBOX_EGRESS_TOKEN"]}
    text = guarded.call("GET", f"/v1/sandboxes/{id}/diagnostics/inspect").text
    assert env["OPENSANDBOX_EGRESS_TOKEN"] not in text
    guarded.restart()
    assert guarded.ping(id), "found again, at the sidecar's address"
    guarded.delete(id)
    assert engine.call("GET", f"/containers/sandbox-egress-{id}/json")[0] == 404


def test_a_failed_create_takes_the_sidecar_along(guarded, engine):
    r = guarded.call("POST", "/v1/sandboxes", request_body(image={"uri": "127.0.0.1:1/no:1"}, networkPolicy={}))
    assert r.status_code == 500
    assert engine.containers("opensandbox.io/egress-sidecar-for") == []
