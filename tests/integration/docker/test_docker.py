"""What is the Docker runtime's own: labels, published ports, confinement, limits, adoption."""

import json
import time

import pytest
import requests
from osbserver import request_body, wait_for

LABEL = "opensandbox.io/"


def labels(engine, id):
    return engine.inspect(id)["Config"]["Labels"]


def test_labels_have_the_names_of_the_protocol(server, engine):
    made = server.create(metadata={"team": "a"}, platform={"os": "linux", "arch": "amd64"},
                         extensions={"access.renew.extend.seconds": "300"})
    seen = labels(engine, made["id"])
    assert seen[LABEL + "id"] == made["id"] and seen["team"] == "a"
    assert seen[LABEL + "expires-at"][:19] == made["expiresAt"][:19]
    assert seen[LABEL + "expires-at"].endswith("+00:00") and seen[LABEL + "manual-cleanup"] == ""
    assert (seen[LABEL + "platform-os"], seen[LABEL + "platform-arch"]) == ("linux", "amd64")
    assert seen[LABEL + "access-renew-extend-seconds"] == "300"
    info = engine.inspect(made["id"])
    ports = info["NetworkSettings"]["Ports"]
    assert ports["44772/tcp"][0]["HostPort"] == seen[LABEL + "embedding-proxy-port"]
    assert ports["8080/tcp"][0]["HostPort"] == seen[LABEL + "http-port"]
    assert info["Name"] == "/sandbox-" + made["id"]
    assert info["Config"]["Entrypoint"] == ["/opt/opensandbox/bootstrap.sh"]
    assert info["Config"]["Cmd"] == ["sleep", "infinity"]


def test_without_a_timeout_it_is_for_manual_cleanup(server, engine):
    seen = labels(engine, server.create(timeout=None)["id"])
    assert seen[LABEL + "manual-cleanup"] == "true" and seen[LABEL + "expires-at"] == ""


def test_published_endpoints_answer(server, engine):
    id = server.create(entrypoint=["sh", "-c", "echo page > /tmp/index.html; httpd -f -p 8080 -h /tmp"])["id"]
    direct = server.ok("GET", f"/v1/sandboxes/{id}/endpoints/44772")["endpoint"]
    assert direct.startswith("127.0.0.1:") and direct.endswith("/proxy/44772")
    assert requests.get(f"http://{direct}/ping", timeout=30).status_code == 200
    page = server.ok("GET", f"/v1/sandboxes/{id}/endpoints/8080")["endpoint"]
    assert "/" not in page
    wait_for("the page", lambda: requests.get(f"http://{page}/index.html", timeout=30).text == "page\n")
    other = server.ok("GET", f"/v1/sandboxes/{id}/endpoints/18080")["endpoint"]
    assert other == direct.replace("44772", "18080")
    proxied = server.ok("GET", f"/v1/sandboxes/{id}/endpoints/8080?use_server_proxy=true")["endpoint"]
    assert proxied == f"{server.url.split('//')[1]}/sandboxes/{id}/proxy/8080"
    r = server.call("GET", f"/sandboxes/{id}/proxy/8080/index.html", key=False)
    assert r.text == "page\n"


def test_nothing_is_published_when_told_so(make, engine):
    s = make("[docker]\npublish_ports = false\n")
    id = s.create()["id"]
    assert not any(engine.inspect(id)["NetworkSettings"]["Ports"].values())
    assert s.ok("GET", f"/v1/sandboxes/{id}/endpoints/8080")["endpoint"].endswith(f"/sandboxes/{id}/proxy/8080")
    assert s.ping(id)


def test_nothing_is_taken_over_when_told_so(make, server):
    server.create()
    s = make('[docker]\nadopt = "none"\n')
    assert s.list() == []
    assert s.ping(s.create()["id"])


def test_confinement_and_limits(server, engine):
    id = server.create(resourceLimits={"cpu": "500m", "memory": "96Mi", "pids": "100"})["id"]
    host = engine.inspect(id)["HostConfig"]
    assert host["NanoCpus"] == 500_000_000 and host["Memory"] == 96 << 20 and host["MemorySwap"] == 96 << 20
    assert host["PidsLimit"] == 100 and "no-new-privileges:true" in host["SecurityOpt"]
    assert {"NET_ADMIN", "SYS_ADMIN", "MKNOD", "NET_RAW"} <= set(host["CapDrop"])
    assert not host["Privileged"]
    out, _ = server.run(id, "grep NoNewPrivs /proc/self/status; grep Seccomp: /proc/self/status; "
                            "(echo >> /opt/opensandbox/bootstrap.sh) 2>&1 | grep -o 'Read-only'; "
                            "grep -c ' /opt/opensandbox/[^ ]* [^ ]* ro,' /proc/mounts")
    assert out.split() == ["NoNewPrivs:", "1", "Seccomp:", "2", "Read-only", "2"]


def test_out_of_memory_is_told(server):
    sandbox = server.ok("POST", "/v1/sandboxes", request_body(
        entrypoint=["tail", "/dev/zero"], resourceLimits={"memory": "32Mi"}), status=202)
    status = server.wait_state(sandbox["id"], "Failed")["status"]
    assert status["reason"] in ("CONTAINER_OOM_KILLED", "CONTAINER_EXITED_ERROR")
    assert "memory" in status["message"] or "signal 9" in status["message"]


def test_a_seccomp_profile_is_read_and_sent(make, engine, tmp_path):
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}))
    s = make(f'[docker]\nseccomp_profile = "{profile}"\n')
    out, _ = s.run(s.create()["id"], "mkdir /tmp/x 2>&1 || echo refused")
    assert "refused" in out


def test_upload_instead_of_mounts(make, engine):
    s = make('[docker]\nstage = "upload"\n')
    id = s.create()["id"]
    assert not engine.inspect(id)["HostConfig"]["Binds"]
    assert s.run(id, "ls /opt/opensandbox")[0].split() == ["bootstrap.sh", "execd"]


def test_networks_of_the_engine(make, engine):
    name = f"{engine.name}-Net"
    subnet = "192.168.%s.0/24" % engine.subnet.split(".")[2]
    engine.ok("POST", "/networks/create", {"Name": name, "IPAM": {"Config": [{"Subnet": subnet}]}})
    s = make(f'[docker]\nnetwork_mode = "{name}"\n')
    id = s.create()["id"]
    assert list(engine.inspect(id)["NetworkSettings"]["Networks"]) == [name]
    assert s.ping(id)
    r = s.call("POST", "/v1/sandboxes", request_body(networkPolicy={"egress": []}))
    assert r.status_code == 400 and r.json()["code"] == "SANDBOX::INVALID_PARAMETER"
    s.delete(id)
    s.stop()
    engine.ok("DELETE", f"/networks/{name}")
    s.start()
    r = s.call("POST", "/v1/sandboxes", request_body())
    assert r.status_code == 400 and "network" in r.json()["message"]


def test_an_unknown_image_is_told(server):
    r = server.call("POST", "/v1/sandboxes", request_body(image={"uri": "127.0.0.1:1/none:1"}))
    assert r.status_code == 500 and r.json()["code"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED"


@pytest.mark.parametrize("change", [
    {"networkPolicy": {}}, {"extensions": {"poolRef": "x"}}, {"secureAccess": True},
    {"resourceLimits": {"cpu": "nan"}}, {"resourceLimits": {"memory": "lots"}},
])
def test_what_cannot_be_done_is_refused(server, change):
    assert server.call("POST", "/v1/sandboxes", request_body(**change)).status_code == 400


def test_a_secure_runtime_must_exist(make):
    s = make('[secure_runtime]\ntype = "kata"\n', start=False)
    code, said = s.fails_to_start()
    assert code == 1 and "kata-runtime" in said


def foreign(engine, id, state="running", **more):
    """A container as the reference makes it."""
    body = {"Image": "host:latest", "Cmd": ["sleep", "1000"],
            "Labels": {LABEL + "id": id, "owner": "them", **more}, "HostConfig": {"NetworkMode": "bridge"}}
    cid = engine.ok("POST", f"/containers/create?name=sandbox-{id}", body)["Id"]
    engine.ok("POST", f"/containers/{cid}/start")
    return cid


def test_sandboxes_of_the_reference_are_taken_over(make, engine):
    expires = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 500)) + ".123456+00:00"
    timed = "11111111-1111-4111-8111-%012x" % (time.time_ns() % (1 << 48))
    manual = "22222222-2222-4222-8222-%012x" % (time.time_ns() % (1 << 48))
    foreign(engine, timed, **{LABEL + "expires-at": expires, LABEL + "access-renew-extend-seconds": "300"})
    foreign(engine, manual, **{LABEL + "manual-cleanup": "true"})
    try:
        s = make()
        seen = {x["id"]: x for x in s.list()}
        assert seen[timed]["metadata"] == {"owner": "them"} and seen[timed]["entrypoint"] == ["sleep", "1000"]
        assert seen[timed]["expiresAt"][:19] == expires[:19] and seen[timed]["image"] == {"uri": "host:latest"}
        assert "expiresAt" not in seen[manual]
        s.ok("POST", f"/v1/sandboxes/{timed}/pause", status=202)
        assert s.state(timed) == "Paused"
        s.restart()
        assert s.state(timed) == "Paused" and s.state(manual) == "Running"
        s.delete(timed)
        s.delete(manual)
        names = {n for c in engine.containers() for n in c["Names"]}
        assert f"/sandbox-{timed}" not in names and f"/sandbox-{manual}" not in names
    finally:
        for id in (timed, manual):
            engine.call("DELETE", f"/containers/sandbox-{id}?force=1")


def test_two_servers_share_an_engine(make):
    a, b = make(), make()
    mine = a.create()["id"]
    b.restart()
    assert b.list() == [] and a.ping(mine)
    b.delete(b.create()["id"])
    assert a.ping(mine)


def test_gvisor_as_second_runtime(make, engine):
    if "runsc" not in engine.ok("GET", "/info")["Runtimes"]:
        pytest.skip("runsc is not installed")
    s = make('[secure_runtime]\ntype = "gvisor"\n')
    id = s.create()["id"]
    assert engine.inspect(id)["HostConfig"]["Runtime"] == "runsc"
