"""The shared log of a contention run, and the witness of its critical section.

Each caller appends JSON lines, one write each, to `events.jsonl`: `t` (nanoseconds of the machine's monotonic clock, the
same for every process), `who`, `what`, and `cycle`; further `node` and `seq` (the sequence number of the caller's znode).

    send      about to ask for the lock
    enqueue   its contender exists, as far as the caller can know
    grant     it holds the lock and has made the witness file, which nobody else had
    overlap   it holds the lock and somebody else's witness file was there
    release   it has removed the witness and is about to release
    lost      its session ended, or an error it does not understand; `why` says more
    done      it ends by itself
    seen      written by the driver: what HTTP says of the lock while `holder` holds it and somebody waits
    killed    written by the driver: SIGKILL, and it is gone

In the critical section a caller also adds one to the number in `counter`, by reading, waiting and writing.
"""

import json
import os
import time


class Log:
    """Appends for one caller."""

    def __init__(self, directory, who):
        self.directory = directory
        self._who = who
        self._file = os.open(os.path.join(directory, "events.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def say(self, what, cycle, **more):
        line = {"t": time.monotonic_ns(), "who": self._who, "what": what, "cycle": cycle, **more}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def enter(self, cycle, **more):
        """Makes the witness and says so."""
        witness = os.path.join(self.directory, "witness")
        try:
            file = os.open(witness, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            self.say("overlap", cycle, **more)
            return False
        os.write(file, self._who.encode())
        os.close(file)
        self.say("grant", cycle, **more)
        return True

    def work(self, hold_s):
        """One unsynchronised addition: lost if somebody else is inside."""
        path = os.path.join(self.directory, "counter")
        with open(path) as file:
            value = int(file.read())
        time.sleep(hold_s)
        with open(path + "." + self._who, "w") as file:
            file.write(f"{value + 1}\n")
        os.rename(path + "." + self._who, path)

    def leave(self, cycle, made):
        """Removes the witness that this caller made."""
        if made:
            os.unlink(os.path.join(self.directory, "witness"))
        self.say("release", cycle)

    @property
    def stopped(self):
        """Whether the driver has seen enough."""
        return os.path.exists(os.path.join(self.directory, "stop"))


def read(directory):
    """All events in the order of their time; a line that a killed caller could not finish is left out."""
    found = []
    with open(os.path.join(directory, "events.jsonl")) as file:
        for line in file:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return sorted(found, key=lambda event: event["t"])


class Tail:
    """Reads what is new since the last look."""

    def __init__(self, directory):
        self._path = os.path.join(directory, "events.jsonl")
        self._offset = 0

    def fresh(self):
        with open(self._path) as file:
            file.seek(self._offset)
            lines = file.read()
        complete = lines[:lines.rfind("\n") + 1]
        self._offset += len(complete.encode())
        return [json.loads(line) for line in complete.splitlines()]
