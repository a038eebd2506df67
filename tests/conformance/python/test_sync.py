"""The published Python SDK, synchronous, as a user uses it. Runs in an environment that has it (see ../test_python.py)."""

import os
import threading
import time
from datetime import timedelta

import pytest
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.filesystem import (ContentReplaceEntry, DirectoryListEntry, MoveEntry, SearchEntry, SetPermissionEntry,
                                           WriteEntry)
from opensandbox.models.sandboxes import PVC, SandboxFilter, SnapshotFilter, Volume
from opensandbox.sync.manager import SandboxManagerSync
from opensandbox.sync.sandbox import SandboxSync

IMAGE = os.environ.get("OSB_IMAGE", "host")
LIMITS = {"cpu": "1", "memory": "256Mi"}


def config(proxy=False, key=None):
    return ConnectionConfigSync(domain=os.environ["OSB_DOMAIN"], api_key=key or os.environ["OSB_KEY"], use_server_proxy=proxy,
                                request_timeout=timedelta(seconds=120), disable_metrics=True)


@pytest.fixture(scope="module", params=["direct", "proxy"])
def sandbox(request):
    s = SandboxSync.create(IMAGE, connection_config=config(request.param == "proxy"), resource=LIMITS, env={"GREETING": "hello"},
                           metadata={"suite": "sync", "way": request.param}, timeout=timedelta(minutes=10))
    yield s
    s.destroy()


@pytest.fixture(scope="module")
def manager():
    m = SandboxManagerSync.create(connection_config=config())
    yield m
    m.close()


def text(messages):
    return "\n".join(m.text for m in messages)


def until(what, fn, seconds=60):
    end = time.monotonic() + seconds
    while not (v := fn()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return v


def test_info_and_endpoint(sandbox):
    info = sandbox.get_info()
    assert info.id == sandbox.id and info.status.state == "Running" and info.metadata["suite"] == "sync"
    assert info.expires_at > info.created_at
    assert sandbox.is_healthy()
    assert sandbox.get_endpoint(44772).endpoint


def test_command(sandbox):
    got = sandbox.commands.run("echo out; echo err >&2; echo $GREETING; exit 3")
    assert text(got.logs.stdout) == "out\nhello" and text(got.logs.stderr) == "err"
    assert got.exit_code == 3 and got.error is not None


def test_command_options(sandbox):
    got = sandbox.commands.run("pwd; echo $A", opts=RunCommandOpts(working_directory="/tmp", envs={"A": "b"}))
    assert text(got.logs.stdout) == "/tmp\nb" and got.exit_code == 0
    assert text(sandbox.commands.run("id -u; id -g", opts=RunCommandOpts(uid=1234, gid=1235)).logs.stdout) == "1234\n1235"
    slow = sandbox.commands.run("sleep 60", opts=RunCommandOpts(timeout=timedelta(seconds=1)))
    assert slow.error is not None


def test_background_and_logs(sandbox):
    id = sandbox.commands.run("echo one; sleep 0.3; echo two; exit 5", opts=RunCommandOpts(background=True)).id
    status = until("its end", lambda: (s := sandbox.commands.get_command_status(id)).running is False and s)
    assert status.exit_code == 5
    logs = sandbox.commands.get_background_command_logs(id)
    assert logs.content.split() == ["one", "two"]
    assert sandbox.commands.get_background_command_logs(id, logs.cursor).content == ""


def test_interrupt(sandbox):
    id = sandbox.commands.run("sleep 1000", opts=RunCommandOpts(background=True)).id
    assert sandbox.commands.get_command_status(id).running
    sandbox.commands.interrupt(id)
    assert until("its end", lambda: sandbox.commands.get_command_status(id).running is False)


def test_session(sandbox):
    id = sandbox.commands.create_session(working_directory="/tmp")
    sandbox.commands.run_in_session(id, "export X=kept; cd /etc")
    got = sandbox.commands.run_in_session(id, "echo $X; pwd")
    assert text(got.logs.stdout) == "kept\n/etc"
    sandbox.commands.delete_session(id)
    with pytest.raises(SandboxApiException):
        sandbox.commands.run_in_session(id, "true")


def test_files(sandbox):
    f = sandbox.files
    f.create_directories([WriteEntry(path="/tmp/d/e", mode=755)])
    f.write_files([WriteEntry(path="/tmp/d/a.txt", data="alpha\nbeta\n", mode=644), WriteEntry(path="/tmp/d/e/b.bin", data=bytes(range(256)))])
    assert f.read_file("/tmp/d/a.txt") == "alpha\nbeta\n"
    assert f.read_bytes("/tmp/d/e/b.bin") == bytes(range(256))
    assert f.read_bytes("/tmp/d/e/b.bin", range_header="bytes=10-19") == bytes(range(10, 20))
    assert b"".join(f.read_bytes_stream("/tmp/d/e/b.bin", chunk_size=100)) == bytes(range(256))
    info = f.get_file_info(["/tmp/d/a.txt"])["/tmp/d/a.txt"]
    assert info.size == 11 and info.mode == 644
    f.set_permissions([SetPermissionEntry(path="/tmp/d/a.txt", mode=600)])
    assert f.get_file_info(["/tmp/d/a.txt"])["/tmp/d/a.txt"].mode == 600
    f.replace_contents([ContentReplaceEntry(path="/tmp/d/a.txt", old_content="beta", new_content="gamma")])
    assert "gamma" in f.read_file("/tmp/d/a.txt")
    assert f.replace_contents_detailed([ContentReplaceEntry(path="/tmp/d/a.txt", old_content="a", new_content="A")])[0].replaced_count == 4
    f.move_files([MoveEntry(src="/tmp/d/a.txt", dest="/tmp/d/c.txt")])
    assert [e.path for e in f.search(SearchEntry(path="/tmp/d", pattern="*.txt"))] == ["/tmp/d/c.txt"]
    assert {e.path for e in f.list_directory(DirectoryListEntry(path="/tmp/d", depth=1))} >= {"/tmp/d/c.txt", "/tmp/d/e"}
    f.delete_files(["/tmp/d/c.txt"])
    f.delete_directories(["/tmp/d"])
    with pytest.raises(SandboxApiException) as e:
        f.read_file("/tmp/d/c.txt")
    assert e.value.status_code == 404


def test_metrics(sandbox):
    m = sandbox.get_metrics()
    assert m.cpu_count > 0 and 0 < m.memory_used_in_mib <= m.memory_total_in_mib


def test_diagnostics(sandbox):
    assert sandbox.get_diagnostic_events("lifecycle")
    assert sandbox.get_diagnostic_logs("container")


def test_metadata_and_renew(sandbox):
    assert sandbox.patch_metadata({"color": "blue"}).metadata["color"] == "blue"
    assert "color" not in (sandbox.patch_metadata({"color": None}).metadata or {})
    before = sandbox.get_info().expires_at
    sandbox.renew(timedelta(minutes=30))
    assert sandbox.get_info().expires_at > before


def test_connect(sandbox):
    other = SandboxSync.connect(sandbox.id, connection_config=config())
    assert text(other.commands.run("echo again").logs.stdout) == "again"
    other.close()


def test_list(manager, sandbox):
    page = manager.list_sandbox_infos(SandboxFilter(states=["Running"], metadata={"suite": "sync"}, page_size=1))
    assert len(page.sandbox_infos) == 1 and page.pagination.total_items >= 1
    assert manager.get_sandbox_info(sandbox.id).id == sandbox.id
    assert not manager.list_sandbox_infos(SandboxFilter(metadata={"suite": "nobody"})).sandbox_infos


def test_pause_and_resume():
    s = SandboxSync.create(IMAGE, connection_config=config(), resource=LIMITS)
    s.pause()
    until("Paused", lambda: s.get_info().status.state == "Paused")
    s = SandboxSync.resume(s.id, connection_config=config())
    assert text(s.commands.run("echo back").logs.stdout) == "back"
    s.destroy()


def test_snapshot(manager):
    s = SandboxSync.create(IMAGE, connection_config=config(), resource=LIMITS)
    s.files.write_file("/root/kept", "kept")
    snap = s.create_snapshot("sync-one")
    until("Ready", lambda: manager.get_snapshot(snap.id).status.state == "Ready")
    assert snap.id in [x.id for x in manager.list_snapshots(SnapshotFilter(sandbox_id=s.id)).snapshot_infos]
    s.destroy()
    again = SandboxSync.create(snapshot_id=snap.id, connection_config=config(), resource=LIMITS)
    assert again.files.read_file("/root/kept") == "kept"
    again.destroy()
    manager.delete_snapshot(snap.id)


def test_volume():
    volume = Volume(name="data", pvc=PVC(claim_name="sync-vol", create_if_not_exists=True, delete_on_sandbox_termination=True), mount_path="/data")
    s = SandboxSync.create(IMAGE, connection_config=config(), resource=LIMITS, volumes=[volume])
    assert s.commands.run("echo x > /data/f && cat /data/f").exit_code == 0
    s.destroy()


def test_many_at_once():
    failed = []

    def one():
        try:
            s = SandboxSync.create(IMAGE, connection_config=config(), resource=LIMITS)
            assert text(s.commands.run("echo hi").logs.stdout) == "hi"
            s.destroy()
        except Exception as e:
            failed.append(e)
    threads = [threading.Thread(target=one) for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_errors(manager):
    with pytest.raises(SandboxApiException) as e:
        manager.get_sandbox_info("no-such-sandbox")
    assert e.value.status_code == 404 and e.value.request_id
    with pytest.raises(SandboxApiException) as e:
        SandboxManagerSync.create(connection_config=config(key="wrong")).list_sandbox_infos(SandboxFilter())
    assert e.value.status_code == 401
    with pytest.raises(SandboxApiException) as e:
        SandboxSync.create(IMAGE, connection_config=config(), resource={"cpu": "plenty"})
    assert e.value.status_code == 400
