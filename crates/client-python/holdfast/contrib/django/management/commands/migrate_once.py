"""`manage.py migrate_once`: of many pods that start together, one migrates.

The other pods wait for the lock, and then find nothing to do. It works behind PgBouncer, where advisory locks do not.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate

from ..... import Busy, Guard, Lost
from ... import lock


class Command(migrate.Command):  # type: ignore[misc]
    help = "Runs migrate under a lock: one process migrates, and the others wait for it."

    _guard: Guard

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        parser.add_argument("--lock", help="The lock. By default django/migrate/DATABASE.")
        parser.add_argument("--lock-wait", type=float, default=600.0, help="The time in the queue, in seconds.")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["lock"] or f"django/migrate/{options['database']}"
        try:
            with lock(name, wait=options["lock_wait"]) as self._guard:
                super().handle(*args, **options)
        except Busy as busy:
            raise CommandError(f"another process migrates for longer than --lock-wait: {busy}") from busy
        except Lost as lost:
            raise CommandError(f"the lock {name} was lost, so the next migration did not start: {lost}") from lost

    def migration_progress_callback(self, action: str, *args: Any, **options: Any) -> None:
        """Checks the lock before each migration."""
        if action == "apply_start" or action == "unapply_start":
            self._guard.ensure()
        super().migration_progress_callback(action, *args, **options)
