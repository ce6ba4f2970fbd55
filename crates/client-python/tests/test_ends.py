"""Calls that end early or late: what they leave in the cluster, and in the client. Without a cluster."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, AsyncIterator, List, Optional, Tuple, Union

import pytest
from fake import PAGE, Answer, Fake, grant, on_engine, opened, request
from holdfast import Client, _groups, _mode, _recipes
from holdfast._calls import Call
from holdfast._core import Core, Options
from holdfast._entry import Stage
from holdfast._events import SessionPoll
from holdfast._guard import EnteredGuards
from holdfast._http import Node as HttpNode
from holdfast._http import SendError
from holdfast._lease import RETRY_PAUSE
from holdfast._request import LockRequest
from holdfast._tree import Gap, Leader, Observer
from holdfast._within import within
from holdfast.errors import Loss, Lost, Rejected, Unavailable, UnexpectedResponse
from holdfast.metrics import Metrics
from node import PAGES
from node import Node as FakeNode


FORBIDDEN: Answer = (403, {"code": "forbidden", "title": "no"})


class TestRelease:
    def test_one_in_flight_at_the_close_that_another_server_answers_is_repeated_at_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("holdfast._session.retry_pause", lambda _: 60.0)

        async def run() -> int:
            fake = Fake(opened, "nightly")
            held = await fake.core.acquire(request())

            def answer(call: Call) -> Answer:
                # The client closes while the release is in flight.
                closing.append(asyncio.ensure_future(fake.core.close()))
                object.__setattr__(fake.calls, "answer", opened)
                return 200, PAGE[1]

            closing: List["asyncio.Future[None]"] = []
            object.__setattr__(fake.calls, "answer", answer)
            held.session.release_in_background([held.holds[0].entry])
            while not closing:
                await asyncio.sleep(0)
            await within(5.0, closing[0])
            return len(fake.calls.targets("DELETE"))

        assert on_engine(run) == 2

    def test_a_multi_lock_that_the_cluster_no_longer_has_is_lost(self) -> None:
        async def run() -> Optional[str]:
            grants = {"grants": [grant(5), {**grant(6), "lock": "b"}]}
            gone = (409, {"code": "not-holder", "title": "no", "lock": "b"})
            fake = Fake(lambda call: gone if call.method == "DELETE" else (200, grants) if call.method == "POST" else opened(call))
            held = await fake.core.acquire(LockRequest.of(["a", "b"], {}))
            with pytest.raises(Lost) as lost:
                await held.release()
            assert lost.value.cause == "released-elsewhere"
            return lost.value.lock

        assert on_engine(run) == "b"


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

    def test_a_rejected_fallback_of_an_upgrade_ends_no_hold(self) -> None:
        async def run() -> Tuple[Optional[Loss], str, str]:
            answers: List[Answer] = [PAGE, FORBIDDEN, (200, grant(6))]
            fake = Fake(lambda call: answers.pop(0) if "change=" in call.target else opened(call))
            held = await fake.core.acquire(request(mode="upgradable"))
            with pytest.raises(Rejected):
                await _mode.upgrade(held.holds[0], 0.0)
            loss, mode = held.holds[0].loss(), held.holds[0].grant.mode
            await _mode.upgrade(held.holds[0], 0.0)
            await held.release()
            return loss, mode, held.holds[0].grant.mode

        assert on_engine(run) == (None, "upgradable", "exclusive")

    @pytest.mark.parametrize("earlier, mode", [([], "exclusive"), ([PAGE], "shared")])
    def test_a_rejected_downgrade_ends_no_hold_and_is_repeated(self, earlier: List[Answer], mode: str) -> None:
        async def run() -> Tuple[Optional[Loss], str, str, int]:
            answers = [*earlier, FORBIDDEN, (200, grant(5, mode="shared"))]
            fake = Fake(lambda call: answers.pop(0) if "change=" in call.target else opened(call))
            held = await fake.core.acquire(request())
            with pytest.raises(Rejected):
                await _mode.downgrade(held.holds[0], "shared")
            loss, after_rejection = held.holds[0].loss(), held.holds[0].grant.mode
            await _mode.downgrade(held.holds[0], "shared")
            await held.release()
            return loss, after_rejection, held.holds[0].grant.mode, len(answers)

        assert on_engine(run) == (None, mode, "shared", 0)

    def test_the_close_of_the_client_ends_the_pause_of_a_fallback(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("holdfast._mode.RETRY_PAUSE", 60.0)

        async def run() -> int:
            answers: List[Optional[Answer]] = [PAGE, None, (200, grant(5, mode="upgradable"))]
            fake = Fake(lambda call: answers.pop(0) if "change=" in call.target else opened(call), "nightly")
            held = await fake.core.acquire(request(mode="upgradable"))
            upgrade = asyncio.ensure_future(_mode.upgrade(held.holds[0], 0.0))
            while len(answers) > 1:
                await asyncio.sleep(0.01)
            await within(5.0, fake.core.close())
            with pytest.raises(UnexpectedResponse):
                await upgrade
            return len(answers)

        assert on_engine(run) == 0

    @pytest.mark.parametrize("way", ["upgrade", "acquire", "renewal"])
    def test_the_other_guards_of_the_hold_get_the_new_token(self, way: str) -> None:
        def answer(call: Call) -> Answer:
            if call.method != "PUT" or "/locks/" not in call.target:
                return opened(call)
            if "owner=p" in call.target:
                return 200, grant(4, ticket=2)
            return 200, grant(6 if "mode=exclusive" in call.target else 5, ticket=1)

        async def run() -> Tuple[List[Tuple[Optional[Loss], int, Optional[int]]], int, List[str]]:
            fake = Fake(answer)
            first = await fake.core.acquire(request(mode="upgradable", owner="o"))
            second = await fake.core.acquire(request(mode="shared", owner="o"))
            other = await fake.core.acquire(request(mode="shared", owner="p"))
            if way == "upgrade":
                await _mode.upgrade(first.holds[0], 0.0)
            elif way == "acquire":
                await (await fake.core.acquire(request(mode="exclusive", owner="o"))).release()
            else:
                listed = [{"lock": "a", "ticket": 1, "token": 6}, {"lock": "a", "ticket": 2, "token": 4}]
                SessionPoll(first.session).reconcile(first.session.entries.held(), listed, 30.0)
            seen = [(held.holds[0].loss(), held.holds[0].grant.token, held.holds[0].entry.token) for held in (first, second)]
            for held in (first, second, other):
                await held.release()
            return seen, other.holds[0].grant.token, fake.calls.targets("GET")

        assert on_engine(run) == ([(None, 6, 6)] * 2, 4, [])

    def test_an_upgrade_at_a_node_that_is_behind_is_repeated_although_another_guard_has_the_new_token(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("holdfast._events._EXAMINE_DELAY", 0.0)

        async def run() -> Tuple[int, int, int]:
            def answer(call: Call) -> Any:
                if "/locks/" not in call.target or call.method != "PUT":
                    return opened(call)
                if "change=" not in call.target:
                    return 200, grant(7, ticket=5)
                is_first = len(fake.calls.targets("PUT", "change=")) == 1
                return asyncio.Event().wait() if is_first else (200, grant(9, ticket=5))

            fake = Fake(answer)
            outer = await fake.core.acquire(request(mode="upgradable", owner="o"))
            inner = await fake.core.acquire(request(mode="upgradable", owner="o"))
            upgrade = asyncio.ensure_future(_mode.upgrade(inner.holds[0], 60.0))
            while not fake.calls.targets("PUT", "change="):
                await asyncio.sleep(0)
            listed = [{"lock": "a", "ticket": 5, "token": 9}]
            SessionPoll(outer.session).reconcile(outer.session.entries.held(), listed, 30.0)
            await within(5.0, upgrade)
            tokens = outer.holds[0].grant.token, inner.holds[0].grant.token
            for held in (inner, outer):
                await held.release()
            return (*tokens, len(fake.calls.targets("PUT", "change=")))

        assert on_engine(run) == (9, 9, 2)

    @pytest.mark.parametrize("ticket, other", [(5, 6), (0, 0), (None, None)])
    def test_a_listed_hold_of_another_guard_repeats_no_change(
        self, monkeypatch: pytest.MonkeyPatch, ticket: Optional[int], other: Optional[int]
    ) -> None:
        monkeypatch.setattr("holdfast._events._EXAMINE_DELAY", 0.0)

        def answer(call: Call) -> Answer:
            is_other = call.method == "PUT" and "owner=p&" in call.target
            return (200, grant(9, ticket=other)) if is_other else opened(call)

        async def run() -> Tuple[bool, Optional[int]]:
            fake = Fake(answer)
            changing, holder = [await fake.core.acquire(request(mode="shared", owner=owner)) for owner in ("o", "p")]
            entry = changing.holds[0].entry
            entry.ticket, entry.stage = ticket, Stage.CONVERTING
            listed = [{"lock": "a", "ticket": ticket, "token": 5}, {"lock": "a", "ticket": other, "token": 9}]
            SessionPoll(holder.session).reconcile(holder.session.entries.held(), listed, 30.0)
            for held in (changing, holder):
                await held.release()
            return entry.granted_elsewhere.is_set(), entry.token

        assert on_engine(run) == (False, 5)

    def test_a_downgrade_pauses_after_an_answer_that_is_not_from_a_node(self) -> None:
        async def run() -> float:
            answers: List[Answer] = [(404, {}), (404, {}), (200, grant(5, mode="shared"))]
            fake = Fake(lambda call: answers.pop(0) if "change=" in call.target else opened(call))
            held = await fake.core.acquire(request())
            began = asyncio.get_running_loop().time()
            await _mode.downgrade(held.holds[0], "shared")
            took = asyncio.get_running_loop().time() - began
            await held.release()
            return took

        assert on_engine(run) >= 2 * RETRY_PAUSE

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


class TestGivenUp:
    def test_a_failed_arrival_leaves_a_place_inside_too(self) -> None:
        async def run() -> List[str]:
            fake = Fake(lambda call: None if "barriers" in call.target and call.method == "PUT" else opened(call))
            with pytest.raises(Unavailable):
                await _recipes.arrive(fake.core, "double-barriers", "b", 2, 0.0)
            await (await fake.core.session_for()).settled()
            return fake.calls.targets("DELETE")

        waiting, inside = on_engine(run)
        assert waiting.startswith(f"{inside}&request=") and "&owner=a-" in inside

    def test_a_cancelled_leave_of_a_group_deletes_the_member(self) -> None:
        async def run() -> Tuple[List[bool], int]:
            joined = 200, {"results": [{"stat": {"kind": "ephemeral"}}]}
            fake = Fake(lambda call: joined if call.target == "/v1/txn" else opened(call))
            member = await _groups.join(fake.core, "g", "x")
            leaving = asyncio.ensure_future(member.leave())
            while not leaving.done():
                await asyncio.sleep(0)
                if len(fake.calls.targets("POST")) == 2:
                    leaving.cancel()
            await member.session.settled()
            deletes = [b'"delete"' in call.body for call in fake.calls.sent if call.target == "/v1/txn"]
            return deletes, member.session.users

        assert on_engine(run) == ([False, True, True], 0)

    def test_a_stalled_hold_is_released_before_its_loss_is_reported(self) -> None:
        async def run() -> List[str]:
            fake = Fake(opened)
            held = await fake.core.acquire(request(progress_timeout=60))
            held.holds[0].entry.change_limits(lambda limits: replace(limits, progress_until=0.0))
            with pytest.raises(Lost) as lost:
                await held.release()
            assert lost.value.cause == "stalled"
            await held.session.settled()
            return fake.calls.targets("DELETE")

        (release,) = on_engine(run)
        assert release.startswith("/v1/locks/a?")

    def test_a_request_whose_connection_is_not_open_is_certainly_not_executed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def never(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        async def run() -> bool:
            monkeypatch.setattr(asyncio, "open_connection", never)
            with pytest.raises(SendError) as failed:
                await HttpNode("http", "127.0.0.1", 1, None).send("PUT", "/", {}, b"", 0.01)
            return failed.value.may_be_done

        assert not on_engine(run)


class TestEnteredGuards:
    def test_a_body_may_end_under_another_caller(self) -> None:
        entered: EnteredGuards[str] = EnteredGuards()
        for caller, guard in ((1, "a"), (2, "b"), (1, "c"), (2, "d")):
            entered.add(caller, guard)
        assert [entered.take(caller) for caller in (1, 3, 1, 1)] == ["c", "d", "a", "b"]
        assert vars(entered)["_entered"] == []


#: The head of a stream, and its event of a vacant election.
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
VACANT = b"1e\r\nid: 7\nevent: vacant\ndata: {}\n\n\r\n"


class Node:
    """A node whose streams of events a test writes."""

    def __init__(self, port: int, accepted: "asyncio.Queue[asyncio.StreamWriter]") -> None:
        self.options = Options((("http", "127.0.0.1", port),), None, "t", None, {}, 10.0, None, None, Metrics())
        self.core, self.accepted = Core(self.options), accepted


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
                head = HEAD + b"%x\r\n" % len(event)
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

    def test_an_event_without_an_end_ends_its_stream(self) -> None:
        async def run() -> Union[Leader, Gap, None]:
            async with node() as served:
                observer = Observer("e")
                change = asyncio.ensure_future(observer.next(served.core))
                endless = await served.accepted.get()
                endless.write(HEAD + b"10001\r\n" + b"x" * 0x10001 + b"\r\n")
                stream = await served.accepted.get()
                stream.write(HEAD + VACANT)
                try:
                    return await change
                finally:
                    await observer.end(served.core)
                    endless.close()
                    stream.close()

        assert on_engine(run) is None

    @pytest.mark.parametrize("page", PAGES)
    def test_a_stream_continues_at_the_address_of_a_node(self, page: Tuple[int, bytes]) -> None:
        async def run(foreign: FakeNode) -> int:
            async with node() as good:
                host, port = foreign.address.split(":")
                both = replace(good.options, addresses=(("http", host, int(port)), *good.options.addresses))
                core, observer = Core(both), Observer("e")
                core.calls.nodes.prefer(0)
                change = asyncio.ensure_future(observer.next(core))
                stream = await good.accepted.get()
                stream.write(HEAD + VACANT)
                assert await change is None
                await observer.end(core)
                stream.close()
                return core.calls.nodes.order()[0]

        with FakeNode(lambda _: page, has_all=True) as foreign:
            assert on_engine(lambda: run(foreign)) == 1

    @pytest.mark.parametrize("page", [*PAGES, (503, b"<html>Bad gateway</html>")])
    def test_a_stream_continues_after_the_page_of_a_proxy_that_restarts(self, page: Tuple[int, bytes]) -> None:
        async def run() -> List[Union[Leader, Gap, None]]:
            async with node() as served:
                core = Core(replace(served.options, request_timeout=0.1))
                observer = Observer("e")
                changes = [asyncio.ensure_future(observer.next(core))]
                for _ in range(2):
                    stream = await served.accepted.get()
                    stream.write(HEAD + VACANT)
                    await changes[-1]
                    changes.append(asyncio.ensure_future(observer.next(core)))
                    stream.close()
                    for _ in range(2):
                        proxy = await served.accepted.get()
                        proxy.write(b"HTTP/1.1 %d -\r\ncontent-length: %d\r\n\r\n%b" % (page[0], len(page[1]), page[1]))
                        proxy.close()
                stream = await served.accepted.get()
                stream.write(HEAD + VACANT)
                results = [await change for change in changes]
                await observer.end(core)
                stream.close()
                return results

        assert on_engine(run) == [None] * 3

    @pytest.mark.parametrize("page", PAGES)
    def test_a_stream_without_the_address_of_a_node_ends_at_once(self, page: Tuple[int, bytes]) -> None:
        with FakeNode(lambda _: page, has_all=True) as one, FakeNode(lambda _: page, has_all=True) as other:
            began = time.monotonic()
            with Client(f"{one.address},{other.address}") as hf, pytest.raises(UnexpectedResponse) as failed:
                hf.election("e").observe().next()
            assert time.monotonic() - began < 5.0
        assert one.address in str(failed.value) and other.address in str(failed.value)

    def test_a_node_that_never_answers_delays_a_stream_little(self) -> None:
        async def run() -> float:
            loop = asyncio.get_running_loop()
            async with node() as frozen, node() as good:
                both = Options((*frozen.options.addresses, *good.options.addresses), None, "t", None, {}, 10.0, None, None, Metrics())
                core, observer = Core(both), Observer("e")
                core.calls.nodes.prefer(0)
                began = loop.time()
                change = asyncio.ensure_future(observer.next(core))
                stream = await good.accepted.get()
                stream.write(HEAD + VACANT)
                assert await change is None
                took = loop.time() - began
                await observer.end(core)
                stream.close()
                assert frozen.accepted.qsize() > 0
                return took

        # Without a look at the node, its head has 6 s.
        assert on_engine(run) < 5.0
