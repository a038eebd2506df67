"""Create, look, pause, resume, renew, patch, delete: every route, every state, real sandboxes."""

import datetime
import re
import time

import pytest
from osbserver import request_body, wait_for

pytestmark = pytest.mark.both_runtimes
RFC3339 = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$")


def at(seconds):
    t = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return t.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_create_and_get(server):
    r = server.call("POST", "/v1/sandboxes", request_body(
        metadata={"team": "a", "x.y/z": ""}, platform={"os": "Linux", "arch": "amd64"}, env={"A": "b", "N": None}))
    assert r.status_code == 202
    made = r.json()
    assert list(made) == ["id", "status", "metadata", "platform", "expiresAt", "createdAt", "entrypoint"]
    assert made["status"]["state"] == "Running" and made["status"]["reason"] == "CONTAINER_RUNNING"
    assert made["metadata"] == {"team": "a", "x.y/z": ""}
    assert made["platform"] == {"os": "linux", "arch": "amd64"}
    assert made["entrypoint"] == ["sleep", "infinity"]
    assert RFC3339.match(made["createdAt"]) and RFC3339.match(made["expiresAt"])
    assert re.match(r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", made["id"])
    assert r.headers["Location"] == f"/v1/sandboxes/{made['id']}"
    # Running means answering: no waiting, no retry.
    assert server.ping(made["id"])
    for prefix in ("", "/v1"):
        seen = server.ok("GET", f"{prefix}/sandboxes/{made['id']}", status=200)
        assert list(seen) == ["id", "image", "platform", "status", "metadata", "entrypoint", "expiresAt", "createdAt"]
        assert seen["image"] == {"uri": "host"}
        assert seen["createdAt"] == made["createdAt"] and seen["expiresAt"] == made["expiresAt"]
    out, last = server.run(made["id"], "echo $A; echo ${N-unset}")
    assert out.split() == ["b", "unset"] and last["type"] == "execution_complete"


def test_create_without_timeout_never_expires(server):
    made = server.create(timeout=None)
    assert "expiresAt" not in made and "metadata" not in made
    r = server.call("POST", f"/v1/sandboxes/{made['id']}/renew-expiration", {"expiresAt": at(100)})
    assert r.status_code == 409 and r.json()["code"] == "DOCKER::INVALID_EXPIRATION"


def test_snake_case_and_lenient_scalars(server):
    body = request_body(resourceLimits=None, timeout="600")
    body["resource_limits"] = {"memory": "64mb"}
    body["secure_access"] = "off"
    server.ok("POST", "/v1/sandboxes", body, status=202)


def test_one_word_entrypoint_is_split(server):
    made = server.create(entrypoint=["sh -c 'sleep  infinity'"])
    assert made["entrypoint"] == ["sh", "-c", "sleep  infinity"]


def test_get_unknown(server):
    for method, path in [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume")]:
        r = server.call(method, f"/v1/sandboxes/nope{path}")
        assert r.status_code == 404 and r.json()["code"] == "DOCKER::SANDBOX_NOT_FOUND", (method, path)


def test_delete_leaves_nothing(server):
    id = server.create()["id"]
    server.run(id, "mkdir -p /workspace/x; echo y > /root/file; (sleep 1000 &) ")
    server.delete(id)
    assert server.call("GET", f"/v1/sandboxes/{id}").status_code == 404
    assert server.call("DELETE", f"/v1/sandboxes/{id}").status_code == 404
    server.assert_clean()


def test_pause_and_resume(server):
    id = server.create()["id"]
    server.run(id, "(i=0; while :; do echo $i > /tmp/n; i=$((i+1)); sleep 0.02; done) >/dev/null 2>&1 &")
    r = server.call("POST", f"/v1/sandboxes/{id}/resume")
    assert r.status_code == 409 and r.json()["code"] == "DOCKER::SANDBOX_NOT_PAUSED"
    r = server.call("POST", f"/v1/sandboxes/{id}/pause", {"ignored": 1})
    assert r.status_code == 202 and r.content == b""
    status = server.get(id)["status"]
    assert status["state"] == "Paused" and status["reason"] == "CONTAINER_PAUSED"
    r = server.call("POST", f"/v1/sandboxes/{id}/pause")
    assert r.status_code == 409 and r.json()["code"] == "DOCKER::SANDBOX_NOT_RUNNING"
    r = server.call("GET", f"/sandboxes/{id}/proxy/44772/ping")
    assert r.status_code == 409 and r.json()["code"] == "DOCKER::SANDBOX_NOT_RUNNING"
    assert server.call("POST", f"/v1/sandboxes/{id}/resume").status_code == 202
    assert server.state(id) == "Running"
    first = server.run(id, "cat /tmp/n")[0]
    wait_for("the loop going on", lambda: server.run(id, "cat /tmp/n")[0] != first)


def test_a_paused_sandbox_expires(server):
    id = server.create(timeout=60)["id"]
    server.ok("POST", f"/v1/sandboxes/{id}/pause", status=202)
    server.ok("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expiresAt": at(1)}, status=200)
    server.wait_gone(id)
    server.assert_clean()


def test_renew(server):
    id = server.create(timeout=60)["id"]
    for wrong in ["2020-01-01T00:00:00Z", at(-1)]:
        r = server.call("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expiresAt": wrong})
        assert r.status_code == 400 and r.json()["code"] == "DOCKER::INVALID_EXPIRATION"
    new = at(3600)
    assert server.ok("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expiresAt": new}) == {"expiresAt": new}
    assert server.get(id)["expiresAt"] == new
    earlier = at(30)[:-8] + "+00:00"
    server.ok("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expires_at": earlier}, status=200)
    assert server.get(id)["expiresAt"] < new
    for bad in [{}, {"expiresAt": "soon"}, {"expiresAt": None}, []]:
        r = server.call("POST", f"/v1/sandboxes/{id}/renew-expiration", bad)
        assert r.status_code == 422 and r.json()["detail"] and r.json()["code"] and r.json()["message"]
    r = server.call("POST", "/v1/sandboxes/nope/renew-expiration", {"expiresAt": at(-1)})
    assert r.status_code == 404


def test_metadata_patch(server):
    id = server.create(metadata={"a": "1", "b": "2"})["id"]
    path = f"/v1/sandboxes/{id}/metadata"
    assert server.ok("PATCH", path, {"a": None, "c": "3", "zz": None})["metadata"] == {"b": "2", "c": "3"}
    assert server.ok("PATCH", path, {"d": "4"})["metadata"] == {"b": "2", "c": "3", "d": "4"}
    assert server.ok("PATCH", path, {})["metadata"] == {"b": "2", "c": "3", "d": "4"}
    r = server.call("PATCH", path, {"opensandbox.io/x": None})
    assert r.status_code == 400 and r.json()["code"] == "INVALID_METADATA_LABEL"
    r = server.call("PATCH", path, {"a": "not ok"})
    assert r.status_code == 400 and r.json()["code"] == "SANDBOX::INVALID_METADATA_LABEL"
    for bad in [[], {"a": 1}, "x"]:
        assert server.call("PATCH", path, bad).status_code == 422
    assert server.call("PATCH", "/v1/sandboxes/nope/metadata", {"opensandbox.io/x": "1"}).status_code == 404
    empty = server.ok("PATCH", path, {"b": None, "c": None, "d": None})
    assert "metadata" not in empty


@pytest.mark.parametrize("command,state,reason,word", [
    (["true"], "Terminated", "CONTAINER_EXITED", "exit code 0"),
    (["sh", "-c", "exit 3"], "Failed", "CONTAINER_EXITED_ERROR", "exit code 3"),
    (["sh", "-c", "kill -9 $$"], "Failed", "CONTAINER_EXITED_ERROR", "signal 9"),
])
def test_an_entrypoint_that_ends(server, command, state, reason, word):
    sandbox = server.ok("POST", "/v1/sandboxes", request_body(entrypoint=command), status=202)
    status = server.wait_state(sandbox["id"], state)["status"]
    assert status["reason"] == reason and word in status["message"], status
    r = server.call("GET", f"/sandboxes/{sandbox['id']}/proxy/44772/ping", key=False)
    assert r.status_code == 502 and "has ended" in r.json()["message"]
    server.delete(sandbox["id"])


def test_out_of_memory_is_told(server):
    code = "x = bytearray(400 << 20)"
    sandbox = server.ok("POST", "/v1/sandboxes", request_body(
        entrypoint=["python3", "-c", code], resourceLimits={"memory": "64Mi"}), status=202)
    status = server.wait_state(sandbox["id"], "Failed")["status"]
    assert status["reason"] == "CONTAINER_OOM_KILLED", status


def test_list_filters_pages_and_order(server):
    ids = [server.create(metadata={"n": str(i), "even": "yes" if i % 2 == 0 else "no"})["id"] for i in range(5)]
    server.ok("POST", f"/v1/sandboxes/{ids[0]}/pause")
    seen = server.ok("GET", "/v1/sandboxes")
    assert [s["id"] for s in seen["items"]] == ids[::-1]
    assert seen["pagination"] == {"page": 1, "pageSize": 20, "totalItems": 5, "totalPages": 1, "hasNextPage": False}
    page = server.ok("GET", "/sandboxes?page=2&pageSize=2")
    assert [s["id"] for s in page["items"]] == [ids[2], ids[1]]
    assert page["pagination"] == {"page": 2, "pageSize": 2, "totalItems": 5, "totalPages": 3, "hasNextPage": True}
    assert server.ok("GET", "/sandboxes?page=9")["items"] == []
    assert [s["id"] for s in server.ok("GET", "/sandboxes?state=paused")["items"]] == [ids[0]]
    assert len(server.ok("GET", "/sandboxes?state=PAUSED&state=running")["items"]) == 5
    assert server.ok("GET", "/sandboxes?state=Failed") == {
        "items": [], "pagination": {"page": 1, "pageSize": 20, "totalItems": 0, "totalPages": 0, "hasNextPage": False}}
    found = server.ok("GET", "/sandboxes", params={"metadata": "even=yes&n=2"})["items"]
    assert [s["id"] for s in found] == [ids[2]]
    assert server.ok("GET", "/sandboxes?metadata=even%3Dyes")["pagination"]["totalItems"] == 3
    for bad in ["metadata=x", "metadata=a%3D1%26"]:
        r = server.call("GET", f"/sandboxes?{bad}")
        assert r.status_code == 400 and r.json()["code"] == "INVALID_METADATA_FORMAT"
    for bad in ["page=0", "page=x", "pageSize=0", "pageSize=201", "page=1.5"]:
        r = server.call("GET", f"/sandboxes?{bad}")
        assert r.status_code == 422, bad
        assert r.json()["detail"][0]["loc"] == ["query", bad.split("=")[0]]


@pytest.mark.oci_only("an engine publishes ports of its own: tests/integration/docker")
def test_endpoints(server):
    id = server.create()["id"]
    host = server.url.split("//")[1]
    for port in (44772, 18080, 8080, 1, 65535):
        seen = server.ok("GET", f"/v1/sandboxes/{id}/endpoints/{port}")
        assert seen == {"endpoint": f"{host}/sandboxes/{id}/proxy/{port}"}
    seen = server.ok("GET", f"/v1/sandboxes/{id}/endpoints/80?use_server_proxy=true", headers={"Host": "pub.example:9"})
    assert seen["endpoint"] == f"pub.example:9/sandboxes/{id}/proxy/80"
    for port, status, code in [("0", 400, "DOCKER::INVALID_PORT"), ("65536", 400, "DOCKER::INVALID_PORT"),
                               ("x", 422, None), ("80?expires=x", 422, None),
                               ("80?expires=99999999999", 400, "SANDBOX::API_NOT_SUPPORTED"),
                               ("0?expires=99999999999", 400, "SANDBOX::API_NOT_SUPPORTED"),
                               ("80?expires=1&use_server_proxy=1", 400, "SANDBOX::INVALID_PARAMETER"),
                               ("80?use_server_proxy=maybe", 422, None)]:
        r = server.call("GET", f"/v1/sandboxes/{id}/endpoints/{port}")
        assert r.status_code == status, (port, r.text)
        assert code is None or r.json()["code"] == code
    assert server.call("GET", "/v1/sandboxes/nope/endpoints/80").status_code == 404


def test_idempotency_key(server):
    body = request_body(metadata={"a": "b"})
    key = {"Idempotency-Key": f"k-{time.time()}"}
    first = server.ok("POST", "/v1/sandboxes", body, headers=key)
    again = server.ok("POST", "/v1/sandboxes", body, headers=key)
    assert again["id"] == first["id"] and again["createdAt"] == first["createdAt"]
    r = server.call("POST", "/v1/sandboxes", request_body(metadata={"a": "c"}), headers=key)
    assert r.status_code == 409 and r.json()["code"] == "SANDBOX::IDEMPOTENCY_KEY_REUSED"
    assert len(server.list()) == 1
    server.delete(first["id"])
    assert server.ok("POST", "/v1/sandboxes", body, headers=key)["id"] != first["id"]
    r = server.call("POST", "/v1/sandboxes", body, headers={"Idempotency-Key": "x" * 256})
    assert r.status_code == 400


def test_failed_creates_say_why_and_leave_nothing(server):
    r = server.call("POST", "/v1/sandboxes", request_body(image={"uri": "127.0.0.1:1/no-such-image-here"}))
    assert r.status_code >= 400 and r.json()["code"].startswith("DOCKER::SANDBOX_IMAGE"), r.text
    r = server.call("POST", "/v1/sandboxes", request_body(entrypoint=["/no/such/program"]))
    if r.status_code == 202:  # execd came up, then its entrypoint failed
        assert server.wait_state(r.json()["id"], "Failed")["status"]["message"]
        server.delete(r.json()["id"])
    else:
        assert r.json()["code"].startswith("DOCKER::"), r.text
    assert server.list() == []
    server.assert_clean()


def test_a_create_that_takes_long_is_answered_as_pending(make):
    s = make("[server]\ncreate_wait_seconds = 0\n")
    r = s.call("POST", "/v1/sandboxes", request_body())
    assert r.status_code == 202
    id, status = r.json()["id"], r.json()["status"]
    if status["state"] == "Pending":
        assert status["reason"] == "CONTAINER_STARTING"
    # Its endpoints can be resolved at once, and answer as soon as it runs.
    assert s.ok("GET", f"/v1/sandboxes/{id}/endpoints/44772")["endpoint"].endswith(f"/sandboxes/{id}/proxy/44772")
    ping = lambda: s.call("GET", f"/sandboxes/{id}/proxy/44772/ping", key=False)
    first = ping()
    assert first.status_code in (200, 503)
    if first.status_code == 503:
        assert int(first.headers["Retry-After"]) > 0 and "not ready" in first.json()["message"]
    wait_for("it answering", lambda: ping().status_code == 200)
    assert s.state(id) == "Running"
    gone = [s.ok("POST", "/v1/sandboxes", request_body(), status=202)["id"] for _ in range(8)]
    for id in gone:
        s.delete(id)  # also in the middle of being created
    wait_for("all gone", lambda: len(s.list()) == 1)


def test_pending_goes_on_after_a_crash(make):
    s = make("[server]\ncreate_wait_seconds = 0\n[limits]\ncreate_concurrency = 1\n")
    ids = [s.ok("POST", "/v1/sandboxes", request_body(), status=202)["id"] for _ in range(6)]
    s.restart()
    for id in ids:
        s.wait_state(id, "Running")
        assert s.ping(id)
