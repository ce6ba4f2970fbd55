"""Failures of nodes, of the network and of the holder's process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Iterator, List

import holdfast
import pytest
from conftest import Cluster

PACKAGE = Path(__file__).resolve().parent.parent


@pytest.fixture
def name() -> str:
    return f"failures/{uuid.uuid4()}"


def holder(cluster: Cluster, name: str, ttl: float, body: str) -> "subprocess.Popen[str]":
    """A process that holds a lock, and prints its token and then what `body` prints."""
    program = f"""
import os, sys, time, holdfast
hf = holdfast.Client({cluster.addresses!r}, ttl={ttl}, session_prefix="child")
guard = hf.lock({name!r}).acquire()
print(guard.token, flush=True)
{body}
"""
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
    )


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


class Proxy:
    """A TCP proxy in front of a node, which can cut and swallow."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.is_cut = False
        self.loses_answers = False
        self._pairs: List[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self.is_cut = True
        for pair in self._pairs:
            try:
                pair.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.is_cut:
                client.close()
                continue
            node = socket.create_connection(("127.0.0.1", self._target))
            self._pairs += [client, node]
            threading.Thread(target=self._copy, args=(client, node, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(node, client, True), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_answer and self.loses_answers:
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            end.close()


@pytest.fixture
def proxies(cluster: Cluster) -> Iterator[List[Proxy]]:
    made = [Proxy(port) for port in cluster.ports]
    yield made
    for proxy in made:
        proxy.close()


def addresses(proxies: List[Proxy]) -> List[str]:
    return [f"127.0.0.1:{proxy.port}" for proxy in proxies]


def test_a_paused_holder_learns_of_the_loss_before_it_writes(cluster: Cluster, name: str) -> None:
    body = """
sys.stdin.readline()
try:
    guard.ensure()
    print("held", flush=True)
except holdfast.Lost as lost:
    print(lost.cause, flush=True)
sys.stdin.readline()
"""
    process = holder(cluster, name, 2, body)
    token = int(line(process))
    process.send_signal(signal.SIGSTOP)
    with holdfast.Client(cluster.addresses) as hf, hf.lock(name, wait=30) as successor:
        assert successor.token > token
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
        process.send_signal(signal.SIGCONT)
        assert line(process) == "not-renewed"
    process.communicate("\n", timeout=20)


def test_a_killed_holder_frees_the_lock_after_its_ttl(cluster: Cluster, name: str) -> None:
    process = holder(cluster, name, 2, "time.sleep(60)")
    token = int(line(process))
    process.kill()
    process.communicate()
    began = time.monotonic()
    with holdfast.Client(cluster.addresses) as hf, hf.lock(name, wait=30) as successor:
        assert successor.token > token
        assert time.monotonic() - began > 0.5


def test_a_program_that_closes_nothing_frees_the_lock_at_its_end(cluster: Cluster, name: str) -> None:
    process = holder(cluster, name, 60, "")
    line(process)
    _, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    with holdfast.Client(cluster.addresses) as hf, hf.lock(name, wait=10):
        pass


def test_a_forked_child_has_a_session_of_its_own(cluster: Cluster, name: str) -> None:
    body = f"""
child = os.fork()
if child == 0:
    assert guard.remaining() == 0 and guard.lost.get().cause == "session-ended"
    try:
        guard.release()
        sys.exit("the child released the lock of its parent")
    except holdfast.Lost:
        pass
    with hf.lock({name + "-child"!r}, wait=10) as other:
        sys.exit(0 if other.session != guard.session else "one session for both")
_, status = os.waitpid(child, 0)
print(os.WEXITSTATUS(status), flush=True)
time.sleep(3)
guard.ensure()
guard.release()
print("held", flush=True)
"""
    process = holder(cluster, name, 3, body)
    line(process)
    assert line(process) == "0"
    assert line(process) == "held"
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_a_cut_client_loses_the_lock_at_its_deadline(cluster: Cluster, proxies: List[Proxy], name: str) -> None:
    with holdfast.Client(addresses(proxies), ttl=2, request_timeout=1) as hf:
        guard = hf.lock(name).acquire()
        for proxy in proxies:
            proxy.cut()
        left = guard.remaining()
        loss = guard.lost.wait(10)
        assert loss and loss.cause == "not-renewed"
        assert left <= 2 and guard.remaining() == 0
        with holdfast.Client(cluster.addresses) as other, other.lock(name, wait=20) as successor:
            assert successor.token > guard.token
        with pytest.raises(holdfast.Lost):
            guard.release()


def test_a_lost_answer_is_no_second_hold(cluster: Cluster, proxies: List[Proxy], name: str) -> None:
    with holdfast.Client(addresses(proxies), ttl=5) as hf:
        hf.counter(name).add(1)
        for proxy in proxies[:2]:
            proxy.loses_answers = True
        with hf.lock(name, wait=20) as guard:
            assert hf.counter(name).add(1).value == 2
            guard.ensure()
        state = hf.lock_state(name)
        assert (state["held"], state["waiters"]) == (False, 0)


def test_an_acquire_that_fails_gives_its_attempt_up(cluster: Cluster, proxies: List[Proxy], name: str) -> None:
    with holdfast.Client(addresses(proxies), ttl=10, request_timeout=1) as hf:
        hf.lock_state(name)
        with hf.lock(name + "-warm"):
            pass
        for proxy in proxies:
            proxy.loses_answers = True
        with pytest.raises((holdfast.OutcomeUnknown, holdfast.Unavailable)):
            hf.lock(name, wait=0).acquire()
        for proxy in proxies:
            proxy.loses_answers = False
        with holdfast.Client(cluster.addresses) as other, other.lock(name, wait=8):
            pass


def test_locks_survive_the_death_of_the_leader(own_cluster: Cluster, name: str) -> None:
    with holdfast.Client(own_cluster.addresses, ttl=6) as hf:
        guard = hf.lock(name).acquire()
        granted: List[Any] = []

        def wait() -> None:
            with hf.lock(name, wait=60) as second:
                granted.append(second.token)

        waiter = threading.Thread(target=wait)
        waiter.start()
        while not hf.lock_state(name)["waiters"]:
            time.sleep(0.05)
        leader = own_cluster.leader()
        own_cluster.command(f"kill {leader}")
        with hf.lock(name + "-new", wait=30):
            pass
        time.sleep(6)
        guard.ensure()
        guard.release()
        waiter.join(30)
        assert len(granted) == 1 and granted[0] > guard.token
        own_cluster.command(f"restart {leader}")


def test_a_frozen_node_delays_no_call_for_long(own_cluster: Cluster, name: str) -> None:
    with holdfast.Client(own_cluster.addresses, ttl=6) as hf:
        guard = hf.lock(name).acquire()
        follower = next(n for n in (1, 2, 3) if n != own_cluster.leader())
        own_cluster.command(f"pause {follower}")
        for turn in range(5):
            with hf.lock(f"{name}-{turn}", wait=20):
                pass
        leader = own_cluster.leader()
        own_cluster.command(f"resume {follower}")
        time.sleep(2)
        own_cluster.command(f"pause {leader}")
        with hf.lock(name + "-after", wait=40):
            pass
        time.sleep(6)
        guard.ensure()
        own_cluster.command(f"resume {leader}")
        guard.release()


def test_all_nodes_restart(own_cluster: Cluster, name: str) -> None:
    with holdfast.Client(own_cluster.addresses, ttl=60) as hf:
        guard = hf.lock(name).acquire()
        for node in (1, 2, 3):
            own_cluster.command(f"kill {node}")
        for node in (1, 2, 3):
            own_cluster.send(f"restart {node}")
        own_cluster.leader(40)
        guard.ensure()
        guard.release()
        with hf.lock(name, wait=20) as again:
            assert again.token > guard.token
