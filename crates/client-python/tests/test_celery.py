"""Real workers of Celery, a real Redis and a real cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, Callable, Iterator, List

import brokers
import holdfast
import pytest
from conftest import Cluster

pytest.importorskip("celery")
pytest.importorskip("redis")
TESTS = Path(__file__).resolve().parent
broker = pytest.fixture(scope="module")(brokers.redis)


@pytest.fixture(scope="module")
def app(broker: str, cluster: Cluster) -> Iterator[Any]:
    os.environ.update(TEST_BROKER=broker, TEST_ADDRESSES=",".join(cluster.addresses))
    os.environ["PYTHONPATH"] = f"{TESTS.parent}:{TESTS}"
    import celery_app

    yield celery_app
    celery_app.app.close()


@pytest.fixture
def workers(app: Any) -> Iterator[List["subprocess.Popen[bytes]"]]:
    """Two workers, each with one forked process."""
    command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-c", "1", "-l", "warning", "-n"]
    options = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    started = [subprocess.Popen([*command, f"w{n}@test", *options], start_new_session=True) for n in (1, 2)]
    yield started
    for worker in started:
        worker.terminate()
    for worker in started:
        try:
            worker.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(worker.pid, signal.SIGKILL)


def lines(path: Path, count: int, timeout: float) -> List[List[int]]:
    """The first `count` lines of the output of the tasks: processes and tokens."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        if path.exists() and len(found := path.read_text().splitlines()) >= count:
            return [[int(number) for number in line.split()] for line in found]
        time.sleep(0.1)
    raise AssertionError(f"only {path.read_text() if path.exists() else 'nothing'} after {timeout} s")


def kill_worker(process: int, signal_number: int) -> None:
    """Ends the worker with its forked process."""
    os.killpg(os.getpgid(process), signal_number)


@pytest.mark.parametrize("kill", [os.kill, kill_worker])
def test_a_killed_worker_is_succeeded_with_a_larger_token(
    app: Any, workers: List["subprocess.Popen[bytes]"], tmp_path: Path, kill: Callable[[int, int], None]
) -> None:
    name, output = str(uuid.uuid4()), tmp_path / "output"
    app.work.delay(name, 600, str(output))
    ((first, token),) = lines(output, 1, 90)
    succeeding = app.work.delay(name, 8, str(output))
    time.sleep(2)
    assert len(lines(output, 1, 1)) == 1, "two tasks run at a time"
    kill(first, signal.SIGKILL)
    (_, (second, larger), *_) = lines(output, 2, 90)
    assert second != first and larger > token
    # The task computes for longer than the time-to-live and keeps its lock.
    assert succeeding.get(timeout=90) >= larger


def test_a_busy_task_is_skipped_or_fails(app: Any, workers: List["subprocess.Popen[bytes]"], cluster: Cluster) -> None:
    name = str(uuid.uuid4())
    assert app.skipped.delay(name).get(timeout=90) == "ran"
    with holdfast.Client(cluster.addresses, ttl=30) as hf, hf.lock(f"celery/{name}", wait=20):
        result = app.skipped.delay(name)
        with pytest.raises(Exception, match="is held by session"):
            app.failing.delay(name).get(timeout=90)
        assert result.status in ("PENDING", "IGNORED")
