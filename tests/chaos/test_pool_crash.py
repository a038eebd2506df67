"""kill -9 while a pool is refilled, while one is taken out of it and while it is deleted: after the next
start every sandbox is somebody's or waits, once, and nothing is left over."""

import pytest
from osbserver import Server, wait_for
from test_crash import crash, has_fault_points, points, settle

pytestmark = pytest.mark.skipif(not has_fault_points(), reason="this build has no fault points (tools/build fault)")

TEMPLATE = {"image": {"uri": "host"}, "entrypoint": ["sleep", "infinity"], "resourceLimits": {"memory": "128Mi"}}
FILL = ["server.pool.fill", "server.pool.filled", "server.create.begin", "server.create.recorded",
        "server.create.started", "server.create.running", "oci.create.after_state", "oci.create.after_spawn",
        "oci.create.after_running"]
TAKE = ["server.pool.claimed", "server.create.begin", "server.create.recorded", "oci.activate.after_limits",
        "oci.activate.after_told", "server.create.started", "server.create.running"]


def capacity(n):
    return {"bufferMin": n, "bufferMax": n, "poolMax": 20, "poolMin": 0}


@pytest.fixture(scope="module")
def world():
    s = Server().start()
    yield s
    s.close()


@pytest.fixture
def s(world):
    """A pool of two."""
    world.ok("POST", "/v1/pools", {"name": "p", "template": TEMPLATE, "capacitySpec": capacity(2)}, status=201)
    wait_full(world, 2)
    yield world
    world.sweep()


def wait_full(s, n):
    """As many wait as should, and everything that exists waits or is listed."""
    def full():
        pool = s.ok("GET", "/v1/pools/p")["status"]
        return (pool["available"], pool["total"]) == (n, n + pool["allocated"]) and \
            len(s.directories()) == n + len(s.list()) == len(s.cgroups())
    try:
        wait_for("a full pool", full)
    except AssertionError:
        raise AssertionError(f"{s.ok('GET', '/v1/pools/p')} {s.directories()} {s.list()}\n{s.log_tail()}")


def take(s, headers=None):
    return s.ok("POST", "/v1/sandboxes", {"extensions": {"poolRef": "p"}, "resourceLimits": {"memory": "256Mi"}},
                status=202, headers=headers)


def test_the_points_are_there():
    assert set(points("server.pool.", "oci.activate.")) <= {*FILL, *TAKE, "server.pool.deleted"}


@pytest.mark.parametrize("point", FILL)
def test_refill(s, point):
    crash(s, point, lambda: s.ok("PUT", "/v1/pools/p", {"capacitySpec": capacity(4)}))
    wait_full(s, s.ok("GET", "/v1/pools/p")["capacitySpec"]["bufferMin"])
    assert s.list() == []
    assert s.run(take(s)["id"], "echo works")[0] == "works"


@pytest.mark.parametrize("key", [None, "key"], ids=["plain", "keyed"])
@pytest.mark.parametrize("point", TAKE)
def test_take(s, point, key):
    headers = {"Idempotency-Key": f"{key}-{point}"} if key else {}
    crash(s, point, lambda: take(s, headers))
    settle(s)
    if key:
        made = take(s, headers)
        settle(s)
        assert [x["id"] for x in s.list()] == [made["id"]]
    else:
        # Its client never knew it. Only one that had been recorded as Running is kept.
        assert len(s.list()) == (point == "server.create.running")
    for x in s.list():
        assert s.run(x["id"], "echo works")[0] == "works"
    wait_full(s, 2)
    assert s.ok("GET", "/v1/pools/p")["status"]["allocated"] == len(s.list())
    assert s.run(take(s)["id"], "echo again")[0] == "again"


def test_delete(s):
    kept = take(s)["id"]
    wait_full(s, 2)
    crash(s, "server.pool.deleted", lambda: s.call("DELETE", "/v1/pools/p"))
    assert s.call("GET", "/v1/pools/p").status_code == 404
    wait_for("members to go", lambda: s.directories() == [kept])
    assert s.ping(kept)
