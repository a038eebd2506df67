#!/usr/bin/python3
"""What a compiler does not check: file sizes, banned words, stray notes, registry hosts.

The tree is the set of files git knows; run from anywhere inside it.
"""

import re
import subprocess
import sys

MAX_LINES = 800
SOURCE = (".c", ".h", ".py", ".sh", ".go", ".ts", ".java", ".kt", ".cs")

BANNED_CALLS = re.compile(
    r"\b(strcpy|strcat|strncpy|strncat|sprintf|vsprintf|strtok|strtok_r|gets|atoi|atol|atoll|atof|"
    r"gmtime|localtime|asctime|ctime|popen|tmpnam|tempnam|mktemp|alloca|assert)\s*\("
)
SYSTEM_CALL = re.compile(r"(?<![\w.>])system\s*\(")
NOTES = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# fork belongs to io/child.c; jansson's and our own names that contain the word are fine.
FORK = re.compile(r"(?<![\w.>])(fork|vfork)\s*\(\s*\)")
FORK_OK = ("src/io/",)


def strip_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"//[^\n]*", "", text)


def check_c(path, text, bad):
    code = strip_comments(text)
    for n, line in enumerate(code.split("\n"), 1):
        if path != "src/base/banned.h":
            m = BANNED_CALLS.search(line) or SYSTEM_CALL.search(line)
            if m:
                bad.append(f"{path}:{n}: banned function {m.group(0).rstrip('( ')}")
        if path.startswith("src/") and not path.startswith(FORK_OK) and FORK.search(line):
            bad.append(f"{path}:{n}: processes are started through io/child.h only")
        if "\t" in line:
            bad.append(f"{path}:{n}: tab")
    # The public header has guards instead: it is compiled by compilers we do not choose.
    if path.endswith(".h") and path.startswith("src/") and "#pragma once" not in text and path != "src/client/opensandbox.h":
        bad.append(f"{path}: no #pragma once")


def main():
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    bad = []
    for path in files:
        if not path.endswith(SOURCE):
            continue
        try:
            text = open(path, encoding="utf-8", errors="replace").read()
        except FileNotFoundError:
            continue
        lines = text.count("\n")
        if lines > MAX_LINES:
            bad.append(f"{path}: {lines} lines, split by noun at {MAX_LINES}")
        if path.endswith((".c", ".h")):
            check_c(path, text, bad)
        if path != "tools/check_style.py":
            for n, line in enumerate(text.split("\n"), 1):
                if NOTES.search(line):
                    bad.append(f"{path}:{n}: {NOTES.search(line).group(0)} left in the code")
                if line.rstrip() != line:
                    bad.append(f"{path}:{n}: space at the end of the line")
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
