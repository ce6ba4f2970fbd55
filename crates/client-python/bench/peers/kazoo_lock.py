"""Kazoo's `Lock` on the ZooKeeper servers in PEER_ADDR; all tasks share one session."""

from __future__ import annotations

import contextlib
import os
from typing import Callable, Iterator, List

from kazoo.client import KazooClient


@contextlib.contextmanager
def connect(tasks: int) -> Iterator[List[Callable[[], object]]]:
    client = KazooClient(hosts=os.environ["PEER_ADDR"])
    client.start()
    try:
        yield [cycle_of(client, task) for task in range(tasks)]
    finally:
        client.stop()
        client.close()


def cycle_of(client: KazooClient, task: int) -> Callable[[], object]:
    lock = client.Lock(f"/locks/peer-{task}")

    def cycle() -> None:
        lock.acquire()
        lock.release()

    return cycle
