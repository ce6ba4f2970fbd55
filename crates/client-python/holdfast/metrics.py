"""The measurements of a client, once for each lock of an acquire, for Prometheus, OpenTelemetry or another library."""

from __future__ import annotations

import logging
from typing import Any, Callable

log = logging.getLogger("holdfast")


class Metrics:
    """Override the methods that you need. They run on the thread of the client, so they must return at once."""

    def acquired(self, lock: str, waited: float) -> None:
        """A lock was granted after `waited` seconds."""

    def acquire_failed(self, lock: str, error: BaseException) -> None:
        """An acquire ended without a grant."""

    def lost(self, lock: str, cause: str) -> None:
        """A held lock was lost."""

    def released(self, lock: str, held: float) -> None:
        """The cluster has confirmed that a guard released its lock, `held` seconds after the grant."""

    def renewed(self, session: str, acknowledged: bool) -> None:
        """A renewal was acknowledged, or failed."""


def report(measure: Callable[..., None], *values: Any) -> None:
    """Calls a method of the program. An error in it must not end the call that it measures, or lose a granted lock."""
    try:
        measure(*values)
    except Exception:
        log.exception("the metrics of the program failed")
