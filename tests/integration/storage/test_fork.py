"""Forks: several sandboxes that begin where a running one is."""

import uuid

import pytest
from osbserver import request_body, wait_for
from test_snapshots import layers, out, restore, server, take  # noqa: F401  (server is a fixture)

pytestmark = pytest.mark.both_runtimes


def fork(s, id, status=202, **body):
    return s.ok("POST", f"/v1/sandboxes/{id}/fork", body, status=status)


def test_fork_of_ten(server):  # noqa: F811
    a = server.create(metadata={"task": "t1"}, env={"KEEP": "kept", "CHANGE": "old"}, timeout=1000,
                      entrypoint=["sleep", "12345"])["id"]
    out(server, a, "echo state > /root/x; chown 5:6 /root/x")
    items = fork(server, a, count=10, metadata={"branch": "b"}, env={"CHANGE": "new"})["items"]
    assert len({x["id"] for x in items} | {a}) == 11
    for i, x in enumerate(items):
        assert x["status"]["state"] == "Running" and x["metadata"] == {"task": "t1", "branch": "b"}
        assert x["entrypoint"] == ["sleep", "12345"] and "expiresAt" in x
        assert out(server, x["id"], f"cat /root/x; stat -c %u:%g /root/x; echo $KEEP $CHANGE; echo {i} > /root/x") == (
            "state\n5:6\nkept new")
    assert [out(server, x["id"], "cat /root/x") for x in items] == [str(i) for i in range(10)], "each its own"
    assert out(server, a, "cat /root/x; echo $CHANGE") == "state\nold"
    assert len(server.list("&metadata=branch%3Db")) == 10
    assert server.ok("GET", "/v1/snapshots")["items"] == [], "nothing of the fork is listed"
    assert len(layers(server)) == 1, "they share one layer"
    server.delete(a)
    server.restart()
    assert [out(server, x["id"], "cat /root/x") for x in items] == [str(i) for i in range(10)]
    for x in items:
        server.delete(x["id"])
    wait_for("the layer going", lambda: layers(server) == [])


def test_each_its_own_metadata(server):  # noqa: F811
    a = server.create(metadata={"all": "x"})["id"]
    server.ok("PATCH", f"/v1/sandboxes/{a}/metadata", {"all": "y"})
    items = fork(server, a, metadata={"m": "1"}, sandboxes=[
        {"metadata": {"m": "2", "own": "first"}, "env": {"WHO": "first"}}, {"env": {"WHO": "second"}}])["items"]
    assert [x["metadata"] for x in items] == [{"all": "y", "m": "2", "own": "first"}, {"all": "y", "m": "1"}]
    assert [out(server, x["id"], "echo $WHO") for x in items] == ["first", "second"]


def test_timeout(server):  # noqa: F811
    a = server.create(timeout=600)["id"]
    assert "expiresAt" in server.get(server.call("POST", f"/v1/sandboxes/{a}/fork").json()["items"][0]["id"])
    assert "expiresAt" not in fork(server, a, timeout=None)["items"][0]
    assert "expiresAt" in fork(server, a, timeout=60)["items"][0]


def test_fork_of_a_fork_and_snapshot_of_one(server):  # noqa: F811
    a = server.create()["id"]
    out(server, a, "echo 1 > /root/1")
    b = fork(server, a)["items"][0]["id"]
    out(server, b, "echo 2 > /root/2")
    c = fork(server, b)["items"][0]["id"]
    out(server, c, "rm /root/1")
    snap = take(server, c)
    for x in (a, b, c):
        server.delete(x)
    assert out(server, restore(server, snap), "ls /root") == "2"


def test_volumes_are_shared(server):  # noqa: F811
    claim = "c-" + uuid.uuid4().hex[:8]
    a = server.create(volumes=[{"name": "v", "mountPath": "/data", "pvc": {
        "claimName": claim, "deleteOnSandboxTermination": True}}])["id"]
    b = fork(server, a)["items"][0]["id"]
    out(server, a, "echo both > /data/x")
    assert out(server, b, "cat /data/x") == "both"
    server.delete(a)
    assert out(server, b, "cat /data/x") == "both"
    server.delete(b)
    assert claim not in server.named_volumes()


@pytest.mark.oci_only("refused before any runtime is asked")
@pytest.mark.parametrize("body,status", [
    ({"count": 0}, 422), ({"count": 101}, 422), ({"count": "x"}, 422), ({"timeout": 5}, 422), ({"metadata": {"a": 1}}, 422),
    ({"metadata": {"opensandbox.io/x": "y"}}, 400), ({"metadata": {"a": "b c"}}, 400), ({"sandboxes": [3]}, 422),
    ({"count": 1, "sandboxes": [{}, {}]}, 400), ({"env": {"A=B": "c"}}, 400)])
def test_refusals(server, body, status):  # noqa: F811
    a = server.create()["id"]
    r = server.call("POST", f"/v1/sandboxes/{a}/fork", body)
    assert r.status_code == status, r.text
    assert [x["id"] for x in server.list()] == [a] and server.ping(a)
    assert server.ok("GET", "/v1/snapshots")["items"] == [] and layers(server) == []


def test_of_what_is_not_there_or_not_running(server):  # noqa: F811
    assert server.call("POST", f"/v1/sandboxes/{uuid.uuid4()}/fork").status_code == 404
    assert server.call("POST", "/v1/sandboxes/x/fork", key=False).status_code == 401
    a = server.create()["id"]
    server.ok("POST", f"/v1/sandboxes/{a}/pause")
    r = server.call("POST", f"/v1/sandboxes/{a}/fork")
    assert (r.status_code, r.json()["code"]) == (409, "SNAPSHOT::INVALID_SOURCE_STATE")


def test_all_or_none(make):
    s = make("[limits]\nsandboxes = 3\n")
    a = s.create()["id"]
    r = s.call("POST", f"/v1/sandboxes/{a}/fork", {"count": 5})
    assert r.status_code in (429, 503), r.text
    assert [x["id"] for x in s.list()] == [a] and s.ping(a)
    assert layers(s) == [] and s.ok("GET", "/v1/snapshots")["items"] == []
    assert len(fork(s, a, count=2)["items"]) == 2
    r = s.call("POST", "/v1/sandboxes", request_body())
    assert r.status_code in (429, 503)
