"""docker.network_mode = "host", in a network namespace that is the whole machine for this: run by test_remote.py. Nobody
else can have execd's port there."""

import subprocess

import pytest
from osbserver import EXECD, request_body

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


@pytest.fixture(scope="module")
def hosted(engine):
    from dockerserver import DockerServer
    s = DockerServer(engine, '[docker]\nnetwork_mode = "host"\nstart_timeout_seconds = 30\n').start()
    yield s
    s.close()


def test_a_sandbox_on_the_machines_own_network(hosted, engine):
    id = hosted.create(entrypoint=["sh", "-c", "echo page > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"])["id"]
    info = engine.inspect(id)
    assert info["HostConfig"]["NetworkMode"] == "host" and not info["HostConfig"]["PortBindings"]
    assert not info["Config"].get("ExposedPorts")
    assert info["Config"]["Labels"]["opensandbox.io/embedding-proxy-port"] == ""
    assert hosted.ok("GET", f"/v1/sandboxes/{id}/endpoints/{EXECD}")["endpoint"] == f"127.0.0.1:{EXECD}"
    assert hosted.ok("GET", f"/v1/sandboxes/{id}/endpoints/8080")["endpoint"] == "127.0.0.1:8080"
    assert hosted.run(id, "echo $((6 * 7))")[0] == "42"
    assert hosted.call("GET", f"/sandboxes/{id}/proxy/8080/index.html", key=False).text == "page\n"
    hosted.restart()
    assert hosted.ping(id)

    r = hosted.call("POST", "/v1/sandboxes", request_body(networkPolicy={"egress": []}))
    assert r.status_code == 400 and "network_mode" in r.json()["message"], r.text
    # The port is taken: said, undone, and the first does not notice.
    r = hosted.call("POST", "/v1/sandboxes", request_body())
    assert r.status_code == 500 and r.json()["code"] == "DOCKER::SANDBOX_START_FAILED", r.text
    assert "in use" in r.json()["message"], r.text
    assert hosted.ping(id) and len(hosted.mine()) == 1
    hosted.delete(id)
    second = hosted.create()["id"]
    assert hosted.ping(second)
    hosted.delete(second)
    hosted.assert_clean()
