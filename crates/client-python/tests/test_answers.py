"""What the client makes of the answers of a cluster, without a cluster: a function answers each call."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any, List, Optional, Tuple

import holdfast
import pytest
from node import SESSION, Node
from fake import EXPIRED, NOT_HOLDER, PAGE, Answer, Fake, grant, on_engine, opened, reads_over, request
from holdfast import _clock, _groups, _mode, _recipes, _transfer
from holdfast._calls import Call
from holdfast._engine import Engine
from holdfast._entry import Stage
from holdfast._events import SessionPoll
from holdfast._hold import HeldLocks, release_permits
from holdfast._lease import HoldLimits, deadline
from holdfast._numbers import numbers
from holdfast._renewal import _poll
from holdfast._request import LockRequest
from holdfast._sync_recipes import DoubleBarrier
from holdfast._within import within
from holdfast.errors import Busy, InvalidArgument, Loss, Lost, Rejected, Unavailable, UnexpectedResponse


class TestEndOfAHold:
    def test_it_is_the_sooner_of_the_request_and_the_grant(self) -> None:
        assert HoldLimits().ending(None, None, 100.0) == HoldLimits()
        assert HoldLimits().ending(None, 8.0, 100.0).check(deadline(100.0, 8.0)) == Loss("max-hold-exceeded", "max_hold is 8s")
        assert HoldLimits().ending(9.0, 8.0, 100.0).check(100.0) == deadline(100.0, 8.0)
        late = HoldLimits().ending(9.0, 20.0, 100.0)
        assert late.check(deadline(100.0, 9.0)) == Loss("max-hold-exceeded", "max_hold is 9s")
        assert late.ending(None, 20.0, 105.0) == late, "the earliest end stays"

    @pytest.mark.parametrize("way", ["acquire", "upgrade", "adoption", "multi-lock"])
    def test_every_way_to_a_guard_sees_the_end_in_the_grant(self, way: str) -> None:
        async def run() -> Tuple[HoldLimits, float]:
            def answer(call: Call) -> Answer:
                status, body = opened(call)
                if call.method == "GET":
                    holder = {"session": session.name, "token": 5}
                    return 200, {"holders": [holder], "revision": 9}
                ends = grant(5, waited_ms=2000, ends_in_ms=8000)
                if call.method == "POST":
                    return 200, {"grants": [ends, {**ends, "lock": "b"}]}
                has_end = call.method == "PUT" and (way != "upgrade" or "change=" in call.target)
                return (200, {**body, **ends}) if has_end and "sessions" not in call.target else (status, body)

            fake = Fake(answer, ago=4.0)
            session = await fake.core.session_for()
            before = _clock.now()
            if way == "adoption":
                held = await _transfer.receive(fake.core, request(wait=5))
            elif way == "multi-lock":
                held = await fake.core.acquire(LockRequest.of(["a", "b"], {}))
            else:
                held = await fake.core.acquire(request(mode="upgradable"))
            if way == "upgrade":
                assert held.holds[0].entry.limits.max_until is None
                await _mode.upgrade(held.holds[0], 1.0)
            await held.release()
            return held.holds[-1].entry.limits, before - 4.0 + 2.0

        limits, counted_from = on_engine(run)
        assert limits.max_until == pytest.approx(deadline(counted_from, 8.0), abs=1.0)
        assert limits.max_hold == 8.0


class TestReleaseRequest:
    def test_its_deadline_counts_from_the_answer_of_the_node(self) -> None:
        async def run() -> float:
            fake = Fake(opened)
            held = await fake.core.acquire(request())
            event = {"kind": "release-requested", "lock": "a", "token": 5, "wanted_in_ms": 9000, "revoke": True}
            held_by = [{"lock": "a", "token": 5}]
            answer = {**SESSION, "waited_ms": 2000, "events": [event], "holds": held_by}
            object.__setattr__(fake.calls, "keepalive", answer)
            object.__setattr__(fake.calls, "ago", 6.0)
            now = _clock.now()
            await _poll(held.session, SessionPoll(held.session))
            received = held.release_request()
            await held.release()
            assert received
            return received.deadline - now

        assert on_engine(run) == pytest.approx(deadline(-4.0, 9.0), abs=1.0)

    def test_in_the_state_of_a_lock_it_counts_from_the_sending_of_the_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        moment = [_clock.now()]

        def answer(call: Call) -> Answer:
            if call.method != "GET":
                return opened(call)
            moment[0] += 3.0
            found = {"wanted_in_ms": 9000, "revoke": True}
            return 200, {"holders": [{"session": name[0], "token": 5, "release_request": found}], "holders_total": 1}

        name = [""]

        async def run() -> float:
            fake = Fake(answer)
            held = await fake.core.acquire(request())
            name[0], before = held.session.name, moment[0]
            known = held.session.entries.held()
            monkeypatch.setattr(_clock, "now", lambda: moment[0])
            body = {"gap": {"until": 1}, "holds": [{"lock": "a", "token": 5}]}
            poll = SessionPoll(held.session)
            poll.deliver(known, body, 30.0, before)
            await reads_over(poll)
            monkeypatch.undo()
            received = held.release_request()
            await held.release()
            assert received
            return received.deadline - before

        assert on_engine(run) == pytest.approx(deadline(0.0, 9.0), abs=0.001)

    @pytest.mark.parametrize("kind", ["lost", "release-requested"])
    def test_an_event_names_its_hold_by_the_ticket(self, kind: str) -> None:
        def answer(call: Call) -> Answer:
            if call.method == "GET":
                return 200, {"holders": [], "holders_total": 0}
            return (200, grant(7, ticket=5)) if "/locks/" in call.target and call.method == "PUT" else opened(call)

        async def run() -> List[Tuple[bool, Optional[str]]]:
            fake = Fake(answer, "nightly")
            first = await fake.core.acquire(request(mode="upgradable", owner="o"))
            second = await fake.core.acquire(request(mode="upgradable", owner="o"))
            hold = {"lock": "a", "ticket": 5, "token": 9}
            if kind == "release-requested":
                second.holds[0].entry.stage = Stage.CONVERTING  # Its upgrade has no answer yet.
                other = {"kind": "lost", "lock": "a", "ticket": 6, "token": 11}
                # The list is of another upgrade, after the one of the event.
                events, holds = [{"kind": kind, "wanted_in_ms": 9000, "revoke": True, **hold}, other], [{**hold, "token": 11}]
            else:
                lost = {"kind": kind, "cause": "force-released", "reason": "stuck", **hold}
                events, holds = [{"kind": "granted", **hold}, lost], []
            body = {"events": events, "holds": holds}
            SessionPoll(first.session).deliver(first.session.entries.held(), body, 30.0, _clock.now())
            losses = [held.holds[0].loss() for held in (first, second)]
            causes = [loss.cause if loss else None for loss in losses]
            seen = [(held.release_request() is not None, cause) for held, cause in zip((first, second), causes)]
            await fake.core.close()
            return seen

        assert on_engine(run) == [(False, "force-released") if kind == "lost" else (True, None)] * 2

    @pytest.mark.parametrize("way", ["after the upgrade", "before the upgrade", "after the answer of the upgrade", "in a gap"])
    def test_it_reaches_every_guard_of_an_upgraded_hold(self, way: str) -> None:
        asked = {"wanted_in_ms": 9000, "revoke": True}

        def answer(call: Call) -> Answer:
            if call.method == "GET":
                return 200, {"holders": [{"session": "nightly", "token": 9, "release_request": asked}], "holders_total": 1}
            is_upgrade = "change=" in call.target
            return (200, grant(9 if is_upgrade else 7, ticket=5)) if "/locks/" in call.target and call.method == "PUT" else opened(call)

        async def run() -> List[Tuple[bool, Optional[int]]]:
            fake = Fake(answer, "nightly")
            first = await fake.core.acquire(request(mode="upgradable", owner="o"))
            second = await fake.core.acquire(request(mode="upgradable", owner="o"))
            known = first.session.entries.held()
            if way == "after the answer of the upgrade":
                await _mode.upgrade(first.holds[0], 0.0)
            granted = {"kind": "granted", "lock": "a", "token": 9}
            requested = {"kind": "release-requested", "lock": "a", "token": 9 if way == "after the upgrade" else 7, **asked}
            events = [granted, requested] if way == "after the upgrade" else [requested, granted]
            news = {"gap": {"until": 1}} if way == "in a gap" else {"events": events}
            body = {**news, "holds": [{"lock": "a", "ticket": 5, "token": 9}]}
            poll = SessionPoll(first.session)
            poll.deliver(known, body, 30.0, _clock.now())
            await reads_over(poll)
            seen = [(held.release_request() is not None, held.holds[0].entry.token) for held in (first, second)]
            for held in (first, second):
                await held.release()
            return seen

        assert on_engine(run) == [(True, 9)] * 2


class TestUnlistedHold:
    @pytest.mark.parametrize("status, code, is_lost", [(412, "stale-token", True), (403, "forbidden", False)])
    def test_only_a_stale_token_is_a_loss_of_a_hold_among_many(self, status: int, code: str, is_lost: bool) -> None:
        def answer(call: Call) -> Answer:
            if call.target.startswith("/v1/fence/"):
                return status, {"code": code, "title": "no"}
            return (200, {"holders": [], "holders_total": 200}) if call.method == "GET" else opened(call)

        async def run() -> Tuple[bool, int]:
            fake = Fake(answer, "nightly")
            held = await fake.core.acquire(request())
            poll = SessionPoll(held.session)
            poll.reconcile(held.session.entries.held(), [], 30.0)
            await reads_over(poll)
            seen = held.loss() is not None, len(fake.calls.targets("GET", "/fence/"))
            with contextlib.suppress(Lost):
                await held.release()
            return seen

        assert on_engine(run) == (is_lost, 1)


class TestReadsBesideTheRenewal:
    @pytest.mark.parametrize("way", ["a gap", "unlisted holds", "holds without a guard"])
    def test_those_without_an_answer_delay_no_renewal(self, way: str) -> None:
        locks = [f"l{token}" for token in range(1, 11)]
        lease, listed = {**SESSION, "expires_in_ms": 3000}, [{"lock": lock, "token": int(lock[1:])} for lock in locks]
        is_held = threading.Event()
        answered: List[float] = []

        def answer(call: str) -> Any:
            if "/v1/sessions/" in call and "/keepalive" not in call:
                return 200, lease
            if call.startswith("PUT /v1/locks/l"):
                lock = call.split("?")[0].rpartition("/")[2]
                return 200, {**grant(int(lock[1:])), "lock": lock, "expires_in_ms": 3000}
            if "/keepalive" not in call:
                return node.hold() if call.startswith("GET ") else (200, {})
            answered.append(time.monotonic())
            if not is_held.is_set():
                return 200, {**lease, "holds": listed}
            if way == "unlisted holds":
                return 200, lease
            strays = [{"lock": f"s{token}", "token": token} for token in range(21, 31)]
            return 200, {**lease, "holds": listed + strays} if way != "a gap" else {**lease, "holds": listed, "gap": {"until": 1}}

        with Node(answer, has_all=True) as node, holdfast.Client(node.address) as hf:
            guards = [hf.lock(lock).acquire() for lock in locks]
            is_held.set()
            until = time.monotonic() + 4.5
            while time.monotonic() < until and not guards[0].lost.is_set():
                guards[0].lost.wait(0.1)
            for guard in guards:
                guard.ensure()
            assert answered[-1] > until - 2.0

    def test_few_run_at_once_and_none_outlives_the_session(self) -> None:
        async def run() -> Tuple[int, int, int]:
            def answer(call: Call) -> Any:
                if call.method == "PUT" and "/locks/" in call.target:
                    return 200, {**grant(5), "lock": call.target.split("?")[0].rpartition("/")[2]}
                return asyncio.Event().wait() if call.method == "GET" else opened(call)

            fake = Fake(answer)
            helds = [await fake.core.acquire(LockRequest.of([f"l{number}"], {})) for number in range(9)]
            session = helds[0].session
            poll, known = SessionPoll(session), session.entries.held()
            for _ in range(2):
                poll.deliver(known, {"gap": {"until": 1}, "holds": []}, 30.0, _clock.now())
            while len(fake.calls.targets("GET")) < 4:
                await asyncio.sleep(0)
            for _ in range(99):  # A fifth read would begin meanwhile.
                await asyncio.sleep(0)
            counts = len(fake.calls.targets("GET")), len(poll._reads)
            await fake.core.close()
            await reads_over(poll)
            return (*counts, len(fake.calls.targets("GET")))

        assert on_engine(run) == (4, 9 + 9 - 4, 4)

    def test_an_event_during_a_read_is_of_a_later_request(self) -> None:
        async def run() -> Optional[str]:
            is_read, may_answer = asyncio.Event(), asyncio.Event()

            async def lock_state() -> Answer:
                is_read.set()
                await may_answer.wait()
                holder = {"session": held.session.name, "token": 5, "release_request": {"reason": "first", "wanted_in_ms": 9000}}
                return 200, {"holders": [holder], "holders_total": 1}

            fake = Fake(lambda call: lock_state() if call.method == "GET" else opened(call))
            held = await fake.core.acquire(request())
            poll, holds = SessionPoll(held.session), [{"lock": "a", "token": 5}]
            poll.deliver(held.session.entries.held(), {"gap": {"until": 1}, "holds": holds}, 30.0, _clock.now())
            await is_read.wait()
            event = {"kind": "release-requested", "lock": "a", "token": 5, "reason": "second", "wanted_in_ms": 5000}
            poll.deliver(held.session.entries.held(), {"events": [event], "holds": holds}, 30.0, _clock.now())
            may_answer.set()
            await reads_over(poll)
            received = held.release_request()
            await held.release()
            return received.reason if received else None

        assert on_engine(run) == "second"


class TestEndedSession:
    def test_every_acquire_and_change_names_the_session_that_it_means(self) -> None:
        async def run() -> List[str]:
            fake = Fake(opened)
            held = await fake.core.acquire(request(mode="upgradable"))
            await _mode.upgrade(held.holds[0], 1.0)
            await _recipes.set_value(held.holds[0], "x")
            await (await fake.core.reenter(held.session, held.holds[0].request.reentry("exclusive"))).release()
            await held.release()
            return fake.calls.targets("PUT", "/v1/locks/")

        targets = on_engine(run)
        assert len(targets) == 4 and all("&incarnation=7&" in target for target in targets)

    def test_a_generated_session_is_replaced(self) -> None:
        async def run() -> Tuple[List[str], Optional[Loss], str, str]:
            ended: List[str] = []

            def answer(call: Call) -> Answer:
                is_first = call.method == "PUT" and "/locks/" in call.target and not ended
                return EXPIRED if is_first and not ended.append(call.target) else opened(call)  # type: ignore[func-returns-value]

            fake = Fake(answer)
            first = await fake.core.session_for()
            held = await fake.core.acquire(request())
            await held.release()
            return fake.calls.targets("PUT", "/v1/sessions/"), first.loss(), first.name, held.session.name

        opens, loss, first, second = on_engine(run)
        assert loss == Loss("session-ended")
        assert len(opens) == 2 and first != second

    @pytest.mark.parametrize("call", ["acquire", "upgrade"])
    def test_a_named_session_is_never_opened_again(self, call: str) -> None:
        async def run() -> List[str]:
            is_ended = [False]
            fake = Fake(lambda call: EXPIRED if is_ended[0] and "/locks/" in call.target else opened(call), "nightly")
            held = await fake.core.acquire(request(mode="upgradable"))
            is_ended[0] = True
            for _ in range(2):
                with pytest.raises(Lost):
                    if call == "upgrade":
                        await _mode.upgrade(held.holds[0], 1.0)
                    else:
                        await fake.core.acquire(request())
            assert held.loss(), "the guards of the session are lost at once"
            with pytest.raises(Lost):
                await fake.core.session_for()
            return fake.calls.targets("PUT", "/v1/sessions/")

        assert len(on_engine(run)) == 1


    @pytest.mark.parametrize("what", ["permits", "counter", "group"])
    def test_a_numbered_call_sees_the_end_too(self, what: str) -> None:
        async def run() -> Optional[Loss]:
            is_ended = [False]
            permits = grant(5, permits=2, slots=[0, 1])
            fake = Fake(lambda call: EXPIRED if is_ended[0] else (200, permits) if "/locks/" in call.target else opened(call))
            held = await fake.core.acquire(request(limit=2, permits=2))
            is_ended[0] = True
            with pytest.raises(Lost):
                if what == "permits":
                    await release_permits(held.holds[0], 1)
                elif what == "counter":
                    await _recipes.change_counter(fake.core, "c", "POST", {"add": 1})
                else:
                    await _groups.join(fake.core, "g", "x")
            return held.holds[0].loss()

        assert on_engine(run) == Loss("session-ended")

    def test_slots_that_may_be_given_back_are_listed_no_more(self) -> None:
        async def run() -> List[Tuple[int, ...]]:
            answers = [(403, {"code": "forbidden", "title": "no"}), None, PAGE]
            permits = grant(5, permits=2, slots=[0, 1])

            def answer(call: Call) -> Any:
                if call.method == "DELETE":
                    return answers.pop(0)
                return (200, permits) if "/locks/" in call.target else opened(call)

            held = await Fake(answer).core.acquire(request(limit=2, permits=2))
            listed = []
            for error in (Rejected, Unavailable, UnexpectedResponse):
                with pytest.raises(error):
                    await release_permits(held.holds[0], 1)
                listed.append(held.holds[0].grant.slots)
            return listed

        assert on_engine(run) == [(0, 1), (0, 1), (0,)]


class TestLateRelease:
    """The release of a guard that was lost without the word of the cluster."""

    async def _lost(self, fake: Fake) -> HeldLocks:
        held = await fake.core.acquire(request())
        held.session.end(Loss("not-renewed"))
        return held

    @pytest.mark.parametrize("way", ["release", "drop"])
    def test_a_named_session_sends_it_until_the_outcome_is_certain(self, way: str) -> None:
        answers: List[Optional[Answer]] = [None, None, (409, {"code": "attempt-over", "title": "over"})]

        async def run() -> Tuple[int, List[str], HeldLocks]:
            fake = Fake(lambda call: answers.pop(0) if call.method == "DELETE" else opened(call), "nightly")
            held = await self._lost(fake)
            if way == "drop":
                held.release_in_background()
            else:
                with pytest.raises(Lost) as lost:
                    await held.release()
                assert lost.value.cause == "not-renewed"
                assert fake.calls.targets("DELETE") == [], "the caller does not wait for the call"
            await held.session.settled()
            return held.holds[0].entry.attempt, fake.calls.targets("DELETE"), held

        attempt, sent, held = on_engine(run)
        assert len(sent) == 3 and all("session=nightly" in target and f"attempt={attempt}" in target for target in sent)
        assert held.session.entries.all() == []

    def test_a_multi_lock_sends_it_too(self) -> None:
        async def run() -> List[str]:
            def answer(call: Call) -> Answer:
                grants = [grant(5), {**grant(6), "lock": "b"}]
                return (200, {"grants": grants}) if call.method == "POST" else opened(call)

            fake = Fake(answer, "nightly")
            held = await fake.core.acquire(LockRequest.of(["a", "b"], {}))
            held.session.end(Loss("not-renewed"))
            with pytest.raises(Lost):
                await held.release()
            await held.session.settled()
            return fake.calls.targets("DELETE")

        (target,) = on_engine(run)
        assert target.startswith("/v1/locks?name=a&name=b&session=nightly")

    def test_it_ends_with_the_client(self) -> None:
        async def run() -> int:
            fake = Fake(opened, "nightly")
            held = await self._lost(fake)

            def answer(call: Call) -> Optional[Answer]:
                if len(fake.calls.targets("DELETE")) == 3:
                    fake.calls.nodes.close()
                return None

            object.__setattr__(fake.calls, "answer", answer)
            with pytest.raises(Lost):
                await held.release()
            await held.session.settled()
            return len(fake.calls.targets("DELETE"))

        assert on_engine(run) == 3

    @pytest.mark.parametrize("named, loss", [(None, "not-renewed"), ("nightly", "session-ended"), ("nightly", "force-released")])
    def test_no_other_loss_sends_it(self, named: Optional[str], loss: str) -> None:
        async def run() -> List[str]:
            fake = Fake(opened, named)
            held = await fake.core.acquire(request())
            if loss == "force-released":
                held.holds[0].lose(Loss(loss))
            else:
                held.session.end(Loss(loss))
            with pytest.raises(Lost):
                await held.release()
            await held.session.settled()
            return fake.calls.targets("DELETE", "/locks/")

        assert on_engine(run) == []

    def test_a_place_in_a_double_barrier_ends_too(self) -> None:
        async def run() -> List[str]:
            tripped = (200, {"index": 0, "parties": 1, "generation": 4})
            fake = Fake(lambda call: tripped if "barriers" in call.target and call.method == "PUT" else opened(call), "nightly")
            arrival = await _recipes.arrive(fake.core, "double-barriers", "b", 1, 5.0)
            session = await fake.core.session_for()
            session.end(Loss("not-renewed"))
            with pytest.raises(Lost):
                await arrival.leave(5.0)
            await session.settled()
            return fake.calls.targets("DELETE", "generation=4")

        waiting, late = on_engine(run)
        assert "&wait=" in waiting and late.startswith("/v1/double-barriers/b?session=nightly&owner=a-")

    @pytest.mark.parametrize("way", ["leave", "drop"])
    def test_a_page_of_another_server_ends_no_place_in_a_double_barrier(self, way: str) -> None:
        pages: List[Answer] = [PAGE, PAGE]

        def answer(call: Call) -> Answer:
            if call.method == "DELETE" and pages:
                return pages.pop()
            tripped = {"index": 0, "parties": 1, "generation": 4}
            return (200, tripped) if call.method == "PUT" and "barriers" in call.target else opened(call)

        async def run() -> List[str]:
            fake = Fake(answer)
            arrival = await _recipes.arrive(fake.core, "double-barriers", "b", 1, 5.0)
            if way == "leave":
                with pytest.raises(UnexpectedResponse):
                    await arrival.leave(5.0)
            else:
                arrival.leave_in_background()
            await (await fake.core.session_for()).settled()
            return fake.calls.targets("DELETE")

        _, page, withdrawn, left = on_engine(run)
        assert page == withdrawn and "&request=" in withdrawn and left.endswith("&generation=4")

    @pytest.mark.parametrize("loss", [None, Loss("not-renewed")])
    def test_the_close_of_the_client_repeats_a_paused_one_at_once(
        self, loss: Optional[Loss], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pauses: List[int] = []

        def long_pause(failures: int) -> float:
            pauses.append(failures)
            return 60.0

        monkeypatch.setattr("holdfast._session.retry_pause", long_pause)

        async def run() -> int:
            fake = Fake(lambda call: PAGE if call.method == "DELETE" else opened(call), "nightly")
            held = await fake.core.acquire(request())
            if loss:
                held.session.end(loss)
            held.release_in_background()
            while not pauses:
                await asyncio.sleep(0.01)
            sent = len(fake.calls.targets("DELETE"))
            object.__setattr__(fake.calls, "answer", opened)
            await within(5.0, fake.core.close())
            return len(fake.calls.targets("DELETE")) - sent

        assert on_engine(run) == 1

    def test_a_guard_whose_token_the_cluster_no_longer_lists_releases_its_claim_once(self) -> None:
        async def run() -> List[str]:
            fake = Fake(opened)
            held = await fake.core.acquire(request())
            held.holds[0].lose(Loss("released-elsewhere"))
            with pytest.raises(Lost):
                await held.release()
            await held.release()
            await held.session.settled()
            return fake.calls.targets("DELETE")

        (release,) = on_engine(run)
        assert "&attempt=" in release

    def test_a_release_that_is_cancelled_before_it_starts_is_sent(self) -> None:
        engine, gate, began = Engine(), threading.Event(), threading.Event()
        engine.loop.call_soon_threadsafe(gate.wait)

        async def release() -> None:
            began.set()

        future = engine.submit(release(), is_release=True)
        assert future.cancel()
        gate.set()
        assert began.wait(20)
        engine.stop()


    def test_the_leave_of_a_double_barrier_is_a_release(self) -> None:
        class Caller:
            def _call(self, work: Any, undelivered: Any = None, is_release: bool = False) -> None:
                releases.append(is_release)

        releases: List[bool] = []
        barrier = DoubleBarrier.__new__(DoubleBarrier)
        vars(barrier).update(_client=Caller(), _arrival=object())
        barrier.leave(1)
        assert releases == [True]


class TestNumbers:
    """The attempts and request numbers of other programs, of which the newest is in an answer."""

    @pytest.fixture(autouse=True)
    def own_numbers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The numbers of other tests stay near the clock.
        monkeypatch.setattr(numbers, "_newest", 0)

    def _over(self, newest: int) -> Answer:
        return 409, {"code": "attempt-over", "title": "over", "newest_attempt": newest}

    def test_a_number_follows_one_in_nanoseconds(self) -> None:
        newest = 1_764_000_000_000_000_000

        async def run() -> Tuple[List[int], List[int]]:
            def answer(call: Call) -> Answer:
                if "/counters/" in call.target:
                    return 200, {"value": 1, "version": 1}
                is_first = len(fake.calls.targets("PUT", "/v1/sessions/")) == 1
                return self._over(newest) if is_first else opened(call)

            fake = Fake(answer)
            for _ in range(2):
                await _recipes.change_counter(fake.core, "c", "POST", {"add": 1})
            opens, adds = fake.calls.targets("PUT", "/v1/sessions/"), fake.calls.targets("POST", "/counters/")
            return [int(target.split("attempt=")[1]) for target in opens], [int(target.split("request=")[1]) for target in adds]

        (_, second), (add, other) = on_engine(run)
        assert newest < second < add < other

    def test_an_acquire_does_not_repeat_without_end(self) -> None:
        async def run() -> int:
            fake = Fake(lambda call: self._over(2**63 - 1) if "/locks/" in call.target else opened(call))
            with pytest.raises(InvalidArgument, match="another name"):
                await fake.core.acquire(request())
            return len(fake.calls.targets("PUT", "/locks/"))

        assert on_engine(run) == 1


class TestTransfer:
    def test_the_receiver_adopts_the_hold_by_a_call_that_acquires_nothing(self) -> None:
        async def run() -> Tuple[List[str], List[str]]:
            def answer(call: Call) -> Answer:
                if call.method == "GET":
                    return 200, {"holders": [{"session": "s1", "owner": "o", "token": 5}], "revision": 9}
                return opened(call)

            fake = Fake(answer, "s1")
            held = await _transfer.receive(fake.core, request(wait=5, owner="o"))
            assert held.holds[0].grant.token == 5
            await held.release()
            return fake.calls.targets("PUT", "/locks/"), fake.calls.targets("DELETE")

        (adoption,), (release,) = on_engine(run)
        assert adoption.startswith("/v1/locks/a?session=s1&incarnation=7&owner=o&attempt=")
        assert adoption.endswith("&change=0")
        assert release == "/v1/locks/a?session=s1&owner=o&token=5"

    @pytest.mark.parametrize("owner", ["o", None])
    def test_a_hold_that_is_gone_is_not_acquired(self, owner: Optional[str]) -> None:
        async def run() -> Tuple[List[str], List[str]]:
            reads: List[Call] = []

            def answer(call: Call) -> Answer:
                if call.target.startswith("/v1/watch"):
                    return 200, {"events": []}
                if call.method == "GET":
                    reads.append(call)
                    holders = [{"session": "s1", "owner": owner, "token": 5}] if len(reads) == 1 else []
                    return 200, {"holders": holders, "revision": 9}
                return NOT_HOLDER if "/locks/" in call.target else opened(call)

            fake = Fake(answer, "s1")
            with pytest.raises(Busy):
                await _transfer.receive(fake.core, request(wait=0, owner=owner))
            return fake.calls.targets("PUT", "/locks/"), fake.calls.targets("DELETE")

        (adoption,), releases = on_engine(run)
        assert "change=0" in adoption and releases == []
