"""Sandboxes outlive the server: every call of oci_tool is a new start of the runtime."""

import os
import signal
import subprocess
import time

import ocibox


def kill_first_process(box, id):
    pid = box.record(id)["pid"]
    fd = os.pidfd_open(pid)
    signal.pidfd_send_signal(fd, signal.SIGKILL)
    os.close(fd)
    return pid


def test_everything_goes_on(box):
    box.create("a", "--memory", 100 << 20)
    box.create("b", "--network", "none")
    box.sh("a", "echo kept >/root/file; (sleep 1000 &) ; true")
    for _ in range(3):
        assert box.list() == {"a": "running", "b": "running"}
    assert box.sh("a", "cat /root/file").out == "kept"
    box.tool("pause", "b")
    assert box.list() == {"a": "running", "b": "paused"}
    box.tool("remove", "a")
    box.tool("remove", "b")
    assert box.clean_soon() == {}


def test_exit_while_no_server_is_running(box, tmp_path):
    os.chmod(tmp_path, 0o755)
    box.create("gone", "--bind", f"{tmp_path}:/signal",
               entrypoint=["sh", "-c", "until [ -e /signal/go ]; do sleep 0.05; done; exit 7"])
    (tmp_path / "go").touch()
    deadline = time.monotonic() + 60
    while box.pids() and time.monotonic() < deadline:
        time.sleep(0.05)
    st = box.state("gone")
    assert (st["state"], st["exit"], st["code"]) == ("exited", "code", 7)
    box.tool("remove", "gone")


def test_first_process_killed_from_outside(box):
    box.create("shot")
    kill_first_process(box, "shot")
    st = box.state("shot")
    assert st["state"] == "exited"
    assert st["exit"] in ("signal", "unknown")
    box.tool("remove", "shot")
    assert box.clean_soon() == {}


def test_another_process_with_the_same_number(box):
    """A recorded pid that belongs to somebody else by now is not our sandbox."""
    box.create("reused")
    record = box.record("reused")
    path = f"{box.root}/sandboxes/reused/state.json"
    text = open(path).read()
    kill_first_process(box, "reused")
    other = subprocess.Popen(["sleep", "1000"])
    try:
        with open(path, "w") as f:
            f.write(text.replace(f'"pid":{record["pid"]}', f'"pid":{other.pid}'))
        assert box.state("reused")["state"] == "exited"
        box.tool("remove", "reused")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_after_a_reboot(box):
    """Another boot: nothing of the record can be alive."""
    box.create("before")
    path = f"{box.root}/sandboxes/before/state.json"
    record = box.record("before")
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(text.replace(record["bootId"], "00000000-0000-0000-0000-000000000000"))
    st = box.state("before")
    assert st["state"] == "exited" and "restarted" in st["detail"]
    box.tool("remove", "before")
    assert box.clean_soon() == {}


def test_ids_and_addresses_stay_apart_after_a_restart(fresh):
    box = fresh(id_ranges=8)
    for i in range(4):
        box.create(f"s{i}")
    records = [box.record(f"s{i}") for i in range(4)]
    assert len({r["idRange"] for r in records}) == 4
    assert len({r["ip"] for r in records}) == 4


def test_ranges_run_out(fresh):
    box = fresh(id_ranges=2, netns_pool=0)
    box.create("one")
    box.create("two")
    r = box.create("three", check=False)
    assert "oci_tool: limit:" in r.err and "id_ranges" in r.err
    box.tool("remove", "one")
    box.create("three")


def test_sweep(box):
    box.create("known")
    box.create("unknown")
    # Left by somebody else: a group without a directory, a directory without anything.
    os.mkdir(f"{box.root}/sandboxes/odd")
    for d in box.cgroup_dirs():
        if d.endswith("/" + box.name):
            os.mkdir(d + "/lost")
    assert box.tool("sweep", "known").out.strip() in ("2 removed", "3 removed")
    assert box.list() == {"known": "running"}
    assert box.clean_soon(keep=("known",)) == {}
    assert box.sh("known", "true").code == 0
    box.tool("remove", "known")


def test_damaged_state(box):
    for i, text in enumerate(("", "{", '{"id":"other","phase":"running","bootId":"x"}', "\0\0\0")):
        os.mkdir(f"{box.root}/sandboxes/damaged{i}")
        with open(f"{box.root}/sandboxes/damaged{i}/state.json", "w") as f:
            f.write(text)
    assert box.list() == {}
    assert box.clean_soon() == {}


def test_server_killed_while_sandboxes_run(box):
    """kill -9 of a runtime that watches, not one that left in good order."""
    box.create("outlives", entrypoint=["sleep", "1000"])
    p = subprocess.Popen([f"{ocibox.BIN}/oci_tool", box.config, "wait", "outlives"], stdout=subprocess.PIPE)
    time.sleep(0.5)
    p.kill()
    p.wait()
    assert box.list() == {"outlives": "running"}
    assert box.sh("outlives", "echo here").out == "here"
    box.tool("remove", "outlives")
    assert box.clean_soon() == {}
