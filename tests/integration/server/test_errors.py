"""Authentication, validation, unknown routes, CORS, request ids: the shape of every refusal."""

import json

import pytest
from osbserver import request_body


def test_api_key(server):
    for path in ["/sandboxes", "/v1/sandboxes/x", "/nowhere", "/v1/sandboxes/x/proxy/notaport/"]:
        r = server.call("GET", path, key=False)
        assert r.status_code == 401 and r.json()["code"] == "MISSING_API_KEY", path
        assert r.headers["X-Request-ID"]
        r = server.call("GET", path, key=False, headers={"OPEN-SANDBOX-API-KEY": server.key + "x"})
        assert r.status_code == 401 and r.json()["code"] == "INVALID_API_KEY"
        r = server.call("GET", path, key=False, headers={"OPEN-SANDBOX-API-KEY": ""})
        assert r.status_code == 401 and r.json()["code"] == "MISSING_API_KEY"
    for path in ["/health", "/docs", "/redoc", "/openapi.json"]:
        assert server.call("GET", path, key=False).status_code == 200
    assert server.call("GET", "/healthz", key=False).status_code == 404
    assert server.ok("GET", "/health", key=False) == {"status": "healthy"}
    # Ports of sandboxes need no key: the id is the secret.
    r = server.call("GET", "/sandboxes/nope/proxy/80/", key=False)
    assert r.status_code == 404 and r.json()["code"] == "DOCKER::SANDBOX_NOT_FOUND"


def test_the_host_header_decides_nothing(server):
    conn = server.raw()
    conn.putrequest("GET", "/v1/sandboxes", skip_host=True)
    conn.putheader("Host", "/health?x=")
    conn.endheaders()
    assert conn.getresponse().status in (400, 401)


def test_request_id(server):
    r = server.call("GET", "/health", headers={"X-Request-ID": "mine-1 "})
    assert r.headers["X-Request-ID"] == "mine-1"
    r = server.call("GET", "/v1/sandboxes/nope")
    assert len(r.headers["X-Request-ID"]) == 32
    assert r.headers["X-Request-ID"] != server.call("GET", "/health").headers["X-Request-ID"]


def test_unknown_routes_and_methods(server):
    r = server.call("GET", "/v1/nothing")
    assert r.status_code == 404 and r.json()["detail"] == "Not Found" and r.json()["code"]
    r = server.call("PUT", "/v1/sandboxes/x")
    assert r.status_code == 405 and r.json()["detail"] == "Method Not Allowed"
    assert set(r.headers["Allow"].replace(" ", "").split(",")) >= {"GET", "DELETE"}
    r = server.call("POST", "/health")
    assert r.status_code == 405


def test_cors(server):
    origin = {"Origin": "https://app.example"}
    r = server.call("GET", "/health", headers=origin)
    assert r.headers["Access-Control-Allow-Origin"] == "*"
    assert r.headers["Access-Control-Allow-Credentials"] == "true"
    r = server.call("GET", "/health", headers={**origin, "Cookie": "a=b"})
    assert r.headers["Access-Control-Allow-Origin"] == "https://app.example" and r.headers["Vary"] == "Origin"
    r = server.call("GET", "/v1/sandboxes", headers=origin, key=False)
    assert r.status_code == 401 and r.headers["Access-Control-Allow-Origin"] == "*"
    ask = {**origin, "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "x-a, open-sandbox-api-key"}
    for path in ["/v1/sandboxes", "/sandboxes/x/proxy/80/deep"]:
        r = server.call("OPTIONS", path, headers=ask, key=False)
        assert r.status_code == 200 and r.text == "OK"
        assert r.headers["Access-Control-Allow-Origin"] == "https://app.example"
        assert r.headers["Access-Control-Allow-Headers"] == "x-a, open-sandbox-api-key"
        assert "PATCH" in r.headers["Access-Control-Allow-Methods"] and r.headers["Access-Control-Max-Age"] == "600"
    r = server.call("OPTIONS", "/v1/sandboxes", headers={**ask, "Access-Control-Request-Method": "BREW"}, key=False)
    assert r.status_code == 400


GOOD = request_body()


@pytest.mark.parametrize("change,loc", [
    ({"timeout": 59}, ["body", "timeout"]),
    ({"timeout": "soon"}, ["body", "timeout"]),
    ({"image": {}}, ["body", "image", "uri"]),
    ({"image": {"uri": 5}}, ["body", "image", "uri"]),
    ({"image": {"uri": "x", "auth": {"username": "u"}}}, ["body", "image", "auth", "password"]),
    ({"entrypoint": []}, ["body", "entrypoint"]),
    ({"entrypoint": "sleep"}, ["body", "entrypoint"]),
    ({"env": {"A": 1}}, ["body", "env", "A"]),
    ({"metadata": {"a": None}}, ["body", "metadata", "a"]),
    ({"resourceLimits": {"cpu": 1}}, ["body", "resourceLimits", "cpu"]),
    ({"networkPolicy": {"egress": [{"action": "allow", "target": ""}]}}, ["body", "networkPolicy", "egress", 0, "target"]),
    ({"volumes": [{"name": "A", "mountPath": "/a", "host": {"path": "/x"}}]}, ["body", "volumes", 0, "name"]),
    ({"image": None}, ["body"]),
    ({"resourceLimits": None}, ["body"]),
    ({"entrypoint": None}, ["body"]),
    ({"snapshotId": "s"}, ["body"]),
    ({"credentialProxy": {"enabled": True}}, ["body"]),
])
def test_requests_that_do_not_fit(server, change, loc):
    body = {k: v for k, v in {**GOOD, **change}.items() if v is not None}
    r = server.call("POST", "/v1/sandboxes", body)
    assert r.status_code == 422, r.text
    seen = r.json()
    assert seen["detail"][0]["loc"] == loc
    assert seen["detail"][0]["type"] and seen["detail"][0]["msg"] and seen["code"] and seen["message"]


def test_bodies_that_are_no_json(server):
    post = lambda data, ctype: server.call("POST", "/v1/sandboxes", data=data, headers={"Content-Type": ctype})
    r = post("{\"a\": ", "application/json")
    assert r.status_code == 422 and r.json()["detail"][0]["type"] == "json_invalid"
    assert r.json()["detail"][0]["loc"][0] == "body"
    r = post("", "application/json")
    assert r.status_code == 422 and r.json()["detail"][0] == {"type": "missing", "loc": ["body"], "msg": "Field required"}
    for ctype in ["text/plain", "application/x-www-form-urlencoded"]:
        assert post(json.dumps(GOOD), ctype).status_code == 422
    r = post(json.dumps({**GOOD, "timeout": 1}), "application/merge-patch+json; charset=utf-8")
    assert r.status_code == 422 and r.json()["detail"][0]["loc"] == ["body", "timeout"]
    r = post("x" * (2 << 20), "application/json")
    assert r.status_code == 413 and r.json()["code"] and r.json()["message"]


@pytest.mark.parametrize("change,code,word", [
    ({"extensions": {"access.renew.extend.seconds": "10"}}, "SANDBOX::INVALID_PARAMETER", "300"),
    ({"extensions": {"oci.engine": "nosuch"}}, "SANDBOX::INVALID_PARAMETER", "oci.allowed_engines"),
    ({"entrypoint": ["a 'b"]}, "DOCKER::INVALID_ENTRYPOINT", "closed"),
    ({"metadata": {"a b": "c"}}, "SANDBOX::INVALID_METADATA_LABEL", "a b"),
    ({"metadata": {"opensandbox.io/a": "c"}}, "SANDBOX::INVALID_METADATA_LABEL", "reserved"),
    ({"platform": {"os": "windows", "arch": "amd64"}}, "SANDBOX::INVALID_PARAMETER", "windows"),
    ({"platform": {"os": "linux", "arch": "mips"}}, "SANDBOX::INVALID_PARAMETER", "mips"),
    ({"timeout": 10 ** 12}, "SANDBOX::INVALID_PARAMETER", "9999"),
    ({"secureAccess": True}, "SANDBOX::INVALID_PARAMETER", "secureAccess"),
    ({"resourceLimits": {"memory": "lots"}}, "SANDBOX::INVALID_PARAMETER", "resourceLimits.memory"),
    ({"resourceLimits": {"cpu": "-1"}}, "SANDBOX::INVALID_PARAMETER", "resourceLimits.cpu"),
    ({"resourceLimits": {"gpu": "1"}}, "SANDBOX::INVALID_PARAMETER", "gpu"),
    ({"resourceLimits": {"color": "1"}}, "SANDBOX::INVALID_PARAMETER", "color"),
    ({"env": {"A=B": "c"}}, "SANDBOX::INVALID_PARAMETER", "A=B"),
    ({"volumes": [{"name": "a", "mountPath": "/a", "host": {"path": "/x"}},
                  {"name": "a", "mountPath": "/b", "host": {"path": "/x"}}]}, "VOLUME::DUPLICATE_NAME", "a"),
])
def test_requests_that_cannot_be_served(server, change, code, word):
    r = server.call("POST", "/v1/sandboxes", request_body(**change))
    assert r.status_code == 400, r.text
    assert r.json()["code"] == code and word.lower() in r.json()["message"].lower(), r.text
    assert server.list() == []


def test_snapshots_are_honest(server):
    r = server.call("POST", "/v1/sandboxes", request_body(image=None, snapshotId="s"))
    assert r.status_code == 404 and r.json()["code"] == "SNAPSHOT::NOT_FOUND"
    assert server.ok("GET", "/v1/snapshots")["items"] == []
    assert server.call("GET", "/v1/snapshots/x").json()["code"] == "SNAPSHOT::NOT_FOUND"
    assert server.call("POST", "/v1/sandboxes/x/snapshots").status_code == 404


def test_docs_page(server):
    r = server.call("GET", "/docs", key=False)
    assert r.headers["Content-Type"].startswith("text/html") and "openapi.json" in r.text
