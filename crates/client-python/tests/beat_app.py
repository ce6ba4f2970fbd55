"""The application of `test_beat.py`: one task, twice a second."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("clock", broker=os.environ["TEST_BROKER"])
app.conf.holdfast = {"addresses": os.environ["TEST_ADDRESSES"].split(","), "ttl": 3, "session_prefix": "beat"}
app.conf.holdfast_beat_lock = os.environ["TEST_LOCK"]
app.conf.broker_connection_retry_on_startup = True
app.conf.beat_schedule = {"tick/tock": {"task": "clock.tick", "schedule": 0.5}}
