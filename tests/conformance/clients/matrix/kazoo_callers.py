"""kazoo's locks, and the recipe of `zoo_lock.c` on kazoo's connection. See runner.py for the lines on stdin and stdout."""

import logging
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.recipe.election import Election
from kazoo.recipe.lock import Lock, ReadLock, WriteLock

logging.basicConfig(level=logging.CRITICAL)
CLIENTS = {}
RELEASED = {}
OUTPUT = threading.Lock()


def say(*words):
    with OUTPUT:
        print(*words, flush=True)


class CLock:
    """The algorithm of ZooKeeper's C recipe, zkr_lock_operation in zoo_lock.c: `x-SESSION-`, sorted by what follows the
    last `-`. The recipe is not packaged. It reads an invalid address for a name without `-`; this one fails."""

    def __init__(self, client, path):
        self.client, self.path, self.name, self.gone = client, path, None, threading.Event()

    def sorted_children(self):
        children = self.client.get_children(self.path)
        if any("-" not in child for child in children):
            raise RuntimeError("zoo_lock.c crashes: a name has no '-'")
        return sorted(children, key=lambda child: child.rpartition("-")[2])

    def acquire(self):
        self.client.ensure_path(self.path)
        prefix = f"x-{self.client.client_id[0]:016x}-"
        made = self.client.create(f"{self.path}/{prefix}", b"", ephemeral=True, sequence=True)
        self.name = made.rpartition("/")[2]
        while True:
            children = self.sorted_children()
            before = children[: children.index(self.name)]
            if not before:
                return
            self.gone.clear()
            if self.client.exists(f"{self.path}/{before[-1]}", watch=lambda _: self.gone.set()):
                self.gone.wait()

    def release(self):
        self.client.delete(f"{self.path}/{self.name}")


def lock_of(kind, client, path):
    if kind == "c":
        return CLock(client, path)
    if kind == "kazoo-election":
        return Election(client, path).lock
    return {"kazoo": Lock, "kazoo-read": ReadLock, "kazoo-write": WriteLock}[kind](client, path)


def run(name, kind, path):
    lock = lock_of(kind, CLIENTS[name[-1]], path)
    try:
        lock.acquire()
    except (KazooException, RuntimeError) as error:
        say(name, "refused", type(error).__name__)
        return
    say(name, "holds")
    RELEASED[name].wait()
    lock.release()
    say(name, "released")


for role in "ab":
    CLIENTS[role] = KazooClient(sys.argv[1], timeout=30.0)
    CLIENTS[role].start(timeout=60)
say("ready", "ready")
for line in sys.stdin:
    verb, name, *rest = line.split()
    if verb == "acquire":
        RELEASED[name] = threading.Event()
        threading.Thread(target=run, args=(name, *rest), daemon=True).start()
    else:
        RELEASED[name].set()
