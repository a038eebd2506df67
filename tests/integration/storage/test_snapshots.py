"""Snapshots: what they keep, their states, restoring from them."""

import json
import os
import shutil
import uuid

import pytest
from osbserver import request_body, wait_for

pytestmark = pytest.mark.both_runtimes
CHANGES = r"""
set -e
mkdir -p /root/t && cd /root/t
echo content > plain; chown 1000:1001 plain; chmod 4751 plain; touch -d '2001-02-03 04:05:06.789' plain
ln plain hard; ln -s plain soft; ln -s /nowhere/x dangling
truncate -s 50M sparse; printf end | dd of=sparse bs=1 seek=52428000 conv=notrunc status=none
mkfifo pipe; mkdir -m 1777 dir; touch -d 2002-01-01 dir
python3 - <<'END'
import os, socket
os.setxattr("plain", "user.mark", b"value")
s = socket.socket(socket.AF_UNIX); s.bind("socket"); s.close()
os.makedirs("deep/" + "/".join(["d" * 60] * 20))
open("name with \n newline and \xff".encode("latin-1"), "w").close()
END
rm -rf /var/tmp; mkdir /var/tmp; touch /var/tmp/only; rm -rf /srv /mnt
"""
LOOK = r"""
cd /root/t
stat -c '%n %u:%g %a %y %h %s' plain hard; cat plain; readlink soft dangling
stat -c '%s %b' sparse; tail -c +52428001 sparse | head -c 3; echo
stat -c '%F %a %y' dir pipe socket
python3 -c 'import os; print(os.getxattr("plain", "user.mark"), sorted(os.listdir(b".")))'
[ plain -ef hard ] && echo same file; find deep | wc -l
ls -A /var/tmp; ls -d /srv /mnt 2>&1 || true
"""


def out(s, id, command):
    text, last = s.run(id, command)
    assert last["type"] == "execution_complete", (last, text)
    return text


def take(s, id, name=None, state="Ready"):
    snap = s.ok("POST", f"/v1/sandboxes/{id}/snapshots", {"name": name} if name else None, status=202)
    return wait_snapshot(s, snap["id"], state)


def wait_snapshot(s, id, state="Ready"):
    got = wait_for("the snapshot", lambda: (x := s.ok("GET", f"/v1/snapshots/{id}"))["status"]["state"] != "Creating" and x)
    assert got["status"]["state"] == state, got
    return got


def restore(s, snapshot, **more):
    return s.create(image=None, entrypoint=None, snapshotId=snapshot["id"], **more)["id"]


@pytest.fixture
def server(shared):
    yield shared
    for sandbox in shared.list():
        shared.call("DELETE", f"/v1/sandboxes/{sandbox['id']}")
    for snap in shared.ok("GET", "/v1/snapshots?pageSize=200")["items"]:
        shared.call("DELETE", f"/v1/snapshots/{snap['id']}")
    shared.assert_clean()
    wait_for("the layers going", lambda: layers(shared) == [])


def layers(s):
    return s.snapshot_layers()


def test_everything_is_kept(server, runtime):
    # An engine keeps a layer as an archive: without sockets, holes, attributes of users and parts of seconds.
    changes = CHANGES + ("" if runtime == "oci" else "rm socket\n")
    look = LOOK if runtime == "oci" else LOOK.replace("%y", "%Y").replace("'%s %b'", "%s").replace(" socket", "").replace(
        'os.getxattr("plain", "user.mark"), ', "")
    a = server.create()["id"]
    out(server, a, changes)
    before = out(server, a, look)
    assert "same file" in before and f"4751 {'2001-02-03' if runtime == 'oci' else 981173106} " in before
    snap = take(server, a, "all")
    assert snap["sandboxId"] == a and snap["name"] == "all"
    assert snap["status"]["reason"] == "snapshot_runtime_ready"
    out(server, a, "echo later > /root/t/plain; rm /root/t/soft")
    b = restore(server, snap)
    assert out(server, b, look) == before
    view = server.get(b)
    assert view["snapshotId"] == snap["id"] and "image" not in view
    assert view["entrypoint"] == ["tail", "-f", "/dev/null"]
    names = [out(server, x, "hostname; cat /etc/hostname").split() for x in (a, b)]
    assert names[0] != names[1] and names[1][0] == names[1][1], "who it is comes anew"
    assert runtime != "oci" or names[1][0] == b
    assert out(server, a, "cat /root/t/plain") == "later", "the source goes on"


@pytest.mark.oci_only("the engine has one kind")
@pytest.mark.parametrize("config", ["", '[oci]\ndefault_disk = ""\n'], ids=["disk image", "directory"])
def test_both_kinds_of_writable_layer(make, config):
    s = make(config)
    a = s.create()["id"]
    out(s, a, CHANGES)
    before = out(s, a, LOOK)
    s.restart()  # the descriptors of the create are gone
    snap = take(s, a)
    s.delete(a)
    ids = [restore(s, snap) for _ in range(3)]
    for b in ids:
        assert out(s, b, LOOK) == before
    out(s, ids[0], "rm -rf /root/t")
    assert out(s, ids[1], LOOK) == before
    s.ok("DELETE", f"/v1/snapshots/{snap['id']}", status=204)
    for b in ids:
        s.delete(b)
    s.assert_clean()
    wait_for("the layer going", lambda: layers(s) == [])


def test_after_the_source_is_gone_and_in_generations(server):
    a = server.create()["id"]
    out(server, a, "echo 1 > /root/one; echo x > /root/gone")
    first = take(server, a)
    server.delete(a)
    b = restore(server, first)
    assert out(server, b, "cat /root/one") == "1"
    out(server, b, "echo 2 > /root/two; rm /root/gone")
    second = take(server, b)
    server.delete(b)
    server.ok("DELETE", f"/v1/snapshots/{first['id']}", status=204)
    c = restore(server, second)
    assert out(server, c, "cat /root/one /root/two; ls /root/gone 2>&1 | wc -l; ls /root") == "1\n2\n1\none\ntwo"


def test_deleting_one_in_use_does_no_harm(server):
    a = server.create()["id"]
    out(server, a, "seq 100000 > /root/big")
    snap = take(server, a)
    b = restore(server, snap)
    server.ok("DELETE", f"/v1/snapshots/{snap['id']}", status=204)
    assert server.call("GET", f"/v1/snapshots/{snap['id']}").status_code == 404
    assert out(server, b, "echo 3 > /proc/sys/vm/drop_caches 2>/dev/null; tail -1 /root/big") == "100000"
    server.restart()
    assert out(server, b, "tail -1 /root/big") == "100000"
    assert len(layers(server)) == 1, "nobody else may have it, and it stays"
    r = server.call("POST", "/v1/sandboxes", request_body(image=None, snapshotId=snap["id"]))
    assert (r.status_code, r.json()["code"]) == (404, "SNAPSHOT::NOT_FOUND")
    server.delete(b)
    wait_for("the layer going", lambda: layers(server) == [])


@pytest.mark.oci_only("[oci.rootfs]")
def test_rootfs_as_base(make):
    """A registered root file system is a base as well."""
    s = make(start=False)
    root = os.path.join(s.dir, "rootfs")
    os.makedirs(root + "/bin")
    shutil.copy("/bin/busybox", root + "/bin/busybox")  # the package busybox-static
    for name in ("sh", "sleep", "cat", "tail", "echo"):
        os.symlink("busybox", f"{root}/bin/{name}")
    s.write_config(f'[oci.rootfs]\nsmall = "{root}"\n')
    s.start()
    a = s.create(image={"uri": "small"})["id"]
    out(s, a, "echo mine > /here")
    snap = take(s, a)
    s.delete(a)
    assert out(s, restore(s, snap), "cat /here") == "mine"
    assert not os.path.exists(root + "/here")


def test_names_states_pages(server):
    a, b = server.create()["id"], server.create()["id"]
    made = [take(server, x, n) for x, n in ((a, "one"), (a, "two"), (b, "one"), (b, None))]
    get = lambda q="": server.ok("GET", "/v1/snapshots" + q)
    ids = [x["id"] for x in reversed(made)]
    assert [x["id"] for x in get()["items"]] == ids, "newest first"
    assert "name" not in get()["items"][0]
    assert [x["id"] for x in get("?name=one")["items"]] == [ids[1], ids[3]]
    assert [x["id"] for x in get(f"?sandboxId={a}")["items"]] == ids[2:]
    assert [x["id"] for x in get(f"?sandboxId={a}&name=one")["items"]] == [ids[3]]
    assert get("?state=Ready&state=Failed")["pagination"]["totalItems"] == 4
    assert get("?state=ready")["items"] == [], "exactly"
    assert get("?name=none")["pagination"] == {"page": 1, "pageSize": 20, "totalItems": 0, "totalPages": 0,
                                               "hasNextPage": False}
    page = get("?page=2&pageSize=3")
    assert [x["id"] for x in page["items"]] == ids[3:]
    assert page["pagination"] == {"page": 2, "pageSize": 3, "totalItems": 4, "totalPages": 2, "hasNextPage": False}
    assert get("?page=99999999999")["items"] == []
    assert server.call("GET", "/v1/snapshots?pageSize=201").status_code == 422


@pytest.mark.oci_only("refused before any runtime is asked")
def test_refusals(server):
    code = lambda r: (r.status_code, r.json().get("code"))
    unknown = f"/v1/snapshots/{uuid.uuid4()}"
    assert code(server.call("GET", unknown)) == (404, "SNAPSHOT::NOT_FOUND")
    assert code(server.call("DELETE", unknown)) == (404, "SNAPSHOT::NOT_FOUND")
    assert code(server.call("POST", "/v1/sandboxes", request_body(image=None, snapshotId=str(uuid.uuid4())))) == (
        404, "SNAPSHOT::NOT_FOUND")
    assert server.call("POST", f"/v1/sandboxes/{uuid.uuid4()}/snapshots").status_code == 404
    for method, path in (("GET", "/v1/snapshots"), ("GET", unknown), ("DELETE", unknown), ("POST", "/sandboxes/x/snapshots")):
        assert server.call(method, path, key=False).status_code == 401
    id = server.create()["id"]
    assert server.call("POST", f"/v1/sandboxes/{id}/snapshots", {"name": ""}).status_code == 422
    assert server.call("POST", f"/v1/sandboxes/{id}/snapshots", {"name": 3}).status_code == 422
    assert server.call("POST", f"/v1/sandboxes/{id}/snapshots", data="{", headers={
        "Content-Type": "application/json"}).status_code == 422
    server.ok("POST", f"/v1/sandboxes/{id}/pause")
    assert code(server.call("POST", f"/v1/sandboxes/{id}/snapshots")) == (409, "SNAPSHOT::INVALID_SOURCE_STATE")
    server.ok("POST", f"/v1/sandboxes/{id}/resume")


def test_location_and_accepted(server):
    id = server.create()["id"]
    r = server.call("POST", f"/v1/sandboxes/{id}/snapshots", {"name": "n"})
    body = r.json()
    assert r.status_code == 202 and r.headers["Location"] == f"/v1/snapshots/{body['id']}"
    assert body["status"]["state"] == "Creating" and body["status"]["reason"] == "snapshot_accepted"
    wait_snapshot(server, body["id"])
    assert server.state(id) == "Running" and server.ping(id)


def test_the_sandbox_goes_on_writing(server):
    """A writer that is captured in the middle: what is kept is one moment of it."""
    id = server.create()["id"]
    out(server, id, "cd /root; nohup sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo $i > a.new; mv a.new a; "
                    "cp a b.new; mv b.new b; done' >/dev/null 2>&1 &")
    wait_for("the writer", lambda: out(server, id, "cat /root/b 2>/dev/null || echo -") != "-")
    for _ in range(3):
        snap = take(server, id)
        again = restore(server, snap)
        a, b = (int(x) for x in out(server, again, "cat /root/a /root/b").split())
        assert a - b in (0, 1), (a, b)
        server.delete(again)
    x = int(out(server, id, "cat /root/a"))
    wait_for("the writer going on", lambda: int(out(server, id, "cat /root/a")) > x)


def test_many_at_once(server):
    id = server.create()["id"]
    out(server, id, "seq 1000 > /root/x")
    snaps = [server.ok("POST", f"/v1/sandboxes/{id}/snapshots", status=202)["id"] for _ in range(6)]
    for s in snaps:
        wait_snapshot(server, s)
    assert server.ping(id)
    b = restore(server, {"id": snaps[-1]})
    assert out(server, b, "tail -1 /root/x") == "1000"


def test_delete_of_the_source_while_it_is_captured(server):
    id = server.create()["id"]
    out(server, id, "head -c 50000000 /dev/urandom > /root/x")
    snap = server.ok("POST", f"/v1/sandboxes/{id}/snapshots", status=202)["id"]
    server.delete(id)
    got = wait_for("an end", lambda: (x := server.ok("GET", f"/v1/snapshots/{snap}"))["status"]["state"] != "Creating" and x)
    assert got["status"]["state"] in ("Ready", "Failed")
    if got["status"]["state"] == "Ready":
        assert out(server, restore(server, got), "stat -c %s /root/x") == "50000000"


def test_volumes_are_not_part_of_it(server):
    claim = "c-" + uuid.uuid4().hex[:8]
    v = [{"name": "v", "mountPath": "/data", "pvc": {"claimName": claim, "deleteOnSandboxTermination": True}}]
    a = server.create(volumes=v)["id"]
    out(server, a, "echo secret > /data/x; echo own > /root/own")
    snap = take(server, a)
    b = restore(server, snap)
    assert out(server, b, "cat /root/own; ls -A /data") == "own"
    server.delete(a)
    assert claim not in server.named_volumes()


def test_survives_a_restart(make):
    s = make()
    id = s.create()["id"]
    out(s, id, "echo kept > /root/x")
    snap = take(s, id, "n")
    s.restart()
    assert s.ok("GET", f"/v1/snapshots/{snap['id']}") == snap
    assert out(s, restore(s, snap), "cat /root/x") == "kept"
    assert json.dumps(s.ok("GET", "/v1/snapshots?name=n")["items"]) == json.dumps([snap])
