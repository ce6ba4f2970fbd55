"""A scheduler for the beat of Celery: of any number of processes, one sends the tasks.

    celery -A shop beat --scheduler holdfast.contrib.celery_beat:LeaderScheduler

The leader holds the lock in the setting `holdfast_beat_lock`, by default `celery/beat`. The other processes wait for it. The
setting `holdfast` has the options of the client, as for `holdfast.contrib.celery`.

A leader writes each run into the tree before it sends the task, and only over the version that it read. A leader that was
paused and replaced therefore sends nothing more, and its successor continues with the last run. A task is sent at most
once: a leader that dies between the write and the sending loses that run.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime
from typing import Any, Dict, Optional
from urllib.parse import quote

from celery.beat import Scheduler

from .. import Busy, Error, Guard
from .celery import client

_log = logging.getLogger("holdfast")
#: The time of one wait in the queue, after which beat looks for signals.
_WAIT = 5.0
#: The pause after an error, in seconds.
_PAUSE = 2.0


class LeaderScheduler(Scheduler):  # type: ignore[misc]
    """Sends the tasks of the setting `beat_schedule` while it is the leader."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._guard: Optional[Guard] = None
        #: The version of the last run of each entry in the tree.
        self._versions: Dict[str, int] = {}
        super().__init__(*args, **kwargs)

    @property
    def lock_name(self) -> str:
        name: str = self.app.conf.get("holdfast_beat_lock") or "celery/beat"
        return name

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        """Sends what is due, and returns the time until the next call."""
        try:
            self._lead()
        except Busy:
            return 0
        except Error as error:
            _log.warning("beat has no leader's lock: %s", error)
            return _PAUSE
        return super().tick(*args, **kwargs)

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Sends a task whose run is written."""
        try:
            self._write_run(self.schedule[entry.name])
        except Error as error:
            _log.warning("beat does not send %s: %s", entry.name, error)
            self._resign()
            return
        super().apply_entry(entry, producer=producer)

    def close(self) -> None:
        super().close()
        self._resign()

    def _lead(self) -> None:
        if self._guard is not None and self._guard.lost.get() is None:
            return
        self._resign()
        self._guard = client(self.app).lock(self.lock_name, wait=_WAIT).acquire()
        try:
            self._read_runs()
        except BaseException:
            self._resign()
            raise
        _log.info("beat leads with the lock %s", self.lock_name)

    def _resign(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            try:
                guard.release()
            except Error as error:
                _log.info("beat no longer leads: %s", error)

    def _read_runs(self) -> None:
        """Continues after the runs of the former leader."""
        self._versions.clear()
        for entry in self.schedule.values():
            znode = client(self.app).tree_get(self._path(entry))
            if znode is not None:
                run = json.loads(znode.data)
                entry.last_run_at = datetime.fromisoformat(run["last_run_at"])
                entry.total_run_count = run["total_run_count"]
                self._versions[entry.name] = znode.version
        self._heap = None

    def _write_run(self, entry: Any) -> None:
        assert self._guard is not None
        self._guard.ensure()
        run = {"last_run_at": entry.last_run_at.isoformat(), "total_run_count": entry.total_run_count}
        known = self._versions.get(entry.name)
        put = client(self.app).tree_put
        self._versions[entry.name] = put(
            self._path(entry), json.dumps(run), version=known, create=known is None, parents=True
        )

    def _path(self, entry: Any) -> str:
        return f"/celery-beat/{quote(self.lock_name, safe='')}/{quote(entry.name, safe='')}"
