"""The engine goes away and comes back, and containers change behind the server's back."""

import concurrent.futures
import os
import subprocess

import pytest
from dockerbox import Engine
from dockerserver import DockerServer
from osbserver import request_body, wait_for
from runtimes import docker_engine

own = docker_engine(Engine.load_busybox, "module", runtimes=False)  # one that may be killed


@pytest.fixture
def lonely(own):
    s = DockerServer(own).start()
    yield s
    if own.process.poll() is not None:
        own.start()
    s.sweep()
    s.close()


def test_killed_behind_the_server(server, engine):
    id = server.create()["id"]
    engine.ok("POST", f"/containers/sandbox-{id}/kill")
    status = server.wait_state(id, "Failed")["status"]
    assert "signal 9" in status["message"]
    server.delete(id)


def test_removed_behind_the_server(server, engine):
    id = server.create()["id"]
    engine.ok("DELETE", f"/containers/sandbox-{id}?force=1")
    assert server.wait_state(id, "Failed")["status"]["reason"] in ("CONTAINER_LOST", "CONTAINER_EXITED_ERROR")
    server.delete(id)
    assert server.state(id) is None


def test_paused_behind_the_server(server, engine):
    id = server.create()["id"]
    engine.ok("POST", f"/containers/sandbox-{id}/pause")
    server.wait_state(id, "Paused")
    r = server.call("POST", f"/v1/sandboxes/{id}/pause")
    assert r.status_code == 409 and r.json()["code"] == "DOCKER::SANDBOX_NOT_RUNNING"
    engine.ok("POST", f"/containers/sandbox-{id}/unpause")
    server.wait_state(id, "Running")
    engine.ok("POST", f"/containers/sandbox-{id}/pause")
    server.wait_state(id, "Paused")
    server.delete(id)


def test_an_outage_loses_nothing(lonely, own):
    running, paused, due = (lonely.create()["id"] for _ in range(3))
    lonely.ok("POST", f"/v1/sandboxes/{paused}/pause")
    own.stop()
    wait_for("the outage being noticed", lambda: "engine is away" in lonely.log_tail(200))
    # Nothing is known, so nothing is said to be lost; what needs the engine is refused with a reason.
    assert {x["id"] for x in lonely.list()} == {running, paused, due}
    assert all(x["status"]["reason"] != "CONTAINER_LOST" for x in lonely.list())
    r = lonely.call("POST", "/v1/sandboxes", request_body())
    assert r.status_code in (500, 503) and "engine" in r.json()["message"]
    r = lonely.call("DELETE", f"/v1/sandboxes/{due}")
    assert r.status_code in (500, 503)
    assert lonely.call("GET", "/health", key=False).status_code == 200
    own.start()
    # A stopped engine has stopped its containers: told by itself, without anybody asking.
    wait_for("the end being noticed", lambda: lonely.state(running) in ("Failed", "Terminated"))
    lonely.wait_gone(due)
    assert lonely.ping(lonely.create()["id"])


def test_a_crash_of_the_engine_in_the_middle_of_creates_and_deletes(lonely, own):
    old = [lonely.create()["id"] for _ in range(3)]

    def create(_):
        return lonely.call("POST", "/v1/sandboxes", request_body(), timeout=120)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        creates = [pool.submit(create, i) for i in range(4)]
        deletes = [pool.submit(lonely.call, "DELETE", f"/v1/sandboxes/{id}", timeout=120) for id in old]
        wait_for("a create being at work", lambda: len(own.containers()) > 0)
        own.kill()
        statuses = [f.result().status_code for f in creates], [f.result().status_code for f in deletes]
        own.start()
    assert all(s in (202, 500, 503) for s in statuses[0]), statuses
    assert all(s in (204, 404, 500, 503) for s in statuses[1]), statuses
    for id in old:
        lonely.wait_gone(id)
    for sandbox in lonely.list():
        assert sandbox["status"]["state"] in ("Running", "Failed", "Terminated"), sandbox
    lonely.restart()  # whatever a failed create could not take away goes at the next sweep
    known = {x["id"] for x in lonely.list()}
    lonely.assert_clean(ids=known)
    assert lonely.ping(lonely.create()["id"])


def test_a_name_that_is_taken(make, engine):
    """A create that was cut short has left a container of the same name."""
    s = make("[server]\ncreate_wait_seconds = 0\n")
    r = s.ok("POST", "/v1/sandboxes", request_body(entrypoint=["sleep", "1000"]), status=202,
             headers={"Idempotency-Key": "one"})
    s.kill()
    status, _ = engine.call("POST", f"/containers/create?name=sandbox-{r['id']}",
                            {"Image": "host:latest", "Cmd": ["true"]})
    assert status in (201, 409)  # the server's own was on its way
    s.start()
    s.wait_state(r["id"], "Running")
    assert s.ping(r["id"])


def test_ports_that_are_taken(make, engine):
    """Many at once: each has ports of its own."""
    s = make()
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: s.create()["id"], range(6)))
    ports = [engine.inspect(id)["Config"]["Labels"][f"opensandbox.io/{p}"] for id in made
             for p in ("http-port", "embedding-proxy-port")]
    assert len(set(ports)) == 12


def test_a_full_disk():
    """The engine's data on a file system that fills up."""
    e = Engine(runtimes=False)
    data = f"{e.dir}/data"
    os.mkdir(data)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", data], check=True)
    s = None
    try:
        e.start()
        e.load_busybox("host:latest")
        s = DockerServer(e).start()
        id = s.create()["id"]
        s.run(id, "dd if=/dev/zero of=/root/big bs=1M count=200 2>/dev/null")
        r = s.call("POST", "/v1/sandboxes", request_body())
        assert r.status_code in (202, 500), r.text
        if r.status_code == 500:
            assert r.json()["code"].startswith("DOCKER::")
        else:
            s.call("DELETE", f"/v1/sandboxes/{r.json()['id']}")
        s.delete(id)
        assert s.ping(s.create()["id"]), "room again"
        for sandbox in s.list():
            s.delete(sandbox["id"])
        s.assert_clean()
    finally:
        if s:
            s.close()
        e.close()
