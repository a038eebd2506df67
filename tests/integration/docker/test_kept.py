"""What is promised is kept or refused: limits of the disk, ends by signal, ports that somebody takes first, creates that
wait for nobody's pull, snapshots that are in use."""

import concurrent.futures
import os
import socket
import subprocess
import threading

import pytest
from dockerbox import Engine, find
from dockerserver import DockerServer
from enginetap import Tap
from osbserver import request_body, wait_for


@pytest.fixture
def tapped(engine, make):
    """A server that reaches the engine through a tap."""
    taps = []

    def new(before, config=""):
        tap = Tap(engine, before=before)
        taps.append(tap)
        return make(f'[docker]\nhost = "{tap.url}"\n{config}'), tap

    yield new
    for t in taps:
        t.close()


def test_ends_are_told_apart(server):
    """A program that says 137 itself, one that was killed, one that was never started, one that waited for a child that
    was killed."""
    def end(*words, **more):
        r = server.ok("POST", "/v1/sandboxes", request_body(entrypoint=list(words), **more), status=202)
        return server.wait_state(r["id"], "Failed")["status"]

    assert "exit code 137" in (said := end("sh", "-c", "exit 137")["message"]) and "signal" not in said, said
    assert "signal 15" in (said := end("sh", "-c", "kill -15 $$")["message"]) and "exit code" not in said, said
    assert "could not be started" in end("/no/such/program")["message"]
    said = end("sh", "-c", "sh -c 'tail /dev/zero'; exit 3", resourceLimits={"memory": "32Mi"})
    assert said["reason"] == "CONTAINER_EXITED_ERROR" and "exit code 3" in said["message"], said
    said = end("sh", "-c", "exec tail /dev/zero", resourceLimits={"memory": "32Mi"})
    assert said["reason"] == "CONTAINER_OOM_KILLED", said


def test_an_end_that_nobody_saw_is_told_as_well(make):
    s = make()
    codes = {s.create(entrypoint=["sh", "-c", f"while [ ! -e /tmp/go ]; do sleep 0.05; done; {end}"])["id"]: word
             for end, word in (("exit 143", "exit code 143"), ("kill -9 $$", "signal 9"))}
    for id in codes:
        s.run(id, "(sleep 0.5; touch /tmp/go) >/dev/null 2>&1 &")
    s.kill()
    wait_for("their ends", lambda: all(c["State"] == "exited" for c in s.mine()))
    s.start()
    for id, word in codes.items():
        assert word in s.wait_state(id, "Failed")["status"]["message"]


def test_execd_keeps_out_of_the_logs(server):
    fake = '{"time":"x","level":"info","program":"mine","msg":"kept"}'
    id = server.create(entrypoint=["sh", "-c", f"for i in 1 2 3; do echo line $i; done; echo '{fake}'; sleep infinity"])["id"]
    path = f"/v1/sandboxes/{id}/diagnostics/logs"
    wait_for("output", lambda: "kept" in server.call("GET", path).text)
    assert [x.split(" ", 1)[1] for x in server.call("GET", path).text.splitlines()] == ["line 1", "line 2", "line 3", fake]
    assert server.call("GET", path + "?tail=2").text.count("\n") in (1, 2)


def test_a_disk_that_cannot_be_limited(server, engine):
    for key in ("disk", "ephemeral-storage"):
        r = server.call("POST", "/v1/sandboxes", request_body(resourceLimits={key: "1Gi"}))
        assert r.status_code == 400 and "overlay2" in r.json()["message"] and "pquota" in r.json()["message"], r.text
    id = server.create(resourceLimits={"io-read-bps": "50Mi", "io-write-iops": "1000"})["id"]
    host = engine.inspect(id)["HostConfig"]
    (read,), (write,) = host["BlkioDeviceReadBps"], host["BlkioDeviceWriteIOps"]
    assert read["Rate"] == 50 << 20 and write["Rate"] == 1000 and read["Path"].startswith("/dev/"), host


def test_a_disk_that_can_be_limited():
    """The engine's data on btrfs."""
    if not find("mkfs.btrfs"):
        pytest.skip("btrfs-progs is not installed")
    e, s = Engine(runtimes=False), None
    data, image = f"{e.dir}/data", f"{e.dir}/btrfs.img"
    os.mkdir(data)
    with open(image, "wb") as f:
        f.truncate(600 << 20)
    subprocess.run(["mkfs.btrfs", "-q", image], check=True, capture_output=True)
    if subprocess.run(["mount", "-o", "loop", image, data], capture_output=True).returncode:
        e.close()
        pytest.skip("this kernel has no btrfs")
    try:
        e.start()
        e.load_busybox("host:latest")
        s = DockerServer(e).start()
        id = s.create(resourceLimits={"disk": "32Mi", "memory": "128Mi"})["id"]
        out = s.run(id, "dd if=/dev/zero of=/root/big bs=1M count=100 2>&1; stat -c %s /root/big")[0]
        assert "quota exceeded" in out and int(out.split()[-1]) <= 32 << 20, out
        s.delete(id)
        s.assert_clean()
    finally:
        if s:
            s.close()
        e.close()


def test_a_port_that_somebody_takes_first(tapped):
    """Between our look and the engine's start: the create starts over with other ports, and leaves nothing."""
    taken = []

    def before(method, path, body):
        if method == "POST" and "/containers/create" in path and len(taken) < 3:
            port = int(body["HostConfig"]["PortBindings"]["44772/tcp"][0]["HostPort"])
            taken.append(socket.create_server(("0.0.0.0", port)))

    s, tap = tapped(before)
    try:
        id = s.create()["id"]
        assert len(taken) == 3 and s.ping(id)
        port = s.engine.inspect(id)["Config"]["Labels"]["opensandbox.io/embedding-proxy-port"]
        assert int(port) not in [t.getsockname()[1] for t in taken]
        assert len(s.mine()) == 1, "what the first tries made is gone"
        assert len(tap.bodies("/containers/create")) == 4
    finally:
        for t in taken:
            t.close()


def test_a_slow_pull_holds_up_nobody(tapped):
    """More pulls than there are workers for creates; whoever needs none is served meanwhile."""
    go, waiting = threading.Event(), []

    def before(method, path, body):
        if "/images/create" in path:
            waiting.append(path)
            go.wait(120)

    s, _ = tapped(before, "[limits]\ncreate_concurrency = 2\n[server]\ncreate_wait_seconds = 60\n")
    missing = request_body(image={"uri": "127.0.0.1:1/none:1"})
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        pulls = [pool.submit(s.call, "POST", "/v1/sandboxes", missing, timeout=120) for _ in range(4)]
        try:
            wait_for("pulls", lambda: len(waiting) >= 2)
            id = s.create()["id"]
            assert s.ping(id) and not any(p.done() for p in pulls)
            s.delete(id)
        finally:
            go.set()
        for p in pulls:
            assert p.result().json()["code"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED"


def test_volumes_are_bound_where_nobody_can_change_them(make, engine):
    s = make(start=False)
    allowed = os.path.join(s.dir, "allowed")
    os.mkdir(allowed)
    s.write_config(f'[storage]\nallowed_host_paths = ["{allowed}"]\n')
    s.start()
    id = s.create(volumes=[{"name": "v", "mountPath": "/v", "host": {"path": allowed + "/d"}}])["id"]
    bind, = [b for b in engine.inspect(id)["HostConfig"]["Binds"] if b.endswith(":/v:rw")]
    assert bind.startswith(f"{s.data}/docker/mounts/{id}")
    assert os.listdir(f"{s.data}/docker/mounts") == [], "taken away again"
    s.run(id, "echo x > /v/f")
    assert os.listdir(allowed + "/d") == ["f"]
