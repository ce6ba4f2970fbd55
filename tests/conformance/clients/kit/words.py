"""Four-letter words: how a member is asked about itself without being a client."""

import contextlib
import socket


def ask(address, word, timeout_s=2.0, tls=None):
    """The answer to one word; nothing if the member does not answer. `tls` is the context of a port with TLS."""
    host, port = address.rsplit(":", 1)
    try:
        with contextlib.ExitStack() as opened:
            peer = opened.enter_context(socket.create_connection((host, int(port)), timeout=timeout_s))
            if tls:
                peer = opened.enter_context(tls.wrap_socket(peer, server_hostname=host))
            peer.settimeout(timeout_s)
            peer.sendall(word.encode())
            chunks = []
            while chunk := peer.recv(65_536):
                chunks.append(chunk)
            return b"".join(chunks).decode(errors="replace")
    except OSError:
        return ""


def mode(address, tls=None):
    """leader, follower, standalone, read-only, or nothing if it does not serve."""
    for line in ask(address, "srvr", tls=tls).splitlines():
        if line.startswith("Mode: "):
            return line[len("Mode: "):].strip()
    return ""


def version(address):
    """What it says it is."""
    for line in ask(address, "envi").splitlines():
        if line.startswith("zookeeper.version="):
            return line.split("=", 1)[1].split(",")[0]
    return "unknown"
