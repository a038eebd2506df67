"""Snapshots as images: exported to a file, imported elsewhere, pushed to a registry and pulled again."""

import io
import json
import os
import re
import shutil
import sys
import tarfile

import pytest
from osbserver import Server, request_body
from test_snapshots import CHANGES, LOOK, out, restore, server, take  # noqa: F401  (server is a fixture)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "image"))
from registry import Registry  # noqa: E402


@pytest.fixture
def other():
    """Another machine, so to speak."""
    s = Server().start()
    yield s
    s.close()


def export(s, snapshot):
    r = s.call("GET", f"/v1/snapshots/{snapshot}/export")
    assert r.status_code == 200 and r.headers["Content-Type"] == "application/x-tar", r.text
    return r.content


def imported(s, archive, name):
    r = s.call("POST", f"/v1/images/import?name={name}", data=archive, headers={"Content-Type": "application/x-tar"})
    assert r.status_code == 201, r.text


def lines(r):
    assert r.status_code == 200, r.text
    return [json.loads(x) for x in r.text.strip().splitlines()]


def test_to_a_file_and_back(server, other):  # noqa: F811
    a = server.create()["id"]
    # Archives have no sockets, no holes, names are UTF-8, and times are whole seconds.
    out(server, a, CHANGES.replace("\\xff", "x") + "rm socket\n")
    before = out(server, a, LOOK)
    first = take(server, a)
    b = restore(server, first)
    out(server, b, "echo second > /root/second; rm /root/t/soft; ln -s plain /root/t/soft")
    snap = take(server, b)
    archive = export(server, snap["id"])
    names = tarfile.open(fileobj=io.BytesIO(archive)).getnames()
    assert "oci-layout" in names and "index.json" in names
    assert archive == export(server, snap["id"]), "the same snapshot gives the same bytes"
    imported(other, archive, "my/state:1")
    c = other.create(image={"uri": "my/state:1"})["id"]
    plain = lambda text: [re.sub(r"\.\d{9} ", " ", x) for x in text.splitlines() if not x.startswith("52428800 ")]
    assert plain(out(other, c, LOOK)) == plain(before)
    assert out(other, c, "cat /root/second; stat -c %s /root/t/sparse") == "second\n52428800"


def test_through_a_registry(server, other, tmp_path):  # noqa: F811
    reg = Registry(str(tmp_path))
    try:
        a = server.create(entrypoint=["sleep", "1000"])["id"]
        out(server, a, "echo pushed > /root/x; rm -rf /srv; chown 3:4 /root/x")
        snap = take(server, a)
        target = f"{reg.host}/team/state:v1"
        last = lines(server.call("POST", f"/v1/snapshots/{snap['id']}/push", {"target": target}))[-1]
        assert last["status"] == "ready", last
        b = other.create(image={"uri": target})["id"]
        assert out(other, b, "cat /root/x; stat -c %u:%g /root/x; test -e /srv || echo gone") == "pushed\n3:4\ngone"
        r = server.call("POST", f"/v1/snapshots/{snap['id']}/push", {"target": "127.0.0.1:1/x:y"})
        assert r.status_code != 200 or lines(r)[-1]["status"] == "failed"
    finally:
        reg.stop()


def test_refusals(server):  # noqa: F811
    for method, what in (("GET", "export"), ("POST", "push")):
        r = server.call(method, f"/v1/snapshots/nope/{what}", {} if method == "POST" else None)
        assert (r.status_code, r.json()["code"]) == (404, "SNAPSHOT::NOT_FOUND")
        assert server.call(method, f"/v1/snapshots/nope/{what}", key=False).status_code == 401
    assert server.call("GET", "/v1/images/snapshot:nope/export").status_code == 404
    a = server.create()["id"]
    snap = take(server, a)
    assert server.call("DELETE", f"/v1/images/snapshot:{snap['id']}").status_code == 409
    assert f"snapshot:{snap['id']}" not in json.dumps(server.ok("GET", "/v1/images"))


def test_base_that_is_not_there(server, other):  # noqa: F811
    """An image that lies on a root file system which only the first machine has."""
    s = Server()
    try:
        root = os.path.join(s.dir, "rootfs")
        os.makedirs(root + "/bin")
        shutil.copy("/bin/busybox", root + "/bin/busybox")
        for name in ("sh", "sleep", "tail"):
            os.symlink("busybox", f"{root}/bin/{name}")
        s.write_config(f'[oci.rootfs]\nsmall = "{root}"\n')
        s.start()
        snap = take(s, s.create(image={"uri": "small"})["id"])
        imported(other, export(s, snap["id"]), "alone:1")
        r = other.call("POST", "/v1/sandboxes", request_body(image={"uri": "alone:1"}))
        assert r.status_code >= 400 and "small" in r.json()["message"], r.text
        imported(s, export(s, snap["id"]), "home:1")
        assert out(s, s.create(image={"uri": "home:1"})["id"], "echo here") == "here"
    finally:
        s.close()
