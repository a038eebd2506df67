"""Logs, events, inspection and summary, as text and as JSON."""

import datetime
import re

import pytest
from osbserver import wait_for

pytestmark = pytest.mark.both_runtimes


def test_logs(server, runtime):
    id = server.create(entrypoint=["sh", "-c", "echo out; echo err >&2; sleep infinity"])["id"]
    path = f"/v1/sandboxes/{id}/diagnostics/logs"
    wait_for("output", lambda: all(x in server.call("GET", path).text for x in ("out", "err")))
    r = server.call("GET", path)
    assert r.headers["Content-Type"].startswith("text/plain") and r.headers["Deprecation"] == "true"
    lines = r.text.strip().split("\n")
    words = [re.sub(r"^\S+ ", "", x) for x in lines]
    if runtime == "docker":  # two pipes, read by the engine in the order that it likes
        assert sorted(words) == ["err", "out"]
    else:
        assert words == ["out", "err"]
    # Each behind its time, which is one of now: RFC 3339, UTC, and never before the sandbox was made.
    times = [datetime.datetime.fromisoformat(x.split(" ")[0]) for x in lines]
    assert all(re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z ", x) for x in lines), lines
    made = datetime.datetime.fromisoformat(server.get(id)["createdAt"])
    assert made <= min(times) <= datetime.datetime.now(datetime.timezone.utc)
    assert all(abs(t - times[0]) < datetime.timedelta(minutes=10) for t in times)
    assert len(server.call("GET", path + "?tail=1").text.strip().split("\n")) == 1
    assert server.call("GET", path + "?since=1h").text.strip().endswith(words[-1])
    seen = server.ok("GET", path + "?scope=container")
    assert seen["kind"] == "logs" and seen["scope"] == "container" and seen["delivery"] == "inline"
    assert seen["sandboxId"] == id and seen["content"] == r.text and seen["truncated"] is False
    assert seen["contentLength"] == len(r.text)
    for bad in ["tail=0", "tail=10001", "tail=x"]:
        assert server.call("GET", f"{path}?{bad}").status_code == 422
    assert server.call("GET", path + "?scope=").status_code == 400
    assert server.call("GET", "/v1/sandboxes/nope/diagnostics/logs").status_code == 404


def test_no_logs(server):
    id = server.create()["id"]
    assert server.call("GET", f"/v1/sandboxes/{id}/diagnostics/logs").text == "(no logs)"


def test_events(server):
    id = server.create()["id"]
    server.ok("POST", f"/v1/sandboxes/{id}/pause")
    server.ok("POST", f"/v1/sandboxes/{id}/resume")
    path = f"/v1/sandboxes/{id}/diagnostics/events"
    text = server.call("GET", path).text
    words = [line.split()[1] for line in text.strip().split("\n")]
    assert words == ["create", "running", "pausing", "paused", "resuming", "resumed"]
    assert len(server.call("GET", path + "?limit=2").text.strip().split("\n")) == 2
    assert server.ok("GET", path + "?scope=all")["kind"] == "events"
    assert server.call("GET", path + "?limit=501").status_code == 422


def test_inspect_and_summary(server):
    id = server.create(env={"PLAIN": "visible", "MY_TOKEN": "hidden-1", "Api_Key": "hidden-2"},
                       metadata={"team": "blue"})["id"]
    r = server.call("GET", f"/v1/sandboxes/{id}/diagnostics/inspect")
    assert r.status_code == 200 and "Deprecation" not in r.headers
    for word in [id, "Running", "PLAIN=visible", "MY_TOKEN=***", "Api_Key=***", "team=blue", "128Mi"]:
        assert word in r.text, word
    assert "hidden" not in r.text
    s = server.call("GET", f"/v1/sandboxes/{id}/diagnostics/summary").text
    assert s.startswith("=" * 72) and "hidden" not in s
    assert s.index("INSPECT") < s.index("EVENTS") < s.index("LOGS")
    assert server.call("GET", f"/v1/sandboxes/{id}/diagnostics/summary?event_limit=0").status_code == 422
    assert server.call("GET", "/v1/sandboxes/nope/diagnostics/inspect").status_code == 404
