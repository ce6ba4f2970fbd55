"""The parts without I/O."""

from __future__ import annotations

import asyncio
from typing import List

import pytest
from holdfast import errors
from holdfast._calls import Copies, Foreign, MayBeDone, NotDone, Rejection, Response, base_url, check_name, classify, path, query
from holdfast._calls import seconds
from holdfast._clock import LargerProgress
from holdfast._guard import fencing_header
from holdfast._lease import Acknowledged, HoldLimits, Lease, ReleaseRequest, deadline, next_renewal, retry_pause
from holdfast._nodes import NodeState, order, order_of_idle
from holdfast._numbers import Numbers, next_number
from holdfast._request import LockRequest, SessionId
from holdfast._token import AccessToken, token_in
from holdfast._within import within
from holdfast.errors import InvalidArgument, Loss
from node import PAGES


def problem(status: int, body: str) -> Response:
    return Response(status, {"holdfast-node": "1", "holdfast-request-id": "1-a-2"}, body.encode())


class TestLease:
    def test_the_deadline_counts_from_the_sending_less_one_percent_and_five_milliseconds(self) -> None:
        assert deadline(100.0, 30.0) == pytest.approx(129.695)
        assert deadline(100.0, 0.0) == 100.0

    def test_a_renewal_is_due_after_a_third_less_a_tenth_of_it(self) -> None:
        assert next_renewal(0.0, 30.0, 0.0) == 10.0
        assert next_renewal(0.0, 30.0, 1.0) == 9.0

    def test_a_late_acknowledgement_restores_nothing(self) -> None:
        lease = Lease.of(Acknowledged(0.0, 3.0), 0.0)
        late = lease.acknowledge(Acknowledged(2.5, 3.0), 0.0, now=3.0)
        assert late.loss(3.0) == Loss("not-renewed", "no renewal was answered")

    def test_an_acknowledgement_never_moves_the_deadline_back(self) -> None:
        lease = Lease.of(Acknowledged(1.0, 30.0), 0.0).acknowledge(Acknowledged(0.5, 30.0), 0.0, now=2.0)
        assert lease.deadline == deadline(1.0, 30.0)

    def test_the_first_loss_stays(self) -> None:
        lease = Lease.of(Acknowledged(0.0, 3.0), 0.0).end(Loss("session-ended"), now=1.0)
        assert lease.end(Loss("not-renewed"), now=9.0).loss(9.0) == Loss("session-ended")

    def test_the_loss_names_the_error_of_the_last_renewal(self) -> None:
        lease = Lease.of(Acknowledged(0.0, 3.0), 0.0).renewal_failed("no route", now=1.0)
        assert lease.renew_at == pytest.approx(1.2)
        assert str(lease.loss(3.0)) == "no renewal was acknowledged before the deadline (no route)"

    def test_pauses_double_up_to_a_limit(self) -> None:
        assert [retry_pause(n) for n in (1, 2, 3, 99)] == pytest.approx([0.2, 0.4, 0.8, 12.8])


class TestHoldLimits:
    def test_the_nearest_limit_counts(self) -> None:
        limits = HoldLimits(progress_timeout=5, progress_until=15, max_hold=9, max_until=12)
        assert limits.check(11) == 12
        assert limits.check(12) == Loss("max-hold-exceeded", "max_hold is 9s")

    def test_a_progress_report_moves_its_deadline_but_not_after_a_loss(self) -> None:
        limits = HoldLimits(progress_timeout=5, progress_until=15).report_progress(14)
        assert limits.check(18) == 19
        assert limits.report_progress(19).check(19) == Loss("stalled", "progress_timeout is 5s")

    def test_a_later_request_does_not_postpone_a_revocation(self) -> None:
        limits = HoldLimits().ask(ReleaseRequest("first", 10, True))
        limits = limits.ask(ReleaseRequest("later", 20, True)).ask(ReleaseRequest("no revocation", 5, False))
        assert limits.check(10) == Loss("revoked", "first")

    def test_the_first_loss_stays(self) -> None:
        limits = HoldLimits().lose(Loss("force-released", "why"), 1).lose(Loss("transferred"), 2)
        assert limits.check(3) == Loss("force-released", "why")


class TestNumbers:
    def test_a_number_exceeds_those_of_the_process_and_of_the_cluster(self) -> None:
        assert next_number(newest=0, after=0, micros=50) == 50
        assert next_number(newest=70, after=0, micros=50) == 71
        assert next_number(newest=70, after=90, micros=50) == 91
        assert next_number(newest=0, after=1_764_000_000_000_000_000, micros=1) == 1_764_000_000_000_000_001

    def test_the_largest_number_has_none_after_it(self) -> None:
        numbers = Numbers()
        assert numbers.after(2**63 - 2) == 2**63 - 1
        with pytest.raises(InvalidArgument, match="another name"):
            numbers.after()

    def test_the_clock_follows_the_larger_progress_of_two(self) -> None:
        readings = [0.0, 100.0]
        clock = LargerProgress(lambda: readings[0], lambda: readings[1])
        readings[:] = [1.0, 105.0]
        assert clock.now() == 5.0
        readings[:] = [3.0, 50.0]
        assert clock.now() == 7.0, "the second clock was set back"


class TestWithin:
    def test_a_cancellation_that_comes_with_the_result_is_not_lost(self) -> None:
        discarded: List[int] = []

        async def run() -> None:
            result: "asyncio.Future[int]" = asyncio.get_running_loop().create_future()
            task = asyncio.ensure_future(within(10, result, discarded.append))
            await asyncio.sleep(0)
            result.set_result(7)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0)

        asyncio.run(run())
        assert discarded == [7]

    def test_the_work_ends_with_the_time(self) -> None:
        async def run() -> None:
            work = asyncio.ensure_future(asyncio.sleep(30))
            with pytest.raises(asyncio.TimeoutError):
                await within(0.01, work)
            await asyncio.sleep(0)
            assert work.cancelled()

        asyncio.run(run())


class TestOrder:
    def test_the_leader_comes_first_and_a_resting_node_last(self) -> None:
        states = [NodeState(id=1), NodeState(id=2), NodeState(id=3)]
        assert order(states, preferred=1, leader=3, now=0) == [2, 1, 0]
        states[2].rest(now=0)
        assert order(states, preferred=1, leader=3, now=0.5) == [1, 0, 2]
        assert order(states, preferred=1, leader=3, now=1.5) == [2, 1, 0]

    def test_an_unknown_leader_is_one_of_the_addresses_without_an_answer(self) -> None:
        states = [NodeState(id=1), NodeState(), NodeState(id=3)]
        assert order(states, preferred=0, leader=2, now=0) == [1, 0, 2]

    def test_a_rest_doubles_up_to_ten_seconds(self) -> None:
        state = NodeState()
        rests = []
        for _ in range(5):
            state.rest(now=0)
            rests.append(state.rests_until)
        assert rests == [1, 2, 4, 8, 10]

    def test_a_keepalive_parks_where_no_call_waits(self) -> None:
        states = [NodeState(id=1, waiting=1), NodeState(id=2), NodeState(id=3)]
        assert order_of_idle(states, preferred=1, leader=1, now=0) == [2, 1, 0]


class TestClassify:
    def test_a_busy_lock(self) -> None:
        body = """{"type":"/errors/lock-busy","title":"The lock is held by another caller","status":423,"code":"lock-busy",
            "retryable":true,"hint":"add wait=10s","lock":"orders","waiters":3,"holder":{"session":"s1","token":9,
            "held_for_ms":2100,"labels":{"host":"web1"}}}"""
        outcome = classify("n", problem(423, body))
        assert isinstance(outcome, Rejection) and isinstance(outcome.error, errors.Busy)
        busy = outcome.error
        assert str(busy) == 'lock "orders" is held by session "s1" (host=web1) for 2.1s, 3 waiters'
        assert (busy.code, busy.waiters, busy.retryable, busy.request_id) == ("lock-busy", 3, True, "1-a-2")

    @pytest.mark.parametrize(
        "code, retryable, expected",
        [
            ("outcome-unknown", True, MayBeDone),
            ("internal", False, MayBeDone),
            ("no-leader", True, NotDone),
            ("shutting-down", True, NotDone),
            ("forbidden", False, Rejection),
            ("session-expired", False, Rejection),
            ("a-code-of-a-later-version", True, NotDone),
        ],
    )
    def test_codes(self, code: str, retryable: bool, expected: type) -> None:
        flag = "true" if retryable else "false"
        body = f'{{"code":"{code}","title":"x","retryable":{flag}}}'
        assert isinstance(classify("n", problem(503, body)), expected)

    def test_an_answer_that_is_not_from_a_node(self) -> None:
        assert isinstance(classify("n", problem(502, "<html>")), MayBeDone)
        for status, body in PAGES:
            assert isinstance(classify("n", Response(status, {}, body)), Foreign), (status, body)
        assert isinstance(classify("n", Response(200, {"holdfast-node": "1"}, b"")), Response)
        assert isinstance(classify("n", Response(204, {}, b"")), Response)
        for status, outcome in ((404, Foreign), (503, MayBeDone)):
            body = b'{"code":"NoRoute","message":"no healthy upstream"}'
            assert isinstance(classify("n", Response(status, {}, body)), outcome)
        rejection = classify("n", Response(404, {"holdfast-node": "1"}, b""))
        assert isinstance(rejection, Rejection) and isinstance(rejection.error, errors.UnexpectedResponse)


class TestWords:
    def test_names_keep_their_slashes(self) -> None:
        assert path("locks", "shop/a b?#%ü") == "/v1/locks/shop/a%20b%3F%23%25%C3%BC"
        assert query({"value": "x&y/z", "wait": None, "revoke": True, "name": ["1", "2"]}) == "?value=x%26y%2Fz&revoke=true&name=1&name=2"

    @pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "a/../b", ".", "x" * 513, "\ud800"])
    def test_invalid_names_send_nothing(self, name: str) -> None:
        with pytest.raises(InvalidArgument):
            check_name(name)

    def test_addresses(self) -> None:
        assert base_url("db1:7400", "http") == ("http", "db1", 7400)
        assert base_url("https://[::1]:7400/", "http") == ("https", "::1", 7400)
        for text in ("db1", "ftp://db1:1", "::1:7400", "db1:99999", "a b:1", "db1:7400/x", ":7400"):
            with pytest.raises(InvalidArgument):
                base_url(text, "http")

    @pytest.mark.parametrize("address", ["http://me:se@cret@db1:7400", "ftp://me:secret@db1:1", "me:secret@db1:1"])
    def test_the_error_of_an_address_has_no_password(self, address: str) -> None:
        with pytest.raises(InvalidArgument, match="db1") as error:
            base_url(address, "http")
        assert "cret" not in str(error.value)

    def test_options_are_checked_before_anything_is_sent(self) -> None:
        for options in ({"wait": -1}, {"mode": "write"}, {"permits": True}, {"ttl": 0.5}, {"wait": "10s"}):
            with pytest.raises(InvalidArgument):
                LockRequest.of(["a"], options)
        with pytest.raises(TypeError, match="timeout"):
            LockRequest.of(["a"], {"timeout": 1})
        with pytest.raises(InvalidArgument):
            seconds(float("nan"), "wait")

    def test_the_call_of_an_acquire(self) -> None:
        call = LockRequest.of(["a"], {"owner": "o", "wait": 9, "max_hold": 60, "mode": "shared"}).call(SessionId("s", 4), 7, 2.5)
        assert call.target == "/v1/locks/a?session=s&incarnation=4&owner=o&attempt=7&wait=2500ms&mode=shared&max_hold=60000ms"
        assert (call.method, call.wait, call.copies) == ("PUT", 2.5, Copies.HARMLESS)
        many = LockRequest.of(["a", "b"], {}).owned().call(SessionId("s", 4), 7, 0.0)
        assert many.method == "POST" and many.target.startswith("/v1/locks?name=a&name=b&session=s&incarnation=4&owner=g-")

    def test_the_fencing_header(self) -> None:
        assert fencing_header(4812, "orders", 4812) == '4812; resource="orders"'
        assert fencing_header(9, 'a"b\\', 3) == '9; resource="a\\"b\\\\"; floor=3'
        assert fencing_header(9, "größe", 9) == "9"

    def test_access_tokens(self) -> None:
        assert token_in("hf_abc\n") == "hf_abc"
        assert token_in("Authorization: Bearer hf_abc\n") == "hf_abc"
        assert token_in("two words") is None
        assert "hf_abc" not in repr(AccessToken("hf_abc"))
