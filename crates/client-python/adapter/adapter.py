"""The adapter of the scenario suite: JSON lines on stdin and stdout. Requests run concurrently."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
import threading
import time
from typing import Any, Awaitable, Callable, Dict, Optional, Union

# The package of this folder, installed or not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from holdfast import Busy, Error, Gap, InvalidArgument, Leader, Lost, OutcomeUnknown, Rejected, Unavailable
from holdfast import UnexpectedResponse, aio

from describe import describe

Request = Dict[str, Any]
#: `None` if a forked child answers.
Result = Optional[Dict[str, Any]]

UNSUPPORTED: "list[str]" = []
KINDS = {
    Busy: "busy",
    Lost: "lost",
    Unavailable: "unavailable",
    OutcomeUnknown: "outcome-unknown",
    Rejected: "rejected",
    UnexpectedResponse: "unexpected-response",
    InvalidArgument: "invalid-argument",
}

_output = threading.Lock()


def write(line: Dict[str, Any]) -> None:
    with _output:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def options(request: Request, *others: str) -> Dict[str, Any]:
    """The options of a request, with its milliseconds as seconds. The client rejects an unknown one."""
    found = {}
    for name, value in request.items():
        if name.endswith("_ms"):
            found[name[:-3]] = value / 1000
        elif name not in ("id", "do", *others):
            found[name] = value
    return found


def seconds(request: Request, name: str, default: float) -> float:
    value = request.get(f"{name}_ms")
    return default if value is None else float(value) / 1000


class Adapter:
    """What the requests have made so far, by its name."""

    def __init__(self) -> None:
        self.clients: Dict[str, aio.Client] = {}
        self.guards: Dict[str, Union[aio.Guard, aio.MultiGuard]] = {}
        self.parties: Dict[str, aio.DoubleBarrier] = {}
        self.members: Dict[str, aio.Membership] = {}
        self.streams: Dict[str, "asyncio.Task[None]"] = {}
        self.reports: "Dict[str, list[asyncio.Task[None]]]" = {}

    async def info(self, request: Request) -> Result:
        return {"language": "python", "unsupported": UNSUPPORTED}

    async def describe(self, request: Request) -> Result:
        return dict(describe(KINDS))

    async def client(self, request: Request) -> Result:
        self.clients[request["name"]] = aio.Client(**options(request, "name"))
        return {}

    async def close(self, request: Request) -> Result:
        # The close releases the guards, so that their ends are no losses.
        self.end_reports(request["client"])
        await self.clients.pop(request["client"]).close()
        return {}

    # Locks

    async def acquire(self, request: Request) -> Result:
        lock = self.of(request).lock(request["lock"], **options(request, "client", "lock", "guard"))
        guard = await lock.acquire()
        self.keep(request, guard)
        return {"token": guard.token, "session": guard.session, "lock": guard.lock}

    async def acquire_many(self, request: Request) -> Result:
        locks = self.of(request).lock_many(request["locks"], **options(request, "client", "locks", "guard"))
        guard = await locks.acquire()
        self.keep(request, guard)
        return {"tokens": guard.tokens, "session": guard.session}

    async def release(self, request: Request) -> Result:
        await self.guards[request["guard"]].release()
        return {}

    resign = release

    async def ensure(self, request: Request) -> Result:
        self.guards[request["guard"]].ensure()
        return {}

    async def remaining(self, request: Request) -> Result:
        return {"remaining_ms": int(self.guards[request["guard"]].remaining() * 1000)}

    async def report_progress(self, request: Request) -> Result:
        self.guards[request["guard"]].report_progress()
        return {}

    async def upgrade(self, request: Request) -> Result:
        return {"token": await self.single(request).upgrade(seconds(request, "wait", 10.0))}

    async def downgrade(self, request: Request) -> Result:
        await self.single(request).downgrade(request.get("mode", "shared"))
        return {"token": self.single(request).token}

    async def open_session(self, request: Request) -> Result:
        return {"session": (await self.of(request).open_session()).name}

    async def transfer(self, request: Request) -> Result:
        return {"token": await self.single(request).transfer(request["to"], request.get("owner"))}

    async def receive_transfer(self, request: Request) -> Result:
        lock = self.of(request).lock(request["lock"], **options(request, "client", "lock", "guard"))
        guard = await lock.receive_transfer()
        self.keep(request, guard)
        return {"token": guard.token, "session": guard.session}

    async def release_permits(self, request: Request) -> Result:
        await self.single(request).release_permits(request["permits"])
        return {}

    async def headers(self, request: Request) -> Result:
        return {"headers": self.single(request).headers()}

    async def lock_state(self, request: Request) -> Result:
        state = await self.of(request).lock_state(request["lock"])
        holders = [{"session": holder["session"], "token": holder["token"]} for holder in state["holders"]]
        return {"holders": holders, "waiters": state["waiters"]}

    async def force_release(self, request: Request) -> Result:
        return {"ended": await self.of(request).force_release(request["lock"], request["reason"])}

    async def request_release(self, request: Request) -> Result:
        deadline = seconds(request, "deadline", 30.0)
        revoke = bool(request.get("revoke"))
        client = self.of(request)
        asked = await client.request_release(request["lock"], request.get("reason"), deadline=deadline, revoke=revoke)
        return {"asked": asked}

    # Recipes

    async def campaign(self, request: Request) -> Result:
        election = self.of(request).election(request["election"])
        guard = await election.campaign(**options(request, "client", "election", "guard"))
        self.keep(request, guard)
        return {"token": guard.token, "session": guard.session}

    async def observe(self, request: Request) -> Result:
        observer = self.of(request).election(request["election"]).observe()

        async def follow() -> None:
            async for change in observer:
                if isinstance(change, Gap):
                    write({"event": "gap", "observer": request["observer"]})
                    continue
                write({"event": "leader", "observer": request["observer"], "leader": vars(change) if change else None})

        self.follow(request["observer"], follow())
        return {}

    async def watch(self, request: Request) -> Result:
        watch = self.of(request).watch(request["prefix"], since=request.get("since"))
        await watch.start()

        async def follow() -> None:
            async for change in watch:
                if isinstance(change, Gap):
                    write({"event": "gap", "watcher": request["watcher"]})
                    continue
                write({"event": "change", "watcher": request["watcher"], "path": change.path, "kind": change.kind})

        self.follow(request["watcher"], follow())
        return {}

    async def unobserve(self, request: Request) -> Result:
        self.streams.pop(request["observer"]).cancel()
        return {}

    async def unwatch(self, request: Request) -> Result:
        self.streams.pop(request["watcher"]).cancel()
        return {}

    async def latch_set(self, request: Request) -> Result:
        return {"left": await self.of(request).latch(request["name"]).create(request["count"])}

    async def latch_count_down(self, request: Request) -> Result:
        key = request.get("key") or f"{os.getpid()}-{time.time_ns()}"
        return {"left": await self.of(request).latch(request["name"]).count_down(key)}

    async def latch_wait(self, request: Request) -> Result:
        await self.of(request).latch(request["name"]).wait(seconds(request, "wait", 10.0))
        return {}

    async def barrier_wait(self, request: Request) -> Result:
        barrier = self.of(request).barrier(request["name"], request["parties"])
        return vars(await barrier.wait(seconds(request, "wait", 10.0)))

    async def double_barrier_enter(self, request: Request) -> Result:
        party = self.of(request).double_barrier(request["name"], request["parties"])
        tripped = await party.enter(seconds(request, "wait", 10.0))
        self.parties[party_name(request)] = party
        return vars(tripped)

    async def double_barrier_leave(self, request: Request) -> Result:
        await self.parties.pop(party_name(request)).leave(seconds(request, "wait", 10.0))
        return {}

    async def counter_add(self, request: Request) -> Result:
        return {"value": (await self.of(request).counter(request["name"]).add(request["add"])).value}

    async def group_join(self, request: Request) -> Result:
        membership = await self.of(request).group(request["group"]).join(request["value"])
        self.members[request["member"]] = membership
        return {"session": membership.session}

    async def group_set_value(self, request: Request) -> Result:
        await self.members[request["member"]].set_value(request["value"])
        return {}

    async def group_leave(self, request: Request) -> Result:
        await self.members.pop(request["member"]).leave()
        return {}

    async def group_members(self, request: Request) -> Result:
        return {"members": await self.of(request).group(request["group"]).members()}

    async def group_watch(self, request: Request) -> Result:
        watch = self.of(request).group(request["group"]).watch()

        async def follow() -> None:
            async for members in watch:
                write({"event": "members", "watcher": request["watcher"], "members": members})

        self.follow(request["watcher"], follow())
        return {}

    async def tree_get(self, request: Request) -> Result:
        znode = await self.of(request).tree_get(request["path"])
        if znode is None:
            return {"value": None, "version": None}
        return {"value": znode.data.decode(), "version": znode.version}

    async def tree_put(self, request: Request) -> Result:
        client, version = self.of(request), request.get("version")
        return {"version": await client.tree_put(request["path"], request["value"], version=version, parents=True)}

    async def tree_delete(self, request: Request) -> Result:
        await self.of(request).tree_delete(request["path"], version=request.get("version"))
        return {}

    # The process

    async def block(self, request: Request) -> Result:
        time.sleep(request["ms"] / 1000)
        return {}

    async def fork(self, request: Request) -> Result:
        """The child acquires the lock with the client that it inherits, answers, releases and exits."""
        if os.fork():
            return None
        thread = threading.Thread(target=lambda: asyncio.run(self.in_child(request)), daemon=True)
        thread.start()
        thread.join(30)
        os._exit(0)

    async def in_child(self, request: Request) -> None:
        try:
            async with self.of(request).lock(request["lock"], wait=20) as guard:
                found = {"pid": os.getpid(), "token": guard.token, "session": guard.session}
                write({"id": request["id"], "ok": found})
        except Error as error:
            write({"id": request["id"], "error": failure(error)})
        await self.of(request).close()

    async def shutdown(self, request: Request) -> Result:
        for stream in self.streams.values():
            stream.cancel()
        for name, client in self.clients.items():
            self.end_reports(name)
            await client.close()
        return {}

    # Helpers

    def of(self, request: Request) -> aio.Client:
        return self.clients[request["client"]]

    def single(self, request: Request) -> aio.Guard:
        guard = self.guards[request["guard"]]
        assert isinstance(guard, aio.Guard)
        return guard

    def keep(self, request: Request, guard: Union[aio.Guard, aio.MultiGuard]) -> None:
        name = request["guard"]
        self.guards[name] = guard
        reports = self.reports.setdefault(request["client"], [])
        reports.append(asyncio.ensure_future(report_loss(name, guard)))
        reports.append(asyncio.ensure_future(report_request(name, guard)))

    def end_reports(self, client: str) -> None:
        for report in self.reports.pop(client, []):
            report.cancel()

    def follow(self, name: str, work: "Awaitable[None]") -> None:
        self.streams[name] = asyncio.ensure_future(work)


def party_name(request: Request) -> str:
    return f"{request['client']}/{request['name']}/{request.get('party', '')}"


async def report_loss(name: str, guard: Union[aio.Guard, aio.MultiGuard]) -> None:
    loss = await guard.lost.wait()
    if loss is not None and loss.lock is not None:
        token = guard.token if isinstance(guard, aio.Guard) else guard.tokens[loss.lock]
        write({"event": "lost", "guard": name, "lock": loss.lock, "token": token, "cause": loss.cause})


async def report_request(name: str, guard: Union[aio.Guard, aio.MultiGuard]) -> None:
    request = await guard.release_requested.wait()
    if request is not None:
        lock = guard.lock if isinstance(guard, aio.Guard) else guard.locks[0]
        write({"event": "release-requested", "guard": name, "lock": lock, "reason": request.reason})


def failure(error: BaseException) -> Dict[str, Any]:
    if isinstance(error, asyncio.CancelledError):
        return {"kind": "cancelled", "code": None, "retryable": False, "message": "cancelled"}
    kind = next((kind for cls, kind in KINDS.items() if isinstance(error, cls)), "adapter-failed")
    code, retryable = (error.code, error.retryable) if isinstance(error, Error) else (None, False)
    described = {"kind": kind, "code": code, "retryable": retryable, "message": str(error) or repr(error)}
    if isinstance(error, Lost):
        described["cause"] = error.cause
    return described


async def answer(adapter: Adapter, request: Request) -> None:
    method: Optional[Callable[[Request], Awaitable[Result]]] = getattr(adapter, str(request["do"]), None)
    try:
        if method is None:
            message = f"{request['do']} is not supported"
            error = {"kind": "unsupported", "code": None, "retryable": False, "message": message}
            write({"id": request["id"], "error": error})
            return
        result = await method(request)
        if result is not None:
            write({"id": request["id"], "ok": result})
    except TypeError as error:
        invalid = {"kind": "invalid-argument", "code": None, "retryable": False, "message": str(error)}
        write({"id": request["id"], "error": invalid})
    except (Exception, asyncio.CancelledError) as error:
        write({"id": request["id"], "error": failure(error)})


def finished(running: "Dict[Any, asyncio.Task[None]]", number: Any, task: "asyncio.Task[None]") -> None:
    running.pop(number, None)
    if task.cancelled():
        # It had not begun.
        write({"id": number, "error": failure(asyncio.CancelledError())})


async def serve() -> None:
    loop, adapter = asyncio.get_running_loop(), Adapter()
    lines: "asyncio.Queue[Optional[str]]" = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    running: "Dict[Any, asyncio.Task[None]]" = {}

    while (line := await lines.get()) is not None:
        if not line.strip():
            continue
        request = json.loads(line)
        if request["do"] == "cancel":
            task = running.get(request["request"])
            if task:
                task.cancel()
            write({"id": request["id"], "ok": {}})
            continue
        task = asyncio.ensure_future(answer(adapter, request))
        running[request["id"]] = task
        task.add_done_callback(functools.partial(finished, running, request["id"]))
        if request["do"] == "shutdown":
            await task
            return
    await adapter.shutdown({})


if __name__ == "__main__":
    asyncio.run(serve())
