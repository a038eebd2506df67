"""kill -9 of the server at every step that the Docker runtime takes, then start again: nothing lost, nothing left, and a
neighbour that never notices. The engine goes on meanwhile, as it would."""

import os
import re
import subprocess

import pytest
from dockerbox import Engine
from dockerserver import DockerServer
from osbserver import ROOT, request_body, wait_for
from runtimes import docker_engine
from test_crash import crash, in_seconds, pytestmark, settle  # noqa: F401  (the mark is for this file too)


def points(*prefixes):
    """Out of the sources, so that a new one is tested from its first day."""
    text = subprocess.run(["grep", "-rhoE", r'FAULT_POINT\([^;]*', os.path.join(ROOT, "src/server/runtime/docker")],
                          capture_output=True, text=True, check=True).stdout
    return sorted(p for p in set(re.findall(r'"(docker\.[a-z_.]+)"', text)) if p.startswith(prefixes))


engine = docker_engine(Engine.load_busybox, "module", runtimes=False)


@pytest.fixture(scope="module")
def world(engine):
    s = DockerServer(engine)
    try:
        s.allowed = os.path.join(s.dir, "allowed")
        os.mkdir(s.allowed)
        s.write_config(f'[storage]\nallowed_host_paths = ["{s.allowed}"]\n')
        s.start()
        s.neighbour = s.create(timeout=None)["id"]
        s.run(s.neighbour, "echo here > /root/mark")
        yield s
    finally:
        s.close()


@pytest.fixture
def s(world):
    yield world
    world.sweep(keep={world.neighbour})
    wait_for("volumes going", lambda: world.named_volumes() == [])
    wait_for("snapshots going", lambda: world.snapshot_layers() == [])
    assert world.run(world.neighbour, "cat /root/mark")[0] == "here"


def others(s):
    return [x for x in s.list() if x["id"] != s.neighbour]


def with_volumes(s):
    return request_body(volumes=[
        {"name": "gone", "mountPath": "/b", "pvc": {"claimName": "gone", "deleteOnSandboxTermination": True}},
        {"name": "host", "mountPath": "/h", "host": {"path": s.allowed + "/dir"}}])


@pytest.mark.parametrize("point", points("docker.create."))
def test_create(s, point):
    """Of one whose client never knew it nothing stays; one that its client will ask for again goes on."""
    for key in ({}, {"Idempotency-Key": point}):
        create = lambda: s.ok("POST", "/v1/sandboxes", with_volumes(s), headers=key)
        crash(s, point, create)
        settle(s)
        if not key:
            wait_for("nothing", lambda: not others(s))
            s.assert_clean(ids={s.neighbour})
            continue
        made = create()
        settle(s)
        assert [x["id"] for x in others(s)] == [made["id"]]
        assert s.run(made["id"], "touch /b/f /h/f && echo ok")[0] == "ok"
        s.delete(made["id"])


@pytest.mark.parametrize("point", points("docker.pause.", "docker.resume."))
def test_pause_and_resume(s, point):
    id = s.create()["id"]
    action = point.split(".")[1]
    if action == "resume":
        s.ok("POST", f"/v1/sandboxes/{id}/pause")
    crash(s, point, lambda: s.call("POST", f"/v1/sandboxes/{id}/{action}"))
    settle(s)
    if s.state(id) == "Paused":
        s.ok("POST", f"/v1/sandboxes/{id}/resume", status=202)
    assert s.state(id) == "Running" and s.ping(id)


@pytest.mark.parametrize("point", points("docker.remove."))
def test_delete_and_expiry(s, point):
    ends = [lambda id: s.call("DELETE", f"/v1/sandboxes/{id}"),
            lambda id: s.ok("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expiresAt": in_seconds(0.3)})]
    for end in ends:
        id = s.ok("POST", "/v1/sandboxes", with_volumes(s), status=202)["id"]
        s.wait_state(id, "Running")
        crash(s, point, lambda: end(id))
        s.wait_gone(id)
        s.assert_clean(ids={s.neighbour})
        wait_for("the volume going", lambda: s.named_volumes() == [])


@pytest.mark.parametrize("point", points("docker.snapshot."))
def test_snapshot(s, point):
    id = s.create()["id"]
    s.run(id, "echo kept > /root/x")
    take = lambda: s.call("POST", f"/v1/sandboxes/{id}/snapshots")
    if point == "docker.snapshot.removing":
        snap = take().json()["id"]
        wait_for("the snapshot", lambda: s.ok("GET", f"/v1/snapshots/{snap}")["status"]["state"] == "Ready")
        crash(s, point, lambda: s.call("DELETE", f"/v1/snapshots/{snap}"))
        wait_for("it going", lambda: s.ok("GET", "/v1/snapshots")["items"] == [])
        return
    crash(s, point, take)
    assert s.run(id, "cat /root/x")[0] == "kept", "not frozen, nothing lost"
    snap, = s.ok("GET", "/v1/snapshots")["items"]
    late = point == "docker.snapshot.committed"
    assert snap["status"]["reason"] == ("snapshot_recovery_ready" if late else "snapshot_recovery_missing_image")
    if late:
        b = s.create(image=None, entrypoint=None, snapshotId=snap["id"])["id"]
        assert s.run(b, "cat /root/x")[0] == "kept"
        s.delete(b)
    s.ok("DELETE", f"/v1/snapshots/{snap['id']}", status=204)


@pytest.mark.parametrize("point", ["docker.snapshot.committed", "docker.create.started", "server.fork.created"])
def test_fork(s, point):
    """All of them or none, and the source never notices."""
    id = s.create()["id"]
    s.run(id, "echo kept > /root/x")
    crash(s, point, lambda: s.call("POST", f"/v1/sandboxes/{id}/fork", {"count": 2}), n=2 if ".create." in point else 1)
    wait_for("what was interrupted", lambda: [x["id"] for x in others(s)] == [id])
    s.assert_clean(ids={s.neighbour, id})
    wait_for("the image going", lambda: s.snapshot_layers() == [])
    assert s.run(id, "cat /root/x")[0] == "kept"


def test_every_point_is_tested():
    assert set(points("docker.")) == set(points("docker.create.", "docker.pause.", "docker.resume.", "docker.remove.",
                                                "docker.snapshot."))
    assert len(points("docker.")) >= 15
