"""A call of the HTTP API, and the meaning of an answer for the call. No I/O."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union
from urllib.parse import quote

from . import codes
from ._parameters import Parameter
from .errors import Busy, Error, InvalidArgument, Loss, Lost, Problem, Rejected, UnexpectedResponse

#: A time in seconds, or a `timedelta`.
Duration = Union[int, float, timedelta]
#: One call waits at most this long at a node; longer waits continue with another call.
WAIT_MAX = 300.0
#: Limits the header `Retry-After`: a proxy must not delay a release for hours. Nodes send at most 5 s.
_RETRY_AFTER_MAX = 60.0
#: The beginning of the fact `bound` for a quota of the caller, which another node would count for the same call.
_CALLS_PER_SECOND = "calls_per_second"
_FOREVER = 10 * 365 * 86400.0


class Copies(enum.Enum):
    """The effect of a second copy of a call at another node."""

    #: No copy has an effect, however late it arrives: a read, or a call with a number. Two nodes may have the call.
    HARMLESS = 1
    #: A repeated call changes nothing, but a late copy may undo another change. A node gets it after a lost answer.
    REPEATABLE = 2
    #: A second copy has another effect, so the call is not repeated after a lost answer.
    NEVER = 3


@dataclass(frozen=True)
class Call:
    method: str
    #: Path and query.
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    #: The time that the node should wait, in seconds.
    wait: float = 0.0
    copies: Copies = Copies.REPEATABLE

    def numbered(self, session: str, request: int) -> Call:
        """The call with a request number, which the cluster executes once."""
        mark = "&" if "?" in self.target else "?"
        named = query({"session": session, "request": request}, mark)
        return replace(self, target=self.target + named, copies=Copies.HARMLESS)


def get(target: str, wait: float = 0.0, headers: Optional[Mapping[str, str]] = None) -> Call:
    return Call("GET", target, headers or {}, wait=wait, copies=Copies.HARMLESS)


@dataclass(frozen=True)
class Response:
    status: int
    #: With names in lower case.
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self, **fields: type) -> Dict[str, Any]:
        """The body as a JSON object with fields of these types: another server may answer with a page, or with `{}`."""
        try:
            body = json.loads(self.body)
        except ValueError as error:
            raise UnexpectedResponse(str(error)) from None
        return with_fields(body, **fields)

    @property
    def names_node(self) -> bool:
        return "holdfast-node" in self.headers

    def is_of_node(self) -> bool:
        """Whether a successful answer is from a node, which answers with its id, with fields, with events or with 204.

        Another server, e.g. a proxy, may answer with a page or with `{}`.
        """
        has_events = self.headers.get("content-type", "").startswith("text/event-stream")
        if self.names_node or has_events or self.status == 204:
            return True
        try:
            body = json.loads(self.body)
        except ValueError:
            return False
        return isinstance(body, dict) and bool(body)

    def check_end(self) -> None:
        """Raises unless a node confirms an end: with 204, or with `left` for a double barrier."""
        if self.status != 204:
            self.json(left=bool)

    def problem(self) -> Optional[Problem]:
        """The problem document of an unsuccessful answer, if the node sent one."""
        try:
            body = json.loads(self.body)
        except ValueError:
            return None
        if not isinstance(body, dict) or not isinstance(body.get("code"), str):
            return None
        if body["code"] not in _CODES and not self.names_node:
            return None  # Another server has codes, too.
        return Problem(
            code=body["code"],
            title=str(body.get("title", body["code"])),
            detail=str(body.get("detail", "")),
            hint=body.get("hint"),
            retryable=body.get("retryable") is True,
            status=self.status,
            request_id=self.headers.get("holdfast-request-id"),
            facts=body,
        )


def with_fields(body: Any, **fields: type) -> Dict[str, Any]:
    if not isinstance(body, dict):
        raise UnexpectedResponse("the body is no JSON object")
    for name, kind in fields.items():
        if type(body.get(name)) is not kind:
            raise UnexpectedResponse(f"no {name} in the body")
    return body


@dataclass(frozen=True)
class RetryAfter:
    """The time in which the call must not be repeated, from the header `Retry-After`."""

    seconds: float = 0.0
    #: Whether the limit is one of the caller, so no node must get the call. Otherwise it is this node only.
    is_of_caller: bool = False

    @classmethod
    def of(cls, response: Response, problem: Optional[Problem]) -> RetryAfter:
        text = response.headers.get("retry-after", "")
        if response.status not in (429, 503) or not (text.isascii() and text.isdigit()):
            return cls()
        bound = str(problem.facts.get("bound", "")) if problem else ""
        # `int` rejects thousands of digits.
        return cls(min(float(text), _RETRY_AFTER_MAX), bound.startswith(_CALLS_PER_SECOND))

    def refuse(self, not_before: List[float], node: int, now: float) -> None:
        """Records when the node, or each node, may get the call again."""
        for other in range(len(not_before)) if self.is_of_caller else [node]:
            not_before[other] = max(not_before[other], now + self.seconds)


@dataclass(frozen=True)
class Rejection:
    """Another node would return the same."""

    error: Error


@dataclass(frozen=True)
class NotDone:
    """The node certainly did not execute the request."""

    reason: str
    retry_after: RetryAfter = RetryAfter()


@dataclass(frozen=True)
class MayBeDone:
    """The request has no answer, so the node may execute it later."""

    reason: str
    retry_after: RetryAfter = RetryAfter()


@dataclass(frozen=True)
class OldToken:
    """The node did not accept the access token, whose file may have another one."""

    error: Error


@dataclass(frozen=True)
class Foreign:
    """Another server answered in the place of a node. It may have passed the request on to one."""

    reason: str


Outcome = Union[Response, Rejection, NotDone, MayBeDone, OldToken, Foreign]

_CODES = frozenset(code for name, code in vars(codes).items() if name.isupper())
_BUSY = frozenset({codes.LOCK_BUSY, codes.LOCK_IN_COOLDOWN, codes.WAIT_TIMEOUT, codes.NOT_YET})


def classify(base: str, response: Response) -> Outcome:
    """The meaning of an answer for its call."""
    if 200 <= response.status < 300:
        return response if response.is_of_node() else Foreign(f"{base} answered {response.status} without the fields of a node")
    problem = response.problem()
    retry_after = RetryAfter.of(response, problem)
    if problem is None:
        reason = f"{base} answered {response.status} without a problem document"
        if response.status >= 500:
            return MayBeDone(reason, retry_after)
        return Rejection(UnexpectedResponse(reason)) if response.names_node else Foreign(reason)
    if problem.code in _BUSY:
        return Rejection(Busy(problem))
    if problem.code == codes.SESSION_EXPIRED:
        return Rejection(Lost(Loss("session-ended")))
    reason = f"{base}: {problem.code}: {problem.title}"
    if problem.code in (codes.OUTCOME_UNKNOWN, codes.INTERNAL):
        return MayBeDone(reason, retry_after)
    return NotDone(reason, retry_after) if problem.retryable else Rejection(Rejected(problem))


def seconds(duration: Duration, name: str, minimum: float = 0.0) -> float:
    """Checks a duration, and returns it in seconds."""
    value = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not minimum <= value <= _FOREVER:
        raise InvalidArgument(f"{name} is {duration!r}: give seconds or a timedelta, at least {minimum:g}")
    return float(value)


def millis(duration: float) -> str:
    """`1500ms`"""
    return f"{round(duration * 1000)}ms"


Parameters = Dict[Parameter, Any]


def query(parameters: Parameters, start: str = "?") -> str:
    """`?a=1&b=2`. A list repeats its parameter; `None` is left out."""
    pairs: List[Tuple[str, Any]] = []
    for key, value in parameters.items():
        values: Iterable[Any] = value if isinstance(value, (list, tuple)) else [value]
        pairs.extend((key, one) for one in values if one is not None)
    text = "&".join(f"{quote(key, safe='')}={quote(_text(value), safe='')}" for key, value in pairs)
    return start + text if text else ""


def _text(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def path(kind: str, name: str) -> str:
    """`/v1/locks/shop/orders`"""
    return f"/v1/{kind}/{quote(name, safe='/')}"


def check_name(name: str, what: str = "the lock name") -> str:
    """Checks a name whose parts become parts of a URL. The cluster checks the other rules."""
    if not isinstance(name, str):
        raise InvalidArgument(f"{what} is {name!r}: give a str")
    if not 1 <= len(name.encode("utf-8", "surrogatepass")) <= 512:
        raise InvalidArgument(f"{what} has {len(name.encode('utf-8', 'surrogatepass'))} bytes: give 1 to 512")
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise InvalidArgument(f"{what} {name!r} has a component that is empty, '.' or '..'")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{what} {name!r} is not Unicode text") from None
    return name


def base_url(text: str, default: str) -> Tuple[str, str, int]:
    """The scheme, the host and the port of a node: `host:port`, `http://host:port` or `https://host:port`."""
    # The text before the last `@` may have a password.
    shown = text.rpartition("@")[2]
    scheme, mark, address = text.strip().rstrip("/").partition("://")
    if not mark:
        scheme, address = default, scheme
    host, _, port = address.rpartition(":")
    if scheme not in ("http", "https"):
        raise InvalidArgument(f"{shown!r} uses an unsupported protocol: write host:port, http:// or https://")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise InvalidArgument(f"{shown!r} is not a node address: put the IPv6 address into brackets")
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535 or set(host) & set(" /?#@,;"):
        raise InvalidArgument(f"{shown!r} is not a node address: write host:port, such as 127.0.0.1:7400")
    return scheme, host, int(port)
