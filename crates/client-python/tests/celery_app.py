"""The application of `test_celery.py`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery
from holdfast.contrib.celery import SingletonTask

app = Celery("shop", broker=os.environ["TEST_BROKER"], backend=os.environ["TEST_BROKER"])
app.conf.holdfast = {"addresses": os.environ["TEST_ADDRESSES"].split(","), "ttl": 3, "session_prefix": "worker"}
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 1
app.conf.broker_connection_retry_on_startup = True


@app.task(base=SingletonTask, lock="celery/{name}", lock_wait=60, bind=True)  # type: ignore[untyped-decorator]
def work(self: SingletonTask, name: str, seconds: float, output: str) -> int:
    """Writes the process and the token, then computes without a pause, so that nothing else runs on this thread."""
    with Path(output).open("a") as file:
        file.write(f"{os.getpid()} {self.guard.token}\n")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))
        self.guard.ensure()
    return self.guard.token


@app.task(base=SingletonTask, lock="celery/{name}")  # type: ignore[untyped-decorator]
def skipped(name: str) -> str:
    return "ran"


@app.task(base=SingletonTask, lock="celery/{name}", on_busy="fail")  # type: ignore[untyped-decorator]
def failing(name: str) -> str:
    return "ran"
