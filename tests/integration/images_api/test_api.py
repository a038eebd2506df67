"""/v1/images: pull, look, import, export, push, remove, prune."""

import io
import json
import os
import tarfile
from urllib.parse import quote

from osbserver import wait_for
from registry import Image, tar_of
from schema import Spec

SPEC = Spec("sandbox-lifecycle.yml")


def path(name, tail=""):
    return f"/v1/images/{quote(name, safe='')}{tail}"


def pull(server, image, **more):
    r = server.call("POST", "/v1/images", {"uri": image, **more})
    if r.status_code == 200:
        assert r.headers["Content-Type"] == "application/x-ndjson"
    return r, [json.loads(line) for line in r.text.splitlines()] if r.status_code == 200 else []


def names(server):
    return [x["name"] for x in server.ok("GET", "/v1/images")["items"]]


def remove_all(server):
    server.ok("POST", "/v1/images/prune", {})


def test_pull_tells_its_progress_and_ends_once(server, app):
    remove_all(server)
    r, lines = pull(server, app)
    assert r.status_code == 200, r.text
    assert [x["status"] for x in lines].count("ready") == 1 and lines[-1]["status"] == "ready"
    for x in lines:
        SPEC.check(x, SPEC.schema("ImageProgress"))
    image = lines[-1]["image"]
    assert image["name"] == app and image["arch"] == "amd64" and len(image["layers"]) == 2
    assert image["config"] == {"env": ["GREETING=hello", "PATH=/bin:/sbin", "HOME=/home/app"], "user": "app",
                               "workingDir": "/home/app", "labels": {"maker": "test"}}
    assert image["pulled"] and not image["inUse"] and image["size"] > 1000000
    again = pull(server, app)[1]  # it is here: nothing to tell but that
    assert [x["status"] for x in again] == ["ready"]


def test_list_and_look(server, app):
    pull(server, app)
    r = server.call("GET", "/v1/images")
    SPEC.check_response("/images", "get", r)
    listed = [x for x in r.json()["items"] if x["name"] == app]
    assert len(listed) == 1 and r.json()["bytes"] >= listed[0]["size"]
    r = server.call("GET", path(app))
    SPEC.check_response("/images/{image}", "get", r)
    assert r.json()["layers"] == listed[0]["layers"]
    r = server.call("GET", path("no/such:image"))
    SPEC.check_response("/images/{image}", "get", r)
    assert r.status_code == 404 and r.json()["code"] == "IMAGE::NOT_FOUND"
    assert server.call("GET", path("Not A Name")).status_code == 400


def test_everything_needs_the_key(server, app):
    for method, p in [("GET", "/v1/images"), ("POST", "/v1/images"), ("POST", "/v1/images/import"),
                      ("POST", "/v1/images/prune"), ("GET", path(app)), ("DELETE", path(app)),
                      ("GET", path(app, "/export")), ("POST", path(app, "/push"))]:
        assert server.call(method, p, key=False).status_code == 401, p


def test_pull_failures_have_a_status(server, registry):
    r, _ = pull(server, f"{registry.host}/t/none:1")
    SPEC.check_response("/images", "post", r)
    assert r.status_code == 404 and r.json()["code"] == "IMAGE::NOT_FOUND"
    r, _ = pull(server, "127.0.0.1:1/x")
    assert r.status_code == 502 and r.json()["code"] == "IMAGE::PULL_FAILED"
    for body in ({}, {"uri": 1}, {"uri": "x", "auth": 1}, {"uri": "x", "auth": {"username": "u"}}):
        assert server.call("POST", "/v1/images", body).status_code == 422, body
    assert server.call("POST", "/v1/images", {"uri": "A B"}).status_code == 400


def test_a_pull_that_breaks_ends_with_the_error(server, registry, base):
    """The config promises another layer than the registry has: found out when it is unpacked."""
    Image([base], diff_ids=["sha256:" + "0" * 64]).push(registry.host, "t/liar", "1")
    r, lines = pull(server, f"{registry.host}/t/liar:1")
    assert r.status_code == 200 and lines[-1]["status"] == "failed", r.text
    assert "not to what the image config names" in lines[-1]["error"]["message"]
    assert f"{registry.host}/t/liar:1" not in names(server)
    tmp = os.path.join(server.data, "images", "tmp")
    assert os.listdir(tmp) == []


def test_an_image_in_use_stays(server, app):
    pull(server, app)
    id = server.create(image={"uri": app}, entrypoint=["/bin/sleep", "600"])["id"]
    r = server.call("DELETE", path(app))
    SPEC.check_response("/images/{image}", "delete", r)
    assert r.status_code == 409 and r.json()["code"] == "IMAGE::IN_USE"
    assert server.ok("GET", path(app))["inUse"]
    server.ok("POST", "/v1/images/prune", {})
    assert app in names(server)
    server.restart()  # what is in use is known again
    assert server.call("DELETE", path(app)).status_code == 409
    server.ok("POST", "/v1/images/prune", {})
    assert server.run(id, "cat /etc/motd")[0] == "from the top"
    server.delete(id)
    assert server.call("DELETE", path(app)).status_code == 204
    assert app not in names(server)
    assert os.listdir(os.path.join(server.data, "images", "layers")) == []


def test_layers_that_images_share_stay_until_the_last(server, registry, base):
    one, two = f"{registry.host}/t/one:1", f"{registry.host}/t/two:1"
    Image([base, tar_of([("one", b"1" * 5000)])]).push(registry.host, "t/one", "1")
    Image([base, tar_of([("two", b"2" * 9000)])]).push(registry.host, "t/two", "1")
    remove_all(server)
    pull(server, one)
    pull(server, two)
    sizes = [server.ok("GET", path(x))["size"] for x in (one, two)]
    assert server.ok("GET", "/v1/images")["bytes"] == sizes[0] + 9000
    assert server.call("DELETE", path(one)).status_code == 204
    assert server.ok("GET", "/v1/images")["bytes"] == sizes[1]
    id = server.create(image={"uri": two}, entrypoint=["/bin/sleep", "600"])["id"]
    assert server.run(id, "ls /two")[0] == "/two"
    server.delete(id)


def test_prune_begins_with_the_least_recently_used(server, registry):
    remove_all(server)
    made = []
    for i in range(3):
        Image([tar_of([("usr", None), (f"usr/f{i}", os.urandom(100000))])]).push(registry.host, f"t/lru{i}", "1")
        made.append(f"{registry.host}/t/lru{i}:1")
        pull(server, made[i])
    pull(server, made[0])  # used again
    r = server.call("POST", "/v1/images/prune", {"maxBytes": 250000})
    SPEC.check_response("/images/prune", "post", r)
    assert r.json() == {"images": 1, "bytes": 100000, "left": 200000}
    assert set(names(server)) == {made[0], made[2]}
    assert server.call("POST", "/v1/images/prune", {"maxBytes": -1}).status_code == 422
    assert server.ok("POST", "/v1/images/prune") == {"images": 2, "bytes": 200000, "left": 0}


def test_import_export_and_back(server, base):
    remove_all(server)
    r = server.call("POST", "/v1/images/import?name=local/box:1", data=base, headers={"Content-Type": "application/x-tar"})
    SPEC.check_response("/images/import", "post", r)
    assert r.status_code == 201, r.text
    assert r.json()["name"] == "docker.io/local/box:1" and not r.json()["pulled"]
    r = server.call("GET", path("local/box:1", "/export"))
    assert r.status_code == 200 and r.headers["Content-Type"] == "application/x-tar"
    layout = r.content
    with tarfile.open(fileobj=io.BytesIO(layout)) as tar:
        assert {"oci-layout", "index.json"} <= set(tar.getnames())
    assert server.call("DELETE", path("local/box:1")).status_code == 204
    r = server.call("POST", "/v1/images/import", data=layout, headers={"Content-Type": "application/x-tar"})
    assert r.status_code == 201 and r.json()["name"] == "docker.io/local/box:1", r.text
    id = server.create(image={"uri": "local/box:1"}, entrypoint=["/bin/sleep", "600"])["id"]
    assert server.run(id, "id -u")[0] == "0"
    server.delete(id)


def test_import_of_what_is_no_image(server):
    r = server.call("POST", "/v1/images/import?name=x:1", data=b"not a tar archive" * 1000,
                    headers={"Content-Type": "application/x-tar"})
    SPEC.check_response("/images/import", "post", r)
    assert r.status_code == 400, r.text
    r = server.call("POST", "/v1/images/import", data=tar_of([("usr", None)]), headers={"Content-Type": "application/x-tar"})
    assert r.status_code == 400 and "name" in r.json()["message"]
    assert os.listdir(os.path.join(server.data, "images", "tmp")) == []


def test_push(server, registry, base):
    server.call("POST", "/v1/images/import?name=local/up:1", data=base, headers={"Content-Type": "application/x-tar"})
    target = f"{registry.host}/t/pushed:2"
    r = server.call("POST", path("local/up:1", "/push"), {"target": target})
    assert r.status_code == 200 and json.loads(r.text.splitlines()[-1])["status"] == "ready", r.text
    assert pull(server, target)[1][-1]["image"]["size"] == server.ok("GET", path("local/up:1"))["size"]
    r = server.call("POST", path("local/up:1", "/push"), {"target": "127.0.0.1:1/x"})
    assert r.status_code == 502 and r.json()["code"] == "IMAGE::PUSH_FAILED", r.text


def test_the_timer_prunes_what_is_too_much(make, registry):
    server = make("[images]\nmax_bytes = 150000\nprune_interval_seconds = 1\n")
    made = []
    for i in range(2):
        Image([tar_of([("usr", None), (f"usr/t{i}", os.urandom(100000))])]).push(registry.host, f"t/timer{i}", "1")
        made.append(f"{registry.host}/t/timer{i}:1")
    kept = tar_of([("usr", None), ("usr/kept", os.urandom(40000))])
    assert server.call("POST", "/v1/images/import?name=kept:1", data=kept).status_code == 201
    pull(server, made[0])
    pull(server, made[1])
    wait_for("pruning", lambda: made[0] not in names(server))
    assert set(names(server)) == {made[1], "docker.io/library/kept:1"}  # what cannot be pulled again stays
