"""The interceptor under load: 2 GB each way and ten thousand requests, in memory that stays."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import vaultnet  # noqa: E402

CLIENT = """
import http.client, json, sys
kind, n = sys.argv[1], int(sys.argv[2])
c = http.client.HTTPSConnection("api.example.com")
if kind == "bulk":
    block = bytes(1 << 20)
    c.request("PUT", "/up", (block for _ in range(n >> 20)), {"Content-Length": str(n)})
    print(json.load(c.getresponse())["n"])
    c.request("GET", "/download/%d" % n)
    r, t, b = c.getresponse(), 0, bytearray(1 << 20)
    while (k := r.readinto(b)): t += k
    print(t)
else:
    for i in range(n):
        if i % 50 == 49:
            c.close()
        c.request("POST" if i % 3 else "GET", "/%d" % i, b"x" * (i % 5000) if i % 3 else None)
        assert b"Bearer soak-secret" in c.getresponse().read()
    print(n)
"""


@pytest.fixture(scope="module")
def net():
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    n = vaultnet.Net()
    try:
        n.start()
        n.vault({"t": "soak-secret"}, [vaultnet.bind("b", "api.example.com", {"type": "bearer", "credential": "t"})])
        n.client(vaultnet.PY, "-c", CLIENT, "many", "500")
        yield n
    finally:
        n.close()


def test_two_gigabytes_each_way(net):
    before, n = net.rss_kb(), 2 << 30
    r = net.client(vaultnet.PY, "-c", CLIENT, "bulk", n, timeout=1200)
    assert r.stdout.split() == [str(n), str(n)]
    assert net.rss_kb() - before < 4096


def test_ten_thousand_requests(net):
    before, fds = net.rss_kb(), net.n_fds()
    r = net.client(vaultnet.PY, "-c", CLIENT, "many", 10000, timeout=1200)
    assert r.stdout == "10000\n"
    assert net.rss_kb() - before < 1024
    assert net.n_fds() <= fds + 4
