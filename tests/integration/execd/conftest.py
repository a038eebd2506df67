"""Starts execd for tests: `execd` is one that a module shares, `launch` makes more of them."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from execd_client import WAIT  # noqa: E402, F401
from localexecd import EXECD, Execd, wait_for  # noqa: E402, F401


@pytest.fixture
def launch(tmp_path):
    started = []

    def start(*args, **kw):
        started.append(Execd(tmp_path / f"execd.{len(started)}.log", args, **kw))
        return started[-1]

    yield start
    for e in started:
        code = e.stop()
        assert "ERROR: " not in e.log() and "runtime error" not in e.log(), e.log()
        assert code in e.ends_with, e.log()


@pytest.fixture(scope="module")
def execd(tmp_path_factory):
    e = Execd(tmp_path_factory.mktemp("execd") / "execd.log")
    yield e
    code = e.stop()
    assert code == 0, e.log()


def error(response, status, code, text=None):
    """Asserts the exact shape of an error, and that its message mentions `text`."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    assert int(response.headers["Content-Length"]) == len(response.content) > 0
    body = response.json()
    assert body["code"] == code, body
    if text is None:
        assert set(body) <= {"code", "message"}
    else:
        assert set(body) == {"code", "message"}
        assert text in body["message"], body
    return body.get("message")


def empty_ok(response):
    assert response.status_code == 200, response.text
    assert response.content == b""
    assert response.headers["Content-Length"] == "0"
