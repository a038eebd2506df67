"""What depends on the engine's machine: AppArmor, GPUs, other runtimes, other architectures, Windows. The engine is a real
one; a tap in front of it plays machines that this one is not, and shows what was asked for."""

import io
import os
import tarfile

import pytest
from enginetap import Tap
from osbserver import request_body, wait_for


@pytest.fixture
def tap(engine):
    made = []

    def new(**answers):
        made.append(Tap(engine, {"/" + k: v for k, v in answers.items()}))
        return made[-1]

    yield new
    for t in made:
        t.close()


def test_apparmor_is_sent_when_asked_for_and_possible(make, engine, tap):
    def with_it(info):
        return {**info, "SecurityOptions": [*(info["SecurityOptions"] or []), "name=apparmor"]}

    def without_it(info):
        return {**info, "SecurityOptions": [o for o in info["SecurityOptions"] or [] if "apparmor" not in o]}

    t = tap(info=with_it)
    s = make(f'[docker]\nhost = "{t.url}"\napparmor_profile = "unconfined"\nstage = "mount"\n')
    id = s.create()["id"]
    assert "apparmor=unconfined" in engine.inspect(id)["HostConfig"]["SecurityOpt"]
    s.delete(id)
    s.stop()
    s.write_config(f'[docker]\nhost = "{t.url}"\nstage = "mount"\n')
    s.start()
    s.delete(s.create()["id"])
    asked = t.bodies("/containers/create")
    assert "apparmor=unconfined" in asked[0]["HostConfig"]["SecurityOpt"]
    assert not any("apparmor" in o for o in asked[-1]["HostConfig"]["SecurityOpt"]), "the engine's own by default"
    t = tap(info=without_it)
    code, said = make(f'[docker]\nhost = "{t.url}"\napparmor_profile = "ours"\n', start=False).fails_to_start()
    assert code == 1 and "docker.apparmor_profile" in said and "no AppArmor" in said


def test_gpus_are_asked_for_and_a_refusal_is_told(make, engine, tap):
    t = tap()
    s = make(f'[docker]\nhost = "{t.url}"\nstage = "mount"\n')
    for count, sent in (("2", 2), ("all", -1)):
        r = s.call("POST", "/v1/sandboxes", request_body(resourceLimits={"gpu": count}))
        assert t.bodies("/containers/create")[-1]["HostConfig"]["DeviceRequests"] == [
            {"Driver": "", "Count": sent, "DeviceIDs": [], "Capabilities": [["gpu"]], "Options": {}}]
        if r.status_code == 202:  # this machine has some
            s.delete(r.json()["id"])
            continue
        assert r.status_code == 400 and r.json()["code"] == "SANDBOX::INVALID_PARAMETER", r.text
        assert "gpu" in r.json()["message"] and "driver" in r.json()["message"]
    s.assert_clean()


def test_other_architectures(make, engine, tap, tmp_path):
    s = make()
    other = "arm64" if os.uname().machine == "x86_64" else "amd64"
    r = s.call("POST", "/v1/sandboxes", request_body(platform={"os": "linux", "arch": other}))
    assert r.status_code == 400 and r.json()["code"] == "SANDBOX::INVALID_PARAMETER", r.text
    assert f"linux/{other}" in r.json()["message"] and "execd" in r.json()["message"]
    # An image whose programs are another machine's, whatever it says of itself.
    root = tmp_path / "foreign"
    (root / "bin").mkdir(parents=True)
    with open("/bin/busybox", "rb") as f:
        head = bytearray(f.read(4096))
    head[18:20] = (183 if other == "arm64" else 62).to_bytes(2, "little")  # e_machine
    (root / "bin" / "sh").write_bytes(head)
    (root / "bin" / "sh").chmod(0o755)
    engine.load("osbt-foreign:1", str(root))
    r = s.call("POST", "/v1/sandboxes", request_body(image={"uri": "osbt-foreign:1"}))
    assert r.status_code == 400 and "architecture" in r.json()["message"], r.text
    s.assert_clean()
    # An engine on another machine than the execd we have is for.
    t = tap(info=lambda info: {**info, "Architecture": "aarch64" if other == "arm64" else "x86_64"})
    code, said = make(f'[docker]\nhost = "{t.url}"\n', start=False).fails_to_start()
    assert code == 1 and "docker.execd" in said and other in said


def test_gvisor_and_policy(make, engine, tap, world):
    """Its own network stack would pass the rules by: refused. With the machine's sockets the rules hold."""
    if "runsc" not in engine.ok("GET", "/info")["Runtimes"]:
        pytest.skip("runsc is not installed")
    config = '[secure_runtime]\ntype = "gvisor"\n[egress]\nimage = "osbt-sidecar:1"\n'
    s = make(config)
    policy = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "good.test"}]}
    id = s.create(image={"uri": "osbt-curl:1"}, networkPolicy=policy)["id"]
    assert engine.inspect(id)["HostConfig"]["Runtime"] == "runsc"
    assert engine.ok("GET", f"/containers/sandbox-egress-{id}/json")["HostConfig"]["Runtime"] != "runsc"
    for url, reached in (("http://good.test/", True), ("http://evil.test/", False), (f"http://{world.evil}/", False)):
        out, _ = s.run(id, f"curl -s -m 20 -o /dev/null {url} && echo reached || echo closed")
        assert (out == "reached") == reached, url
    assert world.bad.seen == []
    s.delete(id)
    s.stop()
    t = tap(info=lambda info: {**info, "Runtimes": {**info["Runtimes"], "runsc": {"path": "runsc"}}})
    s.write_config(config + f'[docker]\nhost = "{t.url}"\nstage = "mount"\n')
    s.start()
    r = s.call("POST", "/v1/sandboxes", request_body(networkPolicy=policy))
    assert r.status_code == 400 and "network stack" in r.json()["message"], r.text
    s.assert_clean()


def load_windows_execd(engine, name, root):
    root.mkdir()
    (root / "execd.exe").write_bytes(b"MZ execd")
    (root / "install.bat").write_text("rem install\r\n")
    engine.load(name, str(root))


def file_of(engine, id, path):
    data = engine.ok("GET", f"/containers/sandbox-{id}/archive?path={path}")
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        return t.extractfile(t.next()).read()


WINDOWS = {"os": "windows", "arch": "amd64"}
LARGE = {"cpu": "2500m", "memory": "8Gi", "disk": "64Gi", "gpu": "1"}


def test_windows_profile(make, engine, tap, tmp_path):
    if os.uname().machine != "x86_64":
        pytest.skip("Windows sandboxes are machines of the engine's architecture, and the request here is for amd64")
    load_windows_execd(engine, "osbt-winexecd:1", tmp_path / "win")
    t = tap()
    body = request_body(platform=WINDOWS, resourceLimits=LARGE, env={"USER_PORTS": "9000, 8080", "VERSION": "11"})
    s = make(f'[docker]\nhost = "{t.url}"\nstage = "mount"\n')
    r = s.call("POST", "/v1/sandboxes", body)
    assert r.status_code == 400 and "execd_image" in r.json()["message"], r.text
    s.stop()
    s.write_config(f'[docker]\nhost = "{t.url}"\nstage = "mount"\n[runtime]\ntype = "docker"\nexecd_image = "osbt-winexecd:1"\n'
                   '[egress]\nimage = "osbt-none:1"\n')
    s.start()
    for key, value in (("cpu", "1"), ("memory", "2Gi"), ("disk", "10Gi")):
        r = s.call("POST", "/v1/sandboxes", {**body, "resourceLimits": {**LARGE, key: value}})
        assert r.status_code == 400 and "windows" in r.json()["message"], r.text
    r = s.call("POST", "/v1/sandboxes", {**body, "networkPolicy": {"egress": []}})
    assert r.status_code == 400 and "exclude" in r.json()["message"], r.text
    if not (os.path.exists("/dev/kvm") and os.path.exists("/dev/net/tun")):
        r = s.call("POST", "/v1/sandboxes", body)
        assert r.status_code == 400 and "/dev/kvm" in r.json()["message"], r.text
        return
    r = s.call("POST", "/v1/sandboxes", body)
    sent = [b for b in t.bodies("/containers/create") if b["Image"] == "host:latest" or b["Image"] == "host"][-1]
    host, env = sent["HostConfig"], dict(e.split("=", 1) for e in sent["Env"])
    assert len(env) == len(sent["Env"]) and env["VERSION"] == "11"
    assert (env["CPU_CORES"], env["RAM_SIZE"], env["DISK_SIZE"]) == ("3", "8G", "64G")
    assert env["USER_PORTS"] == "9000, 8080,44772,3389,8006"
    assert "Entrypoint" not in sent and sent["Cmd"] == ["sleep", "infinity"]
    assert sorted(host["PortBindings"]) == ["3389/tcp", "3389/udp", "44772/tcp", "8006/tcp", "8080/tcp"]
    assert {d["PathOnHost"] for d in host["Devices"]} == {"/dev/kvm", "/dev/net/tun"}
    assert host["CapAdd"] == ["NET_ADMIN", "NET_RAW"] and not {"NET_ADMIN", "NET_RAW"} & set(host["CapDrop"])
    assert not {"Memory", "NanoCpus", "DeviceRequests"} & set(host), "limits are the machine's inside"
    create = next(path for method, path, b in t.asked if b is sent)
    assert "platform" not in create
    if r.status_code != 202:  # the engine may not hand out devices here; then it says so
        assert r.status_code == 400 and "device" in r.json()["message"], r.text
        s.assert_clean()
        return
    id = r.json()["id"]
    assert r.json()["platform"] == WINDOWS and "booting" in r.json()["status"]["message"]
    assert host["Binds"] == [f"opensandbox-win-oem-{id}:/oem:rw"]
    assert file_of(engine, id, "/oem/install.bat") == b"rem install\r\n" and file_of(engine, id, "/oem/execd.exe") == b"MZ execd"
    s.delete(id)
    wait_for("the volume's end", lambda: f"opensandbox-win-oem-{id}" not in engine.volumes())
    s.assert_clean()
