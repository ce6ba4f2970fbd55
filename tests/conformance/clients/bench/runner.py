"""Measures ensembles by turns with one client program, and shows the middle of the rounds beside each other."""

import json
import statistics
from pathlib import Path

from kit import needs, spawn, table

HERE = Path(__file__).resolve().parent
# Sessions and workload; `reads` is a get a cycle.
CASES = ((1, "own"), (16, "own"), (64, "own"), (16, "one"), (1, "reads"), (64, "reads"))
# ZooKeeper 3.8.0 was seen to leave a request of a lone session without an answer.
TRIALS = 3


def measure(ensembles, seconds, rounds):
    """Prints a row for each case. Whether every run came to its end; numbers are never judged."""
    program = needs.c_program(HERE / "recipe_load.c", "st")
    for ensemble in ensembles:
        ensemble.start()
    _run(program, ensembles, 64, "own", seconds)  # warms every ensemble up
    rows = []
    for sessions, workload in CASES:
        found = [[] for _ in ensembles]
        for _ in range(rounds):
            for place, one in zip(found, _run(program, ensembles, sessions, workload, seconds)):
                place.append(one)
        rows.append(_row(sessions, workload, found))
    head = ["sessions", "locks"]
    for ensemble in ensembles:
        head += [f"{ensemble.name} cycles/s", "p50 ms", "p99 ms"]
    if len(ensembles) == 2:
        head += ["cycles ratio", "p50 ratio"]
    table.show(f"Curator's recipe (create, list, delete), middle of {rounds} rounds of {seconds:g} s", head, rows)
    return True


def _run(program, ensembles, sessions, workload, seconds):
    return [_one(program, ensemble, sessions, workload, seconds) for ensemble in ensembles]


def _one(program, ensemble, sessions, workload, seconds):
    """One measurement. A server that leaves a request unanswered ends it; that is said, and it is repeated."""
    command = [program, ensemble.connect_string, sessions, seconds, workload]
    for _ in range(TRIALS):
        code, output = spawn.run(command, seconds * 3 + 120)
        if code == 0:
            return json.loads(output.splitlines()[-1])
        failure = f"{workload} with {sessions} sessions against {ensemble.name} ended with {code}: {output.strip()[-500:]}"
        print(failure, flush=True)
    raise RuntimeError(f"{failure}; so it did {TRIALS} times")


def _row(sessions, workload, found):
    middle = [
        {key: statistics.median(one[key] for one in rounds) for key in ("per_second", "p50_us", "p99_us")}
        for rounds in found
    ]
    cells = [sessions, workload]
    for one in middle:
        cells += [f"{one['per_second']:,.0f}", f"{one['p50_us'] / 1000:.2f}", f"{one['p99_us'] / 1000:.2f}"]
    if len(middle) == 2:
        theirs, ours = middle
        cells += [f"{ours['per_second'] / theirs['per_second']:.2f}", f"{ours['p50_us'] / theirs['p50_us']:.2f}"]
    return cells
