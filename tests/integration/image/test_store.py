"""The image store against a real registry, against lying ones, and with files."""

import base64
import http.server
import json
import os
import ssl
import stat
import subprocess
import tarfile
import threading

import pytest

from registry import Image, Registry, put_index, sha256, tar_of

BIN = os.environ.get("OSB_BIN", os.path.join(os.path.dirname(__file__), "../../../build/bin"))
TOOL = os.path.join(BIN, "image_tool")


def tool(store, *args, env=None, stdin=None, text=True):
    return subprocess.run([TOOL, str(store), *args], input=stdin, capture_output=True, text=text,
                          env={**os.environ, **(env or {})}, timeout=120)


def layer_dir(store, layer):
    return os.path.join(store, "layers", layer)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    r = Registry(str(tmp_path_factory.mktemp("registry")))
    yield r
    r.stop()


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "store")


BASE = tar_of([("etc", None), ("etc/name", b"base"), ("etc/gone", b"x"), ("opt", None), ("opt/old", b"y")])
TOP = tar_of([("etc/name", b"top"), ("etc/.wh.gone", b""), ("opt/.wh..wh..opq", b""), ("opt/new", b"z")])


def test_pull_unpacks_layers_with_whiteouts(registry, store):
    Image([BASE, TOP], config={"Env": ["A=1"], "User": "7", "WorkingDir": "/opt"}).push(registry.host, "t/app", "1")
    r = tool(store, "pull", f"{registry.host}/t/app:1")
    assert r.returncode == 0, r.stderr
    layers = r.stdout.split()[4:]
    assert len(layers) == 2
    assert open(layer_dir(store, layers[0]) + "/etc/name").read() == "base"
    assert open(layer_dir(store, layers[1]) + "/etc/name").read() == "top"
    gone = os.lstat(layer_dir(store, layers[1]) + "/etc/gone")
    assert stat.S_ISCHR(gone.st_mode) and gone.st_rdev == 0
    assert os.getxattr(layer_dir(store, layers[1]) + "/opt", "trusted.overlay.opaque") == b"y"
    record = json.load(open(os.path.join(store, "refs", os.listdir(os.path.join(store, "refs"))[0])))
    assert record["env"] == ["A=1"] and record["user"] == "7" and record["workingDir"] == "/opt"
    assert os.listdir(os.path.join(store, "parts")) == [] and os.listdir(os.path.join(store, "tmp")) == []


@pytest.mark.parametrize("name", ["plain", "zstd"])
def test_other_compressions(registry, store, name):
    def zstd(data):
        return subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout
    Image([BASE], compress=zstd if name == "zstd" else None).push(registry.host, "t/" + name, "1")
    r = tool(store, "pull", f"{registry.host}/t/{name}:1")
    assert r.returncode == 0, r.stderr
    assert open(layer_dir(store, r.stdout.split()[4]) + "/etc/name").read() == "base"


def test_index_chooses_the_platform(registry, store):
    amd = Image([BASE], arch="amd64")
    arm = Image([TOP], arch="arm64")
    amd.push(registry.host, "t/multi", "amd")
    arm.push(registry.host, "t/multi", "arm")
    put_index(registry.host, "t/multi", "1", [("amd64", amd.manifest), ("arm64", arm.manifest)])
    one = tool(store, "pull", f"{registry.host}/t/multi:1", "amd64")
    two = tool(store, "pull", f"{registry.host}/t/multi:1", "arm64")
    assert one.returncode == 0 and two.returncode == 0, one.stderr + two.stderr
    assert one.stdout.split()[4] != two.stdout.split()[4]
    none = tool(store, "pull", f"{registry.host}/t/multi:1", "s390x")
    assert none.returncode == 1 and "does not exist for linux/s390x" in none.stderr


def test_digest_and_missing_image(registry, store):
    digest = Image([BASE]).push(registry.host, "t/app", "d")
    assert tool(store, "pull", f"{registry.host}/t/app@{digest}").returncode == 0
    r = tool(store, "pull", f"{registry.host}/t/app:nothere")
    assert r.returncode == 1 and "not_found" in r.stderr
    r = tool(store, "pull", "127.0.0.1:1/t/app:1")
    assert r.returncode == 1 and "unavailable" in r.stderr


def test_basic_authentication(tmp_path, store):
    htpasswd = tmp_path / "htpasswd"
    out = subprocess.run(["htpasswd", "-nbB", "user", "secret"], capture_output=True, text=True, check=True).stdout
    htpasswd.write_text(out)
    d = tmp_path / "reg"
    d.mkdir()
    r = Registry(str(d), htpasswd=str(htpasswd))
    try:
        auth = "Basic " + base64.b64encode(b"user:secret").decode()
        Image([BASE]).push(r.host, "t/app", "1", headers={"Authorization": auth})
        name = f"{r.host}/t/app:1"
        assert "unauthorized" in tool(store, "pull", name).stderr
        wrong = tool(store, "pull", name, env={"OSB_TEST_AUTH": "user:wrong"})
        assert wrong.returncode == 1 and "wrong" not in wrong.stderr.replace("password refused", "")
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"auths": {r.host: {"auth": base64.b64encode(b"user:secret").decode()}}}))
        assert tool(store, "pull", name, env={"OSB_TEST_DOCKER_CONFIG": str(config)}).returncode == 0
        assert tool(store + "2", "pull", name, env={"OSB_TEST_AUTH": "user:secret"}).returncode == 0
    finally:
        r.stop()


def test_tls_with_its_own_ca(tmp_path, store):
    cert, key = str(tmp_path / "c.pem"), str(tmp_path / "k.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", cert, "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-days", "2"], check=True, capture_output=True)
    d = tmp_path / "reg"
    d.mkdir()
    r = Registry(str(d), cert=cert, key=key)
    try:
        ctx = ssl.create_default_context(cafile=cert)
        Image([BASE]).push(r.host, "t/app", "1", tls=ctx)
        env = {"OSB_TEST_CA": cert, "OSB_TEST_CA_HOST": r.host}
        good = tool(store, "pull", f"{r.host}/t/app:1", env=env)
        assert good.returncode == 0, good.stderr
        bad = tool(store + "2", "pull", f"{r.host}/t/app:1")
        assert bad.returncode == 1
    finally:
        r.stop()


def test_push_and_export_round_trip(registry, store, tmp_path):
    Image([BASE, TOP], config={"Env": ["A=1"]}).push(registry.host, "t/src", "1")
    assert tool(store, "pull", f"{registry.host}/t/src:1").returncode == 0
    r = tool(store, "push", f"{registry.host}/t/src:1", f"{registry.host}/t/copy:2")
    assert r.returncode == 0, r.stderr
    again = tool(str(tmp_path / "other"), "pull", f"{registry.host}/t/copy:2")
    assert again.returncode == 0, again.stderr
    top = layer_dir(str(tmp_path / "other"), again.stdout.split()[5])
    assert open(top + "/etc/name").read() == "top" and stat.S_ISCHR(os.lstat(top + "/etc/gone").st_mode)
    out = tool(store, "export", f"{registry.host}/t/src:1", text=False)
    assert out.returncode == 0
    back = tool(str(tmp_path / "third"), "import", "-", stdin=out.stdout, text=False)
    assert back.returncode == 0, back.stderr
    path = tmp_path / "layout.tar"
    path.write_bytes(out.stdout)
    inspect = subprocess.run(["skopeo", "inspect", f"oci-archive:{path}"], capture_output=True, text=True)
    assert inspect.returncode == 0, inspect.stderr
    assert json.loads(inspect.stdout)["Env"] == ["A=1"]


def test_import_docker_archive_and_rootfs(store, tmp_path):
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                         "rootfs": {"type": "layers", "diff_ids": [sha256(BASE)]}}).encode()
    archive = tar_of([("c.json", config), ("l1/layer.tar", BASE),
                      ("manifest.json", json.dumps([{"Config": "c.json", "RepoTags": ["mine:1"],
                                                     "Layers": ["l1/layer.tar"]}]).encode())])
    r = tool(store, "import", "-", stdin=archive, text=False)
    assert r.returncode == 0, r.stderr
    assert r.stdout.startswith(b"docker.io/library/mine:1 ")
    r = tool(store, "import", "rootfs:1", stdin=tar_of([("bin", None), ("bin/sh", b"#!")]), text=False)
    assert r.returncode == 0, r.stderr
    r = tool(store, "import", "junk:1", stdin=tar_of([("hello", b"x")]), text=False)
    assert r.returncode == 1 and b"neither" in r.stderr
    r = tool(store, "import", "junk:1", stdin=b"not an archive" * 100, text=False)
    assert r.returncode == 1
    assert os.listdir(os.path.join(store, "tmp")) == []
    names = tool(store, "list").stdout
    assert "mine:1" in names and "rootfs:1" in names
    assert tool(store, "remove", "mine:1").returncode == 0
    assert len(os.listdir(os.path.join(store, "layers"))) == 1
    assert int(tool(store, "prune").stdout) > 0
    assert os.listdir(os.path.join(store, "layers")) == []


# ---- registries that break, lie or attack ----

class Liar(http.server.BaseHTTPRequestHandler):
    """Serves `self.server.answers[path]` = (status, headers, body) or a function of the handler."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Range")))
        answer = self.server.answers.get(self.path)
        if callable(answer):
            return answer(self)
        status, headers, body = answer or (404, {}, b"{}")
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k, v)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def liar():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    server.answers, server.asked = {}, []
    server.host = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def serve(liar, image, repo="t/app", tag="1"):
    kind = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
    liar.answers[f"/v2/{repo}/manifests/{tag}"] = (200, kind, image.manifest)
    for blob in [*image.blobs, image.config]:
        liar.answers[f"/v2/{repo}/blobs/{sha256(blob)}"] = (200, {}, blob)


def assert_refused(store, liar, words):
    r = tool(store, "pull", f"{liar.host}/t/app:1")
    assert r.returncode == 1
    assert words in r.stderr, r.stderr
    for d in ("layers", "refs", "tmp"):
        assert os.listdir(os.path.join(store, d)) == [], d


def test_wrong_layer_bytes(store, liar):
    image = Image([BASE])
    serve(liar, image)
    blob = image.blobs[0]
    liar.answers[f"/v2/t/app/blobs/{sha256(blob)}"] = (200, {}, blob[:-1] + bytes([blob[-1] ^ 1]))
    assert_refused(store, liar, "digest")


def test_layer_larger_than_claimed(store, liar):
    image = Image([BASE])
    serve(liar, image)
    blob = image.blobs[0]
    liar.answers[f"/v2/t/app/blobs/{sha256(blob)}"] = (200, {}, blob + b"x" * 1000)
    assert_refused(store, liar, "larger than")


def test_config_and_layer_disagree(store, liar):
    serve(liar, Image([BASE], diff_ids=[sha256(TOP)]))
    assert_refused(store, liar, "not to what the image config names")
    serve(liar, Image([BASE], diff_ids=[sha256(BASE), sha256(TOP)]))
    assert_refused(store, liar, "disagree")


def test_wrong_config_bytes(store, liar):
    image = Image([BASE])
    serve(liar, image)
    liar.answers[f"/v2/t/app/blobs/{sha256(image.config)}"] = (200, {}, image.config + b" ")
    assert_refused(store, liar, "digest")


def test_manifest_is_nonsense(store, liar):
    for body in (b"", b"[]", b"{", b'{"config":{"digest":"../../etc"}}', b'{"schemaVersion":1}'):
        liar.answers["/v2/t/app/manifests/1"] = (200, {}, body)
        r = tool(store, "pull", f"{liar.host}/t/app:1")
        assert r.returncode == 1, body


def test_hostile_layers_leave_nothing(store, liar, tmp_path):
    def link(name, target, kind=tarfile.SYMTYPE):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        return (info, None)
    hostile = [
        tar_of([("../evil", b"x")]),
        tar_of([("a/../../evil", b"x")]),
        tar_of([link("h", "/etc/shadow", tarfile.LNKTYPE)]),
        tar_of([link("h", "../../../../etc/shadow", tarfile.LNKTYPE)]),
        tar_of([("d/.wh.", b"")]),
        tar_of([("x" * 300, b"x")]),
    ]
    for layer in hostile:
        serve(liar, Image([layer]))
        assert_refused(store, liar, "error")
    escape = tar_of([link("out", str(tmp_path)), ("out/evil", b"x")])
    serve(liar, Image([escape]))
    tool(store, "pull", f"{liar.host}/t/app:1")
    assert not (tmp_path / "evil").exists()


def test_broken_transfer_is_resumed(store, liar):
    layer = tar_of([("big", os.urandom(600000))])
    image = Image([layer], compress=None)
    serve(liar, image)
    blob, path = image.blobs[0], f"/v2/t/app/blobs/{sha256(image.blobs[0])}"

    def flaky(handler):
        start = int((handler.headers.get("Range") or "bytes=0-").split("=")[1].split("-")[0])
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(blob) - 1}/{len(blob)}")
        handler.send_header("Content-Length", str(len(blob) - start))
        handler.end_headers()
        handler.wfile.write(blob[start:start + 250000])
        handler.close_connection = True

    liar.answers[path] = flaky
    r = tool(store, "pull", f"{liar.host}/t/app:1")
    assert r.returncode == 0, r.stderr
    ranges = [rng for p, rng in liar.asked if p == path]
    assert ranges[0] is None and len(ranges) >= 3 and ranges[1].startswith("bytes=2")


def test_resume_against_a_server_without_ranges(store, liar):
    layer = tar_of([("big", os.urandom(300000))])
    image = Image([layer], compress=None)
    serve(liar, image)
    blob, path = image.blobs[0], f"/v2/t/app/blobs/{sha256(image.blobs[0])}"
    tries = []

    def once_broken(handler):
        tries.append(1)
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(blob)))
        handler.end_headers()
        handler.wfile.write(blob[:100000] if len(tries) == 1 else blob)
        handler.close_connection = True

    liar.answers[path] = once_broken
    r = tool(store, "pull", f"{liar.host}/t/app:1")
    assert r.returncode == 0, r.stderr


def test_metadata_addresses_are_not_dialled(store):
    r = tool(store, "pull", "169.254.169.254/t/app:1")
    assert r.returncode == 1 and "metadata addresses are not allowed" in r.stderr


def test_token_authentication(store, liar):
    image = Image([BASE])
    serve(liar, image)
    plain = dict(liar.answers)
    seen = []

    def guarded(answer):
        def reply(handler):
            if handler.headers.get("Authorization") != "Bearer tok":
                body = b"{}"
                handler.send_response(401)
                handler.send_header("WWW-Authenticate",
                                    f'Bearer realm="http://{liar.host}/token",service="s",scope="x"')
            else:
                body = answer[2]
                handler.send_response(200)
                for k, v in answer[1].items():
                    handler.send_header(k, v)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
        return reply

    for path, answer in plain.items():
        liar.answers[path] = guarded(answer)

    def token(handler):
        seen.append((handler.path, handler.headers.get("Authorization")))
        body = b'{"token":"tok"}'
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    liar.answers["/token?service=s&scope=repository:t/app:pull"] = token
    r = tool(store, "pull", f"{liar.host}/t/app:1", env={"OSB_TEST_AUTH": "u:p"})
    assert r.returncode == 0, r.stderr
    assert seen[0][1] == "Basic " + base64.b64encode(b"u:p").decode()
