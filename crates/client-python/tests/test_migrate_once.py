"""Real processes that migrate one database together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Iterator, List, Tuple

import holdfast
import pytest
from conftest import Cluster

pytest.importorskip("django")
TESTS = Path(__file__).resolve().parent

Process = subprocess.Popen


class Pods:
    """Processes with one database, and the migrations that they run."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.lock = f"migrate/{uuid.uuid4()}"
        self._output = folder / "output"
        self._environment = {
            **os.environ,
            "TEST_DATABASE": str(folder / "shop.db"),
            "TEST_ADDRESSES": ",".join(cluster.addresses),
            "TEST_OUTPUT": str(self._output),
            "PYTHONPATH": f"{TESTS.parent}:{TESTS / 'django_shop'}",
            "DJANGO_SETTINGS_MODULE": "settings",
        }
        self.started: List["Process[str]"] = []

    def start(self, seconds: float, *options: str) -> "Process[str]":
        command = [sys.executable, "-m", "django", "migrate_once", "--lock", self.lock, "--no-color", *options]
        environment = {**self._environment, "TEST_SECONDS": str(seconds)}
        pod = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.started.append(pod)
        return pod

    def migrations(self) -> List[Tuple[str, int]]:
        """Each migration that ran, with its process."""
        text = self._output.read_text() if self._output.exists() else ""
        return [(line.split()[0], int(line.split()[1])) for line in text.splitlines()]

    def await_migrations(self, count: int) -> List[Tuple[str, int]]:
        until = time.monotonic() + 60
        while len(found := self.migrations()) < count:
            assert time.monotonic() < until, found
            time.sleep(0.05)
        return found


@pytest.fixture
def pods(cluster: Cluster, tmp_path: Path) -> Iterator[Pods]:
    running = Pods(cluster, tmp_path)
    yield running
    for pod in running.started:
        pod.kill()
        pod.wait()


def output(pod: "Process[str]") -> str:
    text, _ = pod.communicate(timeout=90)
    return text


def test_one_of_two_processes_migrates_and_the_other_finds_nothing_to_do(pods: Pods) -> None:
    outputs = [output(pod) for pod in (pods.start(4), pods.start(4))]
    assert [pod.returncode for pod in pods.started] == [0, 0], outputs
    assert [name for name, _ in pods.migrations()] == ["0001", "0002"]
    assert sorted("No migrations to apply" in text for text in outputs) == [False, True], outputs


def test_the_migrations_of_a_killed_process_are_repeated_after_the_ttl(pods: Pods) -> None:
    first = pods.start(600)
    pods.await_migrations(1)
    second = pods.start(0)
    first.kill()
    text = output(second)
    assert second.returncode == 0, text
    assert pods.migrations() == [("0001", first.pid), ("0001", second.pid), ("0002", second.pid)]


def test_a_process_that_was_paused_starts_no_migration_after_its_loss(pods: Pods) -> None:
    first = pods.start(1)
    pods.await_migrations(1)
    os.kill(first.pid, signal.SIGSTOP)
    second = pods.start(0)
    assert "Applying shop.0002_after... OK" in output(second)
    os.kill(first.pid, signal.SIGCONT)
    text = output(first)
    assert first.returncode == 1 and "was lost, so the next migration did not start" in text, text
    assert [name for name, pid in pods.migrations() if pid == first.pid] == ["0001"]


def test_a_process_waits_no_longer_than_its_option(pods: Pods, cluster: Cluster) -> None:
    with holdfast.Client(cluster.addresses) as hf, hf.lock(pods.lock, wait=20):
        pod = pods.start(0, "--lock-wait", "0.5")
        text = output(pod)
    assert pod.returncode == 1 and "another process migrates" in text and "is held by session" in text
