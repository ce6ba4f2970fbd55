"""Calls whose answers are lost, and calls that meet the end of their client. A local server plays the node."""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
import time
import warnings
from typing import Any, Callable, Dict, List, Optional
from urllib.parse import parse_qs, urlsplit

import holdfast
import pytest
from fake import EXPIRED, grant, on_engine, request
from holdfast import _engine, aio
from holdfast._calls import Call, Copies, get, path
from holdfast._core import Core, Options, addresses
from holdfast._tree import Observer
from holdfast.errors import InvalidArgument, Loss, Lost, OutcomeUnknown, Rejected, Unavailable, UnexpectedResponse
from holdfast.metrics import Metrics
from node import PAGES, Answer, Node

JOINED: Answer = (200, {"results": [{"stat": {"kind": "ephemeral"}}]})


ONE_NODE = "watches of one node"
SUBJECT = "calls_per_second of the subject"


def refusal(status: int, bound: str, retry_after_ms: int) -> Answer:
    facts = {"bound": bound, "retry_after_ms": retry_after_ms}
    return status, {"code": "rate-limited", "title": "no", "retryable": True, **facts}


def core_of(*nodes: Node) -> Core:
    """A client of the nodes whose calls end after two seconds."""
    at = addresses([node.address for node in nodes], False)
    return Core(Options(at, None, "t", None, {}, 2.0, None, None, Metrics()))


def losing(part: str, later: Answer, times: int = 1) -> Callable[[str], Answer]:
    """Loses the first answers to the calls with this text."""
    lost: List[str] = []

    def answer(call: str) -> Answer:
        if part in call and len(lost) < times:
            lost.append(call)
            return None
        return later

    return answer


class TestLostAnswer:
    def test_a_change_in_doubt_has_an_unknown_outcome_after_the_end_of_its_session(self) -> None:
        with Node(losing("/counters/", EXPIRED)) as node, holdfast.Client(node.address) as hf:
            with pytest.raises(OutcomeUnknown):
                hf.counter("c").add(1)
            assert (node.count("PUT /v1/sessions/"), node.count("/counters/")) == (1, 2)
            with pytest.raises(Lost):
                hf.counter("c").add(1)
            assert node.count("PUT /v1/sessions/") == 2, "the ended session is not used again"

    @pytest.mark.parametrize("what", ["force-releases", "release-requests"])
    def test_a_call_that_names_no_token_is_not_repeated(self, what: str) -> None:
        def call(hf: holdfast.Client, token: Optional[int]) -> int:
            if what == "force-releases":
                return hf.force_release("a", "test", token=token)
            return hf.request_release("a", "test", token=token)

        done: Answer = (200, {"ended": 1, "asked": 1})
        with Node(losing(what, done)) as node, holdfast.Client(node.address) as hf:
            with pytest.raises(OutcomeUnknown):
                call(hf, None)
            assert node.count(f"POST /v1/{what}/a") == 1
        with Node(losing(what, done)) as node, holdfast.Client(node.address) as hf:
            assert call(hf, 5) == 1
            assert node.count(f"POST /v1/{what}/a") == 2


class TestAnotherServer:
    @pytest.mark.parametrize("page", PAGES)
    def test_a_call_continues_at_the_next_address(self, page: Answer) -> None:
        with Node(lambda _: page, has_all=True) as foreign, Node(lambda _: (200, grant(5))) as node:

            async def run() -> None:
                core = core_of(foreign, node)
                for call in (get("/v1/locks/a"), Call("POST", "/v1/b"), Call("DELETE", "/v1/c", copies=Copies.HARMLESS)):
                    # The address of the other server is the first of the call.
                    core.calls.nodes.states[0].answered(asyncio.get_running_loop().time())
                    core.calls.nodes.prefer(0)
                    delivery = await core.calls.deliver(call)
                    assert delivery.checked() and delivery.in_doubt

            on_engine(run)
        assert [node.count(call) for call in ("GET /v1/locks", "POST /v1/b", "DELETE /v1/c")] == [1, 1, 1]

    def test_the_error_names_each_address(self) -> None:
        with Node(lambda _: PAGES[2], has_all=True) as one, Node(lambda _: PAGES[2], has_all=True) as other:
            with holdfast.Client(f"{one.address},{other.address}") as hf, pytest.raises(UnexpectedResponse) as failed:
                hf.lock_state("a")
        assert f"{one.address} answered 200 without the fields of a node" in str(failed.value) and other.address in str(failed.value)

    def test_a_call_that_is_sent_once_is_not_repeated(self) -> None:
        with Node(lambda _: PAGES[2], has_all=True) as foreign, Node(lambda _: (200, grant(5))) as node:

            async def run() -> None:
                core = core_of(foreign, node)
                core.calls.nodes.states[0].answered(asyncio.get_running_loop().time())
                core.calls.nodes.prefer(0)
                delivery = await core.calls.deliver(Call("POST", "/v1/b", copies=Copies.NEVER))
                assert isinstance(delivery.error, UnexpectedResponse) and delivery.in_doubt

            on_engine(run)
        assert node.count("POST") == 0


class TestForgottenGuard:
    def test_it_is_released_where_warnings_are_errors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        raised: List[Any] = []
        monkeypatch.setattr(sys, "unraisablehook", lambda failed: raised.append((failed.exc_type, str(failed.exc_value))))
        with Node(lambda _: (200, grant(5))) as node, holdfast.Client(node.address) as hf:
            guard = hf.lock("a").acquire()
            with warnings.catch_warnings():
                warnings.simplefilter("error", ResourceWarning)
                del guard
            until = time.monotonic() + 20
            while not node.count("DELETE /v1/locks/a") and time.monotonic() < until:
                time.sleep(0.01)
            assert node.count("DELETE /v1/locks/a") == 1
        assert [kind for kind, text in raised if "a guard was not released: <Guard of 'a', token 5" in text] == [ResourceWarning]


class TestDurableHold:
    def test_a_wait_longer_than_one_call_keeps_its_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The maximum time of one call at a node.
        monkeypatch.setattr("holdfast._send._PER_NODE_WAITING", 0.5)
        timeout = (423, {"code": "wait-timeout", "title": "no", "retryable": True})
        over = (409, {"code": "attempt-over", "title": "no", "newest_attempt": 2**60})
        answers: List[Optional[Answer]] = [None, timeout, None, over, None, timeout, (200, {"token": 5})]

        def answer(call: str) -> Answer:
            wanted.append(parse_qs(urlsplit(call.split(" ")[1]).query))
            answer = answers[len(wanted) - 1] if len(wanted) <= len(answers) else (200, {"token": 5})
            return node.hold() if answer is None else answer

        wanted: List[Dict[str, List[str]]] = []
        with Node(answer) as node, holdfast.Client(node.address, request_timeout=0.1) as hf:
            assert hf.hold_durably("d", "o", "r", wait=40) == 5
        # An attempt ends with its wait, and when the cluster says so.
        attempts = [int(query["attempt"][0]) for query in wanted]
        assert attempts == sorted(attempts)
        assert [attempt == before for before, attempt in zip(attempts, attempts[1:])][:6] == [True, False] * 3
        waits = [int(query["wait"][0][:-2]) for query in wanted]
        assert waits[0] <= 40_000 and waits == sorted(waits, reverse=True)
        assert {(*query["owner"], *query["reason"], *query["hold"]) for query in wanted} == {("o", "r", "durable")}

    def test_it_is_busy_after_its_wait(self) -> None:
        for wait, code in ((0, "lock-busy"), (20, "lock-in-cooldown"), (0.05, "wait-timeout")):

            def answer(_: str) -> Answer:
                time.sleep(0.1)
                return 423, {"code": code, "title": "no", "retryable": True}

            with Node(answer) as node, holdfast.Client(node.address) as hf:
                with pytest.raises(holdfast.Busy):
                    hf.hold_durably("d", "o", "r", wait=wait)
                assert node.count("PUT") == 1


#: The answers of a proxy without a node: they last longer than a call is repeated.
PROXY_PAGES = [*PAGES, (503, b"<html>Bad gateway</html>"), (200, b'{"status":"ok"}'), (502, b'{"code":"NoRoute","message":"no"}')]


class TestObserver:
    @pytest.mark.parametrize("page", PROXY_PAGES)
    def test_it_continues_after_the_page_of_a_proxy_that_restarts(self, page: Answer) -> None:
        first: Dict[str, float] = {}
        change = {"kind": "created", "path": "/groups/g/s1", "revision": 4}
        good: Dict[str, Answer] = {
            "GET /v1/watch": (200, {"events": [change], "revision": 4}),
            "GET /v1/tree/groups/g?": (200, {"children": []}),
            "GET /v1/tree/groups/g/s1": (200, {"port": 80}),
        }

        def answer(call: str) -> Answer:
            if "wait=0ms" in call:
                return 200, {"revision": 3}
            (kind,) = [kind for kind in good if call.startswith(kind)]
            has_page = time.monotonic() < first.setdefault(kind, time.monotonic()) + 0.5
            node.headers = {} if has_page else {"holdfast-kind": "ephemeral"}
            return page if has_page else good[kind]

        with Node(answer, has_all=True) as node, holdfast.Client(node.address, request_timeout=0.2) as hf:
            watch = hf.group("g").watch()
            assert watch.next() == {}
            assert watch.next() == {"s1": '{"port": 80}'}
        assert len(first) == 3


class TestRejectedRelease:
    @pytest.mark.parametrize("code, error", [("forbidden", Rejected), ("not-holder", Lost), ("attempt-over", Lost)])
    def test_with_reports_it_but_not_in_place_of_the_error_of_the_body(self, code: str, error: Any) -> None:
        rejected: Answer = (409, {"code": code, "title": "no"})
        with Node(lambda call: rejected if call.startswith("DELETE") else (200, grant(5))) as node:
            with holdfast.Client(node.address, session="nightly") as hf:
                with pytest.raises(error):
                    with hf.lock("a"):
                        pass
                with pytest.raises(ZeroDivisionError):
                    with hf.lock("a"):
                        raise ZeroDivisionError


class TestRetryAfter:
    @pytest.mark.parametrize(
        "status, bound, nodes, options, is_paused",
        [
            (503, "", 1, {}, True),
            (503, "", 2, {}, False),
            (429, ONE_NODE, 1, {}, True),
            (429, ONE_NODE, 2, {}, False),
            (429, SUBJECT, 1, {}, True),
            (429, SUBJECT, 2, {}, True),
            (503, "", 1, {"request_timeout": 0.5}, True),
        ],
    )
    def test_a_call_is_repeated_after_its_time(
        self, status: int, bound: str, nodes: int, options: Any, is_paused: bool
    ) -> None:
        acquires: List[float] = []

        def answer(call: str) -> Answer:
            if not call.startswith("PUT"):
                return 200, {}
            acquires.append(time.monotonic())
            if len(acquires) > 1:
                return 200, grant(5)
            return refusal(status, bound, 1000)

        with Node(answer) as one, Node(answer) as two:
            with holdfast.Client([one.address, two.address][:nodes], **options) as hf:
                hf.lock("a", wait=20).acquire().release()
        assert len(acquires) == 2
        assert (acquires[1] - acquires[0] >= 1.0) == is_paused

    def test_a_call_fails_at_once_if_its_time_ends_before(self) -> None:
        with Node(lambda _: refusal(429, "", 3_600_000)) as node, holdfast.Client(node.address, request_timeout=20) as hf:
            began = time.monotonic()
            with pytest.raises(Unavailable, match="rate-limited"):
                hf.lock_state("a")
            assert time.monotonic() - began < 10
            assert node.count("GET") == 1

    def test_the_next_call_begins_at_a_node_that_accepts_it(self) -> None:
        with Node(lambda _: refusal(429, ONE_NODE, 60_000)) as full, Node(lambda _: refusal(503, "", 0)) as other:

            async def run() -> List[int]:
                core = core_of(full, other)
                core.calls.nodes.prefer(0)
                with pytest.raises(Unavailable):
                    await core.json(get(path("locks", "a")))
                return core.calls.nodes.order()

            assert on_engine(run) == [1, 0]
            assert full.count("GET /v1/locks") == 1

    def test_a_node_that_refused_a_call_comes_last_after_the_answer_of_another(self) -> None:
        with Node(lambda _: refusal(429, ONE_NODE, 60_000)) as full, Node(lambda _: (200, {"lock": "a"})) as other:

            async def run() -> None:
                core = core_of(full, other)
                for _ in range(3):
                    # As the leader, which each call tries first.
                    core.calls.nodes.prefer(0)
                    await core.json(get(path("locks", "a")))

            on_engine(run)
            assert full.count("GET /v1/locks") == 1

    @pytest.mark.parametrize("bound", [ONE_NODE, SUBJECT])
    def test_a_stream_opens_at_the_first_node_that_accepts_it(self, bound: str) -> None:
        with Node(lambda _: refusal(429, bound, 60_000)) as full, Node(lambda _: refusal(503, "", 0)) as other:

            async def run() -> None:
                core, observer = core_of(full, other), Observer("e")
                core.calls.nodes.prefer(0)
                with pytest.raises(Unavailable):
                    await observer.next(core)

            on_engine(run)
        assert full.count("/elections/") == 1
        assert (other.count("/elections/") > 1) == (bound == ONE_NODE)

    def test_a_pause_of_an_acquire_ends_when_a_renewal_lists_the_grant(self) -> None:
        refused = threading.Event()

        def answer(call: str) -> Answer:
            if not call.startswith("PUT") or refused.is_set():
                return 200, grant(5)
            refused.set()
            return refusal(503, "", 20_000)

        with Node(answer) as node:

            async def run() -> None:
                core = core_of(node)
                acquire = asyncio.ensure_future(core.acquire(request(wait=60.0)))
                while not refused.is_set():
                    await asyncio.sleep(0.01)
                session = await core.session_for(None)
                session.entries.all()[0].granted_elsewhere.set()
                await (await asyncio.wait_for(acquire, 10)).release()

            on_engine(run)

    def test_a_pause_of_an_upgrade_ends_with_the_hold(self) -> None:
        def answer(call: str) -> Answer:
            if "change=" in call:
                return refusal(503, "", 20_000)
            return 200, grant(5) if call.startswith("PUT") else {}

        with Node(answer) as node, holdfast.Client(node.address) as hf:
            guard = hf.lock("a", mode="upgradable", max_hold=1).acquire()
            began = time.monotonic()
            with pytest.raises(Lost):
                guard.upgrade(60)
            assert time.monotonic() - began < 10


class TestFork:
    def test_a_child_uses_no_connection_of_its_parent(self) -> None:
        tripped: Answer = (200, {"index": 0, "parties": 1, "generation": 4})
        with Node(lambda call: tripped if "barriers" in call else JOINED) as node, holdfast.Client(node.address) as hf:
            member, party, session = hf.group("g").join("x"), hf.double_barrier("b", 1), hf.open_session()
            party.enter(5)
            before = list(node.calls)
            child = os.fork()
            if child == 0:
                # Only the exit code leaves the child: pytest runs in its parent.
                os._exit(self._run_child(member, party, session))
            assert os.waitpid(child, 0)[1] == 0
            assert node.calls == before
            member.ensure()
            session.ensure()
            member.set_value("y")
            member.leave()
            party.leave(5)
            session.close()
            assert node.count("/v1/txn") == 3

    @staticmethod
    def _run_child(member: holdfast.Membership, party: holdfast.DoubleBarrier, session: holdfast.OpenSession) -> int:
        def fails(work: Callable[[], Any]) -> bool:
            try:
                work()
            except Lost as lost:
                return "parent" in str(lost)
            return False

        checks = [member.ensure, lambda: member.set_value("z"), lambda: party.leave(1), session.ensure]
        try:
            results = [fails(check) for check in checks]
            member.leave()
            session.close()
            return 0 if all(results) else 1
        except BaseException:
            return 2


class TestClose:
    def test_a_call_that_has_not_begun_does_not_begin(self) -> None:
        async def run(node: Node) -> None:
            gate = threading.Event()
            _engine.current().loop.call_soon_threadsafe(gate.wait)
            hf = aio.Client(node.address)
            acquiring = asyncio.ensure_future(hf.lock("x").acquire())
            await asyncio.sleep(0)
            await hf.close()
            gate.set()
            with pytest.raises(InvalidArgument):
                await acquiring

        with Node(lambda call: (200, {})) as node:
            asyncio.run(run(node))
            assert node.calls == []

    @pytest.mark.parametrize("what", ["start", "watch", "members", "group", "observer", "latch", "durable"])
    def test_it_ends_a_wait(self, what: str) -> None:
        def answer(call: str) -> Answer:
            if "wait=0ms" in call and what != "start":
                return 200, {"revision": 1, "events": []}
            return (404, {"code": "not-found", "title": "none"}) if "/tree/" in call and what != "members" else node.hold()

        def wait(hf: holdfast.Client) -> None:
            if what in ("start", "watch"):
                hf.watch("/x").next()
            elif what == "observer":
                hf.election("e").observe().next()
            elif what == "latch":
                hf.latch("l").wait(60)
            elif what == "durable":
                hf.hold_durably("d", "o", "r", wait=60)
            else:
                watch = hf.group("g").watch()
                assert watch.next() == {}
                watch.next()

        parts = {"start": "wait=0ms", "members": "/tree/", "observer": "/elections/", "latch": "/latches/", "durable": "hold=durable"}

        def waiting() -> None:
            try:
                wait(hf)
            except Exception as error:
                errors.append(error)

        errors: List[Exception] = []
        with Node(answer) as node:
            hf = holdfast.Client(node.address)
            thread = threading.Thread(target=waiting, daemon=True)
            thread.start()
            until = time.monotonic() + 20
            while not node.count(parts.get(what, "wait=30000ms")) and time.monotonic() < until:
                time.sleep(0.01)
            hf.close()
            thread.join(5)
            assert [getattr(error, "loss", error) for error in errors] == [Loss("session-ended", "the client was closed")]


class Counted(holdfast.Metrics):
    """Counts releases and losses."""

    def __init__(self) -> None:
        self.counted: "queue.Queue[str]" = queue.Queue()

    def released(self, lock: str, held: float) -> None:
        self.counted.put(f"{lock} released")

    def lost(self, lock: str, cause: str) -> None:
        self.counted.put(f"{lock} {cause}")

    def acquire_failed(self, lock: str, error: BaseException) -> None:
        self.counted.put(f"{lock} {type(error).__name__}")


class TestMetrics:
    @pytest.mark.parametrize("unclear", [None, (200, "<html>"), (404, "<html>")])
    def test_a_release_counts_when_the_cluster_has_confirmed_it(self, unclear: Answer) -> None:
        answers: List[Answer] = [unclear]
        answer: Callable[[str], Answer] = lambda call: (200, grant(5)) if call.startswith("PUT") else answers[-1]
        metrics = Counted()
        with Node(answer) as node:
            with holdfast.Client(node.address, session="nightly", request_timeout=0.5, metrics=metrics) as hf:
                guard = hf.lock("a").acquire()
                with pytest.raises((OutcomeUnknown, UnexpectedResponse)):
                    guard.release()
                assert metrics.counted.empty()
                answers.append((200, {}))
                assert metrics.counted.get(timeout=20) == "a released"
                answers.append((403, {"code": "forbidden", "title": "no"}))
                with pytest.raises(Rejected):
                    hf.lock("a").acquire().release()
        assert metrics.counted.empty()

    def test_a_loss_that_the_release_finds_first_is_counted(self) -> None:
        metrics = Counted()
        with Node(lambda _: (200, grant(5))) as node, holdfast.Client(node.address, metrics=metrics) as hf:
            guard = hf.lock("a").acquire()
            guard._first.entry.lose(Loss("force-released"))  # The watch is not awake yet.
            with pytest.raises(Lost):
                guard.release()
            assert metrics.counted.get(timeout=20) == "a force-released"
            assert guard.lost.is_set()

    def test_the_close_of_a_client_counts_no_loss(self) -> None:
        metrics = Counted()
        with Node(lambda _: (200, grant(5))) as node, holdfast.Client(node.address, metrics=metrics) as hf:
            guard = hf.lock("a").acquire()
            hf.close()
            assert guard.lost.wait(20) == Loss("session-ended", "the client was closed")
        assert metrics.counted.empty()

    def test_a_cancelled_acquire_is_counted_as_a_failure(self) -> None:
        metrics = Counted()

        async def run(node: Node) -> None:
            async with aio.Client(node.address, metrics=metrics) as hf:
                acquire = asyncio.ensure_future(hf.lock("a").acquire())
                while not node.count("PUT /v1/locks/a"):
                    await asyncio.sleep(0.01)
                acquire.cancel()
                await asyncio.wait({acquire})

        with Node(lambda call: node.hold() if call.startswith("PUT") else (200, {})) as node:
            asyncio.run(run(node))
        assert metrics.counted.get(timeout=20) == "a CancelledError"

    def test_an_acquire_without_a_session_is_counted_as_a_failure(self) -> None:
        metrics = Counted()
        with holdfast.Client("127.0.0.1:1", request_timeout=0.2, metrics=metrics) as hf:
            with pytest.raises(Unavailable):
                hf.lock("a").acquire()
        with Node(lambda _: EXPIRED) as node, holdfast.Client(node.address, session="nightly", metrics=metrics) as hf:
            with pytest.raises(Lost):
                hf.lock("b").acquire()
        assert [metrics.counted.get(), metrics.counted.get()] == ["a Unavailable", "b Lost"]

    def test_an_error_of_the_program_loses_no_lock(self, caplog: pytest.LogCaptureFixture) -> None:
        class Broken(holdfast.Metrics):
            def acquired(self, lock: str, waited: float) -> None:
                raise RuntimeError("broken")

            def released(self, lock: str, held: float) -> None:
                raise RuntimeError("broken")

        granted: Answer = (200, {"lock": "a", "mode": "exclusive", "token": 5, "waited_ms": 0, "expires_in_ms": 30000})
        with Node(lambda call: granted) as node, holdfast.Client(node.address, metrics=Broken()) as hf:
            guard = hf.lock("a").acquire()
            assert guard.token == 5
            guard.release()
        logged = [record.message for record in caplog.records if record.name == "holdfast"]
        assert logged == ["the metrics of the program failed"] * 2
