"""What the clients of both APIs have in common: their options, and the way to the engine."""

from __future__ import annotations

import atexit
import os
import weakref
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Iterable, Mapping, Optional, TypeVar, Union

from . import _engine
from ._calls import Duration, seconds
from ._core import Core, Options, addresses, checked_labels, checked_session, tls_context
from ._token import AccessToken
from .errors import InvalidArgument
from .metrics import Metrics

if TYPE_CHECKING:
    Path = Union[str, "os.PathLike[str]"]

T = TypeVar("T")
ClientT = TypeVar("ClientT", bound="ClientBase")
Undelivered = Optional[Callable[[T], None]]

#: At the end of the process, open sessions get this time to close.
_EXIT_TIMEOUT = 2.0


class ClientBase:
    """A handle to a cluster, with one session that is renewed while a guard needs it.

    It sends nothing before its first call. Threads and tasks share it. A forked child may use it, too, with another
    session.
    """

    def __init__(
        self,
        addresses: Union[str, Iterable[str], None] = None,
        *,
        ttl: Optional[Duration] = None,
        session_prefix: str = "sdk",
        session: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        request_timeout: Duration = 10.0,
        ca: Optional[Path] = None,
        certificate: Optional[Path] = None,
        key: Optional[Path] = None,
        access_token: Optional[str] = None,
        access_token_file: Optional[Path] = None,
        metrics: Optional[Metrics] = None,
    ) -> None:
        """See the table of options in the README."""
        nodes = _addresses(addresses, ca is not None or certificate is not None)
        needs_tls = any(scheme == "https" for scheme, _, _ in nodes)
        token = None
        if access_token is not None or access_token_file is not None:
            token = AccessToken(access_token, _text(access_token_file))
        if key is not None and certificate is None:
            raise InvalidArgument("key needs a certificate")
        if not session_prefix:
            raise InvalidArgument("session_prefix is empty: give at least one character")
        self._options = Options(
            addresses=nodes,
            ttl=None if ttl is None else seconds(ttl, "ttl", 1.0),
            session_prefix=session_prefix,
            session=checked_session(session, "the session name"),
            labels=checked_labels(labels),
            request_timeout=seconds(request_timeout, "request_timeout", 0.1),
            token=token,
            tls=tls_context(_text(ca), _text(certificate), _text(key)) if needs_tls else None,
            metrics=metrics or Metrics(),
        )
        self._engine: Optional[_engine.Engine] = None
        self._core: Optional[Core] = None
        self._is_closed = False
        _open_clients.add(self)

    def __repr__(self) -> str:
        nodes = ", ".join(f"{scheme}://{host}:{port}" for scheme, host, port in self._options.addresses)
        return f"<{type(self).__module__}.{type(self).__qualname__} of {nodes}>"

    def _submit(
        self,
        work: Callable[[Core], Coroutine[Any, Any, T]],
        undelivered: Undelivered[T] = None,
        is_release: bool = False,
    ) -> "Future[T]":
        """Runs a call on the engine of this process. Only a release may follow the close."""
        self._check_open(is_release)
        engine = _engine.current()

        async def run() -> T:
            # The client may have been closed on another thread since. Each side sets its field before it reads the other's:
            # either this call sees the close, or the close sees the core.
            if self._core is None or self._engine is not engine:
                self._core, self._engine = Core(self._options), engine
            self._check_open(is_release)
            return await work(self._core)

        return engine.submit(run(), undelivered, is_release)

    def _check_open(self, is_release: bool) -> None:
        if self._is_closed and not is_release:
            raise InvalidArgument("the client is closed")

    def _give_up(self, future: "Future[T]", undelivered: Undelivered[T] = None) -> None:
        """Cancels a call whose caller is gone."""
        _engine.current().give_up(future, undelivered)

    def _begin_close(self) -> "Optional[Future[None]]":
        """Closes the client once; `None` if there is nothing to close."""
        _open_clients.discard(self)
        was_closed, self._is_closed = self._is_closed, True
        if was_closed or self._core is None or not self._engine or not _engine.is_current(self._engine):
            return None
        return self._submit(Core.close, is_release=True)


_open_clients: "weakref.WeakSet[ClientBase]" = weakref.WeakSet()
_addresses = addresses


def _text(given: "Optional[Path]") -> Optional[str]:
    return None if given is None else os.fspath(given)


@atexit.register
def _close_at_exit() -> None:
    """Ends the sessions of clients that the program did not close, so that their locks are free at once."""
    closing = [future for client in list(_open_clients) if (future := client._begin_close())]
    wait(closing, _EXIT_TIMEOUT)
    _engine.stop()


