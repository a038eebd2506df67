"""Sandboxes of the published reference server and ours on one Docker engine: each server lists, uses, renews and removes
what the other made."""

import datetime

import requests
from osbserver import EXECD, wait_for


IMAGE = {"uri": "host:latest"}  # the reference says the tag that the engine has


def in_hours(n):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=n)).strftime("%Y-%m-%dT%H:%M:%SZ")


def made(theirs, **fields):
    """The reference says Running before its execd listens."""
    id = theirs.create(**fields)["id"]
    wait_for("its execd", lambda: theirs.ping(id))
    return id


def listed(server, id, **metadata):
    query = "".join(f"&metadata={k}%3D{v}" for k, v in metadata.items())
    return next((s for s in server.list(query) if s["id"] == id), None)


def use(server, id, name):
    """A command through the server and at its own address, and a file there and back."""
    assert server.run(id, f"echo hello $((20 + 3)) > /tmp/{name}; cat /tmp/{name}")[0] == "hello 23"
    endpoint = server.ok("GET", f"/v1/sandboxes/{id}/endpoints/{EXECD}")
    base, headers = "http://" + endpoint["endpoint"], endpoint.get("headers", {})
    r = requests.get(f"{base}/files/download", params={"path": f"/tmp/{name}"}, headers=headers, timeout=60)
    assert (r.status_code, r.text) == (200, "hello 23\n")
    server.ok("POST", f"/v1/sandboxes/{id}/pause", status=202)
    server.wait_state(id, "Paused")
    server.ok("POST", f"/v1/sandboxes/{id}/resume", status=202)
    server.wait_state(id, "Running")
    assert server.run(id, f"cat /tmp/{name}")[0] == "hello 23"


def renew(server, id):
    when = in_hours(5)
    assert server.ok("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expiresAt": when})["expiresAt"] == when
    assert server.get(id)["expiresAt"] == when


def same(a, b):
    for key in ("id", "image", "metadata", "expiresAt", "entrypoint"):
        assert a.get(key) == b.get(key), key
    assert a["status"]["state"] == b["status"]["state"] == "Running"
    assert a["createdAt"][:19] == b["createdAt"][:19]


def test_ours_takes_what_the_reference_made(theirs, ours):
    kept = made(theirs, image=IMAGE, metadata={"team": "a"}, env={"COLOUR": "blue"})
    forever = made(theirs, image=IMAGE, timeout=None)
    assert ours('[docker]\nadopt = "none"\n').list() == []
    server = ours()
    assert {kept, forever} <= {s["id"] for s in server.list()}
    same(server.get(kept), theirs.get(kept))
    same(server.get(forever), theirs.get(forever))
    assert "expiresAt" not in server.get(forever)
    assert listed(server, kept, team="a") and not listed(server, kept, team="b")
    assert server.run(kept, "echo $COLOUR")[0] == "blue"
    use(server, kept, "by-ours")
    renew(server, kept)
    assert server.ok("PATCH", f"/v1/sandboxes/{kept}/metadata", {"team": "c", "more": "yes"})["metadata"] == {"team": "c", "more": "yes"}
    server.restart()
    assert server.get(kept)["metadata"] == {"team": "c", "more": "yes"}
    for id in (kept, forever):
        server.delete(id)
        wait_for("the reference missing it", lambda: theirs.state(id) is None)
    assert not theirs.list()


def test_the_reference_takes_what_ours_made(theirs, ours):
    server = ours()
    kept = server.create(image=IMAGE, metadata={"team": "a"}, env={"COLOUR": "green"})["id"]
    forever = server.create(image=IMAGE, timeout=None)["id"]
    assert {kept, forever} <= {s["id"] for s in theirs.list()}
    same(server.get(kept), theirs.get(kept))
    same(server.get(forever), theirs.get(forever))
    assert listed(theirs, kept, team="a") and not listed(theirs, kept, team="b")
    assert theirs.run(kept, "echo $COLOUR")[0] == "green"
    use(theirs, kept, "by-the-reference")
    renew(theirs, kept)
    server.wait_state(kept, "Running")  # paused and resumed by the other one
    for id in (kept, forever):
        theirs.delete(id)
        wait_for("ours missing it", lambda: server.state(id) != "Running")
    server.assert_clean()


def test_a_snapshot_of_one_is_an_image_of_the_other(theirs, ours):
    """The reference's snapshots are images of the engine, and so are ours."""
    server = ours()
    source = made(theirs)
    theirs.run(source, "echo kept > /tmp/kept")
    snapshot = theirs.ok("POST", f"/v1/sandboxes/{source}/snapshots", {"name": "one"}, status=202)["id"]
    wait_for("the snapshot", lambda: theirs.ok("GET", f"/v1/snapshots/{snapshot}")["status"]["state"] == "Ready")
    theirs.delete(source)
    copy = server.create(image={"uri": f"opensandbox-snapshots:{snapshot}"})["id"]
    assert server.run(copy, "cat /tmp/kept")[0] == "kept"
    back = server.ok("POST", f"/v1/sandboxes/{copy}/snapshots", {"name": "two"}, status=202)["id"]
    wait_for("the snapshot", lambda: server.ok("GET", f"/v1/snapshots/{back}")["status"]["state"] == "Ready")
    again = made(theirs, image={"uri": f"opensandbox-snapshots:{back}"})
    assert theirs.run(again, "cat /tmp/kept")[0] == "kept"
    assert listed(theirs, again)["image"]["uri"].endswith(back)
    theirs.delete(again)
    server.delete(copy)
