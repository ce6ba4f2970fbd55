"""The lists that steer kazoo's suite: the base line, the exceptions and the quick choice.

A line is a test's id (`test_lock.py::Class::test`). In `baseline.txt` the word `flaky` may follow, for a test that
failed at first against ZooKeeper itself. In `exceptions.txt` a colon and the reason must follow.
"""

from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "kazoo"
BASELINE = HERE / "baseline.txt"
EXCEPTIONS = HERE / "exceptions.txt"
QUICK = HERE / "quick.txt"


def _lines(path):
    if not path.is_file():
        return []
    lines = (line.strip() for line in path.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def baseline():
    """Every test that must pass, and whether it is known to be flaky."""
    split = (line.split() for line in _lines(BASELINE))
    return {words[0]: "flaky" in words[1:] for words in split}


def quick():
    """A choice of fast tests out of the base line."""
    return _lines(QUICK)


def exceptions():
    """Tests that need not pass, with the reason; a line without one is an error."""
    found = {}
    for line in _lines(EXCEPTIONS):
        test, separator, reason = line.partition(": ")
        if not separator or len(reason.strip()) < 20:
            raise ValueError(f"exceptions.txt: {test} has no reason; write '{test}: why it cannot pass'")
        found[test] = reason.strip()
    return found


def write_baseline(version, tests, flaky, untouched, skipped):
    """Writes what a run against ZooKeeper has shown."""
    head = [
        f"# kazoo 2.11.0's own tests that pass against three nodes of ZooKeeper {version}, written by",
        "#     scripts/conformance kazoo --against zookeeper --record",
        f"# {len(tests)} tests pass and ask for a server. Left out: {len(untouched)} that ask for none, and {len(skipped)} skipped ones:",
        *(f"#   {test}: {why}" for test, why in sorted(skipped.items())),
    ]
    body = [f"{test} flaky" if test in flaky else test for test in sorted(tests)]
    BASELINE.write_text("\n".join(head + body) + "\n")
