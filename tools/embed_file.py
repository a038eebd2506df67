#!/usr/bin/python3
"""Writes a C file that holds another file: embed_file.py NAME INPUT OUTPUT gives NAME and NAME_len."""

import sys


def main():
    name, source, target = sys.argv[1:4]
    with open(source, "rb") as f:
        data = f.read()
    lines = []
    for i in range(0, len(data), 16):
        lines.append("    " + " ".join(f"0x{b:02x}," for b in data[i:i + 16]))
    with open(target, "w") as f:
        f.write("#include <stddef.h>\n\n")
        f.write(f"extern const unsigned char {name}[];\nextern const size_t {name}_len;\n")
        f.write(f"const unsigned char {name}[] = {{\n" + "\n".join(lines) + "\n};\n")
        f.write(f"const size_t {name}_len = sizeof({name});\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
