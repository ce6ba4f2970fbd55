"""Starts callers of every kind on one lock, kills some while they hold and while they wait, and has the log judged."""

import json
import re
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from contention import judge as judging
from contention.log import Log, Tail, read
from kit import needs, spawn, table

HERE = Path(__file__).resolve().parent
PAGE = needs.holdfast.ROOT / "docs" / "zookeeper.md"
PAGE_ADDRESSES = "127.0.0.1:7402,127.0.0.1:7412,127.0.0.1:7422"
STEP_TIMEOUT_S = 180


def page_programs():
    """The programs of the page, in order: a lock with its token, and the lock that kazoo's callers use here."""
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def kazoo_python():
    return needs.python(HERE.parent / "kazoo" / "requirements.txt")


@dataclass(frozen=True)
class Plan:
    """How large a run is. Victims are pairs: who is killed while holding, who while waiting behind it."""

    kinds: tuple
    each: int
    cycles: int
    hold_ms: int
    timeout_ms: int
    victims: tuple
    careless: int = 0


def plan(kinds, quick, careless=0):
    """The full size or the quick one; every kind is a victim of both sorts in the full one."""
    pairs = [(kind, kinds[i - 1]) for i, kind in enumerate(kinds)]
    if careless:
        return Plan(tuple(kinds), 1, 10, 10, 10_000, (), careless)
    if quick:
        return Plan(tuple(kinds), 2, 20, 5, 8_000, tuple(pairs[:1] + pairs[2:3]))
    return Plan(tuple(kinds), 3, 100, 5, 10_000, tuple(pairs))


class Commands:
    """How a caller of each kind is started."""

    def __init__(self, kinds, ensemble):
        self._start = {}
        if "kazoo" in kinds:
            self._start["kazoo"] = [kazoo_python(), "-B", HERE / "kazoo_caller.py"]
        if "curator" in kinds:
            class_path = needs.java_classes(HERE / "CuratorCaller.java")
            options = ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            self._start["curator"] = ["java", *options, "-cp", class_path, "CuratorCaller"]
        if "c" in kinds:
            self._start["c"] = [needs.c_program(HERE / "c_caller.c", "mt", "THREADED")]
        if "http" in kinds:
            self._start["http"] = [sys.executable, "-B", HERE / "http_caller.py"]
        self.http_address = ensemble.http_addresses[0] if "http" in kinds else None
        self._addresses = {kind: [member.address for member in ensemble.members] for kind in kinds}
        if "http" in kinds:
            self._addresses["http"] = ensemble.http_addresses

    def of(self, kind, number):
        """The program and its connect string, which begins with another member for each number."""
        addresses = self._addresses[kind]
        first = number % len(addresses)
        return [*self._start[kind], ",".join(addresses[first:] + addresses[:first])]


class Contention:
    """One run in one directory."""

    def __init__(self, plan, commands, directory):
        self.plan, self.commands, self.directory = plan, commands, directory
        (directory / "counter").write_text("0\n")
        (directory / "shared_lock.py").write_text(page_programs()[1])
        self.log = Log(directory, "driver")
        self.tail = Tail(directory)
        self.seen = []
        self.children = {}

    def start(self, kind, who, mode, cycles):
        number = len(self.children)
        command = self.commands.of(kind, number)
        command += [self.directory, who, mode, cycles, self.plan.hold_ms, self.plan.timeout_ms]
        with open(self.directory / f"{who}.txt", "wb") as said:
            self.children[who] = spawn.start(command, stdout=said, stderr=said)

    def await_event(self, what, who, count=1):
        """Until a caller has said so (that often); it may not end without."""
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while sum(1 for event in self.seen if (event["what"], event["who"]) == (what, who)) < count:
            ended = self.children[who].poll() is not None
            fresh = self.tail.fresh()
            self.seen += fresh
            if ended and (what, who) not in [(event["what"], event["who"]) for event in fresh]:
                raise Stuck(f"{who} ended with {self.children[who].returncode} before '{what}':\n{self.said(who)}")
            if time.monotonic() > deadline:
                raise Stuck(f"{who} did not say '{what}' in {STEP_TIMEOUT_S} s:\n{self.said(who)}")
            time.sleep(0.01)

    def said(self, who):
        return "\n".join((self.directory / f"{who}.txt").read_text(errors="replace").splitlines()[-12:])

    def kill(self, who, held):
        spawn.kill(self.children[who])
        if held:
            (self.directory / "witness").unlink(missing_ok=True)
        killed = Log(self.directory, who)
        killed.say("killed", 0)

    def victims(self, number, holder, waiter):
        """One is killed while it holds, and another while it waits behind it."""
        holding, waiting = f"{holder}-victim-holding-{number}", f"{waiter}-victim-waiting-{number}"
        self.start(holder, holding, "hold", 1)
        self.await_event("grant", holding)
        self.start(waiter, waiting, "hold", 1)
        self.await_event("enqueue", waiting)
        self.look_over_http(holding)
        self.kill(waiting, held=False)
        self.kill(holding, held=True)
        before = self.grants()
        self.await_grants(before + 5)

    def look_over_http(self, holding):
        """Records what the HTTP API shows of the lock while one caller holds it and another waits; for the judge."""
        address = self.commands.http_address
        if address is None:
            return
        with urllib.request.urlopen(f"http://{address}/v1/locks/orders", timeout=30) as answer:
            found = json.load(answer)
        tokens = [holder.get("token") for holder in found["holders"]]
        self.log.say("seen", 0, holder=holding, held=found["held"], tokens=tokens, waiters=found["waiters"])

    def grants(self):
        self.seen += self.tail.fresh()
        return sum(1 for event in self.seen if event["what"] == "grant")

    def await_grants(self, count):
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while self.grants() < count:
            if time.monotonic() > deadline:
                raise Stuck(f"no grant for {STEP_TIMEOUT_S} s after a caller had been killed")
            time.sleep(0.05)

    def run(self):
        callers = [f"{kind}-{i + 1}" for i in range(self.plan.each) for kind in self.plan.kinds]
        for who in callers:
            self.start(who.split("-")[0], who, "contend", self.plan.cycles)
        for number in range(self.plan.careless):
            self.start("kazoo", f"careless-{number + 1}", "careless", self.plan.cycles)
            callers.append(f"careless-{number + 1}")
        for who in callers:
            self.await_event("grant", who, 1) if not self.plan.careless else None
        for number, (holder, waiter) in enumerate(self.plan.victims, start=1):
            self.victims(number, holder, waiter)
        (self.directory / "stop").touch()
        for who in callers:
            self.await_event("done", who)


class Stuck(Exception):
    """The run came to no end; what the log says until then is judged all the same."""


def contend(ensemble, plan):
    """Runs a plan: the verdict, with the reason first if the run got stuck."""
    ensemble.start()
    commands = Commands(plan.kinds, ensemble)
    # Below the ensemble's, so that it goes with it.
    directory = Path(tempfile.mkdtemp(prefix="contention-", dir=ensemble.directory))
    stuck = None
    run = Contention(plan, commands, directory)
    try:
        run.run()
    except Stuck as reason:
        stuck = str(reason)
    finally:
        for child in run.children.values():
            spawn.kill(child)
    counter = int((directory / "counter").read_text())
    events = read(directory)
    verdict = judging.judge(events, counter=counter, cycles=plan.cycles, timeout_s=plan.timeout_ms / 1000)
    if stuck:
        verdict.complaints.insert(0, stuck)
    if not verdict.holds and not plan.careless:
        _keep(directory, ensemble)
    shutil.rmtree(directory)
    return verdict


def _keep(directory, ensemble):
    kept = needs.build_directory() / f"contention-{ensemble.name}"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(directory, kept)
    for member in ensemble.members:
        (kept / f"member{member.number}.log").write_text("\n".join(member.logs(3000)))
    print(f"the log of the run is kept in {kept}")


def report(ensemble, plan, verdict):
    """Prints the verdict; whether it holds."""
    for complaint in verdict.complaints[:20]:
        print("WRONG:", complaint)
    if len(verdict.complaints) > 20:
        print(f"... and {len(verdict.complaints) - 20} more")
    waits = sorted(verdict.waits_s) or [0.0]
    freed = ", ".join(f"{seconds:.1f}" for seconds in verdict.freed_s) or "-"
    head = ("against", "kinds", "callers", "killed", "grants", "wait p50 s", "wait max s", "freed after s", "wrong")
    row = (
        ensemble.name, "+".join(plan.kinds), verdict.callers, verdict.killed, verdict.grants,
        f"{statistics.median(waits):.3f}", f"{waits[-1]:.2f}", freed, len(verdict.complaints),
    )
    table.show("one queue for all clients", head, [row])
    return verdict.holds


def a_careless_caller_is_found(ensemble, kinds):
    """A caller that enters without the lock must be found out."""
    verdict = contend(ensemble, plan(kinds, quick=True, careless=2))
    found = any("together with" in complaint for complaint in verdict.complaints)
    print("the careless caller was", "found:" if found else "NOT FOUND", *verdict.complaints[:1])
    return found


def the_program_of_the_page_reads_its_token(ensemble):
    """Runs it twice: the second token must be greater."""
    program = page_programs()[0]
    assert PAGE_ADDRESSES in program, program
    program = program.replace(PAGE_ADDRESSES, ensemble.connect_string) + "print(token)\n"
    runs = [spawn.run([kazoo_python(), "-c", program], STEP_TIMEOUT_S) for _ in range(2)]
    good = all(code == 0 for code, _ in runs) and int(runs[0][1]) < int(runs[1][1])
    print("the program of the page", "reads its token" if good else f"FAILS: {runs}", flush=True)
    return good


def judge(ensemble, kinds, quick):
    """The whole step: the program of the page, contention with kills, then a careless caller."""
    ensemble.start()
    # The program reads what only holdfast has.
    good = "http" not in kinds or the_program_of_the_page_reads_its_token(ensemble)
    chosen = plan(kinds, quick)
    good &= report(ensemble, chosen, contend(ensemble, chosen))
    return a_careless_caller_is_found(ensemble, ["kazoo"]) and good
