"""Answers with status 200 of another server: each call fails, and none is taken for a grant, a renewal or a release."""

from __future__ import annotations

import re
import time
from typing import Any, Callable, Dict, List, Tuple

import pytest

import holdfast
from holdfast.metrics import Metrics
from node import SESSION, Answer, Node

BODIES = [
    b"{}",
    b"[]",
    b"null",
    b'{"token":5,"lo',
    b'{"lock":1,"token":"5","value":"1","left":"no"}',
    b"<html>Welcome</html>",
    b"",
]
ROUND = {"index": 0, "parties": 1, "generation": 4}


def grant(lock: str) -> Dict[str, Any]:
    held = {"mode": "upgradable", "permits": 2, "slots": [0, 1]}
    return {"lock": lock, "token": 5, "waited_ms": 0, "expires_in_ms": 30000, **held}


def good(call: str) -> Answer:
    """The answers of a cluster in which nothing special happens."""
    if call.startswith("DELETE"):
        return 200, {}
    if "/v1/sessions/" in call:
        return 200, SESSION
    if call.startswith("GET /v1/locks"):
        return 200, {"lock": "t", "holders": [{"session": "nightly", "token": 9}], "holders_total": 1, "revision": 1}
    if call.startswith("POST /v1/locks"):
        return 200, {"grants": [grant("b"), grant("c")]}
    if "barriers" in call:
        return 200, ROUND
    if "/txn" in call:
        return 200, {"results": [{"stat": {"kind": "ephemeral"}}]}
    lock = re.search(r"locks/([^?]*)", call)
    return 200, grant(lock[1] if lock else "a")


CALLS: Dict[str, Tuple[str, Callable[[holdfast.Client, holdfast.Guard], Any]]] = {
    "open a session": ("^PUT .*sessions", lambda hf, guard: None),
    "acquire": ("^PUT .*locks/b", lambda hf, guard: hf.lock("b", wait=0).acquire()),
    "acquire several": ("^POST .*locks", lambda hf, guard: hf.lock_many(["b", "c"], wait=0).acquire()),
    "release": ("^DELETE .*locks/a", lambda hf, guard: guard.release()),
    "release several": ("^DELETE .*locks[?]", lambda hf, guard: hf.lock_many(["b", "c"]).acquire().release()),
    "release permits": ("permits=1", lambda hf, guard: guard.release_permits(1)),
    "upgrade": ("mode=exclusive", lambda hf, guard: guard.upgrade(0)),
    "proclaim": ("value=y", lambda hf, guard: hf.election("e").campaign("x").proclaim("y")),
    "transfer": ("transfers", lambda hf, guard: guard.transfer("other")),
    "receive": ("change=0", lambda hf, guard: hf.lock("t", wait=0).receive_transfer()),
    "hold durably": ("^PUT .*hold=durable", lambda hf, guard: hf.hold_durably("d", "o", "r")),
    "release a durable hold": ("^DELETE .*hold=durable", lambda hf, guard: hf.release_durable("d", "o", 5)),
    "force-release": ("force-releases", lambda hf, guard: hf.force_release("a", "r", token=5)),
    "request a release": ("release-requests", lambda hf, guard: hf.request_release("a", token=5)),
    "read a lock": ("^GET .*locks", lambda hf, guard: hf.lock_state("a")),
    "read an election": ("elections", lambda hf, guard: hf.election("e").leader()),
    "arrive at a barrier": ("^PUT .*barriers", lambda hf, guard: hf.barrier("b", 1).wait(0)),
    "leave a barrier": ("^DELETE .*barriers", lambda hf, guard: leave(hf)),
    "create a latch": ("^PUT .*latches", lambda hf, guard: hf.latch("l").create(1)),
    "count down": ("^POST .*latches", lambda hf, guard: hf.latch("l").count_down("k")),
    "wait for a latch": ("^GET .*latches", lambda hf, guard: hf.latch("l").wait(0)),
    "delete a latch": ("^DELETE .*latches", lambda hf, guard: hf.latch("l").delete()),
    "read a counter": ("^GET .*counters", lambda hf, guard: hf.counter("c").get()),
    "add": ("^POST .*counters", lambda hf, guard: hf.counter("c").add(1)),
    "set": ("^PUT .*counters", lambda hf, guard: hf.counter("c").set(1)),
    "delete a counter": ("^DELETE .*counters", lambda hf, guard: hf.counter("c").delete()),
    "read a znode": ("^GET .*tree", lambda hf, guard: hf.tree_get("/z")),
    "write a znode": ("^PUT .*tree", lambda hf, guard: hf.tree_put("/z", b"")),
    "delete a znode": ("^DELETE .*tree", lambda hf, guard: hf.tree_delete("/z")),
    "watch": ("watch", lambda hf, guard: hf.watch("/z").next()),
    "join": ("txn", lambda hf, guard: hf.group("g").join()),
    "members": ("tree", lambda hf, guard: hf.group("g").members()),
}


def leave(hf: holdfast.Client) -> None:
    place = hf.double_barrier("b", 1)
    place.enter(5)
    place.leave(0)


@pytest.mark.parametrize("call", CALLS)
def test_a_false_answer_fails_its_call(call: str) -> None:
    pattern, make = CALLS[call]
    for body in BODIES:
        sent: List[str] = []
        false = [body]

        def answer(request: str) -> Answer:
            if "/keepalive" in request:
                return node.hold()
            sent.append(request)
            return (200, false.pop()) if false and re.search(pattern, request) else good(request)

        with Node(answer, has_all=True) as node:
            with holdfast.Client(node.address, session="nightly") as hf:
                with pytest.raises(holdfast.UnexpectedResponse):
                    make(hf, hf.lock("a", mode="upgradable").acquire())
                assert not false, body
                if re.search("^release( several)?$|^acquire|transfer|receive", call):
                    until(lambda: any(request.startswith("DELETE /v1/locks") for request in sent))


@pytest.mark.parametrize("body", BODIES)
def test_a_false_answer_closes_no_session(body: bytes) -> None:
    def answer(request: str) -> Answer:
        if "/keepalive" in request:
            return node.hold()
        return (200, body) if request.startswith("DELETE") else good(request)

    with Node(answer, has_all=True) as node:
        hf = holdfast.Client(node.address)
        hf.lock("a").acquire()
        with pytest.raises(holdfast.UnexpectedResponse):
            hf.close()


@pytest.mark.parametrize("body", BODIES)
def test_a_false_answer_renews_nothing(body: bytes) -> None:
    renewals: List[bool] = []

    class Renewals(Metrics):
        def renewed(self, session: str, is_renewed: bool) -> None:
            renewals.append(is_renewed)

    def answer(request: str) -> Answer:
        if "/keepalive" in request:
            return 200, body
        return (200, {**SESSION, **grant("a"), "expires_in_ms": 1000}) if request.startswith("PUT") else good(request)

    with Node(answer, has_all=True) as node, holdfast.Client(node.address, metrics=Renewals()) as hf:
        guard = hf.lock("a").acquire()
        loss = guard.lost.wait(20)
        assert loss and loss.cause == "not-renewed"
        assert renewals and True not in renewals


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
