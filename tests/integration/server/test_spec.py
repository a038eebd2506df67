"""The protocol comes first: routes, field tables and answers are held to specs/."""

import os
import re

from osbserver import request_body, wait_for
from schema import ROOT, Spec

SPEC = Spec("sandbox-lifecycle.yml")


def read(path):
    with open(os.path.join(ROOT, path)) as f:
        return f.read()


def shape(path):
    """Parameters have other names inside: only where they stand counts."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def test_the_route_table_is_the_spec():
    routes = read("src/server/api/routes.c")
    table = routes[routes.index("api_routes[]"):]
    found = {(m.lower(), p) for m, p in re.findall(r'(?:WORK|STREAM)\("([A-Z]+)", "([^"]+)"', table)}
    found |= {("get", p) for p in re.findall(r'OPEN\("([^"]+)"', table)}
    found |= {("get", p) for p in re.findall(r'PROXY\("([^"]+)"', table)}
    assert {(m, shape(p)) for m, p in found} == {(m, shape(p)) for m, p in SPEC.operations()}


def test_field_tables_are_the_schemas():
    source = read("src/model/sandbox.c") + read("src/model/pool.c").replace("COUNT(", "JSON_FIELD(struct pool_capacity, ")
    fields = {}
    for name, body in re.findall(r"static const struct json_field (\w+)_fields\[\] = \{(.*?)\n\};", source, re.S):
        fields[name] = (set(re.findall(r'JSON_FIELD\(\s*struct \w+,\s*\w+,\s*"(\w+)"', body)),
                        set(re.findall(r'JSON_FIELD\(\s*struct \w+,\s*\w+,\s*"(\w+)"[^;]*?\.required = true',
                                       body.replace("JSON_FIELD", ";JSON_FIELD"))))
    tables = dict(re.findall(r'json_table \w+_table = \{\s*"(\w+)",\s*sizeof\([^)]*\),\s*(\w+)_fields', source))
    checked = 0
    for schema, table in tables.items():
        if schema not in SPEC.doc["components"]["schemas"]:
            continue
        described = SPEC.schema(schema)
        assert fields[table][0] == set(described["properties"]), schema
        assert fields[table][1] <= set(described.get("required", [])), schema
        checked += 1
    assert checked >= 10


def test_the_document_served_is_the_document_kept(server):
    assert server.ok("GET", "/openapi.json", key=False) == SPEC.doc


def test_answers_fit(server):
    def call(method, path, spec_path, body=None, **more):
        r = server.call(method, path, body, **more)
        SPEC.check_response(spec_path, method.lower(), r)
        return r

    r = call("POST", "/v1/sandboxes", "/sandboxes", request_body(metadata={"a": "b"}, platform={"os": "linux", "arch": "amd64"}))
    id = r.json()["id"]
    one, base = "/sandboxes/{sandboxId}", f"/v1/sandboxes/{id}"
    call("POST", "/v1/sandboxes", "/sandboxes", {})
    call("POST", "/v1/sandboxes", "/sandboxes", request_body(resourceLimits={"cpu": "x"}))
    call("POST", "/v1/sandboxes", "/sandboxes", request_body(image=None, snapshotId="s"))
    call("POST", "/v1/sandboxes", "/sandboxes", request_body(), key=False)
    call("GET", "/v1/sandboxes", "/sandboxes")
    call("GET", "/v1/sandboxes?page=0", "/sandboxes")
    call("GET", "/v1/sandboxes?metadata=x", "/sandboxes")
    call("GET", base, one)
    call("GET", "/v1/sandboxes/nope", one)
    call("PATCH", base + "/metadata", one + "/metadata", {"x": "y"})
    call("PATCH", base + "/metadata", one + "/metadata", {"x": 1})
    call("GET", base + "/endpoints/80", one + "/endpoints/{port}")
    call("GET", base + "/endpoints/0", one + "/endpoints/{port}")
    call("GET", base + "/endpoints/x", one + "/endpoints/{port}")
    call("POST", base + "/renew-expiration", one + "/renew-expiration", {"expiresAt": "2100-01-01T00:00:00Z"})
    call("POST", base + "/renew-expiration", one + "/renew-expiration", {"expiresAt": "2000-01-01T00:00:00Z"})
    call("POST", base + "/renew-expiration", one + "/renew-expiration", {})
    call("POST", base + "/pause", one + "/pause")
    call("POST", base + "/pause", one + "/pause")
    call("GET", base + "/proxy/80", one + "/proxy/{port}")
    call("POST", base + "/resume", one + "/resume")
    call("POST", base + "/resume", one + "/resume")
    call("GET", base + "/proxy/81/x", one + "/proxy/{port}/{path}")
    for kind in ("logs", "events"):
        call("GET", f"{base}/diagnostics/{kind}", f"{one}/diagnostics/{kind}")
        call("GET", f"{base}/diagnostics/{kind}?scope=all", f"{one}/diagnostics/{kind}")
        call("GET", f"{base}/diagnostics/{kind}?scope=none", f"{one}/diagnostics/{kind}")
    for kind in ("inspect", "summary"):
        call("GET", f"{base}/diagnostics/{kind}", f"{one}/diagnostics/{kind}")
    r = call("POST", base + "/snapshots", one + "/snapshots", {"name": "n"})
    call("POST", base + "/snapshots", one + "/snapshots", {"name": ""})
    snapshot = "/v1/snapshots/" + r.json()["id"]
    wait_for("the snapshot", lambda: server.ok("GET", snapshot)["status"]["state"] == "Ready")
    call("GET", snapshot, "/snapshots/{snapshotId}")
    call("GET", "/v1/snapshots?state=Ready&name=n", "/snapshots")
    call("DELETE", snapshot, "/snapshots/{snapshotId}")
    r = call("POST", base + "/fork", one + "/fork", {"count": 2, "timeout": 60, "sandboxes": [{"metadata": {"a": "c"}}]})
    for made in r.json()["items"]:
        server.delete(made["id"])
    call("POST", base + "/fork", one + "/fork", {"count": 0})
    call("POST", base + "/fork", one + "/fork", {"metadata": {"a": " "}})
    call("POST", "/v1/sandboxes/x/fork", one + "/fork")
    call("GET", "/v1/snapshots", "/snapshots")
    call("GET", "/v1/snapshots/x", "/snapshots/{snapshotId}")
    call("DELETE", "/v1/snapshots/x", "/snapshots/{snapshotId}")
    call("GET", "/v1/pools", "/pools")
    call("DELETE", base, one)
    call("DELETE", base, one)
    call("GET", "/health", "/health", key=False)
