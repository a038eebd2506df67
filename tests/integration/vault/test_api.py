"""The routes: statuses, shapes, revisions, gates; and what survives a kill."""

import ctypes
import os
import signal
import time

import pytest
import vaultnet
from vaultnet import bind, headers_of

BEARER = {"type": "bearer", "credential": "t"}


@pytest.fixture
def clean(net):
    net.api("DELETE", "/credential-vault")
    return net


def create(net, **kw):
    return net.api("POST", "/credential-vault", {"credentials": [{"name": "t", "source": {"type": "inline", "value": "v-1"}}],
                                                 "bindings": [bind("b", "api.example.com", BEARER)], **kw})


def test_life(clean):
    n = clean
    assert n.api("GET", "/credential-vault")[0] == 404
    assert n.api("PATCH", "/credential-vault", {})[0] == 404
    assert n.api("DELETE", "/credential-vault")[0] == 404
    status, state = create(n)
    assert status == 201
    assert state == {"revision": 1, "credentials": [{"name": "t", "sourceType": "inline", "revision": 1}],
                     "bindings": [{"name": "b", "revision": 1, "auth": {"type": "bearer"},
                                   "match": {"schemes": ["https"], "ports": [443], "hosts": ["api.example.com"],
                                             "methods": ["GET", "POST", "PUT", "PATCH", "DELETE"], "paths": ["/*"]}}]}
    assert create(n)[0] == 409
    assert n.api("GET", "/credential-vault") == (200, state)
    assert n.api("GET", "/credential-vault/credentials") == (200, {"revision": 1, "credentials": state["credentials"]})
    assert n.api("GET", "/credential-vault/bindings/b") == (200, state["bindings"][0])
    assert n.api("GET", "/credential-vault/bindings/nope")[0] == 404
    assert n.api("PATCH", "/credential-vault", {"expectedRevision": 7})[0] == 409
    status, state = n.api("PATCH", "/credential-vault", {
        "expectedRevision": 1, "credentials": {"add": [{"name": "a/b c", "source": {"value": "w"}}]}})
    assert status == 200 and state["revision"] == 2 and state["bindings"][0]["revision"] == 2
    assert n.api("GET", "/credential-vault/credentials/a%2Fb%20c")[1]["revision"] == 2
    assert n.api("DELETE", "/credential-vault") == (204, "")
    assert create(n)[1]["revision"] == 1


def test_refusals(clean):
    n = clean
    assert n.api("POST", "/credential-vault", {}, token=None)[0] == 401
    assert n.api("GET", "/credential-vault", token="wrong")[0] == 401
    assert n.api("GET", "/credential-vault/_active", token=None) == (403, "forbidden\n")
    assert n.api("POST", "/credential-vault/_active")[0] == 405
    assert n.api("GET", "/credential-vault/zzz")[0] == 404
    for body in ("", "[]", "{", '{"x":1}', '{"credentials":[{"name":"t","source":{"value":"a\\r\\nb"}}]}'):
        status, text = n.api("POST", "/credential-vault", body)
        assert status == 400 and text.endswith("\n"), body
    status, text = n.api("POST", "/credential-vault", '{"credentials":[{"name":"t","source":{"value":"top-s3cret"} ]]}')
    assert status == 400 and "s3cret" not in text
    # From anywhere but loopback: the sidecar's own address in the servers' network.
    try:
        status, _ = n.api("POST", "/credential-vault", {}, ns="g", address=("203.0.113.1", 18080))
        assert status == 426
    except OSError:
        pass  # the packet rules may not even let it come so far


def test_rotation_and_removal(clean):
    n = clean
    create(n)
    assert headers_of(n.curl("https://api.example.com/"), "authorization") == ["Bearer v-1"]
    n.api("PATCH", "/credential-vault", {"credentials": {"replace": [{"name": "t", "source": {"value": "v-2"}}]}})
    assert headers_of(n.curl("https://api.example.com/"), "authorization") == ["Bearer v-2"]
    n.api("DELETE", "/credential-vault")
    assert headers_of(n.curl("https://api.example.com/"), "authorization") == []


def memfd():
    libc = ctypes.CDLL(None, use_errno=True)
    size = 4096 + 2 * (1 << 20)
    fd = libc.syscall(447, os.O_CLOEXEC)  # memfd_secret
    if fd < 0:
        fd = os.memfd_create("vault", os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    return fd


def test_kill_in_between():
    """The vault and the authority survive in memory that the supervisor keeps; nothing is on disk."""
    n = vaultnet.Net()
    fd = memfd()
    try:
        n.start(keep_fd=fd)
        create(n)
        before = n.ca.read_text()
        assert headers_of(n.curl("https://api.example.com/"), "authorization") == ["Bearer v-1"]
        for _ in range(2):
            assert n.stop(signal.SIGKILL) == -signal.SIGKILL
            # Nobody listens: closed, not open.
            assert n.client("curl", "-s", "-m", "5", "https://api.example.com/", check=False).returncode
            n.start(keep_fd=fd)
            assert n.ca.read_text() == before
            assert n.api("GET", "/credential-vault")[1]["revision"] == 1
            assert headers_of(n.curl("https://api.example.com/"), "authorization") == ["Bearer v-1"]
        n.api("DELETE", "/credential-vault")
        n.stop(signal.SIGKILL)
        n.start(keep_fd=fd)
        assert n.api("GET", "/credential-vault")[0] == 404
        for f in n.dir.rglob("*"):
            assert not f.is_file() or b"v-1" not in f.read_bytes()
    finally:
        os.close(fd)
        n.close()


def test_memory_is_out_of_reach(net):
    net.vault({"t": "out-of-reach"}, [bind("b", "api.example.com", BEARER)])
    status = open(f"/proc/{net.sidecar.pid}/status").read()
    limits = open(f"/proc/{net.sidecar.pid}/limits").read()
    core = [x for x in limits.splitlines() if x.startswith("Max core")][0]
    assert core.split()[4:6] == ["0", "0"]
    assert vaultnet.SANITIZED or [x for x in status.splitlines() if x.startswith("VmLck")][0].split()[1] != "0"
    # Another user's process, even with the same uid, may not look: the process is not dumpable.
    assert os.stat(f"/proc/{net.sidecar.pid}/environ").st_uid == 0


def test_gate_without_interception(net):
    n = vaultnet.Net()
    try:
        n.ca = n.dir / "ca.crt"
        (n.dir / "handed").mkdir()
        (n.dir / "handed" / "mitmproxy-ca-cert.pem").write_text((n.dir / "ca.crt").read_text())
        n.start(env={"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT": "no"})
        assert create(n)[0] == 412 and n.api("DELETE", "/credential-vault")[0] == 412
        n.stop()
        n.start(env={"OPENSANDBOX_EGRESS_MITMPROXY_SSL_INSECURE": "1"})
        assert create(n)[0] == 412
    finally:
        n.close()


def worker_of(pid):
    return int(open(f"/proc/{pid}/task/{pid}/children").read().split()[0])


def test_supervised():
    """The sidecar's own guard restarts it with vault and authority."""
    n = vaultnet.Net()
    try:
        n.start(args=["--supervise"])
        create(n)
        before, first = n.ca.read_text(), worker_of(n.sidecar.pid)
        os.kill(first, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while True:
            try:
                if worker_of(n.sidecar.pid) != first and n.api("GET", "/credential-vault")[0] == 200:
                    break
            except (OSError, IndexError):
                pass
            assert time.monotonic() < deadline, n.read_log()
            time.sleep(0.05)
        assert n.ca.read_text() == before
        assert headers_of(n.curl("https://api.example.com/"), "authorization") == ["Bearer v-1"]
        assert "the sidecar died" in n.read_log()
        worker = worker_of(n.sidecar.pid)
        assert n.stop() == 0
        assert not os.path.exists(f"/proc/{worker}")
    finally:
        n.close()


def test_supervisor_reports_a_broken_configuration():
    n = vaultnet.Net()
    try:
        with pytest.raises(RuntimeError, match="does not start"):
            n.start(args=["--supervise"], env={"OPENSANDBOX_EGRESS_MITMPROXY_PORT": "-1"})
        assert n.sidecar.wait(timeout=60) == 1
    finally:
        n.close()
