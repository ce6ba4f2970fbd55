"""Three members that serve ZooKeeper's protocol, of holdfast or of ZooKeeper.

Owns their life: start, stop, kill, reset. A back-end says how one member is configured and started (see
`zookeeper` and `holdfast` beside this file). Refuses to know clients.
"""

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from kit import spawn, words

SERVING_S = 60
STOP_S = 25


class Member:
    """One server process and its directory. A back-end overrides `command`, `configure` and `environment`."""

    def __init__(self, number, directory, address):
        self.number = number
        self.directory = Path(directory)
        self.address = address
        self.process = None
        self.directory.mkdir(parents=True, exist_ok=True)

    @property
    def log_file(self):
        return self.directory / "member.log"

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def run(self):
        """Starts it, unless it runs; does not wait until it serves."""
        if self.running:
            return
        self.configure()
        with open(self.log_file, "ab") as log:
            self.process = spawn.start(
                self.command(), stdout=log, stderr=subprocess.STDOUT, env=self.environment(), cwd=self.directory
            )

    def stop(self):
        """SIGTERM; what it has written stays."""
        if self.process is not None and not spawn.end(self.process, STOP_S):
            raise RuntimeError(f"member {self.number} had to be killed: it did not stop in {STOP_S} s")

    def kill(self):
        """SIGKILL; what it has written stays."""
        if self.process is not None:
            spawn.kill(self.process)

    def suspend(self, stopped):
        """SIGSTOP or SIGCONT."""
        spawn.signal_group(self.process, signal.SIGSTOP if stopped else signal.SIGCONT)

    def reset(self):
        """Ends it and forgets what it has written."""
        self.kill()
        for entry in self.directory.iterdir():
            if entry != self.log_file:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def logs(self, lines):
        """The end of what it said."""
        try:
            return self.log_file.read_text(errors="replace").splitlines()[-lines:]
        except OSError:
            return []


class Ensemble:
    """Members that know each other. Use it as a context: all is gone at its end."""

    name = "?"

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix=f"holdfast-kit-{self.name}-"))
        self.members = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.members:
            member.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def connect_string(self):
        return ",".join(member.address for member in self.members)

    def start(self):
        """Starts the members that are down, last one first, and waits until all serve."""
        for member in reversed(self.members):
            member.run()
        self.await_serving(self.members)

    def reset(self):
        """Ends all and forgets everything."""
        for member in self.members:
            member.reset()

    def switch(self, local_sessions, sasl):
        """What kazoo's suite asks of its ensemble around a few tests; nothing to do where there is no such switch."""

    def mode(self, address):
        """What a member serves as."""
        return words.mode(address)

    def await_serving(self, members):
        """Until the members answer with a mode; with their last words if one ends or the time is over."""
        deadline = time.monotonic() + SERVING_S
        waiting = list(members)
        while waiting:
            waiting = [member for member in waiting if self.mode(member.address) not in MODES_SERVING]
            ended = [member for member in waiting if not member.running]
            if ended or (waiting and time.monotonic() > deadline):
                member = (ended or waiting)[0]
                what = "has ended" if ended else f"does not serve {member.address} after {SERVING_S} s"
                tail = "\n".join(member.logs(15))
                raise RuntimeError(f"{self.name} member {member.number} {what}:\n{tail}")
            if waiting:
                time.sleep(0.1)


MODES_SERVING = ("leader", "follower", "standalone")
