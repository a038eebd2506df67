"""Warm pools: what they keep, what a create takes out of them, and that this is a sandbox like any other."""

import concurrent.futures
import json
import os
import signal
import subprocess

import pytest
from osbserver import EXECD, wait_for
from schema import Spec

SPEC = Spec("sandbox-lifecycle.yml")
TEMPLATE = {"image": {"uri": "host"}, "entrypoint": ["sleep", "infinity"], "env": {"A": "template", "B": "template"},
            "resourceLimits": {"cpu": "1", "memory": "128Mi"}}


def capacity(least=1, most=2, all=20, floor=0):
    return {"bufferMin": least, "bufferMax": most, "poolMax": all, "poolMin": floor}


def make_pool(s, name="p", template=TEMPLATE, wait=True, **numbers):
    cap = capacity(**numbers)
    pool = s.ok("POST", "/v1/pools", {"name": name, "template": template, "capacitySpec": cap}, status=201)
    if wait:
        wait_available(s, name, max(cap["bufferMax"], cap["poolMin"]))
    return pool


def status(s, name="p"):
    return s.ok("GET", f"/v1/pools/{name}", status=200)["status"]


def wait_available(s, name, n):
    wait_for(f"{n} waiting in {name}", lambda: status(s, name)["available"] == n)


def take(s, name="p", headers=None, **body):
    """A sandbox of the pool; Running."""
    got = s.ok("POST", "/v1/sandboxes", {"extensions": {"poolRef": name}, **body}, status=202, headers=headers)
    if got["status"]["state"] == "Pending":
        return s.wait_state(got["id"], "Running")
    assert got["status"]["state"] == "Running", got
    return got


def directory(s, id):
    return os.path.join(s.data, "oci", "sandboxes", id)


def state_of(s, id):
    with open(os.path.join(directory(s, id), "state.json")) as f:
        return json.load(f)


def members(s):
    """Ids of the sandboxes that are started and wait."""
    found = set()
    for id in s.directories():
        try:
            state = state_of(s, id)
        except FileNotFoundError:
            continue
        if state.get("standby") and state["phase"] == "running":
            found.add(id)
    return found


# ---- the routes ----
def test_the_routes_and_their_shapes(server):
    def call(method, path, body=None, status=None):
        r = server.call(method, "/v1" + path, body)
        SPEC.check_response("/pools" if path == "/pools" else "/pools/{name}", method.lower(), r)
        assert r.status_code == status, r.text
        return r.json() if r.content else None

    assert call("GET", "/pools", status=200) == {"items": []}
    request = {"name": "one", "template": TEMPLATE, "capacitySpec": capacity(0, 0, 5, 0)}
    pool = call("POST", "/pools", request, 201)
    assert set(pool) == {"name", "capacitySpec", "status", "createdAt"}
    assert pool["name"] == "one" and pool["capacitySpec"] == request["capacitySpec"]
    assert list(pool["status"]) == ["total", "allocated", "available", "revision"]
    assert call("POST", "/pools", request, 409)["code"] == "KUBERNETES::POOL_ALREADY_EXISTS"
    assert call("GET", "/pools", status=200)["items"] == [pool] == [call("GET", "/pools/one", status=200)]
    assert server.ok("GET", "/pools/one") == pool, "also without /v1"
    changed = call("PUT", "/pools/one", {"capacity_spec": {"buffer_min": "0", "bufferMax": 0, "poolMax": 7, "poolMin": 0}}, 200)
    assert changed["capacitySpec"]["poolMax"] == 7 and changed["createdAt"] == pool["createdAt"]
    assert changed["status"]["revision"] == pool["status"]["revision"]
    for method in ("GET", "DELETE"):
        assert call(method, "/pools/two", status=404)["code"] == "KUBERNETES::POOL_NOT_FOUND"
    assert call("PUT", "/pools/two", {"capacitySpec": capacity()}, 404)["code"] == "KUBERNETES::POOL_NOT_FOUND"
    call("DELETE", "/pools/one", status=204)
    call("DELETE", "/pools/one", status=404)


@pytest.mark.parametrize("change,loc", [
    ({"name": "No"}, ["body", "name"]),
    ({"name": None}, ["body", "name"]),
    ({"name": "x" * 254}, ["body", "name"]),
    ({"template": None}, ["body", "template"]),
    ({"template": []}, ["body", "template"]),
    ({"capacitySpec": {"bufferMin": 1}}, ["body", "capacitySpec", "bufferMax"]),
    ({"capacitySpec": {**capacity(), "poolMax": -1}}, ["body", "capacitySpec", "poolMax"]),
])
def test_what_does_not_fit_the_schema(server, change, loc):
    r = server.call("POST", "/v1/pools", {"name": "p", "template": TEMPLATE, "capacitySpec": capacity(), **change})
    assert r.status_code == 422, r.text
    assert loc in [d["loc"] for d in r.json()["detail"]]
    assert server.ok("GET", "/v1/pools")["items"] == []


@pytest.mark.parametrize("template,word", [
    ({}, "image"),
    ({"image": {"uri": "host"}, "timeout": 60}, "timeout"),
    ({"image": {"uri": "host"}, "metadata": {"a": "b"}}, "metadata"),
    ({"image": {"uri": "host"}, "snapshotId": "s"}, "snapshotId"),
    ({"image": {"uri": "host"}, "extensions": {"poolRef": "q"}}, "pool itself"),
    ({"image": {"uri": "host"}, "resourceLimits": {"memory": "lots"}}, "memory"),
    ({"image": {"uri": "host", "auth": {"username": "u", "password": "p"}}}, "credentials"),
    ({"spec": {"containers": []}}, "exactly one"),
    ({"spec": {"containers": [{"image": "host"}], "initContainers": [{}]}}, "spec.initContainers"),
    ({"spec": {"containers": [{"image": "host", "securityContext": {"privileged": True}}]}}, "securityContext"),
    ({"spec": {"containers": [{"image": "host", "env": [{"name": "A", "valueFrom": {}}]}]}}, "valueFrom"),
])
def test_templates_that_cannot_be(server, template, word):
    r = server.call("POST", "/v1/pools", {"name": "p", "template": template, "capacitySpec": capacity()})
    assert r.status_code == 400 and r.json()["code"] == "SANDBOX::INVALID_PARAMETER", r.text
    assert r.json()["message"].startswith("template: ") and word in r.json()["message"], r.text
    assert server.ok("GET", "/v1/pools")["items"] == []


# ---- keeping and taking ----
def test_members_wait_unseen_and_are_refilled(server):
    make_pool(server, least=2, most=3)
    waiting = members(server)
    assert len(waiting) == 3 and status(server) == {**status(server), "total": 3, "allocated": 0, "available": 3}
    assert server.list() == []
    for id in waiting:
        assert server.call("GET", f"/v1/sandboxes/{id}").status_code == 404
        assert server.call("DELETE", f"/v1/sandboxes/{id}").status_code == 404
        assert server.call("GET", f"/sandboxes/{id}/proxy/{EXECD}/ping", key=False).status_code == 404
        assert server.call("GET", f"/v1/sandboxes/{id}/diagnostics/summary").status_code == 404
    got = take(server)
    assert got["id"] in waiting
    assert [x["id"] for x in server.list()] == [got["id"]]
    wait_available(server, "p", 3)
    assert status(server)["allocated"] == 1 and status(server)["total"] == 4
    assert members(server).isdisjoint({got["id"]}) and len(members(server)) == 3
    server.delete(got["id"])
    wait_for("the pool to know", lambda: status(server)["allocated"] == 0)


def test_a_taken_one_is_what_was_asked_for(server):
    make_pool(server, most=1)
    id = members(server).pop()
    got = take(server, metadata={"who": "me"}, timeout=600, env={"B": "request", "C": "x  'y", "N": None},
               resourceLimits={"memory": "256Mi"}, entrypoint=["sh", "-c", 'echo "$A-$B-$C"; exec sleep 1000'])
    assert got["id"] == id, "it was there before it was asked for"
    assert got["metadata"] == {"who": "me"} and got["entrypoint"][0] == "sh" and got["expiresAt"]
    assert server.run(id, 'echo "$A-$B-$C-${N-none}"')[0] == "template-request-x  'y-none"
    limit = server.run(id, "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null")[0]
    assert limit == str(256 << 20)
    wait_for("its output", lambda: "template-request-x  'y" in server.call("GET", f"/v1/sandboxes/{id}/diagnostics/logs").text)
    text = server.call("GET", f"/v1/sandboxes/{id}/diagnostics/inspect").text
    assert "memory limit: 268435456" in text and "cpu limit: 1000m" in text, "the template's where nothing else is said"
    shown = server.get(id)
    assert shown["image"] == {"uri": "host"} and shown["metadata"] == {"who": "me"}
    assert server.run(id, "ps -o args= -e; cat /proc/1/cmdline | tr '\\0' ' '")[0].count("sleep 1000") >= 1
    assert not os.path.exists(os.path.join(directory(server, id), "control.sock"))


def test_a_taken_one_lives_like_any_other(server):
    make_pool(server, most=2)
    id = take(server, metadata={"color": "red"}, timeout=600)["id"]
    other = take(server, metadata={"color": "blue"})["id"]
    assert [x["id"] for x in server.list("&metadata=color%3Dred&state=Running")] == [id]
    assert "expiresAt" not in server.get(other)
    assert server.call("POST", f"/v1/sandboxes/{id}/pause").status_code == 202
    assert server.state(id) == "Paused"
    assert server.call("POST", f"/v1/sandboxes/{id}/resume").status_code == 202
    assert server.run(id, "echo back")[0] == "back"
    assert server.ok("PATCH", f"/v1/sandboxes/{id}/metadata", {"color": None, "x": "y"})["metadata"] == {"x": "y"}
    server.ok("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expiresAt": "2099-01-01T00:00:00Z"})
    assert server.get(id)["expiresAt"] == "2099-01-01T00:00:00Z"
    assert server.ok("GET", f"/v1/sandboxes/{id}/endpoints/8000")["endpoint"]
    server.delete(id)
    assert server.state(id) is None and server.state(other) == "Running"
    wait_for("its directory to go", lambda: id not in server.directories())


def test_the_end_of_its_entrypoint_is_its_end(server):
    make_pool(server, most=2)
    good = take(server, entrypoint=["sh", "-c", "exit 0"])["id"]
    bad = take(server, entrypoint=["/no/such/program"])["id"]
    assert server.wait_state(good, "Terminated")["status"]["reason"] == "CONTAINER_EXITED"
    assert "127" in server.wait_state(bad, "Failed")["status"]["message"]


def test_it_expires(server):
    make_pool(server, most=1)
    id = take(server, timeout=60)["id"]
    now = subprocess.run(["date", "-u", "-d", "+1 second", "+%Y-%m-%dT%H:%M:%SZ"], capture_output=True, text=True)
    server.ok("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expiresAt": now.stdout.strip()})
    server.wait_gone(id)
    wait_for("the pool to know", lambda: status(server)["allocated"] == 0)


def test_where_none_waits_one_is_made(server):
    make_pool(server, least=0, most=0, wait=False)
    cold = take(server, env={"B": "request"}, metadata={"a": "b"})
    assert server.run(cold["id"], "echo $A $B")[0] == "template request"
    assert status(server) == {**status(server), "total": 1, "allocated": 1, "available": 0}
    assert server.get(cold["id"])["entrypoint"] == ["sleep", "infinity"]


def test_another_disk_needs_another_sandbox(server):
    make_pool(server, most=1)
    waiting = members(server)
    id = take(server, resourceLimits={"disk": "64Mi"})["id"]
    assert id not in waiting and members(server) == waiting
    assert "disk limit: 67108864" in server.call("GET", f"/v1/sandboxes/{id}/diagnostics/inspect").text


@pytest.mark.parametrize("body,word", [
    ({"image": {"uri": "other"}}, "image"),
    ({"networkPolicy": {"defaultAction": "deny"}}, "networkPolicy"),
    ({"volumes": [{"name": "v", "host": {"path": "/x"}, "mountPath": "/x"}]}, "volumes"),
    ({"platform": {"os": "linux", "arch": "amd64"}}, "platform"),
    ({"secureAccess": True}, "secureAccess"),
    ({"resourceLimits": {"memory": "lots"}}, "memory"),
    ({"metadata": {"a b": "c"}}, "a b"),
    ({"entrypoint": ["a 'b"]}, "closed"),
])
def test_what_a_request_cannot_say(server, body, word):
    make_pool(server, most=1)
    r = server.call("POST", "/v1/sandboxes", {"extensions": {"poolRef": "p"}, **body})
    assert r.status_code == 400 and word in r.json()["message"], r.text
    assert server.list() == [] and status(server)["allocated"] == 0 and status(server)["available"] == 1


def test_the_same_image_may_be_named(server):
    make_pool(server, most=1)
    assert take(server, image={"uri": "host"})["id"]


def test_a_pool_that_is_not_there(server):
    r = server.call("POST", "/v1/sandboxes", {"extensions": {"poolRef": "nope"}})
    assert r.status_code == 404 and r.json()["code"] == "KUBERNETES::POOL_NOT_FOUND"


def test_no_more_than_pool_max(server):
    make_pool(server, least=1, most=5, all=2, wait=False)
    wait_available(server, "p", 2)
    first, second = take(server)["id"], take(server)["id"]
    r = server.call("POST", "/v1/sandboxes", {"extensions": {"poolRef": "p"}})
    assert r.status_code == 503 and r.json()["code"] == "SANDBOX::LIMIT_REACHED" and r.headers["Retry-After"]
    assert "poolMax" in r.json()["message"]
    server.delete(first)
    third = take(server)["id"]
    assert {x["id"] for x in server.list()} == {second, third}
    assert status(server) == {**status(server), "total": 2, "available": 0}


def test_the_same_key_gives_the_same_sandbox(server):
    make_pool(server, most=2)
    headers = {"Idempotency-Key": "k1"}
    a = take(server, headers=headers)
    assert take(server, headers=headers)["id"] == a["id"]
    assert status(server)["allocated"] == 1
    r = server.call("POST", "/v1/sandboxes", {"extensions": {"poolRef": "p"}, "env": {"X": "1"}}, headers=headers)
    assert r.status_code == 409
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        ids = set(threads.map(lambda _: one(server, {"Idempotency-Key": "k2"}), range(8)))
    assert len(ids) == 1 and status(server)["allocated"] == 2


def one(s, headers=None):
    import requests
    r = requests.post(s.url + "/v1/sandboxes", json={"extensions": {"poolRef": "p"}}, timeout=60,
                      headers={"OPEN-SANDBOX-API-KEY": s.key, **(headers or {})})
    assert r.status_code == 202, r.text
    return r.json()["id"]


def test_many_at_once_get_one_each(server):
    make_pool(server, least=3, most=5, all=40)
    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        ids = list(threads.map(lambda _: one(server), range(12)))
        assert len(set(ids)) == 12
    for id in ids:
        server.wait_state(id, "Running")
        assert server.run(id, "echo $A; hostname")[0] == f"template\n{id}"
    assert status(server)["allocated"] == 12


# ---- not fresh ----
def inside(s, id, code):
    """Python in the network of a sandbox, as somebody else on it would be."""
    return subprocess.run(["nsenter", "-t", str(state_of(s, id)["pid"]), "-n", "/usr/bin/python3", "-c", code],
                          capture_output=True, text=True, check=True, timeout=60).stdout


RUN_INSIDE = f"""
import urllib.request
r = urllib.request.Request("http://127.0.0.1:{EXECD}/command", b'{{"command":"echo dirty > /root/mark"}}')
print(urllib.request.urlopen(r, timeout=30).read())
"""


def test_one_that_was_used_is_given_to_nobody(server):
    make_pool(server, most=1)
    id = members(server).pop()
    inside(server, id, RUN_INSIDE)
    assert open(f"/proc/{state_of(server, id)['pid']}/root/root/mark").read() == "dirty\n"
    got = take(server)["id"]
    assert server.run(got, "cat /root/mark 2>/dev/null; echo $A")[0] == "template"


def test_looking_whether_it_answers_does_not_use_it(server):
    make_pool(server, most=1)
    id = members(server).pop()
    inside(server, id, f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{EXECD}/ping', timeout=30)")
    assert take(server)["id"] == id and server.run(id, "hostname")[0] == id


def test_a_dead_one_is_given_to_nobody_and_replaced(server):
    make_pool(server, least=2, most=2)
    before = members(server)
    dead = sorted(before)[0]
    os.kill(state_of(server, dead)["pid"], signal.SIGKILL)
    wait_for("another in its place", lambda: dead not in members(server) and len(members(server)) == 2)
    assert server.list() == []
    wait_for("its directory to go", lambda: dead not in server.directories())


def test_one_that_dies_as_it_is_taken(server):
    make_pool(server, most=1)
    id = members(server).pop()
    pid = state_of(server, id)["pid"]
    os.kill(pid, signal.SIGSTOP)  # so that the server has not yet heard of its death
    os.kill(pid, signal.SIGKILL)
    got = take(server)["id"]
    assert server.run(got, "echo $A")[0] == "template"


# ---- changes ----
def test_capacity_up_and_down(server):
    make_pool(server, least=1, most=1)
    server.ok("PUT", "/v1/pools/p", {"capacitySpec": capacity(3, 3)})
    wait_available(server, "p", 3)
    server.ok("PUT", "/v1/pools/p", {"capacitySpec": capacity(0, 1)})
    wait_available(server, "p", 1)
    wait_for("the others to go", lambda: len(server.directories()) == 1)
    server.ok("PUT", "/v1/pools/p", {"capacitySpec": capacity(0, 0, floor=2)})
    wait_available(server, "p", 2)


def test_another_template_replaces_what_waits(server):
    make_pool(server, least=2, most=2)
    old, revision = members(server), status(server)["revision"]
    kept = take(server)["id"]
    wait_available(server, "p", 2)
    changed = server.ok("PUT", "/v1/pools/p", {"capacitySpec": capacity(2, 2),
                                               "template": {**TEMPLATE, "env": {"A": "new"}}})
    assert changed["status"]["revision"] != revision
    wait_for("new ones", lambda: len(members(server)) == 2 and members(server).isdisjoint(old))
    assert server.run(take(server)["id"], "echo $A")[0] == "new"
    assert server.run(kept, "echo $A")[0] == "template", "a taken one stays as it is"


def test_a_deleted_pool_takes_its_members_along(server):
    make_pool(server, least=3, most=3)
    kept = take(server)["id"]
    server.ok("DELETE", "/v1/pools/p", status=204)
    wait_for("members to go", lambda: server.directories() == [kept])
    assert server.run(kept, "echo here")[0] == "here"
    make_pool(server, least=0, most=0, all=1, wait=False)
    assert status(server)["allocated"] == 1, "one of that name is still there"


def test_a_pod_template(server):
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Never", "containers": [{
        "name": "sandbox", "image": "host", "command": ["sh", "-c"], "args": ["echo $A from a pod; exec sleep 1000"],
        "env": [{"name": "A", "value": "hello"}, {"name": "EMPTY"}],
        "resources": {"limits": {"cpu": 1, "memory": "128Mi"}, "requests": {"cpu": "100m"}}}]}}
    make_pool(server, template=pod, most=1)
    got = take(server)
    assert got["entrypoint"] == ["sh", "-c", "echo $A from a pod; exec sleep 1000"]
    wait_for("its output", lambda: "hello from a pod" in server.call(
        "GET", f"/v1/sandboxes/{got['id']}/diagnostics/logs").text)
    assert server.run(got["id"], "echo $A${EMPTY-unset}")[0] == "hello"


def test_an_access_token_comes_late_too(server):
    make_pool(server, most=1)
    id = members(server).pop()
    assert take(server, env={"EXECD_ACCESS_TOKEN": "s3cret-token"})["id"] == id
    url = f"/sandboxes/{id}/proxy/{EXECD}/command"
    assert server.call("POST", url, {"command": "true"}, key=False).status_code == 401
    r = server.call("POST", url, {"command": "echo ${EXECD_ACCESS_TOKEN-hidden}"}, key=False,
                    headers={"X-EXECD-ACCESS-TOKEN": "s3cret-token"})
    assert r.status_code == 200 and "hidden" in r.text


def test_volumes_of_the_template(server):
    volume = {"name": "shared", "pvc": {"claimName": "pool-claim", "deleteOnSandboxTermination": True}, "mountPath": "/data"}
    make_pool(server, template={**TEMPLATE, "volumes": [volume]}, most=2)
    waiting = members(server)
    one, two = take(server)["id"], take(server)["id"]
    assert {one, two} == waiting
    server.run(one, "echo shared > /data/x")
    assert server.run(two, "cat /data/x")[0] == "shared"


def test_a_snapshot_of_a_taken_one(server):
    make_pool(server, most=1)
    id = take(server)["id"]
    server.run(id, "echo kept > /root/kept")
    snapshot = server.ok("POST", f"/v1/sandboxes/{id}/snapshots", {}, status=202)["id"]
    try:
        wait_for("the snapshot", lambda: server.ok("GET", f"/v1/snapshots/{snapshot}")["status"]["state"] == "Ready")
        again = server.ok("POST", "/v1/sandboxes", {"snapshotId": snapshot, "resourceLimits": {}}, status=202)["id"]
        server.wait_state(again, "Running")
        assert server.run(again, "cat /root/kept")[0] == "kept"
        server.delete(again)
    finally:
        server.ok("DELETE", f"/v1/snapshots/{snapshot}", status=204)
