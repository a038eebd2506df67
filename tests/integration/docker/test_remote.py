"""Engines that are reached over the network, and sandboxes on the machine's own network."""

import os
import shutil
import socket
import subprocess
import sys

import pytest
from dockerbox import Engine
from dockernet import load_egress
from dockerserver import DockerServer

HERE = os.path.dirname(os.path.abspath(__file__))


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


def authority(path):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{path}/ca.key",
            "-out", f"{path}/ca.pem", "-days", "2", "-subj", "/CN=engines", "-addext", "basicConstraints=critical,CA:TRUE")


def certificate(path, name, usage):
    with open(f"{path}/{name}.ext", "w") as f:
        f.write(f"subjectAltName=IP:127.0.0.1\nextendedKeyUsage={usage}\n")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{path}/{name}-key.pem",
            "-subj", f"/CN={name}", "-out", f"{path}/{name}.csr")
    openssl("x509", "-req", "-in", f"{path}/{name}.csr", "-CA", f"{path}/ca.pem", "-CAkey", f"{path}/ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", f"{path}/{name}.ext", "-out", f"{path}/{name}-cert.pem")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    """The engine's, and directories as DOCKER_CERT_PATH wants them: one that is right, one of another authority."""
    top = tmp_path_factory.mktemp("certs")
    for word in ("right", "wrong"):
        d = top / word
        d.mkdir()
        authority(d)
        certificate(d, "server", "serverAuth")
        certificate(d, "client", "clientAuth")
        shutil.copy(d / "client-cert.pem", d / "cert.pem")
        shutil.copy(d / "client-key.pem", d / "key.pem")
    mixed = top / "mixed"  # whom the engine accepts, but who does not know the engine
    mixed.mkdir()
    shutil.copy(top / "wrong" / "ca.pem", mixed / "ca.pem")
    for name in ("cert.pem", "key.pem"):
        shutil.copy(top / "right" / name, mixed / name)
    return top


@pytest.fixture(scope="module")
def far(certs):
    """One that only takes clients with a certificate of its authority. A port that somebody else took is tried anew."""
    own = certs / "right"
    for attempt in range(3):
        port = free_port()
        e = Engine(runtimes=False, more=["-H", f"tcp://127.0.0.1:{port}", "--tlsverify", "--tlscacert", f"{own}/ca.pem",
                                         "--tlscert", f"{own}/server-cert.pem", "--tlskey", f"{own}/server-key.pem"])
        try:
            e.start()
            break
        except AssertionError:
            e.close()
            if attempt == 2:
                raise
    try:
        e.address = f"tcp://127.0.0.1:{port}"
        e.load_busybox("host:latest")
        load_egress(e, "osbt-sidecar:1")
        yield e
    finally:
        e.close()


@pytest.fixture
def server(far):
    made = []

    def new(config, env=None):
        s = DockerServer(far, config)
        s.env = env or {}
        made.append(s)
        return s

    yield new
    for s in made:
        s.close()


def test_tls_by_the_configuration(server, far, certs):
    s = server(f'[docker]\nhost = "{far.address}"\ncert_path = "{certs}/right"\n[egress]\nimage = "osbt-sidecar:1"\n').start()
    id = s.create()["id"]
    assert s.run(id, "echo $((6 * 7))")[0] == "42"
    info = far.inspect(id)
    assert not info["HostConfig"]["Binds"], "our files are not the engine's: execd is uploaded"
    assert info["HostConfig"]["PortBindings"]["44772/tcp"][0]["HostIp"] == "127.0.0.1", "where the engine is"
    direct = s.ok("GET", f"/v1/sandboxes/{id}/endpoints/44772")["endpoint"]
    assert s.session.get(f"http://{direct}/ping", timeout=60).status_code == 200
    guarded = s.create(networkPolicy={"defaultAction": "deny", "egress": []}, credentialProxy={"enabled": True})["id"]
    for more in ("", "?use_server_proxy=true"):
        e = s.ok("GET", f"/v1/sandboxes/{guarded}/endpoints/18080{more}")
        r = s.session.get(f"http://{e['endpoint']}/policy", headers=e["headers"], timeout=60)
        assert r.status_code == 200 and r.json()["mode"] == "deny_all", r.text
        r = s.session.post(f"http://{e['endpoint']}/credential-vault", json={}, headers=e["headers"], timeout=60)
        assert r.status_code == (409 if more else 201), r.text
    far.ok("POST", f"/containers/sandbox-{id}/kill")  # the events come over TLS as well
    s.wait_state(id, "Failed")
    for x in (id, guarded):
        s.delete(x)
    s.assert_clean()


def test_tls_by_the_environment(server, far, certs):
    env = {"DOCKER_HOST": far.address, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": f"{certs}/right"}
    s = server('[docker]\nhost = ""\n', env).start()
    id = s.create()["id"]
    assert s.ping(id)
    s.delete(id)
    s.stop()
    # Without the word there is TLS, but anybody may be the engine.
    s.env = {"DOCKER_HOST": far.address, "DOCKER_CERT_PATH": f"{certs}/mixed"}
    s.start()
    assert s.list() == []


def test_tls_that_does_not_hold_is_an_error(server, far, certs):
    for config, words in ((f'cert_path = "{certs}/mixed"', "certificate"),
                          (f'cert_path = "{certs}/wrong"\ntls_verify = false', "the Docker engine does not answer"),
                          (f'cert_path = "{certs}/none"', "none/cert.pem"),
                          ("", "status 400")):  # plain words to a port that speaks TLS
        s = server(f'[docker]\nhost = "{far.address}"\n{config}\n')
        code, said = s.fails_to_start()
        assert code == 1 and words in said, said
    s = server(f'[docker]\nhost = "{far.address}"\ncert_path = "{certs}/mixed"\ntls_verify = false\n').start()
    assert s.list() == []


def test_tcp_without_tls(server, far):
    """The last one on this engine, which is started anew for it."""
    port = free_port()
    at = far.command.index("--tlsverify")
    far.command[at - 1:] = [f"tcp://127.0.0.1:{port}", "--tls=false"]
    far.stop()
    far.start()
    s = server('[docker]\nhost = ""\n', {"DOCKER_HOST": f"tcp://127.0.0.1:{port}"}).start()
    id = s.create()["id"]
    assert s.ping(id)
    s.delete(id)
    s.assert_clean()


def test_the_machines_own_network(engine):
    """In a network namespace, see inside_netns.py; `engine` only says whether there can be one."""
    r = subprocess.run(["unshare", "--net", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                        os.path.join(HERE, "inside_netns.py")], capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stdout[-5000:] + r.stderr[-2000:]
