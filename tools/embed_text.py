#!/usr/bin/python3
"""Build tool: text files as one C table. usage: embed_text.py HEADER TABLE OUT.c FILE..."""

import os
import sys

header, table, out, files = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
with open(out, "w") as f:
    f.write(f'#include "{header}"\n\n')
    for i, path in enumerate(files):
        with open(path, "rb") as src:
            data = src.read()
        f.write(f"static const char text_{i}[] = {{\n")
        for at in range(0, len(data), 20):
            f.write(",".join(str(b if b < 128 else b - 256) for b in data[at:at + 20]) + ",\n")
        f.write("0};\n")
    f.write(f"const struct embedded_text {table}[] = {{\n")
    for i, path in enumerate(files):
        f.write(f'    {{"{os.path.basename(path)}", text_{i}}},\n')
    f.write("    {0},\n};\n")
