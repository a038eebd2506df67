"""kill -9 at every step of create, pause, resume, delete and expiry, then start again: nothing lost,
nothing left. Needs a build with fault points (tools/build fault); OSB_CHAOS_ROUNDS repeats each."""

import contextlib
import datetime
import json
import os
import re
import subprocess
import time

import pytest
import requests
from osbserver import BIN, ROOT, request_body, wait_for

ROUNDS = int(os.environ.get("OSB_CHAOS_ROUNDS", "3"))
# Passed only when something goes wrong, or by a create of more than ten seconds: tested by name below.
SPECIAL = {"server.create.failed", "server.create.refused", "server.create.undone", "server.create.answered"}


def fault_points():
    """Out of the sources, so that a new one is tested from its first day."""
    text = subprocess.run(["grep", "-rhoE", r'FAULT_POINT\([^;]*', os.path.join(ROOT, "src", "server")],
                          capture_output=True, text=True, check=True).stdout
    return sorted(set(re.findall(r'"((?:server|oci)\.[a-z_.]+)"', text)))


def points(*prefixes):
    return [p for p in fault_points() if p.startswith(prefixes) and p not in SPECIAL]


def has_fault_points():
    with open(os.path.join(BIN, "opensandbox-server"), "rb") as f:
        return b"OSB_FAULT" in f.read()


pytestmark = pytest.mark.skipif(not has_fault_points(), reason="this build has no fault points (tools/build fault)")


def crash(s, point, act, n=1):
    """Starts the server so that it dies at the point, lets `act` lead it there, and starts it anew."""
    s.stop()
    s.start(env={"OSB_FAULT": f"{point}:{n}"})
    try:
        act()
    except requests.exceptions.RequestException:
        pass
    try:
        code = s.wait_crash(timeout=30)
    except subprocess.TimeoutExpired:
        s.kill()
        pytest.fail(f"{point} was never passed")
    assert code == -9, f"{point}: exit {code}\n{s.log_tail()}"
    s.start()


def in_seconds(n):
    t = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=n)
    return t.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def settle(s):
    """What is on its way has arrived."""
    wait_for("the end of what was interrupted", lambda: not [
        x for x in s.list() if x["status"]["state"] not in ("Running", "Paused")])


def check_neighbour(s, id):
    assert s.ping(id), "the neighbour does not answer"
    assert s.run(id, "cat /root/mark")[0] == "here"


@pytest.fixture(scope="module")
def world():
    """One server for all crashes, with a neighbour that must never notice."""
    from osbserver import Server
    s = Server().start()
    s.neighbour = s.create(metadata={"who": "neighbour"}, timeout=None)["id"]
    s.run(s.neighbour, "echo here > /root/mark")
    yield s
    s.close()


@pytest.fixture
def s(world):
    yield world
    world.sweep(keep={world.neighbour})
    check_neighbour(world, world.neighbour)


def others(s):
    return [x for x in s.list() if x["id"] != s.neighbour]


@pytest.mark.parametrize("point", points("server.create.", "oci.create."))
@pytest.mark.parametrize("key", [None, "key"], ids=["plain", "keyed"])
def test_create(s, point, key):
    for i in range(ROUNDS):
        headers = {"Idempotency-Key": f"{key}-{point}-{i}"} if key else {}
        create = lambda: s.ok("POST", "/v1/sandboxes", request_body(), headers=headers)
        crash(s, point, create)
        settle(s)
        left = others(s)
        if key:
            made = create()  # the client asks again
            settle(s)
            assert [x["id"] for x in others(s)] == [made["id"]]
            assert s.ping(made["id"])
        else:
            # Its client never knew it. Only one that had been recorded as Running is kept.
            assert len(left) <= 1
            assert all(s.ping(x["id"]) for x in left)
            if point not in ("server.create.running",):
                assert not left, f"{point} left {left}"
        for x in others(s):
            s.delete(x["id"])
        s.assert_clean(ids={s.neighbour})


@pytest.mark.parametrize("point", points("server.pause.", "oci.pause."))
def test_pause(s, point):
    for _ in range(ROUNDS):
        id = s.create()["id"]
        crash(s, point, lambda: s.call("POST", f"/v1/sandboxes/{id}/pause"))
        settle(s)
        if s.state(id) == "Paused":
            s.ok("POST", f"/v1/sandboxes/{id}/resume", status=202)
        assert s.state(id) == "Running" and s.ping(id)
        s.delete(id)


@pytest.mark.parametrize("point", points("server.resume.", "oci.resume."))
def test_resume(s, point):
    for _ in range(ROUNDS):
        id = s.create()["id"]
        s.ok("POST", f"/v1/sandboxes/{id}/pause")
        crash(s, point, lambda: s.call("POST", f"/v1/sandboxes/{id}/resume"))
        settle(s)
        if s.state(id) == "Paused":
            s.ok("POST", f"/v1/sandboxes/{id}/resume", status=202)
        assert s.state(id) == "Running" and s.ping(id)
        s.delete(id)


@pytest.mark.parametrize("point", points("server.remove.", "oci.remove."))
def test_delete(s, point):
    for _ in range(ROUNDS):
        id = s.create()["id"]
        crash(s, point, lambda: s.call("DELETE", f"/v1/sandboxes/{id}"))
        if point == "server.remove.begin":  # not recorded yet: as if never asked
            assert s.state(id) == "Running" and s.ping(id)
            s.delete(id)
        s.wait_gone(id)
        s.assert_clean(ids={s.neighbour})


@pytest.mark.parametrize("point", points("server.expiry.", "server.remove.", "oci.remove."))
def test_expiry(s, point):
    for _ in range(ROUNDS):
        id = s.create()["id"]
        crash(s, point, lambda: s.ok("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expiresAt": in_seconds(0.3)}))
        s.wait_gone(id)
        s.assert_clean(ids={s.neighbour})


@pytest.mark.parametrize("point", points("server.renew."))
def test_renew(s, point):
    id = s.create(timeout=60)["id"]
    new = in_seconds(1000)
    crash(s, point, lambda: s.call("POST", f"/v1/sandboxes/{id}/renew-expiration", {"expiresAt": new}))
    assert s.get(id)["expiresAt"] == new and s.ping(id)


def test_crash_while_recovering(s):
    id = s.create()["id"]
    crash(s, "server.remove.recorded", lambda: s.call("DELETE", f"/v1/sandboxes/{id}"))
    s.wait_gone(id)
    id = s.create()["id"]
    s.kill()
    for _ in range(3):
        s.spawn(env={"OSB_FAULT": "server.recover.listed"})
        assert s.wait_crash() == -9
    s.start()
    assert s.ping(id)


def test_crash_after_the_runtime_refused(s):
    bad = request_body(image={"uri": "127.0.0.1:1/no-such-image"})
    for point in ("server.create.refused", "server.create.failed"):
        crash(s, point, lambda: s.call("POST", "/v1/sandboxes", bad))
        wait_for("nothing", lambda: not others(s))
        s.assert_clean(ids={s.neighbour})


def test_crash_after_pending_was_answered(make):
    s = make("[server]\ncreate_wait_seconds = 0\n")
    answer = {}
    crash(s, "server.create.answered", lambda: answer.update(s.ok("POST", "/v1/sandboxes", request_body())))
    settle(s)  # its client may have heard of it: it is there
    assert len(s.list()) == 1 and s.ping(s.list()[0]["id"])


def test_crash_while_undoing(s):
    """The client leaves while its sandbox starts; the server dies when it has taken it down again."""
    s.stop()
    s.start(env={"OSB_FAULT": "server.create.undone"})
    body = json.dumps(request_body())
    for _ in range(50):  # leaving in the right moment takes some tries
        conn = s.raw()
        conn.request("POST", "/v1/sandboxes", body, {"OPEN-SANDBOX-API-KEY": s.key, "Content-Type": "application/json"})
        time.sleep(0.01)
        conn.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            s.process.wait(0.2)
            break
    assert s.wait_crash(1) == -9
    s.start()
    settle(s)
    s.assert_clean(ids={x["id"] for x in s.list()})


def test_every_point_is_tested():
    """A fault point that no test above leads to is a step without proof."""
    elsewhere = points("oci.volume.", "oci.snapshot.", "server.snapshot.", "server.fork.",  # test_storage_crash.py
                       "server.pool.", "oci.activate.")  # test_pool_crash.py
    known = points("server.create.", "oci.create.", "server.pause.", "oci.pause.", "server.resume.", "oci.resume.",
                   "server.remove.", "oci.remove.", "server.expiry.", "server.renew.", "server.recover.")
    assert set(known) | SPECIAL | set(elsewhere) == set(fault_points())
