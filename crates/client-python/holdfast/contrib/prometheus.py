"""The measurements of a client for `prometheus_client`.

    client = holdfast.Client(metrics=PrometheusMetrics())

No metric has the name of a lock as a label, because a program can have any number of locks.
"""

from __future__ import annotations

import re

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from .. import Metrics


class PrometheusMetrics(Metrics):
    """Counts in a registry, which may have one object of this class. Clients can share it."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(f"holdfast_client_{name}", help, labels, registry=registry)

        self._acquire = Histogram(
            "holdfast_client_acquire_seconds", "Time from the call to the grant of a lock", registry=registry
        )
        self._failures = counter("acquire_failures", "Acquires that ended without a grant", "error")
        self._losses = counter("losses", "Held locks that were lost", "cause")
        self._hold = Histogram(
            "holdfast_client_hold_seconds", "Time from the grant of a lock to its release", registry=registry
        )
        self._renewals = counter("renewals", "Renewals of sessions", "acknowledged")

    def acquired(self, lock: str, waited: float) -> None:
        self._acquire.observe(waited)

    def acquire_failed(self, lock: str, error: BaseException) -> None:
        kind = re.sub("(?<=.)(?=[A-Z])", "-", type(error).__name__.removesuffix("Error")).lower()
        self._failures.labels(kind).inc()

    def lost(self, lock: str, cause: str) -> None:
        self._losses.labels(cause).inc()

    def released(self, lock: str, held: float) -> None:
        self._hold.observe(held)

    def renewed(self, session: str, acknowledged: bool) -> None:
        self._renewals.labels(str(acknowledged).lower()).inc()
