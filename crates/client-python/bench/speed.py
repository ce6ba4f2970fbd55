"""Counts cycles of one acquire and one release: `speed.py TURNS SECONDS [PEER]`.

Each turn prints a line for 1, 64 and 256 tasks: the tasks, the cycles of a second by the client and by a bare loop, and the processor
time of a cycle in microseconds by both. Each task has one lock. The bare loop sends the same calls by `http.client`, on one connection
a task, to the first address in HOLDFAST_ADDR. With PEER, the lock client in peers/PEER_lock.py takes the place of the loop.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib
import os
import sys
import threading
import time
from typing import Callable, ContextManager, List, Optional, Tuple

import holdfast

ADDRESSES = os.environ["HOLDFAST_ADDR"].split(",")
TASKS = [1, 64, 256]
TASKS_MAX = max(TASKS)
WARMING_UP_CYCLES = 4000

Cycle = Callable[[], object]


def locked(hf: holdfast.Client, task: int) -> Cycle:
    lock = hf.lock(f"client-{task}")
    return lambda: lock.acquire().release()


def bare(task: int) -> Cycle:
    connection = http.client.HTTPConnection(ADDRESSES[0])
    attempt = time.time_ns() // 1000

    def call(method: str, more: str = "") -> None:
        target = f"/v1/locks/bare-{task}?session=bare-{os.getpid()}&owner=task-{task}&attempt={attempt}{more}"
        connection.request(method, target)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status in (200, 204), body

    def cycle() -> None:
        nonlocal attempt
        attempt += 1
        call("PUT", "&wait=30s&ttl=1m")
        call("DELETE")

    return cycle


def run(cycles: List[Cycle], is_over: Callable[[int], bool]) -> Tuple[float, float]:
    """The cycles of a second, and the microseconds of processor time of a cycle."""
    counts = [0] * len(cycles)

    def work(task: int) -> None:
        while not is_over(sum(counts)):
            cycles[task]()
            counts[task] += 1

    threads = [threading.Thread(target=work, args=(task,)) for task in range(len(cycles))]
    began, used = time.monotonic(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed, used = time.monotonic() - began, time.process_time() - used
    return sum(counts) / elapsed, used / sum(counts) * 1e6


def others(peer: Optional[str]) -> ContextManager[List[Cycle]]:
    if peer is None:
        return contextlib.nullcontext([bare(task) for task in range(TASKS_MAX)])
    connected: ContextManager[List[Cycle]] = importlib.import_module(f"peers.{peer}_lock").connect(TASKS_MAX)
    return connected


def main(turns: int, seconds: float, peer: Optional[str]) -> None:
    with holdfast.Client(ADDRESSES) as hf, others(peer) as other:
        kinds = [[locked(hf, task) for task in range(TASKS_MAX)], other]
        for cycles in kinds:
            run(cycles, lambda count: count >= WARMING_UP_CYCLES)
        for tasks in TASKS * turns:
            results = []
            for cycles in kinds:
                until = time.monotonic() + seconds
                results.append(run(cycles[:tasks], lambda _: time.monotonic() >= until))
            (client, client_used), (beside, beside_used) = results
            print(f"{tasks} {client:.0f} {beside:.0f} {client_used:.0f} {beside_used:.0f}", flush=True)


main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
