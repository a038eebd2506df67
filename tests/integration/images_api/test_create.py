"""Sandboxes of images that are pulled when they are asked for."""

import os

from osbserver import request_body


def body(image, **more):
    return request_body(image={"uri": image}, entrypoint=["/bin/sleep", "600"], **more)


def create(server, image, **more):
    return server.create(image={"uri": image}, entrypoint=["/bin/sleep", "600"], **more)["id"]


def test_a_missing_image_is_pulled_and_its_layers_are_the_root(server, app):
    id = create(server, app)
    assert server.run(id, "cat /etc/motd")[0] == "from the top"
    assert server.run(id, "touch /etc/new && cat /etc/motd /etc/group")[0].startswith("from the top\nroot:x:0:")
    assert server.get(id)["image"] == {"uri": app}
    server.delete(id)


def test_names_that_cannot_be_images_are_refused(server):
    r = server.call("POST", "/v1/sandboxes", body("Not An Image"))
    assert r.status_code == 400 and r.json()["code"] == "SANDBOX::INVALID_PARAMETER", r.text


def test_an_image_that_does_not_exist(server, registry):
    r = server.call("POST", "/v1/sandboxes", body(f"{registry.host}/t/none:1"))
    assert r.status_code == 500 and r.json()["code"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED", r.text
    assert "t/none" in r.json()["message"] and "404" in r.json()["message"]
    assert server.list() == []
