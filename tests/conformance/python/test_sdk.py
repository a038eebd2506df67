"""The published Python SDK as a user uses it, asynchronous and synchronous (sdk.py). Runs in an environment that has it."""

import asyncio
import os
import time
import uuid
from datetime import datetime, timedelta, timezone

import httpx
import pytest
from opensandbox import AcquirePolicy, PoolCreationSpec, PoolDestroyState
from opensandbox.exceptions import (PoolDestroyedException, PoolEmptyException, PoolNotRunningException, SandboxApiException,
                                    SandboxReadyTimeoutException)
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.filesystem import (ContentReplaceEntry, DirectoryListEntry, MoveEntry, SearchEntry, SetPermissionEntry,
                                           WriteEntry)
from opensandbox.models.isolated import CreateIsolatedSessionRequest, IsolatedWorkspaceSpec
from opensandbox.models.sandboxes import (PVC, CredentialProxyConfig, NetworkPolicy, NetworkRule, SandboxFilter, SnapshotFilter,
                                          Volume)
from opensandbox.models.templates import CreateTemplateRequest, TemplateFilter
from sdk import (FLAVOUR, IMAGE, LIMITS, ExecutionHandlers, MemoryStore, Redis, RedisStore, Sandbox, SandboxManager, SandboxPool,
                 SandboxPoolManager, chunks, config, create, go, handler, run, story, text, until)


@pytest.fixture(scope="module", params=["direct", "proxy"])
def sandbox(request):
    s = run(create(connection=config(request.param == "proxy"), env={"GREETING": "hello"},
                   metadata={"suite": FLAVOUR, "way": request.param}, timeout=timedelta(minutes=10)))
    yield s
    run(go(s.destroy()))


@pytest.fixture(scope="module")
def manager():
    m = run(go(SandboxManager.create(connection_config=config())))
    yield m
    run(go(m.close()))


def refused(status=404):
    """What the server does not offer it says so, in the protocol's form."""
    class Refused:
        def __enter__(self):
            self.raises = pytest.raises(SandboxApiException)
            self.info = self.raises.__enter__()

        def __exit__(self, *error):
            caught = self.raises.__exit__(*error)
            assert self.info.value.status_code == status and self.info.value.request_id and self.info.value.error.code
            return caught
    return Refused()


@story
async def test_info_and_endpoint(sandbox):
    info = await go(sandbox.get_info())
    assert info.id == sandbox.id and info.status.state == "Running" and info.metadata["suite"] == FLAVOUR
    assert info.expires_at > info.created_at and info.image.image == IMAGE
    assert await go(sandbox.is_healthy())
    await go(sandbox.check_ready(timedelta(seconds=60), timedelta(milliseconds=100)))
    assert sandbox.connection_config.get_domain() and sandbox.origin
    endpoint = await go(sandbox.get_endpoint(44772))
    assert httpx.get(f"http://{endpoint.endpoint}/ping", headers=endpoint.headers, trust_env=False).status_code == 200


@story
async def test_service_inside(sandbox):
    await go(sandbox.commands.run("mkdir -p /tmp/www && echo hello > /tmp/www/index.html"))
    serve = "cd /tmp/www && (python3 -m http.server 8000 --bind 127.0.0.1 || httpd -f -p 8000)"
    id = (await go(sandbox.commands.run(serve, opts=RunCommandOpts(background=True)))).id
    endpoint = await go(sandbox.get_endpoint(8000))

    def answer():
        r = httpx.get(f"http://{endpoint.endpoint}/index.html", headers=endpoint.headers, trust_env=False, timeout=60)
        return r.status_code == 200 and r.text
    assert await until("an answer", answer) == "hello\n"
    await go(sandbox.commands.interrupt(id))


@story
async def test_command(sandbox):
    got = await go(sandbox.commands.run("echo out; echo err >&2; echo $GREETING; exit 3"))
    assert text(got.logs.stdout) == "out\nhello" and text(got.logs.stderr) == "err"
    assert got.exit_code == 3 and got.error is not None


@story
async def test_streams(sandbox):
    seen = []
    handlers = ExecutionHandlers(**{f"on_{kind}": handler(lambda e, kind=kind: seen.append(kind))
                                    for kind in ("init", "stdout", "stderr", "execution_complete", "error")}, skip_accumulation=True)
    got = await go(sandbox.commands.run("echo a; sleep 0.1; echo b >&2", handlers=handlers))
    assert seen[0] == "init" and seen[-1] == "execution_complete" and {"stdout", "stderr"} <= set(seen)
    assert got.logs.stdout == [] and got.exit_code == 0 and got.complete.execution_time_in_millis >= 0
    seen.clear()
    await go(sandbox.commands.run("false", handlers=handlers))
    assert seen[-1] == "error" and "execution_complete" not in seen


@story
async def test_command_options(sandbox):
    got = await go(sandbox.commands.run("pwd; echo $A", opts=RunCommandOpts(working_directory="/tmp", envs={"A": "b"})))
    assert text(got.logs.stdout) == "/tmp\nb" and got.exit_code == 0
    got = await go(sandbox.commands.run("id -u; id -g", opts=RunCommandOpts(uid=1234, gid=1235)))
    assert text(got.logs.stdout) == "1234\n1235"
    slow = await go(sandbox.commands.run("sleep 600", opts=RunCommandOpts(timeout=timedelta(seconds=1))))
    assert slow.error is not None
    await go(sandbox.commands.set_env("KEPT", "for all"))
    assert text((await go(sandbox.commands.run("echo $KEPT"))).logs.stdout) == "for all"


@story
async def test_argv(sandbox):
    got = await go(sandbox.commands.run(["echo", "a  b", "$HOME", "*"]))
    assert text(got.logs.stdout) == "a  b $HOME *" and got.exit_code == 0


@story
async def test_background_and_logs(sandbox):
    c = sandbox.commands
    id = (await go(c.run("echo one; sleep 0.3; echo two; exit 5", opts=RunCommandOpts(background=True)))).id

    async def ended():
        status = await go(c.get_command_status(id))
        return status.running is False and status
    status = await until("its end", ended)
    assert status.exit_code == 5 and status.finished_at >= status.started_at and "echo one" in status.content
    logs = await go(c.get_background_command_logs(id))
    assert logs.content.split() == ["one", "two"]
    assert (await go(c.get_background_command_logs(id, logs.cursor))).content == ""


@story
async def test_interrupt(sandbox):
    id = (await go(sandbox.commands.run("sleep 1000", opts=RunCommandOpts(background=True)))).id
    assert (await go(sandbox.commands.get_command_status(id))).running
    await go(sandbox.commands.interrupt(id))

    async def ended():
        return (await go(sandbox.commands.get_command_status(id))).running is False
    assert await until("its end", ended)


@story
async def test_session(sandbox):
    c = sandbox.commands
    id = await go(c.create_session(working_directory="/tmp"))
    await go(c.run_in_session(id, "export X=kept; cd /etc"))
    assert text((await go(c.run_in_session(id, "echo $X; pwd"))).logs.stdout) == "kept\n/etc"
    seen = []
    got = await go(c.run_in_session(id, "pwd; exit 4", working_directory="/tmp", timeout=timedelta(seconds=60),
                                    handlers=ExecutionHandlers(on_stdout=handler(lambda m: seen.append(m.text)))))
    assert "".join(seen).strip() == "/tmp" and got.exit_code == 4
    await go(c.delete_session(id))
    with pytest.raises(SandboxApiException):
        await go(c.run_in_session(id, "true"))


@story
async def test_files(sandbox):
    f = sandbox.files
    await go(f.create_directories([WriteEntry(path="/tmp/d/e", mode=755)]))
    await go(f.write_files([WriteEntry(path="/tmp/d/a.txt", data="alpha\nbeta\ngamma\n", mode=644),
                            WriteEntry(path="/tmp/d/e/b.bin", data=bytes(range(256)))]))
    await go(f.write_file("/tmp/d/e/ü.txt", "grün\n", mode=640, owner="root", group="root"))
    assert await go(f.read_file("/tmp/d/e/ü.txt")) == "grün\n"
    assert await go(f.read_file("/tmp/d/a.txt")) == "alpha\nbeta\ngamma\n"
    assert (await go(f.read_file("/tmp/d/a.txt", offset=2, limit=1))).rstrip("\n") == "beta"
    assert await go(f.read_bytes("/tmp/d/e/b.bin")) == bytes(range(256))
    assert await go(f.read_bytes("/tmp/d/e/b.bin", range_header="bytes=10-19")) == bytes(range(10, 20))
    assert b"".join(await chunks(f.read_bytes_stream("/tmp/d/e/b.bin", chunk_size=100))) == bytes(range(256))
    info = (await go(f.get_file_info(["/tmp/d/a.txt"])))["/tmp/d/a.txt"]
    assert info.size == 17 and info.mode == 644 and info.owner == "root"
    await go(f.set_permissions([SetPermissionEntry(path="/tmp/d/a.txt", mode=600, owner="nobody")]))
    info = (await go(f.get_file_info(["/tmp/d/a.txt"])))["/tmp/d/a.txt"]
    assert info.mode == 600 and info.owner == "nobody"
    await go(f.replace_contents([ContentReplaceEntry(path="/tmp/d/a.txt", old_content="beta", new_content="delta")]))
    assert "delta" in await go(f.read_file("/tmp/d/a.txt"))
    replaced = await go(f.replace_contents_detailed([ContentReplaceEntry(path="/tmp/d/a.txt", old_content="a", new_content="A")]))
    assert replaced[0].path == "/tmp/d/a.txt" and replaced[0].replaced_count == 5
    await go(f.move_files([MoveEntry(src="/tmp/d/a.txt", dest="/tmp/d/c.txt")]))
    assert {e.path for e in await go(f.search(SearchEntry(path="/tmp/d", pattern="c*.txt")))} == {"/tmp/d/c.txt"}
    listed = {e.path: e.entry_type for e in await go(f.list_directory(DirectoryListEntry(path="/tmp/d", depth=2)))}
    assert listed["/tmp/d/c.txt"] == "file" and listed["/tmp/d/e"] == "directory" and "/tmp/d/e/b.bin" in listed
    await go(f.delete_files(["/tmp/d/c.txt"]))
    await go(f.delete_directories(["/tmp/d"]))
    with pytest.raises(SandboxApiException) as e:
        await go(f.read_file("/tmp/d/c.txt"))
    assert e.value.status_code == 404


@story
async def test_metrics_and_diagnostics(sandbox, manager):
    for m in (await go(sandbox.get_metrics()), await go(sandbox.metrics.get_metrics(sandbox.id))):
        assert m.cpu_count > 0 and 0 < m.memory_used_in_mib <= m.memory_total_in_mib and m.timestamp > 0
    assert (await go(sandbox.get_diagnostic_events("lifecycle"))).kind == "events"
    assert (await go(sandbox.get_diagnostic_logs("container"))).sandbox_id == sandbox.id
    assert (await go(sandbox.diagnostics.get_logs(sandbox.id, "all"))).delivery == "inline"
    assert (await go(sandbox.diagnostics.get_events(sandbox.id, "all"))).content
    assert (await go(manager.get_diagnostic_events(sandbox.id, "runtime"))).content is not None
    assert (await go(manager.get_diagnostic_logs(sandbox.id, "lifecycle"))).content is not None


@story
async def test_metadata_renew_and_list(sandbox, manager):
    assert (await go(sandbox.patch_metadata({"color": "blue"}))).metadata["color"] == "blue"
    assert "color" not in ((await go(manager.patch_sandbox_metadata(sandbox.id, {"color": None}))).metadata or {})
    before = (await go(sandbox.get_info())).expires_at
    assert (await go(sandbox.renew(timedelta(minutes=30)))).expires_at > before
    assert (await go(manager.renew_sandbox(sandbox.id, timedelta(minutes=60)))).expires_at > before + timedelta(minutes=20)
    page = await go(manager.list_sandbox_infos(SandboxFilter(states=["Running"], metadata={"suite": FLAVOUR}, page_size=1, page=1)))
    assert len(page.sandbox_infos) == 1 and page.pagination.total_items >= 1 and page.pagination.page_size == 1
    assert (await go(manager.get_sandbox_info(sandbox.id))).id == sandbox.id
    assert not (await go(manager.list_sandbox_infos(SandboxFilter(metadata={"suite": "nobody"})))).sandbox_infos
    assert not (await go(manager.list_sandbox_infos(SandboxFilter(states=["Paused"], metadata={"suite": FLAVOUR})))).sandbox_infos


@story
async def test_connect(sandbox):
    other = await go(Sandbox.connect(sandbox.id, connection_config=config(), connect_timeout=timedelta(seconds=60)))
    assert text((await go(other.commands.run("echo again"))).logs.stdout) == "again"
    await go(other.close())
    with pytest.raises(SandboxReadyTimeoutException):
        await go(Sandbox.connect(sandbox.id, connection_config=config(), connect_timeout=timedelta(seconds=1),
                                 health_check=handler(lambda s: False) if FLAVOUR == "sync" else never))


async def never(sandbox):
    return False


@story
async def test_pause_resume_and_kill(manager):
    s = await create(metadata={"suite": "paused-" + FLAVOUR})

    async def state(wanted):
        async def reached():
            return (await go(manager.get_sandbox_info(s.id))).status.state == wanted
        return await until(wanted, reached)
    await go(s.pause())
    await state("Paused")
    paused = await go(manager.list_sandbox_infos(SandboxFilter(states=["Paused"], metadata={"suite": "paused-" + FLAVOUR})))
    assert [i.id for i in paused.sandbox_infos] == [s.id]
    again = await go(Sandbox.resume(s.id, connection_config=config(), resume_timeout=timedelta(seconds=60)))
    assert text((await go(again.commands.run("echo back"))).logs.stdout) == "back"
    await go(manager.pause_sandbox(s.id))
    await state("Paused")
    await go(manager.resume_sandbox(s.id))
    await state("Running")
    await go(manager.kill_sandbox(s.id))
    for client in (s, again):
        await go(client.close())
    other = await create()
    await go(other.kill())
    await go(other.close())
    with pytest.raises(SandboxApiException) as e:
        await go(manager.get_sandbox_info(other.id))
    assert e.value.status_code == 404


@story
async def test_expiry(manager):
    s = await create(timeout=None)
    assert (await go(s.get_info())).expires_at is None, "manual cleanup"
    await go(s.destroy())
    s = await create(timeout=timedelta(minutes=10))
    await go(s.renew(timedelta(seconds=1)))

    async def gone():
        try:
            return (await go(manager.get_sandbox_info(s.id))).status.state == "Terminated"
        except SandboxApiException as e:
            return e.status_code == 404
    await until("its end", gone)
    await go(s.close())


@story
async def test_snapshot(manager):
    s = await create()
    await go(s.files.write_file("/root/kept", "kept"))
    made = [await go(s.create_snapshot(FLAVOUR + "-one")), await go(manager.create_snapshot(s.id, FLAVOUR + "-two"))]
    for snap in made:
        async def ready(snap=snap):
            return (await go(manager.get_snapshot(snap.id))).status.state == "Ready"
        await until("Ready", ready)
    listed = (await go(manager.list_snapshots(SnapshotFilter(sandbox_id=s.id)))).snapshot_infos
    assert {x.id for x in listed} == {x.id for x in made}
    named = (await go(manager.list_snapshots(SnapshotFilter(name=FLAVOUR + "-two")))).snapshot_infos
    assert [x.id for x in named] == [made[1].id]
    await go(s.destroy())
    again = await create(snapshot_id=made[0].id)
    assert await go(again.files.read_file("/root/kept")) == "kept"
    assert (await go(again.get_info())).snapshot_id == made[0].id
    await go(again.destroy())
    for snap in made:
        await go(manager.delete_snapshot(snap.id))
    with pytest.raises(SandboxApiException):
        await go(manager.get_snapshot(made[0].id))


@story
async def test_volume():
    name = "vol-" + FLAVOUR
    volume = Volume(name="data", pvc=PVC(claim_name=name, create_if_not_exists=True, delete_on_sandbox_termination=True), mount_path="/data")
    one = await create(volumes=[volume])
    assert (await go(one.commands.run("echo x > /data/f"))).exit_code == 0
    two = await create(volumes=[Volume(name="data", pvc=PVC(claim_name=name), mount_path="/mnt", read_only=True)])
    assert text((await go(two.commands.run("cat /mnt/f; touch /mnt/g || echo refused"))).logs.stdout) == "x\nrefused"
    await go(two.destroy())
    await go(one.destroy())


@story
async def test_egress_and_vault():
    policy = NetworkPolicy(default_action="deny", egress=[NetworkRule(action="allow", target="one.example.com")])
    s = await create(network_policy=policy, credential_proxy=CredentialProxyConfig(enabled=True))
    await go(s.patch_egress_rules([NetworkRule(action="allow", target="two.example.com")]))
    got = await go(s.get_egress_policy())
    assert got.default_action == "deny" and {r.target for r in got.egress} >= {"one.example.com", "two.example.com"}
    await go(s.delete_egress_rules(["one.example.com", "never.example.com"]))
    assert "one.example.com" not in {r.target for r in (await go(s.get_egress_policy())).egress}
    v = s.credential_vault
    binding = {"name": "web", "match": {"hosts": ["two.example.com"], "schemes": ["https"]}, "auth": {"type": "bearer", "credential": "token"}}
    state = await go(v.create(credentials=[{"name": "token", "source": {"type": "inline", "value": "s3cret"}}], bindings=[binding]))
    assert state.revision == 1 and "s3cret" not in state.model_dump_json()
    assert (await go(v.get())).bindings[0].name == "web"
    state = await go(v.patch(expected_revision=1, credentials={"add": [{"name": "other", "source": {"type": "inline", "value": "x"}}]}))
    assert state.revision == 2
    with pytest.raises(SandboxApiException) as e:
        await go(v.patch(expected_revision=1, credentials={"delete": ["other"]}))
    assert e.value.status_code == 409
    assert {c.name for c in await go(v.list_credentials())} == {"token", "other"}
    assert (await go(v.get_credential("token"))).source_type == "inline"
    assert [b.name for b in await go(v.list_bindings())] == ["web"]
    assert (await go(v.get_binding("web"))).auth.type == "bearer"
    await go(v.delete())
    with pytest.raises(SandboxApiException):
        await go(v.get())
    await go(s.destroy())


async def pool_story(store):
    name = f"conf-{uuid.uuid4().hex}"
    spec = PoolCreationSpec(image=IMAGE, resource=LIMITS, metadata={"pool": name})
    pool = SandboxPool(pool_name=name, max_idle=2, state_store=store, connection_config=config(), creation_spec=spec,
                       idle_timeout=timedelta(minutes=10), acquire_ready_timeout=timedelta(seconds=60))
    with pytest.raises(PoolNotRunningException):
        await go(pool.acquire())

    async def idle(n):
        async def reached():
            return (await go(pool.snapshot())).idle_count == n
        await until(f"{n} idle", reached)
    await go(pool.start())
    await idle(2)
    assert len(await go(pool.snapshot_idle_entries())) == 2
    s = await go(pool.acquire(sandbox_timeout=timedelta(minutes=5), policy=AcquirePolicy.FAIL_FAST))
    assert text((await go(s.commands.run("echo pooled"))).logs.stdout) == "pooled"
    await go(s.destroy())
    await go(pool.resize(0))
    await go(pool.release_all_idle())
    await go(pool.release_all_idle_parallel())
    await idle(0)
    with pytest.raises(PoolEmptyException):
        await go(pool.acquire(policy=AcquirePolicy.FAIL_FAST))
    s = await go(pool.acquire(policy=AcquirePolicy.DIRECT_CREATE))
    await go(s.destroy())
    await go(pool.resize(1))
    await idle(1)
    await go(pool.shutdown())
    gone = await go(SandboxPoolManager(state_store=store, connection_config=config()).destroy(name))
    assert gone.state == PoolDestroyState.DESTROYED and gone.killed_idle_count == 1
    with pytest.raises(PoolDestroyedException):
        await go(pool.start())


async def store_story(store):
    """What a pool does not ask of its store by itself."""
    pool, minute, shared = f"alone-{uuid.uuid4().hex}", timedelta(minutes=1), isinstance(store, RedisStore)
    await go(store.set_max_idle(pool, 3))
    assert await go(store.get_max_idle(pool)) == (3 if shared else None)
    await go(store.set_idle_entry_ttl(pool, minute))
    assert await go(store.try_acquire_primary_lock(pool, "me", minute))
    assert shared is not await go(store.try_acquire_primary_lock(pool, "you", minute)), "in memory there is nobody else"
    assert await go(store.renew_primary_lock(pool, "me", minute))
    for id in ("a", "b", "c"):
        await go(store.put_idle(pool, id))
    assert await go(store.try_take_idle(pool)) == "a"
    await go(store.remove_idle(pool, "b"))
    assert (await go(store.snapshot_counters(pool))).idle_count == 1
    assert [e.sandbox_id for e in await go(store.snapshot_idle_entries(pool))] == ["c"]
    assert (await go(store.try_take_idle_min_ttl(pool, timedelta(seconds=1)))).sandbox_id == "c"
    now = datetime.now(timezone.utc)
    await go(store.reap_expired_idle(pool, now))
    await go(store.reap_expired_idle_min_ttl(pool, now, timedelta(seconds=1)))
    await go(store.release_primary_lock(pool, "me"))
    assert await go(store.get_destroy_state(pool)) == PoolDestroyState.ACTIVE
    await go(store.begin_destroy(pool, "me"))
    await go(store.clear_pool_state(pool))
    await go(store.mark_destroyed(pool, "me", minute))
    assert await go(store.get_destroy_state(pool)) == PoolDestroyState.DESTROYED


@story
async def test_pool_in_memory():
    await pool_story(MemoryStore())
    await store_story(MemoryStore())


@story
async def test_pool_in_redis():
    client = Redis(host="127.0.0.1", port=int(os.environ["OSB_REDIS_PORT"]), decode_responses=True)
    await pool_story(RedisStore(client))
    await store_story(RedisStore(client))
    await go(getattr(client, "aclose", client.close)())


@story
async def test_many_at_once():
    if FLAVOUR == "async":
        made = await asyncio.gather(*[create() for _ in range(5)])
        said = await asyncio.gather(*[s.commands.run("echo hi") for s in made])
        await asyncio.gather(*[s.destroy() for s in made])
    else:
        import concurrent.futures
        with concurrent.futures.ThreadPoolExecutor(5) as threads:
            made = list(threads.map(lambda _: Sandbox.create(IMAGE, connection_config=config(), resource=LIMITS), range(5)))
            said = list(threads.map(lambda s: s.commands.run("echo hi"), made))
            list(threads.map(lambda s: s.destroy(), made))
    assert [text(e.logs.stdout) for e in said] == ["hi"] * 5


@story
async def test_errors(manager):
    assert manager.connection_config.get_domain()
    with pytest.raises(SandboxApiException) as e:
        await go(manager.get_sandbox_info("no-such-sandbox"))
    assert e.value.status_code == 404 and e.value.request_id and e.value.error.code
    named = await go(SandboxManager.create(connection_config=config(headers={"X-Request-ID": "mine-123"})))
    with pytest.raises(SandboxApiException) as e:
        await go(named.get_sandbox_info("no-such-sandbox"))
    assert e.value.request_id == "mine-123"
    await go(named.close())
    wrong = await go(SandboxManager.create(connection_config=config(key="wrong")))
    with pytest.raises(SandboxApiException) as e:
        await go(wrong.list_sandbox_infos(SandboxFilter()))
    assert e.value.status_code == 401
    await go(wrong.close())
    with pytest.raises(SandboxApiException) as e:
        await create(resource={"cpu": "plenty"})
    assert e.value.status_code == 400


@story
async def test_not_offered(sandbox, manager):
    """Golden images, sessions in namespaces inside a sandbox, and signed routes outside Kubernetes: refused, and it is said."""
    with refused():
        await go(manager.create_template(CreateTemplateRequest(image=IMAGE, publish="s3://bucket/x")))
    with refused():
        await go(manager.get_template("tpl_1"))
    with refused():
        await go(manager.list_templates(TemplateFilter()))
    with refused():
        await go(manager.delete_template("tpl_1"))
    with pytest.raises(SandboxApiException):
        await go(Sandbox.create_from_template("tpl_1", timeout=timedelta(minutes=1), connection_config=config()))
    with pytest.raises(SandboxApiException):
        await go(sandbox.get_signed_endpoint(8000, int(time.time()) + 60))
    with pytest.raises(SandboxApiException):
        await go(sandbox.isolation.capabilities())
    with pytest.raises(SandboxApiException):
        await go(sandbox.isolation.list())
    with pytest.raises(SandboxApiException):
        await go(sandbox.isolation.attach("none"))
    request = CreateIsolatedSessionRequest(workspace=IsolatedWorkspaceSpec(path="/tmp"))
    with pytest.raises(SandboxApiException):
        await go(sandbox.isolation.create(request))
    with pytest.raises(SandboxApiException):
        await go(sandbox.isolation.run_once("true", workspace="/tmp"))
    with pytest.raises(SandboxApiException):
        session = sandbox.isolation.session(request)
        if FLAVOUR == "async":
            async with session:
                pass
        else:
            with session:
                pass
    with pytest.raises(SandboxApiException):
        await go(sandbox.files_with_identity(1234, 1234).read_file("/etc/hostname"))
