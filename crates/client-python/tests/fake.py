"""A client without a cluster: a function answers each call."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Callable, Coroutine, Dict, List, Optional, Tuple, TypeVar

from holdfast import _clock, _engine
from holdfast._calls import Call, Foreign, Rejection, Response, classify
from holdfast._core import Core, Options
from holdfast._events import SessionPoll
from holdfast._request import LockRequest
from holdfast._retry import Delivery, Route
from holdfast._send import Calls
from holdfast.errors import Unavailable, UnexpectedResponse
from holdfast.metrics import Metrics

T = TypeVar("T")
#: A status and a body, or the error of a call that no node answered.
Answer = Tuple[int, Dict[str, Any]]

EXPIRED = (410, {"code": "session-expired", "title": "The session has ended"})
#: The answer of another server.
PAGE: Any = (200, [])
NOT_HOLDER = (409, {"code": "not-holder", "title": "The session does not hold the lock"})


class FakeCalls(Calls):
    """Answers each call by a function. The requests were sent `ago` seconds before their answers."""

    ago: float
    sent: List[Call]
    answer: Any
    keepalive: Optional[Dict[str, Any]]

    def with_timeout(self, request_timeout: float) -> Calls:
        return self

    async def _deliver_at(self, call: Call, route: Route) -> Delivery:
        self.sent.append(call)
        sent = _clock.now() - self.ago
        answer = self.answer(call)
        if asyncio.iscoroutine(answer):
            answer = await answer
        # As over a network, the end of a session that comes with the call is seen before the answer.
        for _ in range(5):
            await asyncio.sleep(0)
        if answer is None:
            return Delivery(None, Unavailable("no route"), sent, False)
        status, body = answer
        outcome = classify("node", Response(status, {}, json.dumps(body).encode()))
        if isinstance(outcome, Response):
            return Delivery(outcome, None, sent, False)
        if isinstance(outcome, Foreign):
            return Delivery(None, UnexpectedResponse(outcome.reason), sent, True)
        assert isinstance(outcome, Rejection)
        return Delivery(None, outcome.error, sent, False)

    async def park_keep_alive(
        self, session: str, incarnation: int, since: Optional[int], wait: float, left: float
    ) -> Delivery:
        if self.keepalive is None:
            await asyncio.Event().wait()
        response = Response(200, {}, json.dumps(self.keepalive).encode())
        return Delivery(response, None, _clock.now() - self.ago, False)

    def targets(self, method: str, part: str = "") -> List[str]:
        return [call.target for call in self.sent if call.method == method and part in call.target]


class Fake:
    """A client whose calls a function answers."""

    def __init__(self, answer: Callable[[Call], Any], named: Optional[str] = None, ago: float = 0.0) -> None:
        address = (("http", "127.0.0.1", 1),)
        self.core = Core(Options(address, None, "t", named, {}, 10.0, None, None, Metrics()))
        self.calls = FakeCalls(self.core.calls.nodes, 10.0)
        for name, value in {"ago": ago, "sent": [], "answer": answer, "keepalive": None}.items():
            object.__setattr__(self.calls, name, value)
        self.core.calls = self.calls


async def reads_over(poll: SessionPoll) -> None:
    """Waits for the reads that an answer of a keepalive has started."""
    while poll._readers:
        await asyncio.sleep(0)


def on_engine(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs a test where the client runs its calls."""
    return _engine.current().submit(work()).result(20)


def opened(call: Call) -> Answer:
    """The answers of a cluster in which nothing special happens."""
    if call.method == "DELETE":
        return 204, {}
    if call.target.startswith("/v1/sessions/"):
        return 200, {"incarnation": 7, "expires_in_ms": 30000, "revision": 3, "holds": []}
    return 200, grant(5)


def grant(token: int, **more: Any) -> Dict[str, Any]:
    return {"lock": "a", "mode": "exclusive", "token": token, "waited_ms": 0, "expires_in_ms": 30000, **more}


def request(**options: Any) -> LockRequest:
    return LockRequest.of(["a"], options)
