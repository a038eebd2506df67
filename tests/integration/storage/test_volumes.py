"""Volumes: host directories, named volumes, buckets."""

import contextlib
import json
import os
import stat
import subprocess
import threading
import uuid

import pytest
from osbserver import request_body, wait_for

pytestmark = pytest.mark.both_runtimes


def volume(name="v", path="/data", **more):
    return {"name": name, "mountPath": path, **more}


def refused(s, status, code, *volumes, **changes):
    r = s.call("POST", "/v1/sandboxes", request_body(volumes=list(volumes), **changes))
    assert r.status_code == status, r.text
    if code:
        assert r.json()["code"] == code, r.text
    return r.json()


def claim():
    return "c-" + uuid.uuid4().hex[:12]


def volumes_of(s):
    return s.named_volumes()


def out(s, id, command):
    text, last = s.run(id, command)
    assert last["type"] == "execution_complete", last
    return text


# ---- words ----

WORDS = pytest.mark.oci_only("refused before any runtime is asked")


@WORDS
@pytest.mark.parametrize("path", ["/x/../y", "/x//y", "/x/", "/..", "C:\\x\\..\\y"])
def test_host_path_must_be_simple(server, path):
    refused(server, 400, "VOLUME::INVALID_HOST_PATH", volume(host={"path": path}))


@WORDS
def test_host_path_must_be_absolute(server):
    refused(server, 422, None, volume(host={"path": "x/y"}))


def test_host_path_must_be_allowed(server):
    for path in ("/etc", server.allowed + "x", server.outside, server.dir):
        refused(server, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", volume(host={"path": path}))


def test_no_allow_list_means_none(make):
    s = make()
    refused(s, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", volume(host={"path": s.dir}))


@WORDS
def test_names(server):
    a = volume("twice", "/a", pvc={"claimName": "x"})
    b = volume("twice", "/b", pvc={"claimName": "y"})
    refused(server, 400, "VOLUME::DUPLICATE_NAME", a, b)
    for name in ("", "UPPER", "-x", "x_y", "x" * 64):
        refused(server, 422, None, volume(name, pvc={"claimName": "x"}))
    for name in ("", "../x", "X", ".", "x" * 254):
        refused(server, 422, None, volume(pvc={"claimName": name}))


@WORDS
def test_exactly_one_backend(server):
    refused(server, 422, None, volume())
    refused(server, 422, None, volume(pvc={"claimName": "x"}, host={"path": server.allowed}))


@WORDS
@pytest.mark.parametrize("sub", ["/abs", "../x", "a/../../b", ".."])
def test_sub_path_must_stay_inside(server, sub):
    refused(server, 400, "VOLUME::INVALID_SUB_PATH", volume(pvc={"claimName": "x"}, subPath=sub))


@WORDS
@pytest.mark.parametrize("path", ["/", "//", "/proc", "/proc/self", "/sys/x", "/dev", "/opt", "/opt/opensandbox",
                                  "/a/../proc", "/a/./b"])
def test_mount_path_must_leave_the_sandbox_whole(server, path):
    refused(server, 400, "VOLUME::INVALID_MOUNT_PATH", volume(path=path, pvc={"claimName": "x"}))


@WORDS
def test_relative_mount_path(server):
    refused(server, 422, None, volume(path="data", pvc={"claimName": "x"}))


def bucket(**more):
    return {"bucket": "my-bucket", "endpoint": "oss.example.com", "accessKeyId": "AK", "accessKeySecret": "SK", **more}


@WORDS
def test_ossfs_words(server):
    invalid = "SANDBOX::INVALID_PARAMETER"
    refused(server, 400, "VOLUME::INVALID_OSSFS_BUCKET", volume(ossfs=bucket(bucket="My_Bucket")))
    refused(server, 400, "VOLUME::INVALID_OSSFS_ENDPOINT", volume(ossfs=bucket(endpoint="  ")))
    refused(server, 400, "VOLUME::INVALID_OSSFS_OPTION", volume(ossfs=bucket(options=["-o"])))
    refused(server, 400, "VOLUME::INVALID_OSSFS_OPTION", volume(ossfs=bucket(options=[" "])))
    refused(server, 400, "VOLUME::INVALID_OSSFS_CREDENTIALS", volume(ossfs=bucket(accessKeySecret="a\nb")))
    refused(server, 400, invalid, volume(ossfs=bucket(options=["a;b"])))
    refused(server, 400, invalid, volume(ossfs=bucket(endpoint="a b")))
    refused(server, 400, invalid, volume(ossfs=bucket(), subPath="a$b"))
    refused(server, 422, None, volume(ossfs={"bucket": "abc", "endpoint": "e"}))
    refused(server, 422, None, volume(ossfs=bucket(version="3.0")))


# ---- host ----

def test_host_directory(server):
    path = os.path.join(server.allowed, "work", "deep")
    sb = server.create(volumes=[volume(host={"path": path})])["id"]
    assert os.path.isdir(path), "made where it was missing"
    out(server, sb, "echo inside > /data/f; chown 1234:1235 /data/f")
    st = os.stat(os.path.join(path, "f"))
    assert (st.st_uid, st.st_gid) == (1234, 1235), "ids are those seen inside"
    with open(os.path.join(path, "g"), "w") as f:
        f.write("outside\n")
    assert out(server, sb, "cat /data/g; stat -c %u:%g /data/g") == "outside\n0:0"
    server.delete(sb)
    assert os.path.exists(os.path.join(path, "f")), "what was in it stays"


def test_host_file_read_only_and_sub_path(server):
    os.makedirs(os.path.join(server.allowed, "sub", "a"), exist_ok=True)
    with open(os.path.join(server.allowed, "sub", "file"), "w") as f:
        f.write("one file")
    sb = server.create(volumes=[
        volume("f", "/etc/given", host={"path": server.allowed + "/sub/file"}, readOnly=True),
        volume("d", "/data", host={"path": server.allowed}, subPath="sub/a"),
        volume("r", "/ro", host={"path": server.allowed}, readOnly=True),
    ])["id"]
    assert out(server, sb, "cat /etc/given") == "one file"
    assert out(server, sb, "echo x > /etc/given && echo written || echo refused") == "refused"
    assert out(server, sb, "touch /ro/x && echo written || echo refused") == "refused"
    assert out(server, sb, "mount -o remount,rw /ro 2>/dev/null && echo remounted || echo refused") == "refused"
    out(server, sb, "touch /data/here")
    assert os.path.exists(os.path.join(server.allowed, "sub", "a", "here"))


def test_nested_mounts_in_any_order(server):
    sb = server.create(volumes=[
        volume("b", "/data/x/inner", pvc={"claimName": claim(), "deleteOnSandboxTermination": True}),
        volume("a", "/data", pvc={"claimName": claim(), "deleteOnSandboxTermination": True}),
    ])["id"]
    assert out(server, sb, "findmnt -rno TARGET | grep ^/data | sort") == "/data\n/data/x/inner"


def test_links_do_not_lead_out(server):
    link = os.path.join(server.allowed, "link")
    with contextlib.suppress(OSError):
        os.unlink(link)
    os.symlink(server.outside, link)
    refused(server, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", volume(host={"path": link}))
    refused(server, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", volume(host={"path": link + "/x"}))
    refused(server, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", volume(host={"path": server.allowed}, subPath="link/y"))
    os.unlink(link)
    os.symlink("../outside", link)
    refused(server, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", volume(host={"path": link}))
    os.unlink(link)
    os.symlink("../allowed/inside", link)  # out and in again: not trusted either
    refused(server, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", volume(host={"path": link}))
    os.unlink(link)
    os.makedirs(os.path.join(server.allowed, "inside"), exist_ok=True)
    os.symlink("inside", link)  # a link that stays inside is one
    sb = server.create(volumes=[volume(host={"path": link})])["id"]
    out(server, sb, "touch /data/through")
    assert os.path.exists(os.path.join(server.allowed, "inside", "through"))
    assert os.listdir(server.outside) == []


def test_inner_entry_cannot_be_turned_into_a_link(server):
    """allowed and allowed/inner are both allowed; who can write to the first must not redirect the second."""
    inner = os.path.join(server.allowed, "inner")
    with contextlib.suppress(OSError):
        os.rmdir(inner)
    sb = server.create(volumes=[volume(host={"path": server.allowed})])["id"]
    out(server, sb, f"ln -s {server.outside} /data/inner")
    refused(server, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", volume(host={"path": inner}))
    os.unlink(inner)


def test_sockets_and_pipes_are_no_volumes(server):
    os.mkfifo(os.path.join(server.allowed, "pipe"))
    refused(server, 500, "VOLUME::HOST_PATH_CREATE_FAILED", volume(host={"path": server.allowed + "/pipe"}))


def test_race_of_links(server):
    """A directory that is a link out of the allowed one every other moment: never mounted from there."""
    base = os.path.join(server.allowed, "race")
    os.makedirs(os.path.join(base, "real"), exist_ok=True)
    os.symlink(server.outside, os.path.join(base, "evil"))
    spot, stop = os.path.join(base, "spot"), threading.Event()
    os.symlink("real", spot)
    swaps = []

    def swapper():
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        evil, at = os.path.join(base, "evil").encode(), spot.encode()
        while not stop.is_set():
            swaps.append(libc.renameat2(-100, evil, -100, at, 2))  # RENAME_EXCHANGE
            stop.wait(0.0005)

    t = threading.Thread(target=swapper)
    t.start()
    try:
        for i in range(12):
            r = server.call("POST", "/v1/sandboxes", request_body(volumes=[volume(host={"path": spot + "/dir"})]))
            if r.status_code == 202:
                id = r.json()["id"]
                server.wait_state(id, "Running")
                out(server, id, f"touch /data/written-{i}")
                server.delete(id)
            else:
                assert r.json()["code"] in ("VOLUME::HOST_PATH_NOT_ALLOWED", "VOLUME::HOST_PATH_CREATE_FAILED"), r.text
    finally:
        stop.set()
        t.join()
    assert 0 in swaps
    assert os.listdir(server.outside) == [], "something was written outside"


@pytest.mark.oci_only("binds of an engine have no such options: no-new-privileges and its list of devices stand in")
def test_no_devices_no_setuid(server):
    sb = server.create(volumes=[volume(pvc={"claimName": claim(), "deleteOnSandboxTermination": True})])["id"]
    options = out(server, sb, "findmnt -rno OPTIONS /data")
    assert "nosuid" in options and "nodev" in options


# ---- named volumes ----

def test_pvc_is_shared_and_stays(server):
    name = claim()
    a = server.create(volumes=[volume(pvc={"claimName": name})])["id"]
    b = server.create(volumes=[volume("w", "/mnt/x", pvc={"claimName": name}, readOnly=True)])["id"]
    out(server, a, "echo shared > /data/f; chown 7:8 /data/f; mkdir /data/dir")
    assert out(server, b, "cat /mnt/x/f; stat -c %u:%g /mnt/x/f") == "shared\n7:8"
    assert out(server, b, "touch /mnt/x/g && echo written || echo refused") == "refused"
    server.delete(a)
    server.delete(b)
    c = server.create(volumes=[volume(pvc={"claimName": name}, subPath="dir"),
                               volume("f", "/f", pvc={"claimName": name}, subPath="f")])["id"]
    assert out(server, c, "ls -A /data; cat /f") == "shared"
    refused(server, 400, "VOLUME::INVALID_SUB_PATH", volume(pvc={"claimName": name}, subPath="missing"))
    server.delete(c)
    assert name in volumes_of(server)


def test_pvc_not_made_when_not_wanted(server):
    name = claim()
    refused(server, 400, "VOLUME::PVC_NOT_FOUND", volume(pvc={"claimName": name, "createIfNotExists": False}))
    assert name not in volumes_of(server)


def test_pvc_goes_with_the_sandbox(server):
    name, other = claim(), claim()
    keep = server.create(volumes=[volume(pvc={"claimName": other})])["id"]
    a = server.create(volumes=[volume(pvc={"claimName": name, "deleteOnSandboxTermination": True}),
                               volume("o", "/o", pvc={"claimName": other, "deleteOnSandboxTermination": True})])["id"]
    b = server.create(volumes=[volume(pvc={"claimName": name})])["id"]
    out(server, b, "echo x > /data/x")
    server.delete(a)
    assert name in volumes_of(server), "another sandbox has it"
    assert out(server, b, "cat /data/x") == "x"
    server.delete(b)
    assert name not in volumes_of(server)
    server.delete(keep)
    assert other in volumes_of(server), "it was there before: not this sandbox's to delete"


def test_pvc_goes_on_expiry(server):
    name = claim()
    sb = server.create(volumes=[volume(pvc={"claimName": name, "deleteOnSandboxTermination": True})])["id"]
    import datetime
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
    server.ok("POST", f"/v1/sandboxes/{sb}/renew-expiration", {"expiresAt": soon.strftime("%Y-%m-%dT%H:%M:%S.%fZ")})
    server.wait_gone(sb)
    wait_for("the volume going", lambda: name not in volumes_of(server))


def test_pvc_of_a_failed_create_goes(server):
    name = claim()
    refused(server, 400, "VOLUME::PVC_NOT_FOUND", volume("a", "/a", pvc={"claimName": name}),
            volume("b", "/b", pvc={"claimName": claim(), "createIfNotExists": False}))
    assert name not in volumes_of(server)


def test_pvc_links_made_inside_do_not_lead_out(server):
    name = claim()
    a = server.create(volumes=[volume(pvc={"claimName": name, "deleteOnSandboxTermination": True})])["id"]
    out(server, a, "ln -s /etc /data/etc; ln -s ../../.. /data/up; mkdir /data/d; ln -s d /data/ok; mkfifo /data/p")
    for sub in ("etc", "up", "etc/ssl", "p"):
        refused(server, 400, "VOLUME::INVALID_SUB_PATH", volume(pvc={"claimName": name}, subPath=sub))
    b = server.create(volumes=[volume(pvc={"claimName": name}, subPath="ok")])["id"]
    out(server, b, "touch /data/z")
    assert out(server, a, "ls /data/d") == "z"


def test_mount_point_may_be_a_link_of_the_image(server):
    """/var/run -> /run and the like: followed inside the sandbox's own root."""
    sb = server.create(volumes=[volume(path="/var/run/v", pvc={"claimName": claim(),
                                                               "deleteOnSandboxTermination": True})])["id"]
    out(server, sb, "touch /var/run/v/x")


def test_restart(make):
    s = make()
    name, gone = claim(), claim()
    sb = s.create(volumes=[volume(pvc={"claimName": name}),
                           volume("g", "/g", pvc={"claimName": gone, "deleteOnSandboxTermination": True})])["id"]
    out(s, sb, "echo kept > /data/f; echo x > /g/f")
    s.restart()
    assert out(s, sb, "cat /data/f /g/f") == "kept\nx"
    assert gone in volumes_of(s)
    s.delete(sb)
    assert volumes_of(s) == [name]
    s.assert_clean()
    again = s.create(volumes=[volume(pvc={"claimName": name})])["id"]
    assert out(s, again, "cat /data/f") == "kept"


@pytest.mark.oci_only("directories of the embedded runtime")
def test_leftover_user_is_swept(make):
    """A sandbox that is known to nobody any more does not keep a volume."""
    s = make()
    s.stop()
    v = os.path.join(s.data, "oci", "volumes", "lost")
    os.makedirs(os.path.join(v, "users"))
    os.mkdir(os.path.join(v, "data"))
    open(os.path.join(v, "delete"), "w").close()
    open(os.path.join(v, "users", str(uuid.uuid4())), "w").close()
    os.makedirs(os.path.join(s.data, "oci", "volumes", "." + str(uuid.uuid4())))
    s.start()
    wait_for("the sweep", lambda: volumes_of(s) == [])


# ---- buckets ----

FAKE = """#!/bin/sh
# Stands in for the vendor's program: notes how it was called and mounts something.
{{ echo "$0"; for a in "$@"; do echo "$a"; done; }} > {dir}/call
for f in "$@"; do case "$f" in passwd_file=*) f="${{f#passwd_file=}}";; esac
  [ -f "$f" ] && {{ cat "$f" > {dir}/secret; stat -c %a "$f" > {dir}/mode; echo "$f" > {dir}/file; }}
done
echo mount >> {dir}/count
{fail}
for p in "$@"; do [ -d "$p" ] && exec mount -t tmpfs -o mode=0777 fake "$p"; done
exit 3
"""


@pytest.fixture
def fakes(make, tmp_path):
    """A server with programs called ossfs and ossfs2 on its PATH."""
    os.chmod(tmp_path, 0o755)
    s = make(start=False)
    s.buckets = os.path.join(s.dir, "buckets")
    s.write_config(f'[storage]\nossfs_mount_root = "{s.buckets}"\n')
    s.fake = tmp_path

    def install(fail=""):
        for name in ("ossfs", "ossfs2"):
            path = tmp_path / name
            path.write_text(FAKE.format(dir=tmp_path, fail=fail))
            path.chmod(0o755)

    s.install = install
    install()
    s.env["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    s.env["TMPDIR"] = str(tmp_path)
    s.start()
    yield s
    for line in s.mounts():
        subprocess.run(["umount", "-l", line.split()[4]], check=False)


def call_of(s):
    return (s.fake / "call").read_text().splitlines()


def test_ossfs_1(fakes):
    s = fakes
    sb = s.create(volumes=[volume(ossfs=bucket(version="1.0", options=["allow_other", "umask=0"]),
                                  subPath="a/./b/")])["id"]
    file = (s.fake / "file").read_text().strip()
    assert call_of(s) == [str(s.fake / "ossfs"), "my-bucket:/a/b", f"{s.buckets}/my-bucket/a/b",
                          "-o", "url=https://oss.example.com", "-o", f"passwd_file={file}",
                          "-o", "allow_other", "-o", "umask=0"]
    assert (s.fake / "secret").read_text() == "my-bucket:AK:SK"
    assert (s.fake / "mode").read_text().strip() == "600"
    assert not os.path.exists(file), "the secret does not stay on disk"
    out(s, sb, "echo x > /data/x")
    s.delete(sb)
    assert not os.path.ismount(f"{s.buckets}/my-bucket/a/b")


def test_ossfs_2(fakes):
    s = fakes
    sb = s.create(volumes=[volume(ossfs=bucket(endpoint="http://127.0.0.1:1", options=["ro=true"]), subPath="p")])["id"]
    file = (s.fake / "file").read_text().strip()
    assert call_of(s) == [str(s.fake / "ossfs2"), "mount", f"{s.buckets}/my-bucket/p", "-c", file]
    assert (s.fake / "secret").read_text().splitlines() == [
        "--oss_endpoint=http://127.0.0.1:1", "--oss_bucket=my-bucket", "--oss_access_key_id=AK",
        "--oss_access_key_secret=SK", "--oss_bucket_prefix=p/", "--ro=true"]
    assert not os.path.exists(file)
    s.delete(sb)
    s.assert_clean()


def test_ossfs_whole_bucket_is_mounted_once(fakes):
    s = fakes
    where = f"{s.buckets}/my-bucket"
    a = s.create(volumes=[volume(ossfs=bucket(version="1.0"))])["id"]
    assert call_of(s)[1:3] == ["my-bucket", where]
    b = s.create(volumes=[volume(ossfs=bucket(version="1.0"), readOnly=True)])["id"]
    assert (s.fake / "count").read_text() == "mount\n"
    out(s, a, "echo both > /data/x")
    assert out(s, b, "cat /data/x; touch /data/y || echo refused") == "both\nrefused"
    s.restart()
    s.delete(a)
    assert os.path.ismount(where), "still in use"
    assert out(s, b, "cat /data/x") == "both"
    s.delete(b)
    assert not os.path.ismount(where)


def test_ossfs_failure_is_told(fakes, runtime):
    s = fakes
    s.install(fail="echo no such bucket, AK >&2; exit 7")
    r = refused(s, 500, "VOLUME::OSSFS_MOUNT_FAILED", volume(ossfs=bucket()))
    assert "no such bucket" in r["message"] and "7" in r["message"]
    assert not s.mounts()
    assert not [f for f in os.listdir(s.fake) if f.startswith("ossfs-")]
    if runtime == "oci":
        assert os.listdir(os.path.join(s.data, "oci", "ossfs")) == []


def test_ossfs_not_installed(make):
    s = make(start=False)
    s.write_config(f'[storage]\nossfs_mount_root = "{s.dir}/buckets"\n')
    s.start()
    for version in ("1.0", "2.0"):
        r = refused(s, 500, "VOLUME::OSSFS_MOUNT_FAILED", volume(ossfs=bucket(version=version)))
        assert "not installed" in r["message"], r


def test_ossfs_root_must_be_absolute(make):
    s = make('[storage]\nossfs_mount_root = "relative"\n')
    refused(s, 500, "VOLUME::INVALID_OSSFS_MOUNT_ROOT", volume(ossfs=bucket()))


def test_keys_are_not_kept(fakes):
    s = fakes
    secret = "VERY-" + uuid.uuid4().hex
    sb = s.create(volumes=[volume(ossfs=bucket(accessKeySecret=secret))])["id"]
    s.stop()
    for top, _, names in os.walk(s.data):
        for n in names:
            p = os.path.join(top, n)
            if stat.S_ISREG(os.lstat(p).st_mode) and os.path.getsize(p) < 10_000_000:
                with open(p, "rb") as f:
                    assert secret.encode() not in f.read(), p
    with open(s.log_path) as f:
        assert secret not in f.read()
    s.start()
    s.delete(sb)
    assert json.dumps(s.list()) == "[]"
