"""Runs modules of unittest, and prints each case as a line of JSON."""

import json
import sys
import time
import unittest


class Lines(unittest.TestResult):
    def startTest(self, test):
        self.began, self.outcome, self.note = time.monotonic(), "passed", ""
        super().startTest(test)

    def stopTest(self, test):
        seconds = time.monotonic() - self.began
        case = {"name": test.id(), "outcome": self.outcome, "seconds": seconds, "note": self.note}
        print("\nCASE " + json.dumps(case), flush=True)
        super().stopTest(test)

    def _failed(self, error):
        self.outcome, self.note = "failed", " ".join(str(error[1]).split())[-300:]

    def addError(self, test, err, details=None):
        self._failed(err or (None, details))

    addFailure = addError

    def addSkip(self, test, reason=None, details=None):
        self.outcome, self.note = "skipped", str(reason or details)


def main():
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(sys.argv[1:])
    if loader.errors:
        sys.exit("\n".join(loader.errors))
    suite.run(Lines())


# Some tests start processes that import this file again.
if __name__ == "__main__":
    main()
