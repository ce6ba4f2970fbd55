"""The adapter of the scenario suite for the command line: each call runs a `holdfast` command, as a shell would.

A guard is a running `holdfast lock` or `holdfast elect`: SIGTERM releases it, exit code 76 reports its loss.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

Request = dict[str, Any]
Result = dict[str, Any]

#: What no command does, with the reason.
UNSUPPORTED = {
    "acquire.owner": "an owner names a durable hold, and each command is an owner of its own otherwise",
    "acquire.reentrant": "only a run inside a run enters its lock again",
    "acquire.progress_timeout_ms": "a command does not report progress",
    "client.session_prefix": "a new session is named after the machine",
    "describe": "the command line is no library",
    "report_progress": "a command does not report progress",
    "upgrade": "a command keeps its mode",
    "downgrade": "a command keeps its mode",
    "open_session": "a session belongs to a hold or a membership",
    "transfer": "the receiver needs an open session, see open_session",
    "receive_transfer": "no command waits for a transferred hold",
    "headers": "a shell writes the header from the token",
    "group_set_value": "a member keeps its value",
    "group_watch": "no command watches a group",
    "fork": "a shell does not fork a command",
}

#: The exit codes of the commands, see docs/cli.md.
KINDS = {2: "invalid-argument", 75: "busy", 76: "lost", 77: "rejected"}
#: What exit code 1 means: the last part of the message.
NO_ANSWER = {
    "the outcome is unknown": "outcome-unknown",
    "nothing was done": "unavailable",
    "the command did not run": "unavailable",
    "not from a holdfast node": "unexpected-response",
}
#: The commands print the sentence of an error code, and not the code. The first sentence that fits counts.
CODES = {
    "The awaited event has not happened yet": "not-yet",
    "is free again in": "lock-in-cooldown",
    "wait longer with --wait": "wait-timeout",
    "is held by": "lock-busy",
    "The number of permits does not match the lock": "limit-mismatch",
    "The version does not match": "version-mismatch",
    "The caller has no valid credential": "unauthenticated",
    "The caller has no permission for the call": "forbidden",
}
CAUSES = {
    "an operator force-released": "force-released",
    "by the deadline of a release request": "revoked",
    "was transferred": "transferred",
    "its max_hold": "max-hold-exceeded",
    "the session has ended": "session-ended",
    "no longer holds the lock": "released-elsewhere",
    "no renewal was acknowledged": "not-renewed",
}
#: `lock` ends with 0 after SIGTERM, and `elect` with the code of its command.
RELEASED = (0, 143)
LOSS = re.compile(r"holdfast: (?P<lock>.+) is lost: (?P<cause>.*), detected at ")
ASKED = re.compile(r"holdfast: (?P<lock>.+): release wanted within [^(]+?(?: \(reason: (?P<reason>.*)\))?")

#: The options of a client that are variables of its commands.
VARIABLES = {
    "ca": "HOLDFAST_CACERT",
    "certificate": "HOLDFAST_CERT",
    "key": "HOLDFAST_CERT_KEY",
    "access_token": "HOLDFAST_ACCESS_TOKEN",
    "access_token_file": "HOLDFAST_ACCESS_TOKEN_FILE",
}

HOLDFAST = os.environ.get("HOLDFAST_BIN", "holdfast")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}


class Failure(Exception):
    """A command that failed, as the protocol reports it."""

    def __init__(self, kind: str, message: str, code: str | None = None, cause: str | None = None) -> None:
        super().__init__(message)
        is_retryable = kind in ("busy", "unavailable")
        self.fields = {"kind": kind, "code": code, "retryable": is_retryable, "message": message, "cause": cause}

    @classmethod
    def of(cls, exit_code: int, message: str) -> Failure:
        if exit_code < 0:
            return cls("cancelled", message)
        kind = KINDS.get(exit_code) or first(NO_ANSWER, message) or "rejected"
        if exit_code == 77:
            return cls(kind, message, "deadlock")
        loss = LOSS.search(message)
        return cls(kind, message, first(CODES, message), loss and first(CAUSES, loss["cause"]))


def first(table: dict[str, str], message: str) -> str | None:
    return next((value for text, value in table.items() if text in message), None)


def write(line: Result) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Client:
    """The options that the commands of one client share, and its running commands."""

    def __init__(self, request: Request) -> None:
        self.options = request
        self.session = str(request.get("session") or f"{request['name']}-{os.getpid()}-{time.time_ns()}")
        self.running: set[Command] = set()
        self.members: set[str] = set()
        named = {name: str(request[option]) for option, name in VARIABLES.items() if option in request}
        self.environment = {**ENVIRONMENT, "HOLDFAST_ADDR": ",".join(request["addresses"]), **named}

    def options_of_a_session(self, request: Request) -> Iterator[str]:
        ttl = request.get("ttl_ms") or self.options.get("ttl_ms")
        if ttl:
            yield f"--ttl={ttl}ms"
        if "session" in self.options:
            yield f"--session={self.session}"

    def options_of_a_hold(self, request: Request) -> Iterator[str]:
        yield from self.options_of_a_session(request)
        wait = request.get("wait_ms")
        if wait is not None:
            yield f"--wait={wait}ms" if wait else "--try"
        if "request_timeout_ms" in self.options:
            yield f"--timeout={self.options['request_timeout_ms']}ms"
        for name, value in dict(self.options.get("labels") or {}).items():
            yield f"--label={name}={value}"
        for name in ("queue_max", "priority", "value", "shards", "shard"):
            if name in request:
                yield f"--{name.replace('_', '-')}={request[name]}"
        for name in ("max_hold", "min_hold"):
            if f"{name}_ms" in request:
                yield f"--{name.replace('_', '-')}={request[f'{name}_ms']}ms"
        if request.get("mode", "exclusive") != "exclusive":
            yield f"--{request['mode']}"
        if "limit" in request or "permits" in request:
            limit = f"/{request['limit']}" if "limit" in request else ""
            yield f"--permits={request.get('permits', 1)}{limit}"

    async def start(self, *words: str) -> Command:
        process = await asyncio.create_subprocess_exec(
            HOLDFAST, *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=self.environment, limit=1 << 24)
        return Command(self, process)

    async def run(self, *words: str) -> str:
        """The output of a command that succeeds."""
        return await (await self.start(*words)).result()

    async def read(self, *words: str) -> Result:
        return json.loads(await self.run(*words[:2], "-o", "json", *words[2:]))

    async def close(self) -> None:
        await asyncio.gather(*[command.stop() for command in list(self.running)])
        for session in self.members:
            await self.run("session", "end", session, "--reason", "closed")


class Command:
    """A running command."""

    def __init__(self, client: Client, process: Process) -> None:
        self.client, self.process = client, process
        self.is_stopped = False
        self.messages: list[str] = []
        self.on_message: Callable[[str], None] = lambda message: None
        self.reading = asyncio.ensure_future(self.read_messages())
        self.reports: asyncio.Future[None] | None = None
        client.running.add(self)

    async def read_messages(self) -> None:
        async for line in self.process.stderr:
            self.messages.append(line.decode().rstrip("\n"))
            self.on_message(self.messages[-1])

    async def end(self) -> int:
        """Waits for the exit code."""
        await self.reading
        code = await self.process.wait()
        self.client.running.discard(self)
        return code

    def failure(self, code: int) -> Failure:
        if self.is_stopped and code in RELEASED:
            return Failure("cancelled", "stopped")
        return Failure.of(code, "\n".join(self.messages))

    async def result(self) -> str:
        """Its output, if it succeeds. A cancelled call stops the command."""
        try:
            output = await self.process.stdout.read()
            code = await self.end()
        except asyncio.CancelledError:
            await self.stop()
            raise
        if code != 0 or self.is_stopped:
            raise self.failure(code)
        return output.decode()

    async def stop(self) -> int:
        """Sends SIGTERM, as `kill` does, and waits for the exit code."""
        self.is_stopped = True
        if self.process.returncode is None:
            self.process.terminate()
        return await self.end()


class Guard:
    """A hold that lasts as long as its command."""

    def __init__(self, name: str, command: Command, tokens: dict[str, int], session: str) -> None:
        self.name, self.command, self.tokens, self.session = name, command, tokens, session
        self.loss: Failure | None = None
        self.ending = asyncio.ensure_future(self.report_loss())
        command.on_message = self.report_request
        for message in command.messages:
            self.report_request(message)

    @property
    def lock(self) -> str:
        return next(iter(self.tokens))

    async def report_loss(self) -> None:
        code = await self.command.end()
        message = "\n".join(self.command.messages)
        released = Failure("lost", f"{self.lock} is released")
        self.loss = released if code in RELEASED else self.command.failure(code)
        lost = LOSS.search(message)
        if code == 76 and lost:
            lock = next((lock for lock in self.tokens if lock in lost["lock"]), self.lock)
            token, cause = self.tokens[lock], first(CAUSES, lost["cause"])
            write({"event": "lost", "guard": self.name, "lock": lock, "token": token, "cause": cause})

    def report_request(self, message: str) -> None:
        asked = ASKED.fullmatch(message)
        if asked:
            lock = next((lock for lock in self.tokens if lock in asked["lock"]), self.lock)
            write({"event": "release-requested", "guard": self.name, "lock": lock, "reason": asked["reason"]})

    def ensure(self) -> None:
        if self.loss and self.loss.fields["kind"] != "lost":
            # Its release has no certain outcome.
            raise Failure("lost", f"the command of {self.lock} has ended: {self.loss}")
        if self.loss:
            raise self.loss

    async def is_ended_in_the_cluster(self) -> bool:
        """A suspended command needs a moment to see its loss. Without an answer of the cluster nothing is known."""
        try:
            state = await self.command.client.read("who", self.lock)
        except Failure:
            return False
        return all(holder["token"] != self.tokens[self.lock] for holder in state["holders"])

    async def release(self) -> None:
        self.ensure()
        await self.command.stop()
        await self.ending
        if self.loss and self.command.process.returncode not in RELEASED:
            raise self.loss


class Adapter:
    """What the requests have made so far, by its name."""

    def __init__(self) -> None:
        self.clients: dict[str, Client] = {}
        self.guards: dict[str, Guard] = {}
        self.members: dict[str, Command] = {}
        self.streams: dict[str, Command] = {}

    async def info(self, request: Request) -> Result:
        return {"language": "cli", "unsupported": list(UNSUPPORTED)}

    async def client(self, request: Request) -> Result:
        self.clients[request["name"]] = Client(request)
        return {}

    async def close(self, request: Request) -> Result:
        await self.clients.pop(request["client"]).close()
        return {}

    # Locks

    async def acquire(self, request: Request) -> Result:
        if request.get("mode") == "upgradable":
            raise Failure("unsupported", "acquire.mode=upgradable: a command keeps its mode")
        client = self.of(request)
        command = await client.start("lock", "-o", "json", *client.options_of_a_hold(request), "--", request["lock"])
        grant = json.loads(await first_line(command))
        self.guards[request["guard"]] = Guard(request["guard"], command, {grant["lock"]: grant["token"]}, grant["session"])
        return {name: grant[name] for name in ("token", "session", "lock")}

    async def acquire_many(self, request: Request) -> Result:
        client = self.of(request)
        command = await client.start("lock", "-o", "json", *client.options_of_a_hold(request), "--", *request["locks"])
        grants = json.loads(await first_line(command))["grants"]
        tokens, session = {grant["lock"]: grant["token"] for grant in grants}, grants[0]["session"]
        self.guards[request["guard"]] = Guard(request["guard"], command, tokens, session)
        return {"tokens": tokens, "session": session}

    async def release(self, request: Request) -> Result:
        await self.guards[request["guard"]].release()
        return {}

    async def ensure(self, request: Request) -> Result:
        """A running command holds the lock, unless the cluster knows better: then it must end."""
        guard = self.guards[request["guard"]]
        if not guard.loss and await guard.is_ended_in_the_cluster():
            await guard.ending
        guard.ensure()
        return {}

    async def remaining(self, request: Request) -> Result:
        """The rest of the hold when the question was sent: an answer that took longer leaves less."""
        guard, asked = self.guards[request["guard"]], time.monotonic()
        if guard.loss:
            return {"remaining_ms": 0}
        state = await guard.command.client.read("who", guard.lock)
        rest = [holder["expires_in_ms"] for holder in state["holders"] if holder["token"] == guard.tokens[guard.lock]]
        return {"remaining_ms": max(0, int(sum(rest) - (time.monotonic() - asked) * 1000))}

    async def release_permits(self, request: Request) -> Result:
        guard = self.guards[request["guard"]]
        options = (f"--session={guard.session}", f"--permits={request['permits']}")
        await guard.command.client.run("unlock", *options, "--", guard.lock)
        return {}

    async def lock_state(self, request: Request) -> Result:
        state = await self.of(request).read("who", request["lock"])
        holders = [{"session": holder["session"], "token": holder["token"]} for holder in state["holders"]]
        return {"holders": holders, "waiters": state["waiters"]}

    async def force_release(self, request: Request) -> Result:
        await self.of(request).run("unlock", "--force", f"--reason={request['reason']}", "--", request["lock"])
        return {}

    async def request_release(self, request: Request) -> Result:
        options = [f"--reason={request['reason']}"] if "reason" in request else []
        options += [f"--deadline={request['deadline_ms']}ms"] if "deadline_ms" in request else []
        options += ["--revoke"] if request.get("revoke") else []
        await self.of(request).run("unlock", "--ask", *options, "--", request["lock"])
        return {}

    # Recipes

    async def campaign(self, request: Request) -> Result:
        """The command of `elect` prints what it got, and stays until the leadership ends."""
        client = self.of(request)
        leads = 'echo "$HOLDFAST_TOKEN $HOLDFAST_SESSION"; exec sleep 1d'
        options = client.options_of_a_hold(request)
        command = await client.start("elect", *options, request["election"], "--", "sh", "-c", leads)
        token, session = (await first_line(command)).split()
        lock = f"elections/{request['election']}"
        self.guards[request["guard"]] = Guard(request["guard"], command, {lock: int(token)}, session)
        return {"token": int(token), "session": session}

    async def observe(self, request: Request) -> Result:
        name = request["observer"]

        def report(change: Result) -> None:
            leader = change.get("leader")
            if "gap" in change:
                write({"event": "gap", "observer": name})
            else:
                write({"event": "leader", "observer": name, "leader": leader and leader["leader"]})

        async def words() -> tuple[str, ...]:
            return ("elect", "watch", request["election"])

        await self.follow(name, request, words, report)
        return {}

    async def watch(self, request: Request) -> Result:
        """A watch that ends by itself has missed changes, e.g. those that the log no longer has. Then a new one begins."""
        client, name = self.of(request), request["watcher"]

        async def words() -> tuple[str, ...]:
            revision = (await client.read("tree", "stat", "/"))["revision"]
            return ("tree", "watch", request["prefix"], f"--since={revision}")

        def report(change: Result) -> None:
            write({"event": "change", "watcher": name, "path": change["path"], "kind": change["kind"]})

        await self.follow(name, request, words, report, lambda: write({"event": "gap", "watcher": name}))
        return {}

    async def unobserve(self, request: Request) -> Result:
        await self.streams.pop(request["observer"]).stop()
        return {}

    async def unwatch(self, request: Request) -> Result:
        await self.streams.pop(request["watcher"]).stop()
        return {}

    async def latch_set(self, request: Request) -> Result:
        return {"left": (await self.of(request).read("latch", "create", request["name"], f"--count={request['count']}"))["left"]}

    async def latch_count_down(self, request: Request) -> Result:
        key = f"{os.getpid()}-{time.time_ns()}"
        return {"left": (await self.of(request).read("latch", "down", request["name"], f"--key={key}"))["left"]}

    async def latch_wait(self, request: Request) -> Result:
        await self.of(request).run("latch", "wait", request["name"], f"--wait={request['wait_ms']}ms")
        return {}

    async def barrier_wait(self, request: Request) -> Result:
        options = (f"--parties={request['parties']}", f"--wait={request['wait_ms']}ms")
        await self.of(request).run("barrier", "arrive", request["name"], *options)
        return {}

    async def double_barrier_enter(self, request: Request) -> Result:
        client, options = self.of(request), (f"--parties={request['parties']}", f"--wait={request['wait_ms']}ms", "--ttl=30s")
        client.members.add(client.session)
        await client.run("barrier", "enter", request["name"], f"--session={client.session}", *options)
        return {}

    async def double_barrier_leave(self, request: Request) -> Result:
        client = self.of(request)
        await client.run("barrier", "leave", request["name"], f"--session={client.session}", f"--wait={request['wait_ms']}ms")
        return {}

    async def counter_add(self, request: Request) -> Result:
        return {"value": (await self.of(request).read("counter", "add", request["name"], str(request["add"])))["value"]}

    async def group_join(self, request: Request) -> Result:
        client = self.of(request)
        options = client.options_of_a_session(request)
        command = await client.start("group", "join", request["group"], "-o", "json", f"--value={request['value']}", *options)
        joined = json.loads(await first_line(command))
        self.members[request["member"]] = command
        return {"session": joined["session"]}

    async def group_leave(self, request: Request) -> Result:
        await self.members.pop(request["member"]).stop()
        return {}

    async def group_members(self, request: Request) -> Result:
        listed = (await self.of(request).read("group", "ls", request["group"]))["members"]
        return {"members": {member["session"]: member["value"] for member in listed}}

    # The tree

    async def tree_get(self, request: Request) -> Result:
        client = self.of(request)
        try:
            version = (await client.read("tree", "stat", request["path"]))["version"]
            return {"value": await client.run("tree", "get", request["path"]), "version": version}
        except Failure as failure:
            if "does not exist" not in str(failure):
                raise
            return {"value": None, "version": None}

    async def tree_put(self, request: Request) -> Result:
        client = self.of(request)
        if "version" in request:
            version = f"--version={request['version']}"
            written = await client.read("tree", "set", version, request["path"], request["value"])
            return {"version": written["version"]}
        try:
            written = await client.read("tree", "set", request["path"], request["value"])
        except Failure as failure:
            if "does not exist" not in str(failure):
                raise
            written = await client.read("tree", "create", "-p", request["path"], request["value"])
        return {"version": written["version"]}

    async def tree_delete(self, request: Request) -> Result:
        options = [f"--version={request['version']}"] if "version" in request else []
        await self.of(request).run("tree", "rm", request["path"], *options)
        return {}

    # The process

    async def block(self, request: Request) -> Result:
        time.sleep(request["ms"] / 1000)
        return {}

    async def shutdown(self, request: Request) -> Result:
        await asyncio.gather(*[client.close() for client in self.clients.values()])
        return {}

    # Helpers

    def of(self, request: Request) -> Client:
        return self.clients[request["client"]]

    async def follow(
        self,
        name: str,
        request: Request,
        words: Callable[[], Awaitable[tuple[str, ...]]],
        report: Callable[[Result], None],
        report_gap: Callable[[], None] = lambda: None,
    ) -> None:
        """Reports each line of a command that prints changes, and begins a new command when it ends by itself."""

        async def begin() -> Command:
            command = self.streams[name] = await self.of(request).start(*await words(), "-o", "jsonl")
            return command

        async def read(command: Command) -> None:
            async for line in command.process.stdout:
                report(json.loads(line))
            await command.end()
            while not command.is_stopped:
                print(*command.messages, file=sys.stderr, flush=True)
                try:
                    following = await begin()
                except Failure:
                    # The command has looked for a node as long as it does.
                    continue
                report_gap()
                following.reports = asyncio.ensure_future(read(following))
                return

        command = await begin()
        command.reports = asyncio.ensure_future(read(command))


async def first_line(command: Command) -> str:
    """The line that a command prints when it has what it waits for. A cancelled call stops the command."""
    try:
        line = await command.process.stdout.readline()
    except asyncio.CancelledError:
        await command.stop()
        raise
    if not line or command.is_stopped:
        raise command.failure(await command.end())
    return line.decode()


async def answer(adapter: Adapter, request: Request) -> None:
    call = str(request["do"])
    try:
        method = getattr(adapter, call, None)
        if method is None:
            raise Failure("unsupported", f"{call}: {UNSUPPORTED.get(call, 'no command does it')}")
        write({"id": request["id"], "ok": await method(request)})
    except Failure as failure:
        write({"id": request["id"], "error": failure.fields})
    except asyncio.CancelledError:
        write({"id": request["id"], "error": Failure("cancelled", "cancelled").fields})


async def serve() -> None:
    loop, adapter = asyncio.get_running_loop(), Adapter()
    lines: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    threading.Thread(target=read, daemon=True).start()
    running: dict[object, asyncio.Task[None]] = {}
    while line := await lines.get():
        request = json.loads(line)
        if request["do"] == "cancel":
            if task := running.get(request["request"]):
                task.cancel()
            write({"id": request["id"], "ok": {}})
            continue
        task = running[request["id"]] = asyncio.ensure_future(answer(adapter, request))
        task.add_done_callback(lambda _, number=request["id"]: running.pop(number, None))
        if request["do"] == "shutdown":
            await task
            return
    await adapter.shutdown({})


if __name__ == "__main__":
    asyncio.run(serve())
