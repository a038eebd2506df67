"""Counts what the published SDK's public methods did: every one of them is wrapped before the tests begin, so that "every
method" is a checked claim. $OSB_CLIENT says which half of the SDK is meant (sync or async), $OSB_RECORD where the counts go."""

import importlib
import inspect
import json
import os

FLAVOUR = os.environ["OSB_CLIENT"]
# A label, what a user sees of it (a class or a protocol), and the class that does it.
SDK = {
    "async": [
        ("Sandbox", "sandbox:Sandbox", None), ("SandboxManager", "manager:SandboxManager", None),
        ("SandboxPoolAsync", "pool_async:SandboxPoolAsync", None),
        ("SandboxPoolManagerAsync", "pool_manager:SandboxPoolManagerAsync", None),
        ("InMemoryAsyncPoolStateStore", "_async_pool_store:InMemoryAsyncPoolStateStore", None),
        ("AsyncRedisPoolStateStore", "async_redis_pool_store:AsyncRedisPoolStateStore", None),
        ("Commands", "services.command:Commands", "adapters.command_adapter:CommandsAdapter"),
        ("Filesystem", "services.filesystem:Filesystem", "adapters.filesystem_adapter:FilesystemAdapter"),
        ("Egress", "services.egress:Egress", "adapters.egress_adapter:EgressAdapter"),
        ("Metrics", "services.metrics:Metrics", "adapters.metrics_adapter:MetricsAdapter"),
        ("Diagnostics", "services.diagnostics:Diagnostics", "adapters.diagnostics_adapter:DiagnosticsAdapter"),
        ("IsolationService", "services.isolated:IsolationService", "adapters.isolated_adapter:IsolatedSessionsAdapter"),
        ("IsolationSession", "services.isolated:IsolationSession", "adapters.isolated_adapter:IsolationSessionHandle"),
    ],
    "sync": [
        ("SandboxSync", "sync.sandbox:SandboxSync", None), ("SandboxManagerSync", "sync.manager:SandboxManagerSync", None),
        ("SandboxPoolSync", "sync.pool:SandboxPoolSync", None),
        ("SandboxPoolManagerSync", "pool_manager:SandboxPoolManagerSync", None),
        ("InMemoryPoolStateStore", "_pool_store:InMemoryPoolStateStore", None),
        ("RedisPoolStateStore", "redis_pool_store:RedisPoolStateStore", None),
        ("CommandsSync", "sync.services.command:CommandsSync", "sync.adapters.command_adapter:CommandsAdapterSync"),
        ("FilesystemSync", "sync.services.filesystem:FilesystemSync", "sync.adapters.filesystem_adapter:FilesystemAdapterSync"),
        ("EgressSync", "sync.services.egress:EgressSync", "sync.adapters.egress_adapter:EgressAdapterSync"),
        ("MetricsSync", "sync.services.metrics:MetricsSync", "sync.adapters.metrics_adapter:MetricsAdapterSync"),
        ("DiagnosticsSync", "sync.services.diagnostics:DiagnosticsSync", "sync.adapters.diagnostics_adapter:DiagnosticsAdapterSync"),
        ("IsolationServiceSync", "sync.services.isolated:IsolationServiceSync", "sync.adapters.isolated_adapter:IsolatedSessionsAdapterSync"),
        ("IsolationSessionSync", "sync.services.isolated:IsolationSessionSync", "sync.adapters.isolated_adapter:IsolationSessionHandleSync"),
    ],
}
CODE = {
    "async": [("CodeInterpreter", "code_interpreter:CodeInterpreter", None), ("Codes", "services.code:Codes", "adapters.code_adapter:CodesAdapter")],
    "sync": [("CodeInterpreterSync", "sync.code_interpreter:CodeInterpreterSync", None),
             ("CodesSync", "sync.services.code:CodesSync", "sync.adapters.code_adapter:CodesAdapterSync")],
}
TOP = {"opensandbox": SDK[FLAVOUR], "code_interpreter": CODE[FLAVOUR]}
inventory, worked, refused = {}, {}, {}


def load(package, what):
    module, name = what.split(":")
    return getattr(importlib.import_module(f"{package}.{module}"), name)


def public(cls):
    """Methods and properties that a user may name."""
    for name in dir(cls):
        static = inspect.getattr_static(cls, name)
        if not name.startswith("_") and (callable(getattr(cls, name)) or isinstance(static, property)):
            yield name, static


def failed(package, label, error):
    if (status := getattr(error, "status_code", None)) is not None:
        refused[package][label] = status


def counting(package, label, fn):
    """Counted as done when it returns, as refused while it only raises."""
    def wrapper(*args, **kw):
        try:
            got = fn(*args, **kw)
        except Exception as e:
            failed(package, label, e)
            raise
        if inspect.iscoroutine(got):
            return later(got)
        worked[package].add(label)
        return got

    async def later(coroutine):
        try:
            got = await coroutine
        except Exception as e:
            failed(package, label, e)
            raise
        worked[package].add(label)
        return got
    return wrapper


def instrument(package, label, seen, doer):
    names = {name for name, _ in public(seen)}
    inventory[package] |= {f"{label}.{n}" for n in names}
    for name, static in list(public(doer)):
        if name not in names:
            continue
        full = f"{label}.{name}"
        if isinstance(static, property):
            wrapped = property(counting(package, full, static.fget))
        elif isinstance(static, classmethod):
            wrapped = classmethod(counting(package, full, static.__func__))
        elif inspect.isfunction(static):
            wrapped = counting(package, full, static)
        else:
            continue
        setattr(doer, name, wrapped)


def pytest_configure(config):
    for package, rows in TOP.items():
        inventory[package], worked[package], refused[package] = set(), set(), {}
        for label, seen, doer in rows:
            seen = load(package, seen)
            instrument(package, label, seen, load(package, doer) if doer else seen)


def pytest_sessionfinish(session, exitstatus):
    if path := os.environ.get("OSB_RECORD"):
        with open(path, "w") as f:
            json.dump({p: {"methods": sorted(inventory[p]), "worked": sorted(worked[p]),
                           "refused": {k: v for k, v in refused[p].items() if k not in worked[p]}} for p in TOP}, f)
