"""Groups: members, each with a value. The calls run on the engine.

A membership is the ephemeral znode `/groups/<group>/<session>`. A session is a member at most once, and the log entry
that ends the session deletes the znode.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any, Awaitable, Callable, Dict, List, Optional, Union

from . import codes
from ._calls import Call, Copies, get, query
from ._core import Core
from ._session import FORKED, Session
from ._tree import Change, Gap, Watch, tree_path, until_certain
from .errors import Error, InvalidArgument, Loss, Lost, Rejected, UnexpectedResponse

#: The members of one page of a list.
_PAGE = 1000


def _directory(group: str) -> str:
    return f"/groups/{group}"


class MembershipRecord:
    """The membership of a session, which is a user of the session until it leaves."""

    def __init__(self, session: Session, group: str) -> None:
        self.session = session
        self._path = f"{_directory(group)}/{session.name}"
        self.is_over = False
        session.use()

    def loss(self) -> Optional[Loss]:
        if self.is_over:
            return Loss("session-ended", "the member has left")
        return FORKED if self.session.is_of_parent else self.session.loss()

    def ensure(self) -> None:
        if loss := self.loss():
            raise Lost(loss)

    async def write(self, value: str) -> None:
        """Creates the znode or replaces its data."""
        create = {"create": self._path, "data": value, "ephemeral": True, "parents": True}
        body = await self._change({"then": [{"set": self._path, "data": value}], "else": [create]})
        if any(result.get("stat", {}).get("kind") != "ephemeral" for result in body["results"]):
            raise InvalidArgument(f"{self._path} is not ephemeral, so it is not a membership")

    async def leave(self) -> None:
        """Deletes the znode. If no node answers, the membership ends with the session. A forked child sends nothing."""
        if self.is_over:
            return
        self.is_over = True
        if self.session.is_of_parent:
            return
        try:
            await self._delete()
        except asyncio.CancelledError:
            self.session.use()
            self.session.start_release(self._delete_quietly())
            raise
        finally:
            self.session.unuse()

    def leave_in_background(self) -> None:
        """For a caller that is gone."""
        self.is_over = True
        self.session.start_release(self._delete_quietly())

    async def _delete_quietly(self) -> None:
        try:
            await self._delete()
        except Error:
            pass  # The membership ends with the session.
        finally:
            self.session.unuse()

    async def _delete(self) -> None:
        if self.session.loss() is None:
            await self._change({"then": [{"delete": self._path}]})

    async def _change(self, transaction: Dict[str, Any]) -> Dict[str, Any]:
        """Sends a transaction of the session, which has no effect after the end of the session."""
        session = self.session
        if session.is_of_parent:
            raise Lost(FORKED)
        exists = {"if": [{"path": self._path, "exists": True}], "session": session.name}

        def call(request: int) -> Call:
            body = json.dumps({**transaction, **exists, "request": request}).encode()
            return Call("POST", "/v1/txn", body=body, copies=Copies.HARMLESS)

        return (await session.send_numbered(call)).json(results=list)


async def join(core: Core, group: str, value: str) -> MembershipRecord:
    record = MembershipRecord(await core.session_for(), group)
    try:
        await record.write(value)
    except BaseException:
        record.leave_in_background()
        raise
    return record


async def members(core: Core, group: str) -> Dict[str, str]:
    """The value of each member by its session. Sends one call for each member."""
    found: Dict[str, str] = {}
    for session in await _sessions(core, group):
        value = await _value(core, f"{_directory(group)}/{session}")
        # A listed member may have left.
        if value is not None:
            found[session] = value
    return found


async def _sessions(core: Core, group: str) -> List[str]:
    """The ephemeral children. Other children are directories of groups with longer names."""
    sessions: List[str] = []
    token: Optional[str] = None
    while True:
        target = tree_path(_directory(group)) + query({"children": True, "limit": _PAGE, "page_token": token})
        try:
            body = await core.json(get(target), children=list)
        except Rejected as error:
            if error.code == codes.NOT_FOUND:
                return sessions
            raise
        sessions += [child["name"] for child in body["children"] if child["kind"] == "ephemeral"]
        token = body.get("next_page_token")
        if token is None:
            return sessions


async def _value(core: Core, znode: str) -> Optional[str]:
    try:
        response = await core.calls.send(get(tree_path(znode)))
    except Rejected as error:
        if error.code == codes.NOT_FOUND:
            return None
        raise
    kind = response.headers.get("holdfast-kind")
    if kind is None:
        raise UnexpectedResponse("the answer has no header holdfast-kind")
    return response.body.decode(errors="replace") if kind == "ephemeral" else None


class GroupWatch:
    """The members of a group, now and after each change. Reads only the members that have changed."""

    def __init__(self, group: str) -> None:
        self._group, self._prefix = group, f"{_directory(group)}/"
        self._watch = Watch({"prefix": self._prefix}, None)
        self._members: Optional[Dict[str, str]] = None

    async def next(self, core: Core) -> Dict[str, str]:
        before, self._members = self._members, None
        if before is None:
            await self._watch.start(core)
            self._members = await self._read(core, partial(members, core, self._group))
            return dict(self._members)
        now = before
        while now == before:
            try:
                change = await self._watch.next(core)
            except BaseException:
                # No change was taken, so the next call continues from here.
                self._members = before
                raise
            now = await self._read(core, partial(self._after, core, change, before))
        self._members = now
        return dict(now)

    def put_back(self, _members: Dict[str, str]) -> None:
        """Reads the members again, for a caller that did not get them."""
        self._members = None

    async def _read(self, core: Core, read: Callable[[], Awaitable[Dict[str, str]]]) -> Dict[str, str]:
        return await core.unless_closing(until_certain(read, lambda: self._watch.is_served))

    async def _after(self, core: Core, change: Union[Change, Gap], before: Dict[str, str]) -> Dict[str, str]:
        if isinstance(change, Gap):
            return await members(core, self._group)
        session = change.path[len(self._prefix) :]
        value = None if "/" in session or change.kind == "deleted" else await _value(core, change.path)
        others = {name: one for name, one in before.items() if name != session}
        return others if value is None else {**others, session: value}
