"""Sandboxes of images that are pulled when they are asked for."""

import os

from gate import Gate
from osbserver import request_body
from registry import Image


def body(image, **more):
    return request_body(image={"uri": image}, entrypoint=["/bin/sleep", "600"], **more)


def create(server, image, **more):
    return server.create(image={"uri": image}, entrypoint=["/bin/sleep", "600"], **more)["id"]


def test_a_missing_image_is_pulled_and_its_layers_are_the_root(server, app):
    id = create(server, app)
    assert server.run(id, "cat /etc/motd")[0] == "from the top"
    assert server.run(id, "touch new && cat /etc/motd /etc/group")[0].startswith("from the top\nroot:x:0:")
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


def test_volumes_are_looked_at_before_the_registry_is_asked(make, base, tmp_path):
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    os.symlink("/etc", allowed / "out")
    os.mkfifo(allowed / "pipe")
    server = make(f'[storage]\nallowed_host_paths = ["{allowed}"]\nossfs_mount_root = "relative"\n')
    gate = Gate(Image([base]))
    try:
        bucket = {"bucket": "bucket", "endpoint": "oss.invalid", "accessKeyId": "i", "accessKeySecret": "s"}
        for status, code, volume in (
                (400, "VOLUME::PVC_NOT_FOUND", {"pvc": {"claimName": "none", "createIfNotExists": False}}),
                (400, "VOLUME::INVALID_SUB_PATH", {"pvc": {"claimName": "fresh"}, "subPath": "missing"}),
                (400, "VOLUME::HOST_PATH_NOT_ALLOWED", {"host": {"path": "/etc"}}),
                (400, "VOLUME::HOST_PATH_NOT_ALLOWED", {"host": {"path": f"{allowed}/out/new"}}),
                (500, "VOLUME::HOST_PATH_CREATE_FAILED", {"host": {"path": f"{allowed}/pipe"}}),
                (500, "VOLUME::INVALID_OSSFS_MOUNT_ROOT", {"ossfs": bucket})):
            r = server.call("POST", "/v1/sandboxes", body(gate.name, volumes=[{"name": "v", "mountPath": "/data", **volume}]))
            assert (r.status_code, r.json()["code"]) == (status, code), r.text
        assert gate.counts == {} and server.list() == []
        assert sorted(os.listdir(allowed)) == ["out", "pipe"] and os.listdir(f"{server.data}/oci/volumes") == []
        # What is only missing is made, and then there is something to pull for.
        made = [{"name": "a", "mountPath": "/a", "host": {"path": f"{allowed}/x/y"}},
                {"name": "b", "mountPath": "/b", "pvc": {"claimName": "fresh"}}]
        id = create(server, gate.name, volumes=made)
        assert gate.manifest_requests() == 1 and (allowed / "x" / "y").is_dir()
        server.delete(id)
    finally:
        gate.close()


# ---- image config ----

def test_environment_directory_and_user_of_the_image(server, app):
    id = create(server, app, env={"GREETING": "good day", "MORE": "1"})
    out = server.run(id, "id -u; id -g; id -G; pwd; echo $GREETING $MORE $HOME; touch mine; stat -c %u:%g mine")[0]
    assert out.split("\n") == ["1234", "1235", "1235 1300", "/home/app", "good day 1 /home/app", "1234:1235"]
    # The entrypoint is the request's, not the image's, and runs as that user too.
    assert server.run(id, "cat /proc/1/cmdline | grep -c sleep")[0] == "1"
    r = server.call("POST", f"/sandboxes/{id}/proxy/44772/command", {"command": "id -u", "uid": 0}, key=False)
    assert '"text":"0"' in r.text, r.text
    server.delete(id)


def test_files_of_clients_belong_to_the_user_of_the_image(server, app):
    id = create(server, app)
    files = [("metadata", ("m", '{"path":"/home/app/up.txt"}', "application/json")), ("file", ("f", b"data"))]
    r = server.call("POST", f"/sandboxes/{id}/proxy/44772/files/upload", key=False, files=files)
    assert r.status_code == 200, r.text
    assert server.run(id, "stat -c %u:%g up.txt; cat up.txt")[0].split("\n") == ["1234:1235", "data"]
    r = server.call("GET", f"/sandboxes/{id}/proxy/44772/files/download?path=/etc/motd", key=False)
    assert r.text == "from the top\n"
    files[0] = ("metadata", ("m", '{"path":"/etc/forbidden"}', "application/json"))
    r = server.call("POST", f"/sandboxes/{id}/proxy/44772/files/upload", key=False, files=files)
    assert r.status_code >= 400 and "denied" in r.text, r.text
    server.delete(id)


def test_sessions_run_as_the_user_of_the_image(server, app):
    id = create(server, app)
    base = f"/sandboxes/{id}/proxy/44772/session"
    session = server.call("POST", base, {}, key=False).json()["session_id"]
    server.call("POST", f"{base}/{session}/run", {"command": "export X=kept; cd /tmp"}, key=False)
    r = server.call("POST", f"{base}/{session}/run", {"command": "echo $X; pwd; id -u"}, key=False)
    assert '"kept"' in r.text and '"/tmp"' in r.text and '"1234"' in r.text, r.text
    server.delete(id)


def test_a_user_the_image_does_not_have(server, registry, base):
    Image([base], config={"User": "ghost"}).push(registry.host, "t/ghost", "1")
    r = server.call("POST", "/v1/sandboxes", body(f"{registry.host}/t/ghost:1"))
    assert r.status_code in (500, 503) and "ghost" in r.json()["message"], r.text
    assert server.list() == []


def test_a_working_directory_that_is_not_there_is_made(server, registry, base):
    Image([base], config={"WorkingDir": "/srv/deep/work"}).push(registry.host, "t/cwd", "1")
    id = create(server, f"{registry.host}/t/cwd:1")
    assert server.run(id, "pwd; id -u; echo $HOME")[0].split("\n") == ["/srv/deep/work", "0", "/root"]
    server.delete(id)
