"""One test of somebody's suite, or one scenario: its name and how it ended."""

import json
import time
import typing

from kit import needs, spawn


class Case(typing.NamedTuple):
    name: str
    outcome: str  # passed, failed, skipped
    seconds: float
    note: str = ""


def wait(condition, seconds, what):
    """Waits until `condition` returns something true, and returns that; an exception of it counts as false."""
    deadline, last = time.monotonic() + seconds, ""
    while time.monotonic() < deadline:
        try:
            if found := condition():
                return found
        except Exception as error:  # the deadline reports it
            last = f" ({type(error).__name__}: {error})"
        time.sleep(0.1)
    raise TimeoutError(f"not in {seconds:.0f} s: {what}{last}")


def scenarios(steps):
    """Runs named steps in order. A step returns a note about what it measured, or raises."""
    cases = []
    for name, step in steps:
        began = time.monotonic()
        try:
            note, outcome = step() or "", "passed"
        except Exception as error:  # reported in the table
            note, outcome = f"{type(error).__name__}: {error}", "failed"
        cases.append(Case(name, outcome, time.monotonic() - began, note))
        print(f"  {outcome} {name} ({cases[-1].seconds:.0f} s) {note}", flush=True)
    return cases


def unittests(requirements, modules, environment, timeout_s=900):
    """Runs modules of unittest in the environment of `requirements`."""
    python = needs.python(requirements)
    program = requirements.parent / "programs" / "unittest_cases.py"
    code, output = spawn.run([python, program, *modules], timeout_s, env=environment)
    found = [json.loads(line[5:]) for line in output.splitlines() if line.startswith("CASE ")]
    if code != 0 or not found:
        raise RuntimeError(f"the tests of {' '.join(modules)} ended with {code}:\n{output[-2000:]}")
    return [Case(**case) for case in found]
