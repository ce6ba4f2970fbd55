"""Ports on which nothing listens.

They lie below the range from which the kernel takes ports for outgoing connections: a member that is down for a
while must find its port free when it comes back.
"""

import random
import socket

_LOWEST = 10_000


def _ephemeral_start():
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768


def _is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def choose(count):
    """So many different free ports."""
    highest = max(_ephemeral_start(), _LOWEST + 1000) - 1
    chosen = set()
    while len(chosen) < count:
        port = random.randint(_LOWEST, highest)
        if port not in chosen and _is_free(port):
            chosen.add(port)
    return list(chosen)
