"""Images out of a registry that asks for a password."""

import base64
import importlib.util
import json
import os
import subprocess

import pytest
from dockerbox import UnixConnection
from osbserver import request_body

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("registry", os.path.join(HERE, "..", "image", "registry.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    directory = str(tmp_path_factory.mktemp("registry"))
    passwords = os.path.join(directory, "htpasswd")
    text = subprocess.run(["htpasswd", "-Bbn", "user", "secret"], check=True, capture_output=True, text=True).stdout
    with open(passwords, "w") as f:
        f.write(text)
    r = module.Registry(directory, htpasswd=passwords)
    yield r
    r.stop()


@pytest.fixture(scope="module")
def image(engine, registry):
    """In the registry, and not in the engine any more."""
    name = f"{registry.host}/team/box"
    engine.ok("POST", f"/images/host:latest/tag?repo={name}&tag=1")
    auth = base64.urlsafe_b64encode(json.dumps({"username": "user", "password": "secret"}).encode()).decode()
    c = UnixConnection(engine.socket)
    c.request("POST", f"/images/{name}/push?tag=1", headers={"X-Registry-Auth": auth})
    said = c.getresponse().read().decode()
    c.close()
    assert "digest" in said and "error" not in said, said
    engine.ok("DELETE", f"/images/{name}:1")
    return f"{name}:1"


def test_pull_with_a_password(server, engine, image):
    wrong = {"uri": image, "auth": {"username": "user", "password": "other"}}
    for refused in ({"uri": image}, wrong):
        r = server.call("POST", "/v1/sandboxes", request_body(image=refused))
        assert r.status_code == 500 and r.json()["code"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED", r.text
        assert "other" not in server.log_tail(50)
    id = server.create(image={"uri": image, "auth": {"username": "user", "password": "secret"}})["id"]
    assert server.ping(id) and server.get(id)["image"] == {"uri": image}
    server.delete(id)
    engine.ok("DELETE", f"/images/{image}")


def test_credentials_out_of_the_clients_file(make, engine, registry, image, tmp_path):
    def write(where, password):
        where.mkdir()
        auth = base64.b64encode(f"user:{password}".encode()).decode()
        (where / "config.json").write_text(json.dumps({"auths": {f"https://{registry.host}/v1/": {"auth": auth}}}))
        return where

    right, wrong = write(tmp_path / "right", "secret"), write(tmp_path / "wrong", "other")
    s = make(f'[images]\ndocker_config = "{right}/config.json"\n')
    s.delete(s.create(image={"uri": image})["id"])
    engine.ok("DELETE", f"/images/{image}")
    s.stop()
    s.env = {"DOCKER_CONFIG": str(wrong)}  # as the engine's client: the variable is meant for now
    s.start()
    r = s.call("POST", "/v1/sandboxes", request_body(image={"uri": image}))
    assert r.status_code == 500 and r.json()["code"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED", r.text
    # What the request brings counts more than any file.
    s.delete(s.create(image={"uri": image, "auth": {"username": "user", "password": "secret"}})["id"])
    engine.ok("DELETE", f"/images/{image}")
    assert "secret" not in s.log_tail(500)
