#!/usr/bin/python3
"""Writes docs/configuration.md from what `opensandbox-server init-config` prints, so that the page lists
every option there is, with its default. `--check` compares instead of writing. Needs build/bin."""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "configuration.md")
HEAD = """# Configuration

`opensandbox-server` reads one TOML file: `--config FILE`, else `$SANDBOX_CONFIG_PATH`, else `~/.sandbox.toml` if it is there,
else nothing: every option has a default.

```
opensandbox-server init-config            # writes ~/.sandbox.toml with every option, commented out
opensandbox-server --config F --check     # says what is wrong with a file, with line and reason, and exits
kill -HUP <pid>                           # reads it again; what cannot change while running is reported
```

An unknown key is reported and otherwise ignored; a wrong value stops the start with file, line and reason. Secrets can
stay out of the file: without `server.api_key` the server generates a key at its first start and keeps it, readable by its owner only,
in `server.key_file`.

This page is written by `tools/gen_config.py`.
"""


def options(text):
    """(section, key, default, help) in order."""
    section, before, words = "", [], []  # before: said of a section whose only key is any name
    for line in text.split("\n"):
        head = re.match(r"^#?\s*\[\[?([\w.]+)\]?\]", line)
        pair = re.match(r'^#?\s*("?[A-Za-z_][\w.]*"?) = (.*)$', line)
        if head and not pair:
            section, before, words = head.group(1), words, []
        elif pair:
            yield section, pair.group(1), pair.group(2), " ".join(words or before)
            before, words = [], []
        elif line.startswith("# "):
            words.append(line[2:].strip())
        else:
            words = []


def page():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "c.toml")
        subprocess.run([os.path.join(ROOT, "build/bin/opensandbox-server"), "init-config", path], check=True,
                       stdout=subprocess.DEVNULL)
        with open(path) as f:
            text = f.read()
    out, last = [HEAD], None
    for section, key, default, words in options(text):
        if section != last:
            out.append(f"\n## [{section}]\n\n| key | default | meaning |\n|---|---|---|")
            last = section
        out.append(f"| `{key}` | `{default}` | {words.replace('|', chr(92) + '|')} |")
    return "\n".join(out) + "\n"


def main():
    text = page()
    if "--check" in sys.argv:
        if not os.path.exists(PAGE) or open(PAGE).read() != text:
            print("docs/configuration.md is out of date: run tools/gen_config.py")
            return 1
        return 0
    with open(PAGE, "w") as f:
        f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
