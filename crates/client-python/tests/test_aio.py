"""The asyncio API on a real cluster."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from typing import Any, Awaitable, Callable, Coroutine

import holdfast
import pytest
from conftest import Cluster
from holdfast import aio


def on_cluster(cluster: Cluster, body: Callable[[aio.Client, str], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def run() -> None:
        async with aio.Client(cluster.addresses, **{"ttl": 15, **options}) as hf:
            await body(hf, f"aio/{uuid.uuid4()}")

    asyncio.run(run())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(500):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the condition did not become true")


def test_the_body_of_a_lost_lock_is_cancelled(cluster: Cluster) -> None:
    async def body(hf: aio.Client, name: str) -> None:
        began = time.monotonic()
        with pytest.raises(holdfast.Lost) as lost:
            async with hf.lock(name):
                await hf.force_release(name, "test")
                await asyncio.sleep(30)
        assert time.monotonic() - began < 20
        assert lost.value.cause == "force-released"
        assert isinstance(lost.value.__cause__, asyncio.CancelledError)
        if sys.version_info >= (3, 11):
            task = asyncio.current_task()
            assert task and task.cancelling() == 0
        await asyncio.sleep(0)

    on_cluster(cluster, body)


def test_a_cancellation_by_others_wins(cluster: Cluster) -> None:
    async def body(hf: aio.Client, name: str) -> None:
        inside = asyncio.Event()

        async def work() -> None:
            async with hf.lock(name):
                inside.set()
                await asyncio.sleep(30)

        task = asyncio.ensure_future(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with hf.lock(name, wait=0):
            pass

    on_cluster(cluster, body)


def test_a_blocked_loop_neither_stops_renewals_nor_hides_the_loss(cluster: Cluster) -> None:
    async def body(hf: aio.Client, name: str) -> None:
        async with hf.lock(name) as guard:
            time.sleep(8)
            guard.ensure()
        guard = await hf.lock(name).acquire()
        releasing = asyncio.ensure_future(hf.force_release(name, "test"))
        await asyncio.sleep(0.01)
        time.sleep(3)
        with pytest.raises(holdfast.Lost):
            guard.ensure()
        await releasing
        assert await asyncio.wait_for(guard.lost.wait(), 1) == holdfast.Loss("force-released", "test")

    on_cluster(cluster, body, ttl=6)


def test_a_cancelled_acquire_leaves_the_queue(cluster: Cluster) -> None:
    async def body(hf: aio.Client, name: str) -> None:
        async with hf.lock(name):
            waiting = asyncio.ensure_future(hf.lock(name).acquire())

            async def is_queued() -> bool:
                return bool((await hf.lock_state(name))["waiters"])

            async def is_gone() -> bool:
                return not await is_queued()

            await until(is_queued)
            waiting.cancel()
            await until(is_gone)
        for _ in range(20):
            acquiring = asyncio.ensure_future(hf.lock(name).acquire())
            await asyncio.sleep(0.005)
            acquiring.cancel()
            try:
                await (await acquiring).release()
            except asyncio.CancelledError:
                pass
        async with hf.lock(name, wait=5):
            pass

    on_cluster(cluster, body)


def test_wait_for_bounds_an_acquire(cluster: Cluster) -> None:
    async def body(hf: aio.Client, name: str) -> None:
        async with hf.lock(name):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(hf.lock(name).acquire(), 0.3)

    on_cluster(cluster, body)


def test_many_tasks_share_one_session(cluster: Cluster) -> None:
    async def body(hf: aio.Client, name: str) -> None:
        inside, most, sessions = 0, 0, set()

        async def work() -> None:
            nonlocal inside, most
            async with hf.semaphore(name, 3, wait=60) as guard:
                inside += 1
                most = max(most, inside)
                sessions.add(guard.session)
                await asyncio.sleep(0.01)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(12)))
        assert most <= 3 and len(sessions) == 1

    on_cluster(cluster, body)


def test_elections_barriers_and_watches(cluster: Cluster) -> None:
    async def body(hf: aio.Client, name: str) -> None:
        seen = []

        async def follow() -> None:
            async for change in hf.election(name).observe():
                seen.append(change.value if isinstance(change, holdfast.Leader) else change)

        following = asyncio.ensure_future(follow())

        async def has_seen(count: int) -> bool:
            return len(seen) >= count

        await until(lambda: has_seen(1))
        async with await hf.election(name).campaign("a"):
            await until(lambda: has_seen(2))
        await until(lambda: has_seen(3))
        following.cancel()
        assert seen == [None, "a", None]
        parties = [hf.double_barrier(name, 2) for _ in range(2)]
        tripped = await asyncio.gather(*(party.enter(20) for party in parties))
        assert {one.index for one in tripped} == {0, 1}
        await asyncio.gather(*(party.leave(20) for party in parties))
        latch = hf.latch(name)
        await latch.create(1)
        waiting = asyncio.ensure_future(latch.wait(20))
        await latch.count_down("x")
        await waiting
        watch = hf.watch(f"/{name}")
        await watch.start()
        await hf.tree_put(name, "x", parents=True)
        async for change in watch:
            assert isinstance(change, holdfast.Change) and change.path == f"/{name}"
            break

    on_cluster(cluster, body)
