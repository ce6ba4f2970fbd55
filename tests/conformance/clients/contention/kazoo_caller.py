"""Takes the lock with kazoo, again and again. Arguments: connect, directory, who, mode, cycles, hold_ms, timeout_ms.

Modes: `contend` (so many cycles at least, and until the driver says stop), `hold` (takes it once and sits on it),
`careless` (enters without the lock: a bug that the judge has to find).
"""

import logging
import os
import re
import sys
import time
import uuid

sys.path[:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), sys.argv[2]]

from contention.log import Log  # noqa: E402
from kazoo.client import KazooClient  # noqa: E402
from kazoo.protocol.states import KazooState  # noqa: E402

# A program of docs/zookeeper.md, which the driver writes into the directory.
from shared_lock import SharedLock  # noqa: E402

PATH = "/locks/orders"


def sequence(node):
    return int(re.search(r"\d{10}$", node).group())


class Caller:
    def __init__(self, connect, directory, who, mode, cycles, hold_ms, timeout_ms):
        self.log = Log(directory, who)
        self.who, self.mode, self.cycles, self.hold_s = who, mode, int(cycles), int(hold_ms) / 1000
        self.cycle = 0
        self.client = KazooClient(connect, timeout=int(timeout_ms) / 1000, randomize_hosts=False)
        self.client.add_listener(self.on_state)
        self.client.start(timeout=30)
        create = self.client.create

        def logged(path, *arguments, **options):
            made = create(path, *arguments, **options)
            if options.get("sequence"):
                self.log.say("enqueue", self.cycle, node=made, seq=sequence(made))
            return made

        self.client.create = logged

    def on_state(self, state):
        if state == KazooState.LOST and self.mode != "ending":
            self.log.say("lost", self.cycle, why="session expired")

    def once(self):
        lock = SharedLock(self.client, PATH, identifier=self.who)
        self.log.say("send", self.cycle)
        lock.acquire()
        made = self.log.enter(self.cycle, node=lock.node, seq=sequence(lock.node))
        if self.mode == "hold":
            time.sleep(3600)
        self.log.work(self.hold_s)
        self.log.leave(self.cycle, made)
        lock.release()

    def careless(self):
        made = self.log.enter(self.cycle, node=uuid.uuid4().hex, seq=0)
        self.log.work(self.hold_s)
        self.log.leave(self.cycle, made)

    def run(self):
        while self.cycle < self.cycles or not self.log.stopped:
            self.careless() if self.mode == "careless" else self.once()
            self.cycle += 1
        self.mode = "ending"
        self.client.stop()
        self.log.say("done", self.cycle)


logging.basicConfig(level=logging.WARNING)
Caller(*sys.argv[1:]).run()
