"""Long load, for `make soak`: a thousand sandboxes alive, ten thousand created and deleted, and nothing
that grows. OSB_SOAK_ALIVE and OSB_SOAK_ROUNDS make it shorter or longer."""

import concurrent.futures
import contextlib
import os

import requests

from osbserver import request_body, wait_for

ALIVE = int(os.environ.get("OSB_SOAK_ALIVE", "1000"))
ROUNDS = int(os.environ.get("OSB_SOAK_ROUNDS", "10000"))
WORKERS = 8
BODY = request_body(resourceLimits={"cpu": "1", "memory": "64Mi"}, timeout=86400)


def call(server, method, path, body=None):
    r = requests.request(method, server.url + path, json=body, headers={"OPEN-SANDBOX-API-KEY": server.key}, timeout=120)
    assert r.status_code < 300, (method, path, r.status_code, r.text[:300])
    return r


def create(server):
    return call(server, "POST", "/v1/sandboxes", BODY).json()["id"]


def answers(server, id):
    text = call(server, "POST", f"/v1/sandboxes/{id}/proxy/44772/command", {"command": "echo up"}).text
    return '"text":"up"' in text and '"execution_complete"' in text


def delete(server, id):
    call(server, "DELETE", f"/v1/sandboxes/{id}")


def size(server):
    """Resident kB, descriptors (without the namespaces kept for the next sandbox), threads."""
    with open(f"/proc/{server.pid}/status") as f:
        rss = [int(line.split()[1]) for line in f if line.startswith("VmRSS")][0]
    fds = []
    for f in os.listdir(f"/proc/{server.pid}/fd"):
        with contextlib.suppress(FileNotFoundError): # closed since it was listed
            fds.append(os.readlink(f"/proc/{server.pid}/fd/{f}"))
    return rss, len([f for f in fds if not f.startswith("net:")]), len(os.listdir(f"/proc/{server.pid}/task"))


def test_a_thousand_alive(server):
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        ids = list(pool.map(lambda _: create(server), range(ALIVE)))
        assert len(set(ids)) == ALIVE
        assert all(pool.map(lambda id: answers(server, id), ids))
        print("alive", ALIVE, "size", size(server))
        server.kill()
        server.start()
        assert all(pool.map(lambda id: answers(server, id), ids))
        list(pool.map(lambda id: delete(server, id), ids))
    server.assert_clean(timeout=120)


def test_ten_thousand_rounds(server):
    def rounds(n):
        def one(_):
            id = create(server)
            assert answers(server, id)
            delete(server, id)
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(one, range(n)))

    rounds(max(100, ROUNDS // 20)) # what is made once has been made
    before = size(server)
    rounds(ROUNDS)
    server.assert_clean(timeout=120)
    wait_for(f"sizes like {before}, now {size(server)}", lambda: all(
        now <= then + slack for now, then, slack in zip(size(server), before, (4096, 12, 2))))
    print("before", before, "after", size(server))
