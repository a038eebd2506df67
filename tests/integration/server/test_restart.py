"""Sandboxes outlive the server; what was promised holds after a restart."""

import datetime
import time

import pytest
from osbserver import request_body, wait_for

pytestmark = pytest.mark.both_runtimes


def in_seconds(n):
    t = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=n)
    return t.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_sandboxes_go_on(make):
    s = make()
    a, b = s.create(metadata={"a": "1"}), s.create()
    s.run(a["id"], "echo kept > /root/file; (sleep 4321 &)")
    s.ok("POST", f"/v1/sandboxes/{b['id']}/pause")
    s.ok("PATCH", f"/v1/sandboxes/{a['id']}/metadata", {"b": "2"})
    before = {x["id"]: x for x in s.list()}
    s.restart()
    assert {x["id"]: x for x in s.list()} == before
    assert s.run(a["id"], "cat /root/file; ps ax -o args | grep -c '[s]leep 4321'")[0].split() == ["kept", "1"]
    assert s.state(b["id"]) == "Paused"
    s.ok("POST", f"/v1/sandboxes/{b['id']}/resume", status=202)
    assert s.ping(b["id"])
    s.stop()
    s.start()
    assert s.ping(a["id"]) and s.ping(b["id"])
    s.delete(a["id"])
    s.delete(b["id"])
    s.assert_clean()


def test_ends_while_away_are_noticed(make):
    s = make()
    id = s.create(entrypoint=["sh", "-c", "while [ ! -e /tmp/go ]; do sleep 0.05; done; exit 7"])["id"]
    s.run(id, "(sleep 0.5; touch /tmp/go) >/dev/null 2>&1 &")
    s.kill()
    time.sleep(1.5)  # it ends while nobody looks
    s.start()
    status = s.wait_state(id, "Failed")["status"]
    assert "exit code 7" in status["message"]


def test_expiry_holds(make):
    s = make()
    gone, stays = s.create(timeout=60)["id"], s.create(timeout=60)["id"]
    s.ok("POST", f"/v1/sandboxes/{gone}/renew-expiration", {"expiresAt": in_seconds(2)})
    s.ok("POST", f"/v1/sandboxes/{stays}/renew-expiration", {"expiresAt": in_seconds(1000)})
    s.kill()
    time.sleep(2.2)
    s.start()
    s.wait_gone(gone)
    assert s.ping(stays)
    s.assert_clean(ids={stays})


def test_idempotency_survives(make):
    s = make()
    key = {"Idempotency-Key": "again"}
    id = s.ok("POST", "/v1/sandboxes", request_body(), headers=key)["id"]
    s.restart()
    assert s.ok("POST", "/v1/sandboxes", request_body(), headers=key)["id"] == id
    assert s.call("POST", "/v1/sandboxes", request_body(timeout=61), headers=key).status_code == 409
    assert len(s.list()) == 1


def test_strangers_are_removed(make):
    """A container without a record."""
    import sqlite3
    s = make()
    id = s.create()["id"]
    s.kill()
    with sqlite3.connect(f"{s.data}/opensandbox.db") as db:
        db.execute("DELETE FROM sandboxes")
    s.start()
    assert s.list() == []
    s.assert_clean()
    assert id not in s.cgroups()


def test_events_tell_the_story(make):
    s = make()
    id = s.create()["id"]
    s.restart()
    s.delete(id)
    import sqlite3
    rows = sqlite3.connect(f"{s.data}/opensandbox.db").execute(
        "SELECT type, actor FROM events WHERE sandbox_id = ? ORDER BY seq", (id,)).fetchall()
    assert [t for t, _ in rows] == ["create", "running", "stopping", "deleted"]
    assert rows[0][1].startswith("key-")


def test_many_restarts(make):
    s = make()
    ids = {s.create()["id"] for _ in range(3)}
    for i in range(6):
        s.restart() if i % 2 else (s.stop(), s.start())
        assert {x["id"] for x in s.list()} == ids
        assert all(s.ping(id) for id in ids)
    for id in ids:
        s.delete(id)
    wait_for("an empty list", lambda: not s.list())
    s.assert_clean()
