"""The client without its API: options, nodes and sessions. Used on the event loop of the engine only."""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass, field
from typing import Any, Awaitable, Dict, List, Mapping, Optional, Tuple, TypeVar

from . import _http
from ._acquire import WaitLimit, acquire
from ._calls import Call, Response, base_url, check_name
from ._hold import HeldLocks
from ._nodes import Nodes
from ._numbers import jitter, random_name
from ._renewal import renew_while_used, watch_losses
from ._request import LockRequest
from ._send import Calls
from ._session import Session
from ._token import AccessToken
from ._within import unless_lost
from .errors import InvalidArgument, Loss, Lost
from .metrics import Metrics

_SESSIONS_MAX = 64
_DEFAULT_ADDRESS = "127.0.0.1:7400"
_CLOSED = Loss("session-ended", "the client was closed")

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """The checked options of a client."""

    addresses: Tuple[Tuple[str, str, int], ...]
    ttl: Optional[float]
    session_prefix: str
    #: The name of a session that outlives the client. The client never replaces it.
    session: Optional[str]
    labels: Mapping[str, str]
    request_timeout: float
    token: Optional[AccessToken]
    tls: Optional[ssl.SSLContext] = field(repr=False)
    metrics: Metrics = field(repr=False)


def addresses(given: Any, has_tls: bool) -> Tuple[Tuple[str, str, int], ...]:
    """The addresses of the nodes; by default those of `HOLDFAST_ADDR`."""
    if given is None:
        given = os.environ.get("HOLDFAST_ADDR") or _DEFAULT_ADDRESS
    texts = given.split(",") if isinstance(given, str) else list(given)
    if not texts:
        raise InvalidArgument("no node address is given: name at least one, such as 127.0.0.1:7400")
    return tuple(base_url(text, "https" if has_tls else "http") for text in texts)


def tls_context(ca: Optional[str], certificate: Optional[str], key: Optional[str]) -> ssl.SSLContext:
    """Verifies nodes by the CAs in the file `ca`, or by those of the system."""
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgument(f"cannot use the certificates: {error}") from None
    return context


class Core:
    """The nodes and the sessions of one client in one process."""

    def __init__(self, options: Options) -> None:
        self._options = options
        nodes = [_http.Node(scheme, host, port, options.tls) for scheme, host, port in options.addresses]
        self.calls = Calls(Nodes(nodes, options.token, int(jitter() * 255)), options.request_timeout)
        self._open: Dict[Optional[float], Session] = {}
        #: Resolved when every wait without a session must end.
        self._closing: "asyncio.Future[Loss]" = asyncio.get_running_loop().create_future()
        # Locked during the call that opens a session, so that concurrent acquires share it.
        self._opening = asyncio.Lock()
        self._is_closed = False

    async def session_for(self, ttl: Optional[float] = None) -> Session:
        """The live session for this time-to-live; opens it if necessary."""
        options = self._options
        if options.session is not None and ttl not in (None, options.ttl):
            raise InvalidArgument("set the ttl of a named session on the client, not on a lock")
        ttl = options.ttl if ttl is None else ttl
        async with self._opening:
            if self._is_closed:
                raise InvalidArgument("the client is closed")
            known = self._open.get(ttl)
            if known and known.loss() is None:
                return known
            if known and (loss := known.loss()) and not known.is_own:
                # An open call would begin another session under the name that the caller chose.
                raise Lost(loss)
            if known is None and len(self._open) >= _SESSIONS_MAX:
                raise InvalidArgument(f"the locks of one client have at most {_SESSIONS_MAX} different ttls")
            name = options.session or random_name(options.session_prefix)
            is_own = options.session is None
            session = await Session.open(self.calls, name, is_own, ttl, options.labels, options.metrics)
            self._open[ttl] = session
            if known:
                known.abandon()
            session.start(renew_while_used(session))
            session.start(watch_losses(session))
            return session

    async def open_session(self) -> Session:
        """Opens the session, and uses it until `unuse`."""
        session = await self.session_for()
        session.use()
        return session

    async def unuse(self, session: Session) -> None:
        if not session.is_of_parent:
            session.unuse()

    async def unless_closing(self, work: Awaitable[T]) -> T:
        """The result of a waiting call. Raises the loss if the client is closed before."""
        return await unless_lost(self._closing, work)

    async def acquire(self, request: LockRequest) -> HeldLocks:
        return await acquire(self.session_for, request.owned(), WaitLimit(request.wait), self._options.metrics)

    async def reenter(self, session: Session, request: LockRequest) -> HeldLocks:
        async def same(_ttl: Optional[float]) -> Session:
            return session

        return await acquire(same, request, WaitLimit(0.0), self._options.metrics)

    async def json(self, call: Call, **fields: type) -> Dict[str, Any]:
        return await self.calls.json(call, **fields)

    async def send_once(self, call: Call) -> Response:
        """Sends a change that the cluster executes once."""
        session = await self.session_for()
        session.use()
        try:
            return await session.send_numbered(lambda request: call.numbered(session.name, request))
        finally:
            session.unuse()

    async def close(self) -> None:
        """Closes generated sessions. Leaves named sessions."""
        if not self._closing.done():
            self._closing.set_result(_CLOSED)
        async with self._opening:
            self._is_closed = True
            sessions, self._open = list(self._open.values()), {}
        closing: List[Awaitable[None]] = [self._close(session) for session in sessions]
        results = await asyncio.gather(*closing, return_exceptions=True)
        self.calls.nodes.close()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _close(self, session: Session) -> None:
        session.abandon()
        if not session.is_own:
            return await session.leave(self.calls.request_timeout)
        if session.loss():
            return
        session.is_closed = True
        session.end(_CLOSED)
        try:
            await self.calls.close_session(session.name, session.incarnation)
        except Lost:
            pass  # The session had already ended.


def checked_labels(labels: Optional[Mapping[str, str]]) -> Dict[str, str]:
    checked = dict(labels or {})
    for key, value in checked.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidArgument(f"label {key!r}: give a str for a str")
    return checked


def checked_session(name: Optional[str], what: str) -> Optional[str]:
    return None if name is None else check_name(name, what)
