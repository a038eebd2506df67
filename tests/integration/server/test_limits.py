"""Being full is an answer with a reason and a time to come back, never a silent wait."""

import concurrent.futures
import contextlib
import json
import os
import select
import time

import pytest
import requests
from osbserver import request_body, wait_for

pytestmark = pytest.mark.both_runtimes


def post(s, body, **more):
    h = {"OPEN-SANDBOX-API-KEY": s.key, **more.pop("headers", {})}
    return requests.post(s.url + "/v1/sandboxes", json=body, headers=h, timeout=120, **more)


def test_sandbox_limits(make):
    s = make("[limits]\nsandboxes = 2\nsandboxes_per_key = 2\n")
    first = s.create()["id"]
    s.create()
    r = s.call("POST", "/v1/sandboxes", request_body())
    assert r.status_code in (429, 503) and int(r.headers["Retry-After"]) > 0
    assert r.json()["code"] == "SANDBOX::LIMIT_REACHED" and "limits.sandboxes" in r.json()["message"]
    s.delete(first)
    s.create()


def test_a_burst_over_the_queue_is_refused_at_once(make):
    s = make("[limits]\ncreate_concurrency = 1\ncreate_queue = 4\ncreate_per_key = 100\n")
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda _: post(s, request_body()), range(24)))
    codes = [r.status_code for r in answers]
    assert set(codes) == {202, 503}, codes
    for r in answers:
        if r.status_code == 503:
            assert int(r.headers["Retry-After"]) > 0 and "limits.create_queue" in r.json()["message"]
    assert len(s.list()) == codes.count(202)


def test_per_key_limit(make):
    s = make('[server]\napi_keys = ["the-other-key"]\n[limits]\ncreate_concurrency = 1\ncreate_per_key = 2\n')
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: post(s, request_body()), range(16)))
    assert {r.status_code for r in answers} == {202, 429}
    assert post(s, request_body(), headers={"OPEN-SANDBOX-API-KEY": "the-other-key"}).status_code == 202


def test_burst_of_a_hundred(make, runtime):
    s = make()
    many = 100 if runtime == "oci" else 24  # as many as an engine makes before they are answered as Pending
    with concurrent.futures.ThreadPoolExecutor(many) as pool:
        answers = list(pool.map(lambda _: post(s, request_body(resourceLimits={"memory": "64Mi"})), range(many)))
    assert [r.status_code for r in answers] == [202] * many, [r.text for r in answers if r.status_code != 202][:3]
    ids = [r.json()["id"] for r in answers]
    assert len(set(ids)) == many
    wait_for("all of them running", lambda: {x["status"]["state"] for x in s.list()} == {"Running"})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda id: requests.get(f"{s.url}/sandboxes/{id}/proxy/44772/ping", timeout=60).ok, ids))
        headers = {"OPEN-SANDBOX-API-KEY": s.key}
        assert all(pool.map(lambda id: requests.delete(f"{s.url}/sandboxes/{id}", headers=headers, timeout=60).status_code == 204, ids))
    s.assert_clean()


def test_one_key_many_requests_at_once(make):
    s = make()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: post(s, request_body(), headers={"Idempotency-Key": "k"}), range(16)))
    assert {r.status_code for r in answers} == {202}
    assert len({r.json()["id"] for r in answers}) == 1 and len(s.list()) == 1


def test_a_client_that_leaves_leaves_no_sandbox(make):
    s = make("[limits]\ncreate_concurrency = 1\n")
    conns = [s.raw() for _ in range(12)]
    for conn in conns:
        conn.request("POST", "/v1/sandboxes", json.dumps(request_body()), {
            "OPEN-SANDBOX-API-KEY": s.key, "Content-Type": "application/json"})
    wait_for("all of them being recorded", lambda: s.log_tail(400).count("type=create ") == 12, interval=0.001)
    answered = len(select.select([c.sock for c in conns], [], [], 0)[0])
    for conn in conns:
        conn.close()
    wait_for("the others being undone", lambda: "Pending" not in {x["status"]["state"] for x in s.list()})
    assert len(s.list()) <= answered + 1, "one may have been answered in the same moment"
    for x in s.list():
        s.delete(x["id"])
    s.assert_clean()
    # With a key it goes on: the client will ask again.
    conn = s.raw()
    conn.request("POST", "/v1/sandboxes", json.dumps(request_body()), {
        "OPEN-SANDBOX-API-KEY": s.key, "Content-Type": "application/json", "Idempotency-Key": "mine"})
    wait_for("its record", lambda: s.log_tail(400).count("type=create ") == 13, interval=0.001)
    conn.close()
    wait_for("the sandbox", lambda: [x for x in s.list() if x["status"]["state"] == "Running"])
    assert s.ok("POST", "/v1/sandboxes", request_body(), headers={"Idempotency-Key": "mine"})["id"] == s.list()[0]["id"]


def test_rounds_leave_nothing(make, runtime):
    """Create and delete in rounds: no growth of descriptors, threads, mounts, groups, links."""
    s = make()
    rounds, each = (5, 16) if runtime == "oci" else (2, 6)

    def sizes():
        """Descriptors without the network namespaces that are kept for the next sandbox, and threads."""
        fds = []
        for f in os.listdir(f"/proc/{s.pid}/fd"):
            with contextlib.suppress(FileNotFoundError): # closed since it was listed
                fds.append(os.readlink(f"/proc/{s.pid}/fd/{f}"))
        return len([f for f in fds if not f.startswith("net:")]), len(os.listdir(f"/proc/{s.pid}/task"))

    def round():
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            ids = [r.json()["id"] for r in pool.map(lambda _: post(s, request_body(resourceLimits={})), range(each))]
            for id in ids:
                s.delete(id)

    round()
    s.assert_clean()
    before = sizes()
    for _ in range(rounds):
        round()
    s.assert_clean()
    wait_for(f"sizes like {before}", lambda: sizes()[0] <= before[0] + 12 and sizes()[1] <= before[1] + 2)


@pytest.mark.oci_only("addresses are the engine's")
def test_a_short_supply_of_addresses(make):
    """Five addresses, one kept ready: what rests after use is called up, and what is truly too much is said."""
    s = make('[oci]\nsubnet = "10.199.77.0/29"\nnetns_pool = 0\n')
    for _ in range(4):
        ids = [s.create()["id"] for _ in range(5)]
        assert all(s.run(id, "echo up")[0] == "up" for id in ids)
        r = post(s, request_body())
        assert r.status_code == 503 and "no free address in [oci].subnet" in r.json()["message"], r.text
        for id in ids:
            s.delete(id)
    s.assert_clean()


def test_io_limits(make):
    """8 MiB at 4 MiB a second take more than a second; nothing says how much more."""
    s = make()
    id = s.create(resourceLimits={"io-write-bps": "4Mi", "io-read-iops": "500"})["id"]
    start = time.monotonic()
    out = s.run(id, "dd if=/dev/zero of=/root/f bs=1M count=8 oflag=direct 2>&1 && stat -c %s /root/f")[0]
    assert out.split()[-1] == str(8 << 20)
    assert time.monotonic() - start > 1
    for key, value in (("io-write-bps", "fast"), ("io-read-iops", "0"), ("io-read-iops", "1.5"), ("io-depth", "3")):
        r = post(s, request_body(resourceLimits={key: value}))
        assert r.status_code == 400 and key in r.json()["message"], r.text
