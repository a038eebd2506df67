"""Pools across the end of the server, by SIGTERM and by kill -9, and pools that the configuration declares."""

import os
import signal

import pytest
from osbserver import wait_for
from test_pools import TEMPLATE, capacity, make_pool, members, state_of, status, take, wait_available

DECLARED = """
[pool.small]
image = "host"
buffer_min = {n}
entrypoint = ["sleep", "infinity"]
resource_limits = {{ memory = "128Mi" }}
env = {{ A = "{a}" }}
"""


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_members_are_taken_over(make, end):
    s = make()
    pool = make_pool(s, least=3, most=3)
    taken = take(s)["id"]
    wait_available(s, "p", 3)
    before = members(s)
    getattr(s, end)()
    s.start()
    again = s.ok("GET", "/v1/pools/p")
    assert again["createdAt"] == pool["createdAt"] and again["status"]["revision"] == pool["status"]["revision"]
    assert again["status"] == {**again["status"], "available": 3, "allocated": 1, "total": 4}
    assert members(s) == before and [x["id"] for x in s.list()] == [taken]
    got = take(s, env={"A": "late"})["id"]
    assert got in before and s.run(got, "echo $A")[0] == "late"
    assert s.run(taken, "echo $A")[0] == "template"


def test_what_died_or_was_used_meanwhile_is_replaced(make):
    s = make()
    make_pool(s, least=3, most=3)
    before = sorted(members(s))
    s.kill()
    os.kill(state_of(s, before[0])["pid"], signal.SIGKILL)
    s.start()
    wait_available(s, "p", 3)
    assert before[0] not in members(s) and set(before[1:]) <= members(s)
    wait_for("the dead one to go", lambda: before[0] not in s.directories())


def test_capacity_is_kept(make):
    s = make()
    make_pool(s, least=1, most=1)
    s.ok("PUT", "/v1/pools/p", {"capacitySpec": capacity(2, 2)})
    s.restart()
    wait_available(s, "p", 2)
    s.ok("DELETE", "/v1/pools/p", status=204)
    s.restart()
    assert s.ok("GET", "/v1/pools")["items"] == []
    s.assert_clean()


def test_the_configuration_declares_pools(make):
    s = make(DECLARED.format(n=2, a="one"))
    wait_available(s, "small", 2)
    pool = s.ok("GET", "/v1/pools/small")
    assert pool["capacitySpec"] == {"bufferMin": 2, "bufferMax": 2, "poolMin": 0, "poolMax": 100}
    assert s.run(take(s, "small")["id"], "echo $A")[0] == "one"
    wait_available(s, "small", 2)
    before = members(s)
    s.stop()
    s.start()
    assert members(s) == before, "nothing has changed"
    s.stop()
    s.write_config(DECLARED.format(n=3, a="two"))
    s.start()
    wait_for("others", lambda: len(members(s)) == 3 and members(s).isdisjoint(before))
    assert s.run(take(s, "small")["id"], "echo $A")[0] == "two"
    made = s.ok("POST", "/v1/pools", {"name": "mine", "template": TEMPLATE, "capacitySpec": capacity(0, 0)}, status=201)
    s.stop()
    s.write_config("")
    s.start()
    assert [p["name"] for p in s.ok("GET", "/v1/pools")["items"]] == [made["name"]]
    wait_for("members to go", lambda: not members(s))
    assert len(s.list()) == 2, "taken ones stay"


@pytest.mark.parametrize("text,word", [
    ('[pool.Bad]\nimage = "host"\n', "Bad"),
    ('[pool.x]\nimage = "host"\nbuffer_min = -1\n', "pool.x: buffer_min"),
    ('[pool.x]\nimage = "host"\ntimeout = 60\n', "pool.x: template: 'timeout'"),
    ('[pool.x]\nbuffer_min = 1\n', "pool.x: template"),
    ("[pool]\nx = 1\n", "[pool.NAME]"),
])
def test_a_wrong_declaration_stops_the_start(make, text, word):
    code, said = make(text, start=False).fails_to_start()
    assert code != 0 and word in said, said


def test_limits_count_what_waits(make):
    s = make("[limits]\nsandboxes = 3\n")
    make_pool(s, least=2, most=2)
    id = s.create()["id"]
    r = s.call("POST", "/v1/sandboxes", {"image": {"uri": "host"}, "entrypoint": ["sleep", "9"], "resourceLimits": {}})
    assert r.status_code == 503 and r.json()["code"] == "SANDBOX::LIMIT_REACHED"
    taken = take(s)["id"]  # not one more than there are
    assert {x["id"] for x in s.list()} == {id, taken}
    assert status(s)["available"] == 1, "there is no room for another"
    s.delete(id)
    wait_available(s, "p", 2)
