"""One story for both halves of the Python SDK: tests are written as for the asynchronous one, and go() lets what is
synchronous pass as it is."""

import asyncio
import functools
import inspect
import os
import time
from datetime import timedelta

FLAVOUR = os.environ["OSB_CLIENT"]
IMAGE = os.environ.get("OSB_IMAGE", "host")
LIMITS = {"cpu": "1", "memory": "256Mi"}
LOOP = asyncio.new_event_loop()  # one for all tests: a client belongs to the loop that it was made on

if FLAVOUR == "async":
    from code_interpreter import CodeInterpreter
    from opensandbox import InMemoryAsyncPoolStateStore as MemoryStore
    from opensandbox import Sandbox, SandboxManager
    from opensandbox import SandboxPoolAsync as SandboxPool
    from opensandbox import SandboxPoolManagerAsync as SandboxPoolManager
    from opensandbox.config import ConnectionConfig
    from opensandbox.models.execd import ExecutionHandlers
    from opensandbox.pool_redis import AsyncRedisPoolStateStore as RedisStore
    from redis.asyncio import Redis
else:
    from code_interpreter import CodeInterpreterSync as CodeInterpreter
    from opensandbox import InMemoryPoolStateStore as MemoryStore
    from opensandbox import SandboxManagerSync as SandboxManager
    from opensandbox import SandboxPoolManagerSync as SandboxPoolManager
    from opensandbox import SandboxPoolSync as SandboxPool
    from opensandbox import SandboxSync as Sandbox
    from opensandbox.config.connection_sync import ConnectionConfigSync as ConnectionConfig
    from opensandbox.models.execd_sync import ExecutionHandlersSync as ExecutionHandlers
    from opensandbox.pool_redis import RedisPoolStateStore as RedisStore
    from redis import Redis

__all__ = ["CodeInterpreter", "ConnectionConfig", "ExecutionHandlers", "FLAVOUR", "IMAGE", "LIMITS", "MemoryStore", "Redis", "RedisStore",
           "Sandbox", "SandboxManager", "SandboxPool", "SandboxPoolManager", "chunks", "config", "create", "go", "handler", "run", "story", "text", "until"]


async def go(what):
    return await what if inspect.isawaitable(what) else what


def run(coroutine):
    return LOOP.run_until_complete(coroutine)


def story(fn):
    """A test that is a coroutine."""
    @functools.wraps(fn)
    def test(*args, **kw):
        run(fn(*args, **kw))
    return test


def handler(fn):
    """A callback in the form that this half of the SDK wants."""
    async def asynchronous(event):
        fn(event)
    return asynchronous if FLAVOUR == "async" else fn


async def chunks(stream):
    stream = await go(stream)
    return [c async for c in stream] if hasattr(stream, "__aiter__") else list(stream)


def config(proxy=False, key=None, **more):
    return ConnectionConfig(domain=os.environ["OSB_DOMAIN"], api_key=key or os.environ["OSB_KEY"], use_server_proxy=proxy,
                            request_timeout=timedelta(seconds=120), disable_metrics=True, **more)


async def create(image=IMAGE, connection=None, **more):
    given = {"resource": LIMITS, "ready_timeout": timedelta(seconds=120), **more}
    args = [] if "snapshot_id" in given else [image]
    return await go(Sandbox.create(*args, connection_config=connection or config(), **given))


def text(messages):
    return "\n".join(m.text.rstrip("\n") for m in messages)


async def until(what, fn, seconds=120):
    """Polls `fn` (which may be a coroutine) for what sends no event."""
    end = time.monotonic() + seconds
    while not (value := await go(fn())):
        assert time.monotonic() < end, what
        await asyncio.sleep(0.05)
    return value
