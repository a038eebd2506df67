"""What a server that has nothing to do does not have in its memory."""

import re

from osbserver import Server

# Readers of archives belong to opensandbox-layer, and what speaks to registries comes with the first pull.
# Each of these brings others along: libxml2 and ICU, GnuTLS and Kerberos.
NOT_IDLE = ["archive", "xml2", "icuuc", "icudata", "curl", "curl-gnutls", "gnutls", "krb5", "ldap"]


def libraries(pid):
    with open(f"/proc/{pid}/maps") as f:
        return {m for m in re.findall(r"/lib([\w+-]+?)(?:-\d[\d.]*)?\.so", f.read())}


def test_an_idle_server_maps_only_what_it_uses():
    server = Server().start()
    try:
        before = libraries(server.pid)
        assert {"c", "sqlite3", "nftables"} <= before  # the names are read right
        assert before & set(NOT_IDLE) == set()
        id = server.create()["id"]
        assert server.ping(id)
        server.delete(id)
        assert libraries(server.pid) & set(NOT_IDLE) == set()
    finally:
        server.close()
