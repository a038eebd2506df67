"""The protocol comes first: execd's routes and field tables are held to specs/execd.yml."""

import glob
import os
import re

import pytest
import yaml

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))

with open(os.path.join(ROOT, "specs/execd.yml")) as f:
    SPEC = yaml.safe_load(f)


def shape(path):
    """Parameters have other names inside: only where they stand counts."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def operations():
    for path, item in SPEC["paths"].items():
        for method in item:
            yield method.upper(), path


def test_the_route_table_is_the_spec():
    with open(os.path.join(ROOT, "src/execd/routes.c")) as f:
        found = set(re.findall(r'\{"([A-Z*]+)", "([^"]+)"', f.read()))
    table = {("GET" if m == "*" else m, shape(p)) for m, p in found}
    assert len(table) > 20
    assert table == {(m, shape(p)) for m, p in operations()}


def test_field_tables_are_the_schemas():
    checked = 0
    for path in glob.glob(os.path.join(ROOT, "src/model/*.c")):
        with open(path) as f:
            source = f.read()
        fields = {name: set(re.findall(r'JSON_FIELD\(\s*struct \w+,\s*\w+,\s*"(\w+)"', body)) for name, body in
                  re.findall(r"static const struct json_field (\w+)_fields\[\] = \{(.*?)\n\};", source, re.S)}
        for schema, table in re.findall(r'json_table \w+ = \{\s*(?:\.name = )?"(\w+)",[^;]*?(\w+)_fields', source):
            described = SPEC["components"]["schemas"].get(schema)
            if described and path.split("/")[-1] != "sandbox.c":
                assert fields[table] == set(described["properties"]), schema
                checked += 1
    assert checked >= 7


# One has no end and the other answers for somebody else: test_metrics.py and test_proxy.py have them.
PLAIN = sorted(o for o in operations() if o[1] not in ("/metrics/watch", "/proxy/{rest}"))


@pytest.mark.parametrize("method,path", PLAIN)
def test_every_operation_is_routed(execd, method, path):
    """Whatever it answers to a bare request, it is not "no such route"."""
    r = execd.request(method, shape(path).replace("{}", "none"))
    assert not (r.status_code == 404 and r.text == "404 page not found"), (method, path)


def test_references_lead_somewhere():
    text = str(SPEC)
    for ref in set(re.findall(r"'\$ref': '#/([^']+)'", text)):
        node = SPEC
        for part in ref.split("/"):
            node = node[part]
