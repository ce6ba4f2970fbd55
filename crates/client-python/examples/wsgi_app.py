"""Plain WSGI: a request that works under a lock. The nodes are in `HOLDFAST_ADDR`.

A server that forks after the import is fine: each process opens a separate session at its first lock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Iterable
from urllib.parse import parse_qs

import holdfast

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

client = holdfast.Client(session_prefix="shop", ttl=5)


def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    order = environ["PATH_INFO"].strip("/")
    seconds = float(parse_qs(environ["QUERY_STRING"]).get("seconds", ["0"])[0])
    try:
        with client.lock(f"orders/{order}", wait=0.5) as guard:
            time.sleep(seconds)  # the work; nothing interrupts a thread, so check the guard before each write
            guard.ensure()
            status, body = "200 OK", str(guard.token)
    except holdfast.Busy as busy:
        status, body = "423 Locked", str(busy)
    except holdfast.Lost as lost:
        status, body = "503 Service Unavailable", f"the order was not shipped: {lost}"
    start_response(status, [("content-type", "text/plain")])
    return [body.encode()]
