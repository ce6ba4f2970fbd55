"""Numbers and names that no earlier call has: attempts, request numbers, and random names.

A number must exceed those of all earlier attempts of its session, including attempts of other processes. Microseconds
since 1970 satisfy this unless clocks disagree. The cluster then returns the newest number.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import time

from .errors import InvalidArgument

#: The largest number of an attempt or a request that the cluster accepts.
_MAX = 2**63 - 1
#: Not seeded from the interpreter's generator, which the program may seed.
_random = random.SystemRandom()


def next_number(newest: int, after: int, micros: int) -> int:
    """The number that follows every number of this process (`newest`) and of the cluster (`after`)."""
    return max(micros, after + 1, newest + 1)


class Numbers:
    """Strictly growing numbers, for all threads of one process."""

    def __init__(self) -> None:
        self._newest = 0
        self._lock = threading.Lock()

    def after(self, number: int = 0) -> int:
        """The next number. A number that is not larger would be rejected, and its call repeated, without end."""
        with self._lock:
            following = next_number(self._newest, number, time.time_ns() // 1000)
            if following > _MAX:
                raise InvalidArgument("another call has used the largest number: use a session with another name")
            self._newest = following
            return following


numbers = Numbers()


def _renew_lock() -> None:
    numbers._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def random_name(prefix: str) -> str:
    """`PREFIX-0123456789abcdef`"""
    return f"{prefix}-{secrets.token_hex(8)}"


def jitter() -> float:
    """From 0 to 1."""
    return _random.random()
