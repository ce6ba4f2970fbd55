"""Real processes of Celery's beat, a real Redis and a real cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, Dict, Iterator, List

import brokers
import holdfast
import pytest
from conftest import Cluster

pytest.importorskip("celery")
redis = pytest.importorskip("redis")
TESTS = Path(__file__).resolve().parent
broker = pytest.fixture(scope="module")(brokers.redis)

Process = subprocess.Popen


class Beats:
    """Processes of beat with one schedule, and what they have sent."""

    def __init__(self, broker: str, cluster: Cluster) -> None:
        self.lock = f"beat/{uuid.uuid4()}"
        self._environment = {
            **os.environ,
            "TEST_BROKER": broker,
            "TEST_ADDRESSES": ",".join(cluster.addresses),
            "TEST_LOCK": self.lock,
            "PYTHONPATH": f"{TESTS.parent}:{TESTS}",
        }
        self._queue: Any = redis.Redis.from_url(broker, socket_timeout=None)
        self._queue.delete("celery")
        self._started: List["Process[bytes]"] = []
        self._of: Dict[int, str] = {}
        self.sent: List[int] = []

    def start(self) -> int:
        scheduler = "holdfast.contrib.celery_beat:LeaderScheduler"
        command = [sys.executable, "-m", "celery", "-A", "beat_app", "beat", "--pidfile=", "--scheduler", scheduler]
        process = subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL)
        self._started.append(process)
        return process.pid

    def next(self, timeout: float) -> int:
        """The process that sent the next task."""
        message = self._queue.brpop("celery", timeout=timeout)
        assert message is not None, f"nothing was sent in {timeout} s"
        origin = json.loads(message[1])["headers"]["origin"]
        sender = int(origin[len("gen") : origin.index("@")])
        self.sent.append(sender)
        return sender

    def rest(self) -> List[int]:
        """The senders of all tasks that are in the queue."""
        return [self.next(1) for _ in range(self._queue.llen("celery"))]

    def await_sender(self, process: int, timeout: float) -> None:
        until = time.monotonic() + timeout
        while self.next(timeout) != process:
            assert time.monotonic() < until

    def exit_code(self, process: int) -> int:
        return next(one for one in self._started if one.pid == process).wait(20)

    def stop(self) -> None:
        for process in self._started:
            process.kill()
        for process in self._started:
            process.wait()


@pytest.fixture
def beats(broker: str, cluster: Cluster) -> Iterator[Beats]:
    running = Beats(broker, cluster)
    yield running
    running.stop()


def runs(beats: Beats, cluster: Cluster) -> int:
    """The number of runs that the leaders have written."""
    with holdfast.Client(cluster.addresses) as hf:
        znode = hf.tree_get(f"/celery-beat/{beats.lock.replace('/', '%2F')}/tick%2Ftock")
    assert znode is not None
    count: int = json.loads(znode.data)["total_run_count"]
    return count


def await_waiter(beats: Beats, cluster: Cluster) -> None:
    """Waits until another process stands in the queue of the lock."""
    until = time.monotonic() + 60
    with holdfast.Client(cluster.addresses) as hf:
        while not hf.lock_state(beats.lock)["waiters"]:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_a_killed_leader_is_succeeded_within_the_ttl(beats: Beats, cluster: Cluster) -> None:
    first = beats.start()
    for _ in range(3):
        assert beats.next(60) == first
    second = beats.start()
    await_waiter(beats, cluster)
    for sender in beats.rest():
        assert sender == first
    os.kill(first, signal.SIGKILL)
    killed = time.monotonic()
    beats.await_sender(second, 30)
    assert time.monotonic() - killed < 10, "the ttl is 3 s"
    for _ in range(4):
        assert beats.next(5) == second
    os.kill(second, signal.SIGKILL)
    time.sleep(0.5)
    beats.rest()
    # Each leader may die between the write of a run and the sending.
    assert runs(beats, cluster) - 2 <= len(beats.sent) <= runs(beats, cluster)


def test_a_paused_leader_sends_nothing_after_its_successor(beats: Beats, cluster: Cluster) -> None:
    first = beats.start()
    assert beats.next(60) == first
    second = beats.start()
    await_waiter(beats, cluster)
    os.kill(first, signal.SIGSTOP)
    beats.await_sender(second, 90)
    os.kill(first, signal.SIGCONT)
    # A task whose run was written before the pause may be sent late.
    later = [beats.next(5) for _ in range(8)]
    assert later.count(first) <= 1 and later[-1] == second, later
    os.kill(second, signal.SIGTERM)
    beats.await_sender(first, 20)
    os.kill(first, signal.SIGSTOP)
    beats.rest()
    assert len(beats.sent) <= runs(beats, cluster)


def test_a_waiting_process_ends_at_a_signal(beats: Beats, cluster: Cluster) -> None:
    first = beats.start()
    assert beats.next(60) == first
    second = beats.start()
    await_waiter(beats, cluster)
    os.kill(second, signal.SIGTERM)
    assert beats.exit_code(second) == 0
    with holdfast.Client(cluster.addresses) as hf:
        assert hf.lock_state(beats.lock)["waiters"] == 0
