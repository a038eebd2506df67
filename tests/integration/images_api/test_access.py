"""Registries that want credentials, speak TLS, or have a mirror; and when the registry is asked at all."""

import base64
import http.server
import json
import socket
import ssl
import subprocess
import threading

import pytest
from gate import Gate
from osbserver import request_body
from registry import Image, Registry, tar_of

AUTH = {"username": "alice", "password": "pw with space"}


def body(image, auth=None, **more):
    spec = {"uri": image, **({"auth": auth} if auth else {})}
    return request_body(image=spec, entrypoint=["/bin/sleep", "600"], **more)


def basic(auth):
    return {"Authorization": "Basic " + base64.b64encode(f"{auth['username']}:{auth['password']}".encode()).decode()}


@pytest.fixture(scope="module")
def private(tmp_path_factory, base):
    """A registry with a password and TLS; its CA file and the name of an image."""
    d = str(tmp_path_factory.mktemp("private"))
    cert, key, htpasswd = f"{d}/cert.pem", f"{d}/key.pem", f"{d}/htpasswd"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert,
                    "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    with open(htpasswd, "w") as f:
        subprocess.run(["htpasswd", "-Bbn", AUTH["username"], AUTH["password"]], check=True, stdout=f)
    r = Registry(d, htpasswd=htpasswd, cert=cert, key=key)
    r.ca = cert
    r.name = f"{r.host}/t/secret:1"
    tls = ssl.create_default_context(cafile=cert)
    Image([base]).push(r.host, "t/secret", "1", headers=basic(AUTH), tls=tls)
    yield r
    r.stop()


def config(private, **more):
    lines = ["[images]", f"root = \"{more.pop('root')}\""] if "root" in more else ["[images]"]
    lines += [f"{k} = {json.dumps(v)}" for k, v in more.items()]
    return "\n".join(lines) + f"\n[images.ca_files]\n\"{private.host}\" = \"{private.ca}\"\n"


def refused(r):
    return r.status_code == 500 and r.json()["code"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED"


def test_credentials_of_the_request(make, private):
    server = make(config(private, docker_config=""))
    r = server.call("POST", "/v1/sandboxes", body(private.name))
    assert refused(r) and "authentication required" in r.json()["message"], r.text
    r = server.call("POST", "/v1/sandboxes", body(private.name, {**AUTH, "password": "wrong"}))
    assert refused(r) and "refused" in r.json()["message"] and "wrong" not in r.text, r.text
    r = server.call("POST", "/v1/images", {"uri": private.name})
    assert r.status_code == 403 and r.json()["code"] == "IMAGE::ACCESS_DENIED", r.text
    r = server.call("POST", "/v1/sandboxes", body(private.name, AUTH))
    assert r.status_code == 202, r.text
    assert AUTH["password"] not in json.dumps(server.get(r.json()["id"]))
    with open(server.log_path) as f:
        assert AUTH["password"] not in f.read()


def test_credentials_of_the_docker_config(make, private, tmp_path):
    path = tmp_path / "config.json"
    auth = base64.b64encode(f"{AUTH['username']}:{AUTH['password']}".encode()).decode()
    path.write_text(json.dumps({"auths": {private.host: {"auth": auth}}}))
    server = make(config(private, docker_config=str(path)))
    assert server.call("POST", "/v1/sandboxes", body(private.name)).status_code == 202


def test_a_certificate_nobody_vouches_for(make, private):
    server = make(f'[images]\ndocker_config = ""\n[images.ca_files]\n"{private.host}" = "/etc/ssl/certs/ca-certificates.crt"\n')
    r = server.call("POST", "/v1/sandboxes", body(private.name, AUTH))
    assert refused(r) and "certificate" in r.json()["message"].lower(), r.text
    trusting = make(f'[images]\ndocker_config = ""\nskip_verify = ["{private.host}"]\n')
    assert trusting.call("POST", "/v1/sandboxes", body(private.name, AUTH)).status_code == 202


def test_a_mirror_is_asked_instead(make, registry, base):
    Image([base]).push(registry.host, "far/away", "1")
    server = make(f'[images]\ndocker_config = ""\n[images.mirrors]\n"registry.invalid" = "http://{registry.host}"\n')
    r = server.call("POST", "/v1/sandboxes", body("registry.invalid/far/away:1"))
    assert r.status_code == 202, r.text
    assert server.get(r.json()["id"])["image"]["uri"] == "registry.invalid/far/away:1"


def mirrored(make, registry, mirror):
    return make(f'[images]\ndocker_config = ""\n[images.mirrors]\n"{registry.host}" = "{mirror}"\n')


def test_a_mirror_nobody_answers_at(make, registry, base):
    Image([base, tar_of([("dead", b"mirror\n")])]).push(registry.host, "t/dead-mirror", "1")
    with socket.socket() as s:  # bound, so that nobody else gets it, and never listening
        s.bind(("127.0.0.1", 0))
        server = mirrored(make, registry, f"http://127.0.0.1:{s.getsockname()[1]}")
        id = server.create(image={"uri": f"{registry.host}/t/dead-mirror:1"}, entrypoint=["/bin/sleep", "600"])["id"]
        assert server.run(id, "cat /dead")[0] == "mirror"
        r = server.call("POST", "/v1/sandboxes", body(f"{registry.host}/t/nowhere:1"))
        assert refused(r) and "404" in r.json()["message"] and "mirror" in r.json()["message"], r.text  # both are named


def test_a_mirror_without_the_image(make, registry, base, tmp_path):
    other = Registry(str(tmp_path))
    try:
        Image([base, tar_of([("where", b"mirror\n")])]).push(other.host, "t/both", "1")
        Image([base, tar_of([("where", b"registry\n")])]).push(registry.host, "t/both", "1")
        Image([base, tar_of([("where", b"registry\n")])]).push(registry.host, "t/only", "1")
        server = mirrored(make, registry, f"http://{other.host}")
        for name, where in (("both", "mirror"), ("only", "registry")):
            id = server.create(image={"uri": f"{registry.host}/t/{name}:1"}, entrypoint=["/bin/sleep", "600"])["id"]
            assert server.run(id, "cat /where")[0] == where
    finally:
        other.stop()


def test_a_mirror_that_has_the_manifest_and_refuses_the_layers(make, registry, base):
    image = Image([base, tar_of([("top", b"whole\n")])])
    image.push(registry.host, "t/gated", "1")
    gate = Gate(image)
    gate.broken = 1000
    try:
        server = mirrored(make, registry, f"http://{gate.name.split('/')[0]}")
        id = server.create(image={"uri": f"{registry.host}/t/gated:1"}, entrypoint=["/bin/sleep", "600"])["id"]
        assert server.run(id, "cat /top")[0] == "whole"
        assert gate.manifest_requests() == 1 and any(gate.layer_requests().values())
    finally:
        gate.close()


class Asking(http.server.BaseHTTPRequestHandler):
    """A mirror that wants to know who it is, and remembers what it was told."""

    def do_GET(self):
        self.server.told.append(self.headers.get("Authorization"))
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="mirror"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def test_a_mirror_is_not_told_the_password_of_the_registry(make, registry, base, tmp_path):
    Image([base]).push(registry.host, "t/quiet", "1")
    mirror = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Asking)
    mirror.told = []
    threading.Thread(target=mirror.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{mirror.server_port}"
    known = tmp_path / "config.json"
    known.write_text(json.dumps({"auths": {registry.host: {"username": "u", "password": "of-the-registry"},
                                           address: {"username": "u", "password": "of-the-mirror"}}}))
    try:
        server = make(f'[images]\ndocker_config = "{known}"\n[images.mirrors]\n"{registry.host}" = "http://{address}"\n')
        assert server.call("POST", "/v1/sandboxes", body(f"{registry.host}/t/quiet:1", AUTH)).status_code == 202
        assert set(mirror.told) == {None, basic({"username": "u", "password": "of-the-mirror"})["Authorization"]}
    finally:
        mirror.shutdown()
        mirror.server_close()


def test_policies(make, registry, base):
    name = f"{registry.host}/t/moving:1"
    Image([base, tar_of([("version", b"one\n")])]).push(registry.host, "t/moving", "1")

    def version(server):
        id = server.create(image={"uri": name}, entrypoint=["/bin/sleep", "600"])["id"]
        return server.run(id, "cat /version")[0]

    never = make('[images]\npull_policy = "never"\n')
    r = never.call("POST", "/v1/sandboxes", body(name))
    assert refused(r) and "pulling is turned off" in r.json()["message"], r.text
    assert never.call("POST", "/v1/images", {"uri": name}).status_code == 200  # somebody asked for it
    assert version(never) == "one"
    missing, always = make(), make('[images]\npull_policy = "always"\n')
    assert version(missing) == "one" and version(always) == "one"
    Image([base, tar_of([("version", b"two\n")])]).push(registry.host, "t/moving", "1")
    assert version(missing) == "one" and version(always) == "two"
