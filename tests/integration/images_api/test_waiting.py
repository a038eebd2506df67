"""Many creates of one image, slow and broken pulls, and those who lose patience."""

import concurrent.futures
import json
import os

import pytest
from gate import Gate
from osbserver import request_body, wait_for
from registry import Image, tar_of

N = 50


def body(image, **more):
    return request_body(image={"uri": image}, entrypoint=["/bin/sleep", "600"], **more)


@pytest.fixture
def gated(base):
    made = []

    def make(**more):
        made.append(Gate(Image([base, tar_of([("top", os.urandom(50000))])]), **more))
        return made[-1]

    yield make
    for g in made:
        g.close()


def drop(server):
    for x in server.list():
        server.delete(x["id"])
    server.ok("POST", "/v1/images/prune", {})


def test_fifty_creates_at_once_pull_once(server, gated):
    gate = gated()
    with concurrent.futures.ThreadPoolExecutor(N) as pool:
        calls = [pool.submit(server.call, "POST", "/v1/sandboxes", body(gate.name)) for _ in range(N)]
        answers = [c.result() for c in calls]
    assert {r.status_code for r in answers} == {202}, [r.text for r in answers if r.status_code != 202]
    ids = [r.json()["id"] for r in answers]
    for id in ids:
        server.wait_state(id, "Running")
    assert set(gate.layer_requests().values()) == {1} and gate.manifest_requests() == 1
    assert server.run(ids[-1], "ls /top")[0] == "/top"
    drop(server)
    server.assert_clean()


def test_a_slow_pull_is_pending_and_shows_how_far_it_is(make, gated):
    server = make("[server]\ncreate_wait_seconds = 1\n")
    gate = gated(closed=True)
    r = server.call("POST", "/v1/sandboxes", body(gate.name))
    assert r.status_code == 202 and r.json()["status"]["state"] == "Pending", r.text
    id = r.json()["id"]
    status = wait_for("progress", lambda: [s for s in [server.get(id)["status"]] if "bytes" in s.get("message", "")])[0]
    assert status["reason"] == "IMAGE_PULLING" and "downloading" in status["message"] and gate.name in status["message"]
    events = server.call("GET", f"/v1/sandboxes/{id}/diagnostics/events").text
    assert "image_pull" in events and gate.name in events
    # What needs no pull does not wait behind it.
    other = server.create()
    assert other["status"]["state"] == "Running"
    gate.open.set()
    server.wait_state(id, "Running")
    assert server.run(id, "ls /top")[0] == "/top"
    drop(server)


def test_deleting_a_create_that_pulls(make, gated):
    server = make("[server]\ncreate_wait_seconds = 1\n")
    gate = gated(closed=True)
    first = server.call("POST", "/v1/sandboxes", body(gate.name)).json()["id"]
    second = server.call("POST", "/v1/sandboxes", body(gate.name)).json()["id"]
    server.delete(first)  # the one that pulls: the other takes over, where it was
    assert server.state(second) == "Pending"
    server.delete(second)  # and one that waits
    assert server.list() == []
    gate.open.set()
    id = server.create(image={"uri": gate.name}, entrypoint=["/bin/sleep", "600"])["id"]
    assert server.run(id, "ls /top")[0] == "/top"
    drop(server)
    server.assert_clean()


def test_many_pulls_leave_room_for_other_creates(make, gated):
    """More creates wait for one image than there are workers; others pass them."""
    server = make("[server]\ncreate_wait_seconds = 1\n[limits]\ncreate_concurrency = 2\n")
    gate = gated(closed=True)
    waiting = [server.call("POST", "/v1/sandboxes", body(gate.name)).json()["id"] for _ in range(4)]
    assert server.create()["status"]["state"] == "Running"
    gate.open.set()
    for id in waiting:
        server.wait_state(id, "Running")
    drop(server)


def test_those_who_wait_share_the_failure(server, gated):
    gate = gated(closed=True)
    gate.broken = 100
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(server.call, "POST", "/v1/sandboxes", body(gate.name)) for _ in range(8)]
        answers = [c.result() for c in calls]
    assert {r.status_code for r in answers} == {500}
    assert {r.json()["code"] for r in answers} == {"DOCKER::SANDBOX_IMAGE_PULL_FAILED"}
    assert server.list() == []
    gate.broken = 0
    gate.open.set()
    id = server.create(image={"uri": gate.name}, entrypoint=["/bin/sleep", "600"])["id"]  # no failure is kept
    server.delete(id)
    drop(server)


def test_a_client_that_leaves_its_pull(server, gated):
    gate = gated(closed=True)
    r = server.call("POST", "/v1/images", {"uri": gate.name}, stream=True)
    first = json.loads(next(r.iter_lines()))
    assert first["status"] == "downloading"
    r.close()
    # The pull is given up, and the next one goes on from the bytes that are here.
    gate.open.set()
    r = server.call("POST", "/v1/images", {"uri": gate.name})
    assert json.loads(r.text.splitlines()[-1])["status"] == "ready", r.text
    drop(server)


def test_a_restart_in_the_middle_of_a_pull(make, gated):
    server = make("[server]\ncreate_wait_seconds = 1\n")
    gate = gated(closed=True)
    id = server.call("POST", "/v1/sandboxes", body(gate.name)).json()["id"]
    assert gate.asked.wait(60)
    server.kill()
    gate.open.set()
    server.start()
    server.wait_state(id, "Running")  # its client was told of it: it goes on
    assert server.run(id, "ls /top")[0] == "/top"
    drop(server)
    server.assert_clean()


def test_stopping_the_server_does_not_wait_for_a_pull(make, gated):
    server = make("[server]\ncreate_wait_seconds = 1\n")
    gate = gated(closed=True)
    assert server.call("POST", "/v1/sandboxes", body(gate.name)).status_code == 202
    assert gate.asked.wait(60)
    assert server.stop(timeout=40) == 0
