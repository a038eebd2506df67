"""kill -9 in the middle of pull, unpack, removal and import of images, then start again: the store is whole,
nothing is left over, and what was asked for works. Needs a build with fault points (tools/build fault)."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from urllib.parse import quote

import pytest
from osbserver import ROOT, Server, request_body, wait_for
from test_crash import crash, pytestmark  # noqa: F401  (the mark is for this file too)

sys.path.insert(0, os.path.join(ROOT, "tests", "integration", "image"))
sys.path.insert(0, os.path.join(ROOT, "tests", "integration", "images_api"))
from registry import Image, Registry, tar_of  # noqa: E402

ROUNDS = int(os.environ.get("OSB_CHAOS_ROUNDS", "1"))
SOURCES = subprocess.run(["grep", "-rhoE", r'FAULT_POINT\("image\.[a-z_.]+"\)', f"{ROOT}/src/server"],
                         capture_output=True, text=True, check=True).stdout
POINTS = sorted(set(re.findall(r'"(image\.[a-z_.]+)"', SOURCES)))


def points(prefix):
    found = [p for p in POINTS if p.startswith(prefix)]
    assert found, f"no fault point {prefix}"
    return found


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    r = Registry(str(tmp_path_factory.mktemp("registry")))
    yield r
    r.stop()


@pytest.fixture(scope="module")
def name(registry):
    busybox = tarfile.TarInfo("bin/busybox")
    busybox.mode = 0o755
    sh = tarfile.TarInfo("bin/sh")
    sh.type, sh.linkname = tarfile.SYMTYPE, "busybox"
    with open(os.path.realpath(shutil.which("busybox")), "rb") as f:
        base = tar_of([("bin", None), (busybox, f.read()), (sh, None), ("tmp", None), ("etc", None)])
    Image([base, tar_of([("top", os.urandom(100000))])]).push(registry.host, "t/crash", "1")
    return f"{registry.host}/t/crash:1"


@pytest.fixture(scope="module")
def server():
    s = Server().start()
    yield s
    s.close()


def entries(server, what):
    return os.listdir(os.path.join(server.data, "images", what))


def whole(server):
    """Every recorded image has all its layers, and nothing unfinished is left."""
    assert entries(server, "tmp") == []
    layers = set(entries(server, "layers"))
    for ref in entries(server, "refs"):
        assert ref.endswith(".json"), ref
        with open(os.path.join(server.data, "images", "refs", ref)) as f:
            assert {l["id"] for l in json.load(f)["layers"]} <= layers


def works(server, image):
    id = server.create(image={"uri": image}, entrypoint=["/bin/busybox", "sleep", "600"])["id"]
    assert server.run(id, "busybox ls /top || /bin/busybox ls /top")[0] == "/top"
    server.delete(id)


def empty(server):
    server.ok("POST", "/v1/images/prune", {})
    assert [entries(server, d) for d in ("refs", "layers", "parts", "tmp")] == [[], [], [], []]


@pytest.mark.parametrize("point,n", [(p, n) for p in points("image.pull.") for n in (1, 2)
                                     if n == 1 or p != "image.pull.layers"])  # that one is passed once
def test_pull(server, name, point, n):
    for _ in range(ROUNDS):
        empty(server)
        body = request_body(image={"uri": name}, entrypoint=["/bin/busybox", "sleep", "600"])
        crash(server, point, lambda: server.call("POST", "/v1/sandboxes", body), n)
        wait_for("the end of what was interrupted", lambda: not server.list())
        whole(server)
        works(server, name)
        empty(server)
        server.assert_clean()


@pytest.mark.parametrize("point", points("image.remove."))
def test_remove(server, name, point):
    for _ in range(ROUNDS):
        server.ok("POST", "/v1/sandboxes", request_body(), status=202)
        server.call("POST", "/v1/images", {"uri": name})
        crash(server, point, lambda: server.call("DELETE", f"/v1/images/{quote(name, safe='')}"))
        whole(server)
        assert server.ok("GET", "/v1/images")["items"] == []
        works(server, name)
        for x in server.list():
            server.delete(x["id"])
        empty(server)


@pytest.mark.parametrize("point", points("image.import."))
def test_import(server, point):
    archive = tar_of([("usr", None), ("usr/file", os.urandom(100000))])
    for _ in range(ROUNDS):
        crash(server, point, lambda: server.call("POST", "/v1/images/import?name=in:1", data=archive))
        whole(server)
        assert server.call("POST", "/v1/images/import?name=in:1", data=archive).status_code == 201
        empty(server)


@pytest.mark.parametrize("point", points("image.derive."))
def test_derive(server, point):
    """A layer of a snapshot that has no record yet."""
    for _ in range(ROUNDS):
        id = server.create()["id"]
        crash(server, point, lambda: server.call("POST", f"/v1/sandboxes/{id}/snapshots"))
        wait_for("the end of the snapshot", lambda: not [
            x for x in server.ok("GET", "/v1/snapshots")["items"] if x["status"]["state"] == "Creating"])
        whole(server)
        assert server.ping(id)
        for x in server.ok("GET", "/v1/snapshots")["items"]:
            server.ok("DELETE", f"/v1/snapshots/{x['id']}", status=204)
        server.delete(id)
        empty(server)
        server.assert_clean()


def test_every_point_is_here():
    known = {"image.pull.", "image.remove.", "image.import.", "image.derive."}
    assert all(any(p.startswith(k) for k in known) for p in POINTS), POINTS
