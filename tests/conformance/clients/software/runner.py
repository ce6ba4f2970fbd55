"""Runs software of others on fresh ensembles, and compares what failed with `known-failures.txt`."""

import time
from pathlib import Path

from kit import needs, table, words
from software import clickhouse, curator, kafka, libkv, patroni, taskflow, tooz

HERE = Path(__file__).resolve().parent
SOFTWARE = {
    "patroni": patroni, "tooz": tooz, "taskflow": taskflow, "libkv": libkv, "kafka": kafka, "clickhouse": clickhouse,
    "curator": curator,
}
QUICK = ["patroni", "tooz"]
# Curator's tests take an hour: they run by name.
LISTED = [name for name in SOFTWARE if name != "curator"]


def known_failures():
    """What is known to fail on holdfast: `SOFTWARE CASE REASON` in each line."""
    lines = (HERE / "known-failures.txt").read_text().splitlines()
    rows = [line.split(None, 2) for line in lines if line and not line.startswith("#")]
    return {(name, case): reason for name, case, reason in rows}


class Result:
    """One software on one ensemble."""

    def __init__(self, name, ensemble, quick):
        self.name, self.against, began = name, ensemble.name, time.monotonic()
        print(f"\n{name} on {ensemble.name}", flush=True)
        ensemble.settings = getattr(SOFTWARE[name], "SETTINGS", "")
        with ensemble:
            ensemble.start()
            self.server = words.version(ensemble.members[0].address)
            self.version, self.cases = SOFTWARE[name].run(ensemble, quick)
        self.seconds = time.monotonic() - began

    def of(self, outcome):
        return [case for case in self.cases if case.outcome == outcome]

    def row(self, known):
        failed = self.of("failed")
        new = [case.name for case in failed if self.against != "holdfast" or (self.name, case.name) not in known]
        counts = len(self.cases), len(self.of("passed")), len(self.of("skipped")), len(failed) - len(new), len(new)
        return (f"{self.name} {self.version}", self.against, *counts, f"{self.seconds:.0f}")


HEAD = ("software", "on", "cases", "passed", "skipped", "known failures", "failed", "seconds")


def judge(names, ensembles, quick):
    """Whether nothing fails on holdfast but what is known to fail. `ensembles` make a fresh ensemble each."""
    results, missing = [], []
    for name in names:
        for ensemble in ensembles:
            try:
                results.append(Result(name, ensemble(), quick))
            except needs.Missing as cannot:
                print(f"  skipped {name}: {cannot}", flush=True)
                missing.append(name)
    if report(results, known_failures()):
        return False
    if missing:
        raise needs.Missing(f"skipped {' and '.join(missing)}")
    return True


def report(results, known):
    """Prints the table and each failure; returns those that are new."""
    table.show("software of others", HEAD, [result.row(known) for result in results])
    new = []
    for result in results:
        for case in result.of("failed"):
            reason = known.get((result.name, case.name)) if result.against == "holdfast" else None
            print(f"{'known' if reason else 'FAILED'} {result.name} on {result.against}: {case.name}\n    {reason or case.note}")
            if not reason and result.against == "holdfast":
                new.append(case)
        if result.against == "holdfast":
            for case in result.of("passed"):
                if (result.name, case.name) in known:
                    print(f"passes, so its line in known-failures.txt can go: {result.name} {case.name}")
    return new
