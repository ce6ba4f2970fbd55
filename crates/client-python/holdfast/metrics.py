"""The measurements of a client, once for each lock of an acquire, for Prometheus, OpenTelemetry or another library."""

from __future__ import annotations


class Metrics:
    """Override the methods that you need. They run on the thread of the client, so they must return at once."""

    def acquired(self, lock: str, waited: float) -> None:
        """A lock was granted after `waited` seconds."""

    def acquire_failed(self, lock: str, error: BaseException) -> None:
        """An acquire ended without a grant."""

    def lost(self, lock: str, cause: str) -> None:
        """A held lock was lost."""

    def released(self, lock: str, held: float) -> None:
        """A guard released a lock, `held` seconds after the grant."""

    def renewed(self, session: str, acknowledged: bool) -> None:
        """A renewal was acknowledged, or failed."""
