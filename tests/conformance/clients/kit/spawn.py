"""Child processes that end with us, however we end.

Every child is born in one thread that lives as long as this program (the kernel ties a child's "parent died"
signal to the thread that made it), leads a process group of its own, and is killed by `end_all`.
"""

import concurrent.futures
import os
import shutil
import signal
import subprocess

_birth = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="birth")
_children = []


def start(command, **options):
    """Starts a child; the options are those of Popen."""
    command = [str(word) for word in command]
    if shutil.which("setpriv"):
        command = ["setpriv", "--pdeathsig", "KILL", *command]
    options.setdefault("stdin", subprocess.DEVNULL)
    child = _birth.submit(subprocess.Popen, command, start_new_session=True, **options).result()
    _children[:] = [known for known in _children if known.poll() is None] + [child]
    return child


def run(command, timeout_s, **options):
    """Runs a child to its end: exit code (None if it had to be killed) and what it printed, both streams in one."""
    child = start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    try:
        output, _ = child.communicate(timeout=timeout_s)
        return child.returncode, output.decode(errors="replace")
    except subprocess.TimeoutExpired:
        signal_group(child, signal.SIGKILL)
        output, _ = child.communicate()
        return None, output.decode(errors="replace")


def signal_group(child, number):
    """Signals a child and its own children; one that is gone is fine."""
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass


def end(child, deadline_s):
    """SIGTERM, and SIGKILL after `deadline_s`. Returns whether SIGTERM was enough."""
    if child.poll() is not None:
        return True
    signal_group(child, signal.SIGTERM)
    try:
        child.wait(deadline_s)
        return True
    except subprocess.TimeoutExpired:
        kill(child)
        return False


def kill(child):
    """SIGKILL, and waits for the end."""
    if child.poll() is None:
        signal_group(child, signal.SIGKILL)
        child.wait()


def end_all():
    """Kills whatever is left."""
    for child in _children:
        kill(child)
    _children.clear()
