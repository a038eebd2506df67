"""Just enough of JSON Schema to hold answers to our own OpenAPI documents."""

import os
import re

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
}
DATE_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")


class Spec:
    def __init__(self, name):
        with open(os.path.join(ROOT, "specs", name)) as f:
            self.doc = yaml.safe_load(f)

    def resolve(self, node):
        while "$ref" in node:
            at = self.doc
            for part in node["$ref"].lstrip("#/").split("/"):
                at = at[part]
            node = at
        return node

    def schema(self, name):
        return self.doc["components"]["schemas"][name]

    def check(self, value, schema, where="$"):
        """Raises AssertionError at the first thing that does not fit. Unknown members are errors: what
        is sent must be described."""
        schema = self.resolve(schema)
        types = schema.get("type")
        if types:
            types = [types] if isinstance(types, str) else types
            assert any(TYPES[t](value) for t in types), f"{where}: {value!r} is not {types}"
        if "enum" in schema:
            assert value in schema["enum"], f"{where}: {value!r}"
        if "const" in schema:
            assert value == schema["const"], f"{where}: {value!r}"
        if schema.get("format") == "date-time":
            assert DATE_TIME.match(value), f"{where}: {value!r}"
        for one in schema.get("allOf", []):
            self.check(value, one, where)
        if isinstance(value, dict):
            self._object(value, schema, where)
        if isinstance(value, list) and "items" in schema:
            for i, item in enumerate(value):
                self.check(item, schema["items"], f"{where}[{i}]")

    def _object(self, value, schema, where):
        for name in schema.get("required", []):
            assert name in value, f"{where}: no {name}"
        properties = schema.get("properties")
        more = schema.get("additionalProperties")
        for name, v in value.items():
            if properties and name in properties:
                self.check(v, properties[name], f"{where}.{name}")
            elif isinstance(more, dict):
                self.check(v, more, f"{where}.{name}")
            elif properties is not None and "allOf" not in schema:
                raise AssertionError(f"{where}: {name} is not described")

    def response(self, path, method, status):
        """The schema of a JSON answer, or None when it has no JSON body."""
        responses = self.doc["paths"][path][method]["responses"]
        node = responses.get(str(status)) or responses.get("default")
        assert node, f"{method} {path} does not say that it may answer {status}"
        content = self.resolve(node).get("content", {})
        return content.get("application/json", {}).get("schema")

    def check_response(self, path, method, response):
        schema = self.response(path, method, response.status_code)
        if schema is not None and response.headers.get("Content-Type", "").startswith("application/json"):
            self.check(response.json(), schema, f"{method} {path} {response.status_code}")

    def operations(self):
        """(method, path) of everything described."""
        methods = {"get", "post", "put", "patch", "delete", "head", "options"}
        return {(m, p) for p, item in self.doc["paths"].items() for m in item if m in methods}
