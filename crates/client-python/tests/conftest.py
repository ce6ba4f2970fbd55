"""A real cluster of three nodes, started by `holdfast dev`. `HOLDFAST_BIN` is the program."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from typing import Iterator, List

import pytest

PROGRAM = os.environ.get("HOLDFAST_BIN") or shutil.which("holdfast")
FIRST_PORT = int(os.environ.get("HOLDFAST_TEST_PORT", "31200"))
_PORTS_OF_CLUSTER = 30


class Cluster:
    """Three nodes. `kill`, `pause`, `resume` and `restart` take the number of a node."""

    def __init__(self, port: int, *options: str) -> None:
        assert PROGRAM, "set HOLDFAST_BIN to the program holdfast"
        self.ports = [port, port + 10, port + 20]
        command = [PROGRAM, "dev", "--nodes", "3", "--port", str(port), "--commands", "--log-level", "warn", *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: List[str] = []
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if line.startswith("ready "):
                break
        assert self.process.poll() is None, self.lines

    @property
    def addresses(self) -> List[str]:
        return [f"127.0.0.1:{port}" for port in self.ports]

    def send(self, text: str) -> None:
        """Sends a command, and does not wait for its end."""
        assert self.process.stdin
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def command(self, text: str) -> None:
        assert self.process.stdout
        self.send(text)
        word = {"kill": "killed", "pause": "paused", "resume": "resumed", "restart": "restarted"}[text.split()[0]]
        for line in self.process.stdout:
            if f"node {text.split()[1]} {word}" in line:
                return
        raise AssertionError(f"no answer to {text}")

    def leader(self, timeout: float = 20.0) -> int:
        """The number of the leader."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            for port in self.ports:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/locks?limit=1", timeout=2) as answer:
                        return int(answer.headers["holdfast-leader"])
                except OSError:
                    continue
            time.sleep(0.1)
        raise AssertionError("no leader")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.communicate("stop\n", timeout=30)


_used = itertools.count()


def free_port() -> int:
    """The first of thirty ports that nobody uses."""
    while True:
        port = FIRST_PORT + _PORTS_OF_CLUSTER * next(_used)
        try:
            for one in range(port, port + _PORTS_OF_CLUSTER):
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", one))
        except OSError:
            continue
        return port


def start(*options: str) -> Cluster:
    if not PROGRAM:
        pytest.skip("set HOLDFAST_BIN to the program holdfast")
    return Cluster(free_port(), *options)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster for all tests that do not harm it."""
    running = start()
    yield running
    running.stop()


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A cluster for one test, which may kill and pause its nodes."""
    running = start()
    yield running
    running.stop()
