#!/usr/bin/python3
"""Writes docs/limits.md from the limit headers, so that the page cannot be wrong.

A limit is a line `#define NAME value /* what it bounds */` in a file named limits.h, or any line of
that form marked with `limit:` at the start of its comment elsewhere. `--check` compares instead of writing.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "limits.md"
LINE = re.compile(r"^#define\s+([A-Z][A-Z0-9_]+)\s+(\S.*?)\s*/\*\s*(.*?)\s*\*/\s*$")
HEAD = """# Limits

Every buffer, queue, table, body and timeout has a limit with a name. Reaching one gives a clear error, never a hang and
never silence. This page is written by `tools/gen_limits.py` from the headers it names.
"""


def readable(value):
    value = value.strip()
    m = re.fullmatch(r"\(?\(?(?:\w+\))?(\d+)u?l{0,2}\s*<<\s*(\d+)\)?", value)
    if m:
        n, shift = int(m.group(1)), int(m.group(2))
        for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
            if shift >= bits:
                return f"{n << (shift - bits)} {unit}"
    m = re.fullmatch(r"\(?(-?\d+)u?l{0,2}\)?", value)
    return m.group(1) if m else value.strip("()")


def limits_of(path):
    everything = path.name == "limits.h"
    for line in path.read_text().split("\n"):
        m = LINE.match(line)
        if not m:
            continue
        name, value, text = m.groups()
        if text.startswith("limit:"):
            text = text[len("limit:"):].strip()
        elif not everything:
            continue
        if name.endswith("_MS"):
            value = readable(value) + " ms"
        else:
            value = readable(value)
        yield name, value, text


def page():
    out = [HEAD]
    for path in sorted((ROOT / "src").rglob("*.h")):
        rows = list(limits_of(path))
        if not rows:
            continue
        rel = path.relative_to(ROOT)
        out.append(f"\n## {rel}\n\n| limit | default | what it bounds |\n|---|---|---|")
        out += [f"| `{n}` | {v} | {t} |" for n, v, t in rows]
    return "\n".join(out) + "\n"


def main():
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text() != text:
            print("docs/limits.md is out of date: run tools/gen_limits.py")
            return 1
        return 0
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
