#!/usr/bin/python3
"""Build tool: the MCP tools as C strings. usage: embed_tools.py OUT.c DEFS.json TOOLSET.json...

A toolset file is a list of tools; {"$ref": "Name"} stands for an entry of the definitions, to which the
other keys of the same object are added. What comes out is complete: clients see no references.
"""

import json
import os
import sys

out, defs_file, files = sys.argv[1], sys.argv[2], sys.argv[3:]
with open(defs_file) as f:
    DEFS = json.load(f)


def expand(node):
    if isinstance(node, list):
        return [expand(x) for x in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        rest = {k: v for k, v in node.items() if k != "$ref"}
        return expand({**DEFS[node["$ref"]], **rest})
    return {k: expand(v) for k, v in node.items()}


def literal(text):
    """A C string in pieces: compilers promise no more than 4095 characters for one."""
    quoted = []
    for at in range(0, len(text), 100):
        piece = text[at:at + 100].replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
        quoted.append(f'        "{piece}"')
    return "\n".join(quoted)


with open(out, "w") as c:
    c.write('#include "mcp/tool.h"\n\nconst struct tool_text tool_texts[] = {\n')
    for path in files:
        toolset = os.path.splitext(os.path.basename(path))[0]
        with open(path) as f:
            tools = json.load(f)
        for t in tools:
            schema = {"type": "object", "properties": expand(t["input"]), "required": t["required"],
                      "additionalProperties": False}
            whole = {"name": t["name"], "title": t["title"], "description": t["description"], "inputSchema": schema,
                     "outputSchema": expand(t["output"]), "annotations": {"title": t["title"], **t["annotations"]}}
            compact = [json.dumps(x, separators=(",", ":"), ensure_ascii=True) for x in (whole, schema)]
            c.write(f'    {{"{t["name"]}", "{toolset}",\n{literal(compact[0])},\n{literal(compact[1])}}},\n')
    c.write("    {0},\n};\n")
