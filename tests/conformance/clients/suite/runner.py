"""Runs kazoo's suite against an ensemble, again for what failed, and compares with the base line."""

import json
import os
import tempfile
import time
from pathlib import Path

from kit import needs, spawn, table, words
from kit.control import Control
from suite import lists

TEST_TIMEOUT_S = 120
SUITE_TIMEOUT_S = 3 * 3600
ATTEMPTS = 3


class Suite:
    """kazoo's suite and one ensemble. Collects the last result of each test, and how often it was tried."""

    def __init__(self, ensemble):
        self.python = needs.python(lists.HERE / "requirements.txt")
        self.ensemble = ensemble
        self.results = {}
        self.attempts = {}
        self.output = needs.build_directory() / f"kazoo-{ensemble.name}.log"

    def run(self, tests=None):
        """Runs the tests, and up to twice more those that fail. All of the suite without a list."""
        self.output.write_text("")
        control = Control(self.ensemble)
        try:
            self.ensemble.start()
            for attempt in range(1, ATTEMPTS + 1):
                self._once(control, tests)
                tests = self.failing()
                if not tests:
                    return
                if attempt < ATTEMPTS:
                    print(f"again, because they failed in attempt {attempt}:", *tests, sep="\n  ", flush=True)
                    self._fresh()
        finally:
            control.close()
            self.output.with_suffix(".json").write_text(json.dumps(self.results, indent=1))

    def failing(self):
        return sorted(test for test, result in self.results.items() if result["outcome"] == "failed")

    def _fresh(self):
        """A failing test may have left the members in any state."""
        self.ensemble.reset()
        self.ensemble.start()

    def _once(self, control, tests):
        with tempfile.TemporaryDirectory(prefix="holdfast-kit-kazoo-") as directory:
            results = Path(directory) / "results.jsonl"
            results.touch()
            environment = self._environment(control, results)
            if tests is not None:
                environment["KIT_TESTS"] = str(Path(directory) / "tests.txt")
                Path(environment["KIT_TESTS"]).write_text("\n".join(tests) + "\n")
            self._pytest(environment, directory, results, len(tests) if tests is not None else None)
            self._collect(results, tests)

    def _environment(self, control, results):
        inherited = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        return dict(
            inherited,
            PYTHONPATH=str(lists.HERE),
            PYTHONDONTWRITEBYTECODE="1",
            # Without it the suite leaves out the test that asks for the server's version.
            CI="1",
            KIT_CONTROL=control.path,
            KIT_RESULTS=str(results),
        )

    def _pytest(self, environment, directory, results, expected):
        command = [
            self.python, "-m", "pytest", "--pyargs", "kazoo.tests", "-p", "external_cluster", "-p", "no:cacheprovider",
            f"--rootdir={directory}", "-q", "-ra", "--tb=short", "--show-capture=no",
            f"--timeout={TEST_TIMEOUT_S}", "--timeout-method=thread" if expected == 1 else "--timeout-method=signal",
        ]
        with open(self.output, "ab") as log:
            child = spawn.start(command, env=environment, cwd=directory, stdout=log, stderr=log)
            _follow(child, results, expected)
        if child.returncode not in (0, 1):
            raise RuntimeError(f"pytest ended with {child.returncode}; see {self.output}")

    def _collect(self, results, tests):
        found = [json.loads(line) for line in results.read_text().splitlines()]
        for result in found:
            self.results[result["test"]] = result
            self.attempts[result["test"]] = self.attempts.get(result["test"], 0) + 1
        for test in set(tests or ()) - {result["test"] for result in found}:
            self.results[test] = {"test": test, "outcome": "failed", "why": "the suite has no such test, or it did not end"}


def _follow(child, results, expected):
    """Says now and then how far it is."""
    began = said = time.monotonic()
    while child.poll() is None:
        time.sleep(0.5)
        now = time.monotonic()
        if now - began > SUITE_TIMEOUT_S:
            spawn.kill(child)
        if now - said > 60:
            said = now
            done = sum(1 for _ in results.open())
            print(f"  {done} of {expected or 'all'} tests after {now - began:.0f} s", flush=True)


def record(ensemble):
    """Writes the base line; only a run against ZooKeeper may."""
    suite = Suite(ensemble)
    suite.run()
    version = words.version(ensemble.members[0].address)
    by = lambda outcome: {t: r for t, r in suite.results.items() if r["outcome"] == outcome}  # noqa: E731
    passed = by("passed")
    touched = [test for test, result in passed.items() if result["servers"]]
    flaky = {test for test in touched if suite.attempts[test] > 1}
    untouched = [test for test in passed if test not in touched]
    skipped = {test: result["why"] for test, result in by("skipped").items()}
    lists.write_baseline(version, touched, flaky, untouched, skipped)
    _summary(suite, ensemble, len(touched), by("failed"), flaky)
    print(f"written: {lists.BASELINE}")
    return True


def judge(ensemble, quick):
    """Whether every test of the base line passes, but for the exceptions."""
    baseline, exceptions = lists.baseline(), lists.exceptions()
    wanted = lists.quick() if quick else list(baseline)
    unknown = [test for test in [*wanted, *exceptions] if test not in baseline]
    if unknown or not wanted:
        raise ValueError(f"not in baseline.txt: {' '.join(unknown) or 'anything at all'}")
    suite = Suite(ensemble)
    suite.run(wanted)
    failed = {t: r for t, r in suite.results.items() if r["outcome"] != "passed"}
    unexcused = {test: result for test, result in failed.items() if test not in exceptions}
    retried = {test for test in wanted if suite.attempts.get(test, 0) > 1 and test not in failed}
    _summary(suite, ensemble, len(wanted) - len(failed), unexcused, retried, len(failed) - len(unexcused))
    for test in sorted(set(exceptions) & set(wanted) - set(failed)):
        print(f"passes, so its exception can go: {test}")
    return not unexcused


def _summary(suite, ensemble, passed, failed, retried, excused=0):
    for test, result in sorted(failed.items()):
        print(f"FAILED {test}\n       {result['outcome']}: {' '.join(result['why'].split())}")
    for test in sorted(retried):
        print(f"passed only in attempt {suite.attempts[test]}: {test}")
    version = words.version(ensemble.members[0].address)
    head = ("against", "version", "pass", "of these after a retry", "excepted", "fail")
    row = (ensemble.name, version, passed, len(retried), excused, len(failed))
    table.show("kazoo's own test suite", head, [row])
    if failed:
        print(f"what pytest said: {suite.output}")
