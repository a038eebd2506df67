"""The control socket: an execd that is told late what to run, as a warm pool does it."""

import json

import pytest
from execd_client import WAIT, run
from localexecd import Control


@pytest.fixture
def waiting(launch, tmp_path):
    """An execd that waits, and its control socket."""
    control = Control(tmp_path / "control.sock")
    fd = control.listener.fileno()

    def start(*args, **kw):
        e = launch("--control-fd", str(fd), *args, init=(), env={"EXECD_ENVS": str(tmp_path / "envs"), **kw.pop("env", {})},
                   keep_fds=[fd], **kw)
        control.listener.close()
        return e, control
    yield start
    control.listener.close()


def test_it_is_told_environment_and_entrypoint(waiting, tmp_path):
    e, control = waiting(env={"A": "start", "B": "start"})
    out = tmp_path / "out"
    status, text = control.ask({"env": {"B": "late", "C": "x  'y"},
                                "entrypoint": ["sh", "-c", f"echo \"$A-$B-$C\" > {out}; exec sleep 1000000"]})
    assert (status, text) == (200, b"{}")
    assert e.next_event()["event"] == "entrypoint_started"
    assert run(e, 'echo "$A-$B-$C"').stdout == ["start-late-x  'y"]
    assert run(e, f"while ! [ -s {out} ]; do sleep 0.02; done; cat {out}").stdout == ["start-late-x  'y"]


def test_it_ends_with_it(waiting):
    e, control = waiting()
    e.ends_with = (3,)
    assert control.ask({"entrypoint": ["sh", "-c", "exit 3"]})[0] == 200
    assert e.proc.wait(WAIT) == 3


def test_only_once(waiting):
    e, control = waiting()
    assert control.ask({"entrypoint": ["sleep", "1000000"]})[0] == 200
    assert e.next_event()["event"] == "entrypoint_started"
    with pytest.raises(OSError):
        control.ask({"entrypoint": ["sleep", "1000000"]})


@pytest.mark.parametrize("use", [
    lambda e: run(e, "true"), lambda e: e.get("/metrics"), lambda e: e.get("/files/info?path=/"), lambda e: e.get("/nothing")])
def test_not_after_it_was_used(waiting, use):
    e, control = waiting()
    use(e)
    status, text = control.ask({"entrypoint": ["sleep", "1"]})
    assert status == 409 and json.loads(text)["code"] == "NOT_FRESH"
    assert run(e, "echo serves").stdout == ["serves"]


def test_a_ping_is_no_use(waiting):
    e, control = waiting()
    assert e.get("/ping").status_code == 200
    assert control.ask({"entrypoint": ["sleep", "1000000"]})[0] == 200


@pytest.mark.parametrize("body", [
    "", "{", "[]", {}, {"entrypoint": []}, {"entrypoint": [1]}, {"entrypoint": "sh"}, {"entrypoint": ["x"], "env": {"A": 1}},
    {"entrypoint": ["x"], "env": []}, {"entrypoint": ["x"], "other": 1}])
def test_bodies_that_cannot_be(waiting, body):
    e, control = waiting()
    assert control.ask(body)[0] == 400
    assert control.ask({"entrypoint": ["sleep", "1000000"]})[0] == 200, "it still waits"


def test_nothing_else_is_served_there(waiting):
    e, control = waiting()
    assert control.ask("", "GET", "/ping")[0] == 404
    assert control.ask('{"command": "true"}', "POST", "/command")[0] == 404
    assert e.post("/activate", json={"entrypoint": ["sleep", "1"]}).status_code == 404, "and it not on the network"


def test_a_token_that_comes_late(waiting):
    e, control = waiting()
    assert control.ask({"env": {"EXECD_ACCESS_TOKEN": "s3cret"}, "entrypoint": ["sleep", "1000000"]})[0] == 200
    assert e.next_event()["event"] == "entrypoint_started"
    assert e.post("/command", json={"command": "true"}).status_code == 401
    r = e.post("/command", json={"command": "echo ${EXECD_ACCESS_TOKEN-hidden}"}, headers={"X-EXECD-ACCESS-TOKEN": "s3cret"})
    assert r.status_code == 200 and "hidden" in r.text
