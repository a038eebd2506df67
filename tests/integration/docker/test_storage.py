"""Volumes of three kinds, and snapshots by commit."""

import datetime
import os
import stat
import uuid

import pytest
from osbserver import request_body, wait_for


def volume(name="v", path="/data", **more):
    return {"name": name, "mountPath": path, **more}


def claim():
    return "c-" + uuid.uuid4().hex[:12]


def refused(s, status, code, *volumes):
    r = s.call("POST", "/v1/sandboxes", request_body(volumes=list(volumes)))
    assert (r.status_code, r.json()["code"]) == (status, code), r.text


def out(s, id, command):
    text, last = s.run(id, command)
    assert last["type"] == "execution_complete", last
    return text


@pytest.fixture(scope="module")
def storage(engine):
    """A server with directories to mount, and a program that plays ossfs2."""
    from dockerserver import DockerServer
    s = DockerServer(engine)
    s.allowed, s.buckets, fakes = (os.path.join(s.dir, d) for d in ("allowed", "buckets", "fakes"))
    os.mkdir(s.allowed)
    os.mkdir(fakes)
    fake = os.path.join(fakes, "ossfs2")
    with open(fake, "w") as f:
        f.write('#!/bin/sh\nmount -t tmpfs bucket "$2" && echo content > "$2/file"\n')
    os.chmod(fake, os.stat(fake).st_mode | stat.S_IXUSR)
    s.env = {"PATH": fakes + ":" + os.environ["PATH"]}
    s.write_config(f'[storage]\nallowed_host_paths = ["{s.allowed}"]\nossfs_mount_root = "{s.buckets}"\n')
    s.start()
    yield s
    for sandbox in s.list():
        s.delete(sandbox["id"])
    s.assert_clean()
    s.close()


def test_host_directories(storage):
    path = os.path.join(storage.allowed, "work", "deep")
    id = storage.create(volumes=[volume(host={"path": path}),
                                 volume("r", "/ro", host={"path": storage.allowed}, readOnly=True),
                                 volume("s", "/sub", host={"path": storage.allowed}, subPath="work")])["id"]
    out(storage, id, "echo inside > /data/f")
    with open(os.path.join(path, "f")) as f:
        assert f.read() == "inside\n"
    assert out(storage, id, "cat /sub/deep/f; touch /ro/x 2>/dev/null && echo written || echo refused") == "inside\nrefused"


def test_links_do_not_lead_out(storage):
    os.symlink("/etc", os.path.join(storage.allowed, "link"))
    refused(storage, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", volume(host={"path": storage.allowed + "/link"}))
    refused(storage, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", volume(host={"path": storage.allowed + "/link/made"}))
    refused(storage, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", volume(host={"path": "/etc"}))
    assert not os.path.exists("/etc/made")


def test_named_volumes(storage, engine):
    stays, goes = claim(), claim()
    a = storage.create(volumes=[volume(pvc={"claimName": stays}),
                                volume("g", "/g", pvc={"claimName": goes, "deleteOnSandboxTermination": True})])["id"]
    out(storage, a, "mkdir /data/dir; echo kept > /data/dir/f")
    storage.delete(a)
    assert stays in engine.volumes() and goes not in engine.volumes()
    b = storage.create(volumes=[volume(pvc={"claimName": stays}, subPath="dir", readOnly=True)])["id"]
    assert out(storage, b, "cat /data/f") == "kept"
    refused(storage, 400, "VOLUME::INVALID_SUB_PATH", volume(pvc={"claimName": stays}, subPath="missing"))
    refused(storage, 400, "VOLUME::PVC_NOT_FOUND", volume(pvc={"claimName": claim(), "createIfNotExists": False}))
    storage.delete(b)
    engine.ok("DELETE", f"/volumes/{stays}")


def test_named_volumes_of_a_failed_create_go(storage, engine):
    name = claim()
    r = storage.call("POST", "/v1/sandboxes", request_body(image={"uri": "127.0.0.1:1/no:1"},
                                                           volumes=[volume(pvc={"claimName": name})]))
    assert r.status_code == 500
    assert name not in engine.volumes()


def test_managed_volumes_go_with_expiry(storage, engine):
    name = claim()
    id = storage.create(volumes=[volume(pvc={"claimName": name, "deleteOnSandboxTermination": True})])["id"]
    assert name in engine.volumes()
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
    storage.ok("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expiresAt": soon.isoformat()})
    storage.wait_gone(id)
    wait_for("the volume going", lambda: name not in engine.volumes())


def test_buckets_are_mounted_once_and_unmounted_by_the_last(storage, engine):
    bucket = {"bucket": "abc", "endpoint": "oss.example.org", "accessKeyId": "i", "accessKeySecret": "s"}
    a = storage.create(volumes=[volume(ossfs=bucket)])["id"]
    b = storage.create(volumes=[volume(ossfs=bucket)])["id"]
    point = os.path.join(storage.buckets, "abc")
    assert out(storage, a, "cat /data/file") == "content" and os.path.ismount(point)
    assert engine.inspect(a)["Config"]["Labels"]["opensandbox.io/ossfs-mounts"] == f'["{point}"]'
    storage.delete(a)
    assert os.path.ismount(point)
    storage.restart()
    storage.delete(b)
    assert not os.path.ismount(point)


def snapshot(s, id):
    sid = s.ok("POST", f"/v1/sandboxes/{id}/snapshots", {}, status=202)["id"]
    wait_for("the snapshot", lambda: s.ok("GET", f"/v1/snapshots/{sid}")["status"]["state"] == "Ready")
    return sid


def test_snapshot_and_restore(server, engine):
    name = claim()
    source = server.create(metadata={"who": "source"}, timeout=600,
                           volumes=[volume(pvc={"claimName": name, "deleteOnSandboxTermination": True})])["id"]
    out(server, source, "echo kept > /root/f")
    sid = snapshot(server, source)
    assert server.ping(source), "it goes on"
    made = server.ok("POST", "/v1/sandboxes", {"snapshotId": sid, "resourceLimits": {}}, status=202)
    restored = made["id"]
    server.wait_state(restored, "Running")
    assert out(server, restored, "cat /root/f") == "kept"
    seen = server.get(restored)
    assert seen["snapshotId"] == sid and "expiresAt" not in seen and "metadata" not in seen
    # The source's labels do no harm: its volume stays, its ports and its end are its own.
    labels = engine.inspect(restored)["Config"]["Labels"]
    assert labels["opensandbox.io/id"] == restored and labels["opensandbox.io/expires-at"] == ""
    assert labels["opensandbox.io/volume-managed-by"] == ""
    image = engine.ok("GET", f"/images/opensandbox-snapshots:{sid}/json")
    # Whose snapshot it is, is all that the image says.
    assert [k for k, v in image["Config"]["Labels"].items() if k.startswith("opensandbox.io/") and v] == [
        "opensandbox.io/snapshot-by"]
    server.delete(restored)
    assert name in engine.volumes() and server.ping(source)
    server.ok("DELETE", f"/v1/snapshots/{sid}", status=204)
    assert engine.call("GET", f"/images/opensandbox-snapshots:{sid}/json")[0] == 404
