"""kill -9 in the middle of what is done for volumes and snapshots, then start again: nothing lost, nothing left."""

import os

import pytest
from osbserver import request_body, wait_for
from test_crash import crash, points, pytestmark, settle  # noqa: F401  (the mark is for this file too)


def volumes_of(s):
    return sorted(os.listdir(os.path.join(s.data, "oci", "volumes")))


@pytest.mark.parametrize("point", [p for p in points("oci.volume.") if p != "oci.volume.bucket"] +
                         ["oci.create.after_volumes", "oci.create.after_running", "server.create.running"])
def test_volume(make, point):
    s = make()
    body = request_body(volumes=[
        {"name": "kept", "mountPath": "/a", "pvc": {"claimName": "kept"}},
        {"name": "gone", "mountPath": "/b", "pvc": {"claimName": "gone", "deleteOnSandboxTermination": True}}])
    for key in ({}, {"Idempotency-Key": "k"}):
        crash(s, point, lambda h=key: s.call("POST", "/v1/sandboxes", body, headers=h))
        settle(s)
        for x in s.list():
            assert s.run(x["id"], "touch /a/f /b/f && echo ok")[0] == "ok"
            s.delete(x["id"])
        s.assert_clean()
        # A volume that was to stay is there only if a sandbox ever had it.
        wait_for("volumes going", lambda: volumes_of(s) in ([], ["kept"]))
    assert volumes_of(s) == ["kept"], "the second create went on after the crash"


def test_bucket(make):
    s = make(start=False)
    fakes, where = os.path.join(s.dir, "bin"), os.path.join(s.dir, "buckets")
    os.mkdir(fakes)
    with open(os.path.join(fakes, "ossfs2"), "w") as f:
        f.write('#!/bin/sh\nexec mount -t tmpfs -o mode=0777 fake "$2"\n')
    os.chmod(f.name, 0o755)
    s.env["PATH"] = fakes + ":" + os.environ["PATH"]
    s.write_config(f'[storage]\nossfs_mount_root = "{where}"\n')
    s.start()
    body = request_body(volumes=[{"name": "b", "mountPath": "/b", "ossfs": {
        "bucket": "bucket", "endpoint": "e", "accessKeyId": "a", "accessKeySecret": "s"}}])
    for point in ("oci.volume.bucket", "oci.create.after_volumes"):
        crash(s, point, lambda: s.call("POST", "/v1/sandboxes", body))
        settle(s)
        s.assert_clean()
        wait_for("the mount going", lambda: not os.path.ismount(os.path.join(where, "bucket")))
        assert os.listdir(os.path.join(s.data, "oci", "ossfs")) == []


@pytest.mark.parametrize("point", points("oci.remove."))
def test_delete_with_volume(make, point):
    s = make()
    id = s.create(volumes=[{"name": "gone", "mountPath": "/b",
                            "pvc": {"claimName": "gone", "deleteOnSandboxTermination": True}}])["id"]
    crash(s, point, lambda: s.call("DELETE", f"/v1/sandboxes/{id}"))
    s.wait_gone(id)
    s.assert_clean()
    wait_for("the volume going", lambda: volumes_of(s) == [])


# ---- snapshots ----

REMOVING = ["server.snapshot.deleting", "server.snapshot.removed", "oci.snapshot.removing"]


def layers(s):
    return [x for x in os.listdir(os.path.join(s.data, "images", "layers")) if x.startswith("snap-")]


def unfinished(s):
    return os.listdir(os.path.join(s.data, "images", "tmp"))


@pytest.mark.parametrize("point", [p for p in points("oci.snapshot.", "server.snapshot.") if p not in REMOVING])
def test_snapshot(make, point):
    s = make()
    id = s.create()["id"]
    s.run(id, "echo kept > /root/x")
    crash(s, point, lambda: s.call("POST", f"/v1/sandboxes/{id}/snapshots"))
    assert s.state(id) == "Running" and s.run(id, "cat /root/x")[0] == "kept", "not frozen, nothing lost"
    snap, = s.ok("GET", "/v1/snapshots")["items"]
    assert snap["status"]["state"] in ("Ready", "Failed"), snap
    late = point in ("oci.snapshot.recorded", "server.snapshot.captured")
    assert snap["status"]["reason"] == ("snapshot_recovery_ready" if late else "snapshot_recovery_missing_image")
    if late:
        b = s.create(image=None, entrypoint=None, snapshotId=snap["id"])["id"]
        assert s.run(b, "cat /root/x")[0] == "kept"
        s.delete(b)
    else:
        assert layers(s) == []
    assert unfinished(s) == []
    s.ok("DELETE", f"/v1/snapshots/{snap['id']}", status=204)
    s.delete(id)
    s.assert_clean()
    assert layers(s) == []


@pytest.mark.parametrize("point", REMOVING)
def test_snapshot_delete(make, point):
    s = make()
    id = s.create()["id"]
    snap = s.ok("POST", f"/v1/sandboxes/{id}/snapshots")["id"]
    wait_for("the snapshot", lambda: s.ok("GET", f"/v1/snapshots/{snap}")["status"]["state"] == "Ready")
    crash(s, point, lambda: s.call("DELETE", f"/v1/snapshots/{snap}"))
    assert s.ok("GET", "/v1/snapshots")["items"] == [] and layers(s) == []


@pytest.mark.parametrize("point", ["oci.create.after_image", "oci.create.after_spawn", "server.create.running"])
def test_restore(make, point):
    s = make()
    id = s.create()["id"]
    s.run(id, "echo kept > /root/x")
    snap = s.ok("POST", f"/v1/sandboxes/{id}/snapshots")["id"]
    wait_for("the snapshot", lambda: s.ok("GET", f"/v1/snapshots/{snap}")["status"]["state"] == "Ready")
    s.delete(id)
    body = request_body(image=None, snapshotId=snap)
    crash(s, point, lambda: s.call("POST", "/v1/sandboxes", body, headers={"Idempotency-Key": "k"}))
    settle(s)
    again = s.ok("POST", "/v1/sandboxes", body, headers={"Idempotency-Key": "k"})["id"]
    settle(s)
    assert [x["id"] for x in s.list()] == [again] and s.run(again, "cat /root/x")[0] == "kept"
    s.ok("DELETE", f"/v1/snapshots/{snap}", status=204)
    s.delete(again)
    s.assert_clean()
    assert layers(s) == []


# ---- forks ----

@pytest.mark.parametrize("point", points("server.fork.") + ["oci.snapshot.copied", "server.create.recorded",
                                                            "oci.create.after_spawn", "server.create.running"])
def test_fork(make, point):
    """All of them or none, and the source never notices."""
    s = make()
    id = s.create()["id"]
    s.run(id, "echo kept > /root/x")
    crash(s, point, lambda: s.call("POST", f"/v1/sandboxes/{id}/fork", {"count": 4}), n=3 if ".create." in point else 1)
    want = 4 if point == "server.fork.done" else 0
    wait_for("what was interrupted", lambda: len(s.list()) == want + 1)
    settle(s)
    assert s.run(id, "cat /root/x")[0] == "kept"
    assert s.ok("GET", "/v1/snapshots")["items"] == []
    for x in s.list():
        assert s.run(x["id"], "cat /root/x")[0] == "kept"
    assert len(s.ok("POST", f"/v1/sandboxes/{id}/fork", {"count": 2})["items"]) == 2
    for x in s.list():
        s.delete(x["id"])
    s.assert_clean()
    wait_for("the layers going", lambda: layers(s) == [])
    assert unfinished(s) == []
