#!/usr/bin/python3
"""Holds the edges between rooms: which room may include which (docs/architecture.md, section 2).

A room is a directory under src/; headers are always named with their room: #include "room/file.h".
External libraries with an owner are checked as well: jansson only in json, libuv only in io, ...
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBS = ["base", "json", "net", "io", "http", "model"]

MAY = {
    "base": ["base"],
    "json": ["base", "json"],
    "net": ["base", "net"],
    "io": ["base", "io"],
    "http": ["base", "io", "net", "http"],
    "model": ["base", "json", "model"],
    "otlp": ["base", "json", "io", "http", "otlp"],
    "client": LIBS + ["client"],
    "server": LIBS + ["server"],
    "execd": ["base", "json", "io", "http", "model", "otlp", "execd"],
    "egress": LIBS + ["otlp", "egress"],
    "ingress": LIBS + ["ingress"],
    "controller": LIBS + ["controller"],
    "cli": LIBS + ["client", "cli"],
    "mcp": LIBS + ["client", "mcp"],
}

# External header prefix -> rooms, or directories of rooms, that may include it.
EXTERNAL = {
    "jansson.h": ["json"],
    "yaml.h": ["json"],
    "uv.h": ["io"],
    "openssl/": ["io", "egress", "server", "controller", "client"],
    "sqlite3.h": ["server"],
    "archive": ["server/layer"],  # see docs/security.md, "Images"
    "curl/": ["server", "client", "controller"],
    "hiredis/": ["server", "ingress"],
    "nftables/": ["server", "egress"],
    # No name service in the static daemon; see check_nss.
}
NSS = re.compile(r"\b(getaddrinfo|gethostbyname|getpw(nam|uid|ent)|getgr(nam|gid|ent|ouplist)|initgroups)(_r)?\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def main():
    bad = []
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        rel = path.relative_to(ROOT)
        room = rel.parts[1]
        if room not in MAY:
            bad.append(f"{rel}: room '{room}' has no row in tools/check_rooms.py")
            continue
        text = path.read_text(errors="replace")
        for kind, name in INCLUDE.findall(text):
            if kind == '"':
                target = name.split("/")[0]
                if "/" not in name:
                    bad.append(f'{rel}: #include "{name}" does not name its room')
                elif target not in MAY[room]:
                    bad.append(f"{rel}: room '{room}' may not include '{name}'")
            else:
                for prefix, rooms in EXTERNAL.items():
                    if name.startswith(prefix) and not {room, "/".join(rel.parts[1:-1])} & set(rooms):
                        bad.append(f"{rel}: room '{room}' may not include <{name}>")
        if room in ("base", "json", "http", "model", "otlp", "execd") and NSS.search(text) and path.name not in ("passwd.c", "libc.c"):
            bad.append(f"{rel}: name service call in code that is linked into the static execd")
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
