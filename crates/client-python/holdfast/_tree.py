"""The calls of the tree, its changes, and the leaders of elections. They run on the engine."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any, Awaitable, Callable, Deque, Dict, List, Mapping, Optional, TypeVar, Union

from . import _engine, codes
from ._calls import Call, Foreign, MayBeDone, NotDone, OldToken, Parameters, Rejection, get, millis, path, query
from ._core import Core
from ._http import Stream
from ._lease import retry_pause
from ._signal import call_soon
from .errors import Error, InvalidArgument, Rejected, Unavailable, UnexpectedResponse, is_unclear, retry_at

#: A stream without bytes for this long is dead, because nodes write a comment at least every fifteen seconds.
_SILENCE_MAX = 45.0
_HEAD_TIMEOUT = 6.0
_EVENT_MAX = 64 * 1024
#: The time of one long poll.
_POLL = 30.0

T = TypeVar("T")


@dataclass(frozen=True)
class Znode:
    """A znode: its data, and the number of changes of it."""

    data: bytes
    version: int


@dataclass(frozen=True)
class Change:
    """A change of the tree: a znode was `created`, `changed` or `deleted`; a lock was `granted` or `lost`."""

    kind: str
    path: str
    revision: int
    #: Everything that the node reported.
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Gap:
    """Some changes are missing: read the state again. Later changes follow."""

    revision: int


@dataclass(frozen=True)
class Leader:
    """The leader of an election."""

    session: str
    token: int
    value: str


def tree_path(text: str) -> str:
    return path("tree", text.strip("/"))


def encoded(data: Union[bytes, str]) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


def condition(version: Optional[int], create: bool) -> Dict[str, str]:
    """The header that requires a version, or that the znode does not exist."""
    if create and version is not None:
        raise InvalidArgument("give a version or create, not both")
    if create:
        return {"if-none-match": "*"}
    return {} if version is None else {"if-match": f'"{version}"'}


def selection(prefix: Optional[str], path: Optional[str]) -> Parameters:
    """What a watch reports."""
    if (prefix is None) == (path is None):
        raise InvalidArgument("give a prefix or a path")
    return {"prefix": prefix} if prefix is not None else {"path": path or "/"}


async def leader(core: Core, election: str) -> Optional[Leader]:
    body = await core.json(get(path("elections", election)), election=str)
    return _leader_of(body)


async def read(core: Core, znode: str) -> Optional[Znode]:
    """The znode, or `None` if it does not exist."""
    try:
        response = await core.calls.send(get(tree_path(znode)))
    except Rejected as error:
        if error.code == codes.NOT_FOUND:
            return None
        raise
    try:
        return Znode(response.body, int(response.headers["holdfast-version"]))
    except (KeyError, ValueError):
        raise UnexpectedResponse("the answer has no header holdfast-version") from None


async def write(core: Core, znode: str, data: bytes, conditions: Mapping[str, str], parents: bool) -> int:
    """Creates the znode or replaces its data, and returns its version."""
    target = tree_path(znode) + query({"parents": True if parents else None})
    written = await core.send_once(Call("PUT", target, conditions, data))
    return int(written.json(version=int)["version"])


async def remove(core: Core, znode: str, conditions: Mapping[str, str], recursive: bool) -> int:
    """Deletes the znode, and returns the number of deleted znodes."""
    target = tree_path(znode) + query({"recursive": True if recursive else None})
    removed = await core.send_once(Call("DELETE", target, conditions))
    removed.check_end()
    return int(removed.headers.get("holdfast-deleted", "1"))


async def until_certain(read: Callable[[], Awaitable[T]], is_served: Callable[[], bool]) -> T:
    """Repeats a read of an observer that a node has served. A proxy that restarts may answer with a page."""
    failures = 0
    while True:
        try:
            return await read()
        except Error as error:
            if not (is_unclear(error) and is_served()):
                raise
            failures += 1
            until_retry = retry_at(error) - asyncio.get_running_loop().time()
            await asyncio.sleep(max(retry_pause(failures), until_retry))


class Watch:
    """The changes of a part of the tree. It continues at any node after the last revision that it returned."""

    def __init__(self, selection: Parameters, since: Optional[int]) -> None:
        self._selection, self._since = selection, since
        #: Whether a node has answered.
        self.is_served = False
        self._pending: Deque[Union[Change, Gap]] = deque()

    async def start(self, core: Core) -> int:
        """The revision from which the watch begins."""
        if self._since is None:
            call = get("/v1/watch" + query({**self._selection, "wait": "0ms"}))
            body = await core.unless_closing(core.json(call, revision=int))
            self._since, self.is_served = int(body["revision"]), True
        return self._since

    async def next(self, core: Core) -> Union[Change, Gap]:
        since = await self.start(core)
        while not self._pending:
            parameters: Parameters = {**self._selection, "since": since, "wait": millis(_POLL)}
            call = get("/v1/watch" + query(parameters), _POLL)
            poll = partial(core.json, call, events=list, revision=int)
            try:
                body = await core.unless_closing(until_certain(poll, lambda: self.is_served))
            except Rejected as error:
                if error.code != codes.REVISION_COMPACTED or error.problem is None:
                    raise
                self._since = int(error.problem.facts["restart_from"])
                return Gap(self._since)
            self._since, self.is_served = int(body["revision"]), True
            since = self._since
            for event in body["events"]:
                self._pending.append(Change(event["kind"], event["path"], event["revision"], event))
        return self._pending.popleft()

    def put_back(self, change: Union[Change, Gap]) -> None:
        """For a caller that is gone."""
        self._pending.appendleft(change)


class Observer:
    """The changes of the leader of one election, as server-sent events. Bounds: one stream, one event of `_EVENT_MAX` bytes."""

    def __init__(self, election: str) -> None:
        self._path = path("elections", election)
        self._core: Optional[Core] = None
        self._engine: Optional[_engine.Engine] = None
        #: Reads the next change. A caller that is cancelled leaves it to the next caller.
        self._reading: "Optional[asyncio.Task[Union[Leader, Gap, None]]]" = None
        self._stream: Optional[Stream] = None
        self._opened_at = 0.0
        self._node: Optional[int] = None
        self._last: Optional[int] = None
        #: When each node may get the call again.
        self._not_before: List[float] = []
        self._text = b""
        #: Consecutive streams that ended soon and without a change.
        self._short_streams = 0
        self._pending: Deque[Union[Leader, Gap, None]] = deque()

    async def next(self, core: Core) -> Union[Leader, Gap, None]:
        """Waits for the next change: the leader, or `None` if there is none. Begins with the present state."""
        if self._core is not core:
            self._core, self._engine = core, _engine.current()
            self._reading, self._stream, self._node, self._text = None, None, None, b""
            self._not_before = [0.0] * len(core.calls.nodes)
        while not self._pending:
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._read(core))
                # The program may drop the observer without another call.
                self._reading.add_done_callback(lambda done: done.cancelled() or done.exception())
            reading = self._reading
            await asyncio.wait({reading})
            if self._reading is reading:
                self._reading = None
                return reading.result()
        return self._pending.popleft()

    async def _read(self, core: Core) -> Union[Leader, Gap, None]:
        try:
            return await core.unless_closing(until_certain(partial(self._next_change, core), lambda: self._node is not None))
        except Exception:
            self._leave_node(core)
            raise

    async def _next_change(self, core: Core) -> Union[Leader, Gap, None]:
        while True:
            if self._stream is None:
                await self._open(core)
            fields = await self._event(core)
            if fields is None or fields.get("event") == "reconnect":
                self._leave_node(core)
                continue
            if fields.get("id", "").isdigit():
                self._last = int(fields["id"])
            body = json.loads(fields.get("data") or "{}")
            if fields.get("event") in ("leader", "vacant", "gap"):
                self._short_streams = 0
                return _change_of(fields["event"], body)

    def put_back(self, change: Union[Leader, Gap, None]) -> None:
        """For a caller that is gone."""
        self._pending.appendleft(change)

    async def end(self, core: Core) -> None:
        if self._core is core:
            self._close()

    def drop(self) -> None:
        """Ends the stream for a program that has dropped the observer. Any thread may call it."""
        if self._engine and _engine.is_current(self._engine):
            call_soon(self._engine.loop, self._close)

    def _close(self) -> None:
        if self._reading and not self._reading.done():
            self._reading.cancel()
            self._reading = None
        self._close_stream()

    def _close_stream(self) -> None:
        self._text = b""
        if self._stream:
            self._stream.close()
            self._stream = None

    def _leave_node(self, core: Core) -> None:
        age = asyncio.get_running_loop().time() - self._opened_at if self._stream else 0.0
        self._short_streams = 0 if age >= core.calls.request_timeout else self._short_streams + 1
        self._close_stream()

    async def _open(self, core: Core) -> None:
        """Opens the stream at the first node that accepts it. The node that ended the last one comes last."""
        nodes, loop = core.calls.nodes, asyncio.get_running_loop()
        until = loop.time() + core.calls.request_timeout
        if self._short_streams > 1:
            await asyncio.sleep(retry_pause(self._short_streams))
        while True:
            error: Error = Unavailable("no node was tried", min(self._not_before))
            #: The reasons of the addresses where another server answered.
            pages: List[str] = []
            for node in sorted(nodes.order(), key=lambda node: node == self._node):
                if self._not_before[node] > loop.time():
                    continue
                outcome = await nodes.open_stream(self._path, node, self._last, _HEAD_TIMEOUT)
                if isinstance(outcome, Stream):
                    self._stream, self._node, self._opened_at = outcome, node, loop.time()
                    return
                if isinstance(outcome, Rejection):
                    raise outcome.error
                if isinstance(outcome, OldToken):
                    error = outcome.error
                elif isinstance(outcome, Foreign):
                    pages.append(outcome.reason)
                    error = Unavailable(outcome.reason)
                elif isinstance(outcome, (NotDone, MayBeDone)):
                    outcome.retry_after.refuse(self._not_before, node, loop.time())
                    error = Unavailable(outcome.reason, min(self._not_before))
            if len(pages) == len(nodes):
                raise UnexpectedResponse("; ".join(pages))
            open_at = max(loop.time() + 0.2, min(self._not_before))
            if open_at >= until:
                raise error
            await asyncio.sleep(open_at - loop.time())

    async def _event(self, core: Core) -> Optional[Dict[str, str]]:
        """The fields of the next event; `None` if the stream ended, its event is too long or its node stopped answering."""
        assert self._stream is not None and self._node is not None
        while True:
            block, mark, rest = self._text.partition(b"\n\n")
            if len(block) > _EVENT_MAX:
                return None
            if mark:
                self._text = rest
                fields = _fields(block.decode("utf-8", "replace"))
                if "event" in fields:
                    return fields
                continue
            part = asyncio.ensure_future(self._stream.part())
            silence = asyncio.ensure_future(core.calls.nodes.silence(self._node))
            try:
                waits = {part, silence}
                await asyncio.wait(waits, timeout=_SILENCE_MAX, return_when=asyncio.FIRST_COMPLETED)
                received = part.result() if part.done() and not part.exception() else b""
            finally:
                part.cancel()
                silence.cancel()
            if not received:
                return None
            self._text += received


def _change_of(event: str, body: Mapping[str, Any]) -> Union[Leader, Gap, None]:
    if event == "gap":
        return Gap(int(body["until"]))
    return _leader_of(body)


def _leader_of(body: Mapping[str, Any]) -> Optional[Leader]:
    leader = body.get("leader")
    if not leader:
        return None
    return Leader(str(leader["session"]), int(leader["token"]), str(leader.get("value") or ""))


def _fields(block: str) -> Dict[str, str]:
    fields = {}
    for line in block.splitlines():
        name, mark, value = line.partition(":")
        if name and mark:
            fields[name] = value.strip()
    return fields
