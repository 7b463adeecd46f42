"""How a case is written, run and told.

A case is a coroutine that is registered for one operation of ../operations.txt. It returns None when the SDK did what
the wire protocol says, a sentence when the SDK itself deviates (and the case has asserted just that), or what `absent`
and `not_run` return. Anything raised is a failure.

Cases are written once for both halves of the SDK: `t.do(f, ...)` awaits a call of the asynchronous client and runs one
of the synchronous client in a thread.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import io
import json
import os
import queue
import sys
import time
import traceback
from dataclasses import dataclass

import sprites.loop

import sprites

CASES: dict[str, object] = {}
SLOW: set[str] = set()


def operation(name: str, beside: bool = False):
    """Register a case. One that is `beside` runs beside all others from the start."""

    def register(case):
        assert name not in CASES, f"two cases for {name!r}"
        CASES[name] = case
        if beside:
            SLOW.add(name)
        return case

    return register


@dataclass(frozen=True)
class Absent:
    """The SDK has no such operation."""

    member: str


@dataclass(frozen=True)
class NotRun:
    """The operation cannot be run here, for a reason."""

    reason: str


def absent(*members: tuple[object, str]) -> Absent:
    """Say that the SDK has no such operation, and see that it is so."""
    for owner, member in members:
        assert not hasattr(owner, member), f"{owner.__name__}.{member} is there: write its case"
    return Absent(", ".join(f"{owner.__name__}.{member}" for owner, member in members))


def not_run(reason: str) -> NotRun:
    return NotRun(reason)


def equal(got, wanted, what: str = "") -> None:
    if got != wanted:
        raise AssertionError(f"{what + ': ' if what else ''}got {shortened(got)}, wanted {shortened(wanted)}")


def shortened(value) -> str:
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:400]} … {text[-150:]} ({len(text)} characters)"


def true(value, what: str) -> None:
    if not value:
        raise AssertionError(f"{what}: {shortened(value)}")


class Input:
    """A readable that gives what is fed when it is fed, and ends when told."""

    def __init__(self):
        self._chunks: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def feed(self, data: bytes) -> None:
        self._chunks.put(data)

    def end(self) -> None:
        self._chunks.put(b"")

    def read(self, _size: int) -> bytes:
        return self._chunks.get(timeout=60)


class Sink(io.BytesIO):
    """A writable whose content can be waited for."""

    async def until(self, wanted: bytes) -> bytes:
        return await eventually(
            lambda: wanted in self.getvalue() and self.getvalue(), f"{wanted!r} in the output", self
        )

    def __repr__(self) -> str:
        return repr(self.getvalue())


async def eventually(condition, what: str, shown: object = "", seconds: float = 30):
    """Poll until `condition` gives something true; it may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what} {shown!r}")
        await asyncio.sleep(0.02)


class Suite:
    """What cases get: clients of one half of the SDK, a running Sprite, and the helpers above."""

    def __init__(self, half: str):
        self.half = half
        self.sync = half == "sync"
        self.token = os.environ["SPRITESD_TOKEN"]
        self.url = os.environ["SPRITESD_URL"]
        self.rate_url = os.environ["SPRITESD_RATE_URL"]
        self.busy_url = os.environ["SPRITESD_BUSY_URL"]
        self.many = os.environ["SPRITESD_MANY"]
        self.prefix = os.environ["SPRITESD_PREFIX"]
        self.Client = sprites.SpritesClient if self.sync else sprites.AsyncSpritesClient
        self.Sprite = sprites.Sprite if self.sync else sprites.AsyncSprite
        self._clients: list[object] = []
        self._boxes = collections.defaultdict(asyncio.Lock)
        self._made: dict[str, object] = {}
        self.client = self.connect()

    def connect(self, token: str | None = None, url: str | None = None, **options):
        client = self.Client(self.token if token is None else token, base_url=url or self.url, **options)
        self._clients.append(client)
        return client

    def name(self, tag: str) -> str:
        return f"{self.prefix}-{tag}"

    async def box(self, tag: str = "box"):
        """The Sprite of that tag, made at its first use."""
        async with self._boxes[tag]:
            if tag not in self._made:
                self._made[tag] = await self.do(self.client.create_sprite, self.name(tag))
            return self._made[tag]

    async def do(self, call, *args, **options):
        if self.sync:
            return await asyncio.to_thread(call, *args, **options)
        return await call(*args, **options)

    async def coroutine(self, coroutine):
        """Await what is a coroutine in both halves, on the loop where the SDK lives."""
        if self.sync:
            return await asyncio.to_thread(sprites.loop.run_sync, coroutine)
        return await coroutine

    async def outside(self, call):
        """A plain function that looks for a running loop: called where users of that half call it."""
        return await asyncio.to_thread(call) if self.sync else call()

    def start(self, call, *args, **options) -> asyncio.Task:
        return asyncio.create_task(self.do(call, *args, **options))

    async def items(self, iterable) -> list:
        if self.sync:
            return await asyncio.to_thread(list, iterable)
        return [item async for item in iterable]

    async def raises(self, kind, call, *args, **options):
        """The exception of exactly that type which the call raises."""
        try:
            got = await self.do(call, *args, **options)
        except Exception as error:
            if type(error) is not kind:
                raise AssertionError(f"wanted {kind.__name__}, got {type(error).__name__}: {error}") from error
            return error
        raise AssertionError(f"wanted {kind.__name__}, got {shortened(got)}")

    async def close(self) -> None:
        for client in self._clients:
            await self.do(client.close if self.sync else client.aclose)


async def run_case(suite: Suite, name: str, tell) -> None:
    start = time.monotonic()
    try:
        result = await asyncio.wait_for(CASES[name](suite), timeout=100)
    except Exception:
        tell(name, "fail", traceback.format_exc(limit=-6), start)
        return
    if result is None:
        tell(name, "pass", "", start)
    elif isinstance(result, Absent):
        tell(name, "absent", result.member, start)
    elif isinstance(result, NotRun):
        tell(name, "not run", result.reason, start)
    else:
        tell(name, "deviation", result, start)


async def run_all(suite: Suite, last: str, only: list[str]) -> None:
    """Run every case; `last` after all others. One JSON object a line tells each result."""

    def tell(name: str, result: str, detail: str, start: float) -> None:
        line = {"operation": name, "result": result, "detail": detail, "seconds": round(time.monotonic() - start, 2)}
        print(json.dumps(line), flush=True)

    chosen = [name for name in CASES if not only or any(part in name for part in only)]
    beside = [asyncio.create_task(run_case(suite, name, tell)) for name in chosen if name in SLOW]
    for name in chosen:
        if name not in SLOW and name != last:
            await run_case(suite, name, tell)
    await asyncio.gather(*beside)
    if last in chosen and not only:
        await run_case(suite, last, tell)


class Trace:
    """Which functions of the SDK were called: seen by Python's profiling hook, so that the SDK stays as it is."""

    def __init__(self):
        self.called: set[object] = set()
        self.folder = os.path.dirname(sprites.__file__) + os.sep

    def start(self) -> None:
        import threading

        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def _see(self, frame, event, _argument) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self.folder):
            self.called.add(frame.f_code)


def code_of(member):
    """The code object behind a function, method, property, static or class method; else None."""
    if isinstance(member, property):
        member = member.fget
    if isinstance(member, functools.cached_property):
        member = member.func
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    return getattr(member, "__code__", None)
