"""The errors of calls, one class for each next step of the caller, and why a lock was lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Mapping, Optional

from . import codes


@dataclass(frozen=True)
class Problem:
    """The problem document (RFC 9457) of a node."""

    code: str
    title: str
    detail: str
    hint: Optional[str]
    retryable: bool
    status: int
    request_id: Optional[str]
    facts: Mapping[str, Any]

    def text(self) -> str:
        """Names the lock, unless the detail does, and the cause."""
        lock = self.facts.get("lock")
        repeats = not self.detail or self.detail.lower() == self.title.lower()
        cause = self.title if repeats else f"{self.title}: {self.detail}"
        return f'lock "{lock}": {cause}' if lock and str(lock) not in self.detail else cause


@dataclass(frozen=True)
class Loss:
    """Why a lock was lost. In every case, stop the work under the lock."""

    #: One of not-renewed, session-ended, released-elsewhere, force-released, revoked, transferred, stalled,
    #: max-hold-exceeded.
    cause: str
    #: The reason of an operator, the error of the last renewal, or the exceeded limit.
    reason: Optional[str] = None
    #: The lock that was lost.
    lock: Optional[str] = field(default=None, compare=False)

    def __str__(self) -> str:
        text = _LOSS_TEXTS[self.cause]
        return f"{text} ({self.reason})" if self.reason else text


_LOSS_TEXTS = {
    "not-renewed": "no renewal was acknowledged before the deadline",
    "session-ended": "the session has ended",
    "released-elsewhere": "the session no longer holds the lock",
    "force-released": "an operator force-released the lock",
    "revoked": "the lock was not released by the deadline of a release request",
    "transferred": "the lock was transferred to another session",
    "stalled": "no progress was reported in time, so the lock was released",
    "max-hold-exceeded": "the lock was held for its max_hold, and was released",
}


class Error(Exception):
    """A call error. Each subclass needs another reaction."""

    _retryable: ClassVar[bool] = False

    def __init__(self, message: str, problem: Optional[Problem] = None) -> None:
        super().__init__(message)
        #: The problem document, if a node returned one.
        self.problem = problem

    @property
    def code(self) -> Optional[str]:
        """The stable error code of the cluster, if a node returned one."""
        return self.problem.code if self.problem else None

    @property
    def detail(self) -> Optional[str]:
        """The facts of this case, if a node returned them."""
        return self.problem.detail if self.problem else None

    @property
    def hint(self) -> Optional[str]:
        """The advice of the node. It names HTTP parameters, so the message leaves it out."""
        return self.problem.hint if self.problem else None

    @property
    def request_id(self) -> Optional[str]:
        """The id under which the node logged the call."""
        return self.problem.request_id if self.problem else None

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later, and is safe to repeat."""
        return self.problem.retryable if self.problem else self._retryable


class Busy(Error):
    """Another client holds the lock, or the awaited event has not happened. Wait longer, or try again later."""

    _retryable = True

    def __init__(self, problem: Problem) -> None:
        super().__init__(_busy_text(problem), problem)

    @property
    def holder(self) -> Optional[Mapping[str, Any]]:
        """The holder of the lock: `session`, `token`, `held_for_ms`, `labels`."""
        holder = self.problem.facts.get("holder") if self.problem else None
        return holder if isinstance(holder, dict) else None

    @property
    def waiters(self) -> int:
        """The length of the queue."""
        return int(self.problem.facts.get("waiters", 0)) if self.problem else 0


class Lost(Error):
    """Another client may hold the lock. Stop the work under it."""

    def __init__(self, loss: Loss, lock: Optional[str] = None, token: Optional[int] = None) -> None:
        super().__init__(f'lock "{lock}" is lost: {loss}' if lock else str(loss))
        self.loss = loss
        self.lock = lock
        self.token = token

    @property
    def cause(self) -> str:
        """The cause, such as `not-renewed` or `force-released`."""
        return self.loss.cause


class Unavailable(Error):
    """No node executed the call within the timeout. The same call is safe later."""

    _retryable = True

    def __init__(self, reason: str, _retry_at: float = 0.0) -> None:
        super().__init__(f"no node answered the call in time: {reason}")
        self._retry_at = _retry_at


class OutcomeUnknown(Error):
    """The call may have taken effect. Read the state before you repeat it. An acquire cleans up by itself."""

    _retryable = True

    def __init__(self, reason: str, _retry_at: float = 0.0) -> None:
        super().__init__(f"the outcome is unknown, the call may have taken effect: {reason}")
        self._retry_at = _retry_at


class Rejected(Error):
    """The cluster rejected the call. Change it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text(), problem)


class UnexpectedResponse(Error):
    """The answer is not from a holdfast node. Check the addresses."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the answer is not from a holdfast node, check the address: {reason}")


class InvalidArgument(Error, ValueError):
    """An argument is invalid; nothing was sent. Change it."""


def is_uncertain(error: BaseException) -> bool:
    """Whether the call may succeed later, or may have taken effect."""
    return isinstance(error, (Unavailable, OutcomeUnknown))


def is_unclear(error: BaseException) -> bool:
    """Whether the outcome of the call is uncertain, or another server has answered it."""
    return is_uncertain(error) or isinstance(error, UnexpectedResponse)


def retry_at(error: BaseException) -> float:
    """When the call that failed may be sent again, on the clock of the event loop: nodes may have sent `Retry-After`."""
    return error._retry_at if isinstance(error, (Unavailable, OutcomeUnknown)) else 0.0


def is_unauthenticated(error: BaseException) -> bool:
    return isinstance(error, Rejected) and error.code in (codes.TOKEN_EXPIRED, codes.UNAUTHENTICATED)


def newest_attempt(error: BaseException) -> Optional[int]:
    """The newest attempt of the session, if the call was rejected because the attempt of the call is over."""
    return _newest(error, codes.ATTEMPT_OVER, "newest_attempt")


def newest_request(error: BaseException) -> Optional[int]:
    """The newest request number of the session, if the call was rejected because the number of the call is over."""
    return _newest(error, codes.REQUEST_OVER, "newest_request")


def is_hold_gone(error: BaseException) -> bool:
    """Whether a change was rejected because the cluster no longer has the hold."""
    return isinstance(error, Rejected) and error.code in (codes.NOT_HOLDER, codes.ATTEMPT_OVER)


def _newest(error: BaseException, code: str, fact: str) -> Optional[int]:
    if not isinstance(error, Rejected) or error.problem is None or error.code != code:
        return None
    newest = error.problem.facts.get(fact)
    return newest if isinstance(newest, int) else None


def _busy_text(problem: Problem) -> str:
    """`lock "orders" is held by session "web3-77" (host=web3) for 2.1s, 3 waiters`"""
    facts = problem.facts
    lock, holder, waiters = facts.get("lock"), facts.get("holder"), facts.get("waiters") or 0
    text = problem.text()
    if lock and isinstance(holder, dict):
        labels = " ".join(f"{key}={value}" for key, value in holder.get("labels", {}).items())
        held = f"{holder.get('held_for_ms', 0) / 1000:g}s"
        text = f'lock "{lock}" is held by session "{holder.get("session")}"' + (f" ({labels})" if labels else "")
        text += f" for {held}"
    if waiters:
        text += f", {waiters} waiter" + ("" if waiters == 1 else "s")
    if problem.code == codes.WAIT_TIMEOUT and facts.get("waited_ms") is not None:
        return f"timed out after {facts['waited_ms'] / 1000:g}s: {text}"
    return text
