"""The protocol comes first: the sidecar's routes are held to specs/egress.yml."""

import os
import re

import pytest
import yaml

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
with open(os.path.join(ROOT, "specs/egress.yml")) as f:
    SPEC = yaml.safe_load(f)


def shape(path):
    return re.sub(r"\{[^}]*\}", "{}", path)


OPERATIONS = sorted((method.upper(), path) for path, item in SPEC["paths"].items() for method in item)


def test_the_route_tables_are_the_spec():
    found = set()
    for name in ("src/egress/api.c", "src/egress/vault/api.c"):
        with open(os.path.join(ROOT, name)) as f:
            text = f.read()
        root = re.search(r'#define ROOT "([^"]+)"', text)
        for method, below, path in re.findall(r'\{"([A-Z*]+)", (ROOT)?\s?(?:"([^"]*)")?,', text):
            found.add(("GET" if method == "*" else method, shape((root.group(1) if below else "") + path)))
    assert found == {(m, shape(p)) for m, p in OPERATIONS}


@pytest.mark.parametrize("method,path", OPERATIONS)
def test_every_operation_is_routed_and_asks_who_you_are(net, method, path):
    path = shape(path).replace("{}", "none")
    r = net.api(method, path)
    assert not (r.code == 404 and r.body == "404 page not found\n") and r.code != 405, r
    if path not in ("/healthz", "/credential-vault/_active"):
        assert net.api(method, path, token=False).code == 401
