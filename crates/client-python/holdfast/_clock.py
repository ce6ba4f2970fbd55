"""The clock of deadlines. It also advances while the machine is suspended, because the cluster keeps counting then.

Linux has `CLOCK_BOOTTIME`. On macOS, `CLOCK_MONOTONIC` includes suspensions, but Python's `time.monotonic` does not.
Elsewhere the clock is the larger progress of the monotonic clock and the wall clock, so it never runs slower than either.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Callable


class LargerProgress:
    """A clock that advances by the larger progress of two clocks. A clock that is set back adds nothing."""

    def __init__(self, first: Callable[[], float], second: Callable[[], float]) -> None:
        self._clocks = (first, second)
        self._last = (first(), second())
        self._now = 0.0
        self._lock = threading.Lock()

    def now(self) -> float:
        with self._lock:
            reading = (self._clocks[0](), self._clocks[1]())
            self._now += max(0.0, reading[0] - self._last[0], reading[1] - self._last[1])
            self._last = reading
            return self._now


def _choose() -> Callable[[], float]:
    clock = {"linux": "CLOCK_BOOTTIME", "darwin": "CLOCK_MONOTONIC"}.get(sys.platform, "")
    number = getattr(time, clock, None)
    if number is not None:
        return lambda: time.clock_gettime(number)
    return LargerProgress(time.monotonic, time.time).now


#: Seconds since an arbitrary origin.
now: Callable[[], float] = _choose()
