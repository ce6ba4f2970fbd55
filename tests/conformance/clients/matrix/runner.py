"""Two callers of every pair of recipes on one lock, in both orders, and an HTTP caller behind them.

Each client program gets lines on stdin (`acquire NAME KIND PATH`, `release NAME`) and prints `NAME holds`,
`NAME refused WHY`, `NAME released`. The last letter of a name is the session: `a` comes first, `b` second.

A cell is `waits`, `shares` (both hold), `refused`, or `both` (both hold, and one of them exclusively). The cells are compared
with the page in docs/contributing; a run with `--record` writes it. A cell with an HTTP caller is never `both`.
"""

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from kit import needs, spawn, table

HERE = Path(__file__).resolve().parent
TABLE = needs.holdfast.ROOT / "docs" / "contributing" / "zookeeper-matrix.md"
HTTP = ["http", "http-shared"]
KAZOO = ["kazoo", "kazoo-write", "kazoo-read", "kazoo-election", "c"]
CURATOR = ["curator", "curator-write", "curator-read", "curator-semaphore", "curator-latch", "zookeeper-java"]
GO = ["go"]
JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-Xss256k", "-cp"]
SHARED = {"http-shared", "kazoo-read", "curator-read"}
STEP_S = 60
# A caller that could enter has done so long before.
STAYS_S = 1.5


class Program:
    """A client program, and the last word about each of its callers."""

    def __init__(self, command):
        self.process = spawn.start(command, stdin=-1, stdout=-1, stderr=-3)
        self.states, self.changed = {}, threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            name, state, *_ = line.decode().split()
            with self.changed:
                self.states[name] = state
                self.changed.notify_all()

    def send(self, *words):
        with self.changed:
            self.process.stdin.write((" ".join(words) + "\n").encode())
            self.process.stdin.flush()

    def acquire(self, name, kind, lock):
        self.send("acquire", name, kind, "/locks/" + lock)

    def release(self, name):
        self.send("release", name)

    def state(self, name, unwanted=(None,), timeout_s=STEP_S):
        """The state once it is another one than these, or the last one after the timeout."""
        with self.changed:
            self.changed.wait_for(lambda: self.states.get(name) not in unwanted, timeout_s)
            return self.states.get(name)


class HttpCallers(Program):
    """HTTP callers: a thread waits for each."""

    def __init__(self, address):
        self.address = address
        self.states, self.changed, self.kinds = {}, threading.Condition(), {}

    def call(self, method, path):
        request = urllib.request.Request(f"http://{self.address}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=2 * STEP_S) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read() or b"{}")

    def note(self, name, state):
        with self.changed:
            self.states[name] = state
            self.changed.notify_all()

    def acquire(self, name, kind, lock):
        self.kinds[name] = lock
        mode = "shared" if kind == "http-shared" else "exclusive"
        path = f"/v1/locks/{lock}?session={name}&ttl=5m&wait={STEP_S}s&mode={mode}"

        def wait():
            status, _ = self.call("PUT", path)
            self.note(name, "holds" if status // 100 == 2 else "refused")

        threading.Thread(target=wait, daemon=True).start()

    def release(self, name):
        status, _ = self.call("DELETE", f"/v1/locks/{self.kinds[name]}?session={name}")
        self.note(name, "released" if status // 100 == 2 else "refused")

    def queue(self, lock):
        """The sessions that hold and wait."""
        _, found = self.call("GET", f"/v1/locks/{lock}")
        return [entry["session"] for entry in found.get("holders", []) + found.get("queue", [])]


class Cell:
    """One pair. `problem` says what a correct lock never does."""

    def __init__(self, programs, first, second, expected):
        self.programs, self.kinds = programs, {"a": first, "b": second, "c": "http"}
        self.lock = f"matrix/{first}.{second}"
        self.found, self.problem = None, None
        # What is expected to happen may take long on a busy machine; what must not happen is waited for a fixed time.
        self.second_s = STEP_S if expected in ("shares", "refused") else STAYS_S

    def of(self, role):
        return self.programs[self.kinds[role]], f"{self.kinds['a']}.{self.kinds['b']}-{role}"

    def acquire(self, role):
        program, name = self.of(role)
        program.acquire(name, self.kinds[role], self.lock)

    def state(self, role, *unwanted, timeout_s=STEP_S):
        program, name = self.of(role)
        return program.state(name, (None, *unwanted), timeout_s)

    def release(self, role):
        program, name = self.of(role)
        program.release(name)
        return program.state(name, ("holds", "refused"))

    def is_compatible(self):
        return self.kinds["a"] in SHARED and self.kinds["b"] in SHARED

    def run(self):
        try:
            self.found = self.judge()
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"

    def judge(self):
        self.acquire("a")
        if self.state("a") != "holds":
            self.problem = "the first caller does not get a free lock"
            return "stuck"
        self.acquire("b")
        second = self.state("b", timeout_s=self.second_s)
        if second == "refused":
            self.release("a")
            return "refused"
        if second == "holds":
            self.release("b"), self.release("a")
            return "shares" if self.is_compatible() else "both"
        return self.in_order() if self.has_http() else self.after_release()

    def has_http(self):
        return bool({"http", "http-shared"} & {self.kinds["a"], self.kinds["b"]})

    def after_release(self):
        self.release("a")
        if self.state("b") != "holds":
            return "stuck"
        self.release("b")
        return "waits"

    def in_order(self):
        """A third caller, over HTTP, comes after the second."""
        http, name = self.of("c")
        self.acquire("c")
        deadline = time.monotonic() + STEP_S
        while name not in http.queue(self.lock) and time.monotonic() < deadline:
            time.sleep(0.05)
        if self.state("b", timeout_s=0) == "holds":
            return "both"
        self.release("a")
        if self.state("b") != "holds":
            self.problem = f"the second caller is {self.state('b')} after the release of the first"
            return "stuck"
        if self.state("c", timeout_s=0.3) == "holds":
            self.problem = "an HTTP caller overtook the second caller"
            return "both"
        self.release("b")
        if self.state("c") != "holds":
            self.problem = "the HTTP caller behind is not granted"
        self.release("c")
        return "waits"


def programs(ensemble):
    """The programs that can run here, by kind."""
    connect = ensemble.connect_string
    found = dict.fromkeys(HTTP, HttpCallers(ensemble.http_addresses[0]))
    python = needs.python(HERE.parent / "kazoo" / "requirements.txt")
    builders = [
        (KAZOO, lambda: [python, HERE / "kazoo_callers.py", connect]),
        (CURATOR, lambda: [*JAVA, needs.java_classes(HERE / "CuratorCallers.java"), "CuratorCallers", connect]),
        (GO, lambda: [needs.go_program(HERE / "go"), connect]),
    ]
    for names, command in builders:
        try:
            found.update(dict.fromkeys(names, Program(command())))
        except needs.Missing as missing:
            print(f"without {', '.join(names)}: {missing}", flush=True)
    for program in set(found.values()):
        if not isinstance(program, HttpCallers) and program.state("ready") != "ready":
            raise RuntimeError("a client program does not start")
    return found


def judge(ensemble, quick=False, record=False):
    """Whether no cell with an HTTP caller is wrong, and the cells are those of the page."""
    ensemble.start()
    callers = programs(ensemble)
    kinds = list(callers)
    expected = documented()
    cells = [
        Cell(callers, first, second, expected.get((first, second)))
        for first in kinds for second in kinds
        if not quick or first in HTTP or second in HTTP
    ]
    threads = [threading.Thread(target=cell.run, daemon=True) for cell in cells]
    [thread.start() for thread in threads]
    [thread.join(6 * STEP_S) for thread in threads]
    found = {(cell.kinds["a"], cell.kinds["b"]): cell.found for cell in cells}
    table.show("second caller, by row: the first", ("first", *kinds), [
        (first, *(found.get((first, second), "-") for second in kinds)) for first in kinds
    ])
    wrong = [cell for cell in cells if cell.problem or (cell.has_http() and cell.found in (None, "both", "stuck"))]
    for cell in wrong:
        print("WRONG:", cell.kinds["a"], "before", cell.kinds["b"], "is", cell.found, cell.problem or "")
    if record and not quick:
        TABLE.write_text(page(kinds, found))
    return not wrong and is_as_documented(found)


HEAD = """# The matrix of recipes

`scripts/conformance matrix --record` writes this page with the real clients. The first caller is
the row and holds the lock; the cell is what the second caller does. A run compares the cells of HTTP callers; the
others show what the libraries do alone. [ZooKeeper clients](../zookeeper.md) explains it.

- `waits`: it gets the lock after the first, in order.
- `shares`: both read.
- `refused`: it gets an error, and holds nothing.
- `both`: the two libraries do not see each other's entries, with ZooKeeper, too.
- `stuck`: it waits, even after the first has left.

"""


def page(kinds, found):
    lines = ["| first, second | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for first in kinds:
        lines.append("| " + " | ".join([first, *(found[first, second] or "?" for second in kinds)]) + " |")
    return HEAD + "\n".join(lines) + "\n"


def documented():
    """The cells of the page."""
    rows = [line.strip("| \n").split(" | ") for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    return {(row[0], second): cell for row in rows[1:] for second, cell in zip(rows[0][1:], row[1:])}


def is_as_documented(found):
    expected = documented()
    own = {pair: cell for pair, cell in found.items() if set(pair) & set(HTTP)}
    others = {pair: cell for pair, cell in own.items() if expected.get(pair) != cell}
    for (first, second), cell in others.items():
        print(f"OTHER THAN {TABLE.name}: {first} before {second} is {cell}, not {expected.get((first, second))}")
    return not others
