"""The entry of the conformance kit: which judge, against whom. See docs/contributing/zookeeper.md.

Owns the command line, the exit code (0 all hold, 1 something does not, 3 a step cannot run here) and the end of every
process. Refuses to know what any judge does.
"""

import argparse
import contextlib
import signal
import sys
import time
import traceback
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from kit import needs, spawn, table  # noqa: E402
from kit.holdfast import HoldfastEnsemble  # noqa: E402
from kit.zookeeper import ZooKeeperEnsemble  # noqa: E402


ENSEMBLES = {"holdfast": HoldfastEnsemble, "zookeeper": ZooKeeperEnsemble}


def ensemble(against):
    if against == "zookeeper":
        needs.ensure("zookeeper")
    return ENSEMBLES[against]()


def kazoo(options):
    from suite import runner

    with ensemble(options.against) as members:
        if options.record:
            return runner.record(members)
        return runner.judge(members, options.quick)


def clients(options):
    from contention import driver

    # ZooKeeper has no HTTP API.
    kinds = ["kazoo", "curator", "c"] + (["http"] if options.against == "holdfast" else [])
    with ensemble(options.against) as members:
        return driver.judge(members, kinds, options.quick)


def judge_itself(options):
    """That the judge of the contention finds a careless caller in a log."""
    import unittest

    from contention import judge_test

    suite = unittest.defaultTestLoader.loadTestsFromModule(judge_test)
    return unittest.TextTestRunner(verbosity=0).run(suite).wasSuccessful()


def curator(options):
    from curator import runner

    with ensemble(options.against) as members:
        return runner.judge(members)


def matrix(options):
    from matrix import runner

    with HoldfastEnsemble() as members:
        return runner.judge(members, options.quick, options.record)


def zkcli(options):
    from zkcli import smoke

    with ensemble(options.against) as members:
        return smoke.judge(members)


def handles(options):
    from handles import runner

    with ensemble(options.against) as members:
        return runner.judge(members)


def secure(options):
    """TLS and access tokens, which ZooKeeper has in another form."""
    from secure import runner
    from secure.ensemble import SecureEnsemble

    with SecureEnsemble() as members:
        return runner.judge(members)


def api(options):
    """Of the HTTP API, by its own description. ZooKeeper has none."""
    from fuzz import runner

    with HoldfastEnsemble() as members:
        return runner.judge(members, round(options.seconds or 60))


def software(options):
    """Other people's software, each against ensembles of its own."""
    from software import runner

    if options.against == "zookeeper" or options.beside_zookeeper:
        needs.ensure("zookeeper")
    both = [HoldfastEnsemble, ZooKeeperEnsemble] if options.beside_zookeeper else []
    names = options.names or (runner.QUICK if options.quick else runner.LISTED)
    return runner.judge(names, both or [ENSEMBLES[options.against]], options.quick)


def bench(options):
    from bench import runner

    with contextlib.ExitStack() as running:
        ensembles = [running.enter_context(ensemble("zookeeper"))]
        if options.against == "holdfast":
            ensembles.append(running.enter_context(ensemble("holdfast")))
        return runner.measure(ensembles, options.seconds or 6, options.rounds)


# `all` leaves the measurement out: it wants a machine for itself.
STEPS = {
    "kazoo": [kazoo],
    "clients": [judge_itself, zkcli, handles, clients],
    "handles": [handles],
    "curator": [curator],
    "matrix": [matrix],
    "bench": [bench],
    "api": [api],
    "secure": [secure],
    "software": [software],
    "all": [judge_itself, zkcli, handles, clients, matrix, curator, secure, kazoo],
    "quick": [judge_itself, clients, matrix, secure, kazoo],
}


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/conformance", description="Judges holdfast's ZooKeeper port.")
    parser.add_argument("what", choices=[*STEPS], nargs="?", default="all")
    parser.add_argument("--against", choices=["holdfast", "zookeeper"], default="holdfast")
    parser.add_argument("--record", action="store_true", help="kazoo, against zookeeper: write the base line; matrix: the page")
    parser.add_argument("--seconds", type=float, help="bench: of one measurement (default 6); api: of the fuzzing (60)")
    parser.add_argument("names", nargs="*", help="software: which; all of it without a name")
    parser.add_argument("--beside-zookeeper", action="store_true", help="software: on ZooKeeper, too")
    parser.add_argument("--quick", action="store_true", help="software: two minutes of it")
    parser.add_argument("--rounds", type=int, default=3, help="bench: measurements of each case (default 3)")
    options = parser.parse_args()
    if options.record and (options.what, options.against) not in (("kazoo", "zookeeper"), ("matrix", "holdfast")):
        parser.error("--record needs: kazoo --against zookeeper, or matrix")
    options.quick |= options.what == "quick"
    return options


def run_step(step, options):
    """One row of the last table."""
    began = time.monotonic()
    try:
        verdict = "holds" if step(options) else "FAILS"
    except needs.Missing as missing:
        verdict = "CANNOT RUN"
        print(f"{step.__name__} cannot run here: {missing}", flush=True)
    except Exception:
        verdict = "BROKE"
        traceback.print_exc()
    return step.__name__, verdict, f"{time.monotonic() - began:.0f} s"


def main():
    options = arguments()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        steps = STEPS[options.what]
        rows = []
        for step in steps:
            print(f"\n== {step.__name__}, against {options.against}", flush=True)
            rows.append(run_step(step, options))
        table.show(f"conformance of {options.against}", ("step", "verdict", "took"), rows)
    finally:
        spawn.end_all()
    verdicts = {verdict for _, verdict, _ in rows}
    if verdicts == {"holds"}:
        return 0
    return 3 if verdicts <= {"holds", "CANNOT RUN"} else 1


if __name__ == "__main__":
    sys.exit(main())
