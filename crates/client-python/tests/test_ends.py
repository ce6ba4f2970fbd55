"""Calls that end early or late: what they leave in the cluster, and in the client. Without a cluster."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import AsyncIterator, List, Optional, Tuple, Union

import pytest
from fake import Answer, Fake, grant, on_engine, opened, request
from holdfast import _mode
from holdfast._calls import Call
from holdfast._core import Core, Options
from holdfast._entry import Stage
from holdfast._guard import EnteredGuards
from holdfast._tree import Gap, Leader, Observer
from holdfast.errors import Lost
from holdfast.metrics import Metrics


class TestModeChange:
    def test_a_cancelled_upgrade_keeps_its_turn_until_the_mode_is_restored(self) -> None:
        async def run() -> Tuple[List[str], str, int]:
            is_upgrade_sent = asyncio.Event()

            def answer(call: Call) -> Optional[Answer]:
                if "change=" not in call.target:
                    return opened(call)
                if "mode=exclusive" not in call.target:
                    return 200, grant(5, mode="upgradable")
                if not is_upgrade_sent.is_set():
                    is_upgrade_sent.set()
                    return None
                return 200, grant(6)

            fake = Fake(answer)
            held = await fake.core.acquire(request(mode="upgradable"))
            first = asyncio.ensure_future(_mode.upgrade(held.holds[0], 5.0))
            await is_upgrade_sent.wait()
            second = asyncio.ensure_future(_mode.upgrade(held.holds[0], 5.0))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait({first})
            await second
            await held.session.settled()
            changes = [call.target.split("&mode=")[1].split("&")[0] for call in fake.calls.sent if "change=" in call.target]
            grant_now = held.holds[0].grant
            await held.release()
            return changes, grant_now.mode, grant_now.token

        assert on_engine(run) == (["exclusive", "upgradable", "exclusive"], "exclusive", 6)

    def test_a_late_answer_does_not_restore_a_released_hold(self) -> None:
        async def run() -> Stage:
            def answer(call: Call) -> Optional[Answer]:
                if "change=" in call.target:
                    held.release_in_background()
                    return 200, grant(6)
                return None if len(fake.calls.targets("DELETE")) == 1 else opened(call)

            fake = Fake(answer)
            held = await fake.core.acquire(request(mode="upgradable"))
            with pytest.raises(Lost):
                await _mode.upgrade(held.holds[0], 5.0)
            stage = held.holds[0].entry.stage
            await held.session.settled()
            return stage

        assert on_engine(run) is Stage.LEAVING


class TestEnteredGuards:
    def test_a_body_may_end_under_another_caller(self) -> None:
        entered: EnteredGuards[str] = EnteredGuards()
        for caller, guard in ((1, "a"), (2, "b"), (1, "c"), (2, "d")):
            entered.add(caller, guard)
        assert [entered.take(caller) for caller in (1, 3, 1, 1)] == ["c", "d", "a", "b"]
        assert vars(entered)["_entered"] == []


class Node:
    """A node whose streams of events a test writes."""

    def __init__(self, port: int, accepted: "asyncio.Queue[asyncio.StreamWriter]") -> None:
        options = Options((("http", "127.0.0.1", port),), None, "t", None, {}, 10.0, None, None, Metrics())
        self.core, self.accepted = Core(options), accepted


@asynccontextmanager
async def node() -> AsyncIterator[Node]:
    accepted: "asyncio.Queue[asyncio.StreamWriter]" = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await accepted.put(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield Node(server.sockets[0].getsockname()[1], accepted)
    server.close()


class TestObserver:
    def test_a_cancelled_read_loses_neither_the_stream_nor_its_bytes(self) -> None:
        async def run() -> Tuple[Union[Leader, Gap, None], int]:
            async with node() as served:
                observer = Observer("e")

                async def poll() -> "asyncio.Task[Union[Leader, Gap, None]]":
                    call = asyncio.ensure_future(observer.next(served.core))
                    await asyncio.sleep(0)
                    call.cancel()
                    await asyncio.wait({call})
                    return call

                assert (await poll()).cancelled()
                stream = await served.accepted.get()
                event = b'id: 7\nevent: leader\ndata: {"leader": {"session": "s", "token": 4}}\n\n'
                head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n" % len(event)
                for part in (head, event[:9], event[9:40]):
                    stream.write(part)
                    await stream.drain()
                    assert (await poll()).cancelled()
                stream.write(event[40:] + b"\r\n")
                change = await observer.next(served.core)
                await observer.end(served.core)
                stream.close()
                return change, served.accepted.qsize()

        assert on_engine(run) == (Leader("s", 4, ""), 0)
