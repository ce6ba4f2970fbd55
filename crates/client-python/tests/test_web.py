"""The examples for web servers, each in a real server: uvicorn, and the one of `wsgiref` with a thread per request."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator, Tuple

import holdfast
import pytest
from conftest import Cluster, free_port

TESTS = Path(__file__).resolve().parent
EXAMPLES = TESTS.parent / "examples"
_WSGI = """
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server
from wsgi_app import app

class Server(ThreadingMixIn, WSGIServer): pass

make_server("127.0.0.1", int(sys.argv[1]), app, server_class=Server).serve_forever()
"""


class Server:
    def __init__(self, kind: str, cluster: Cluster) -> None:
        self.port = free_port()
        self._kind = kind
        uvicorn = [sys.executable, "-m", "uvicorn", "fastapi_app:app", "--port", str(self.port), "--log-level", "warning"]
        command = uvicorn if kind == "fastapi" else [sys.executable, "-c", _WSGI, str(self.port)]
        environment = {
            **os.environ,
            "HOLDFAST_ADDR": cluster.addresses[0],
            "PYTHONPATH": f"{TESTS.parent}:{EXAMPLES}",
        }
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert time.monotonic() < until and self.process.poll() is None
            time.sleep(0.1)

    def ship(self, order: int, seconds: float = 0) -> Tuple[int, str]:
        path = f"orders/{order}/ship" if self._kind == "fastapi" else str(order)
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}?seconds={seconds}", method="POST")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture(params=["fastapi", "wsgi"])
def server(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Server]:
    if request.param == "fastapi":
        pytest.importorskip("fastapi")
        pytest.importorskip("uvicorn")
    running = Server(request.param, cluster)
    yield running
    running.process.kill()
    running.process.wait()


def await_holder(hf: holdfast.Client, lock: str) -> None:
    until = time.monotonic() + 30
    while not hf.lock_state(lock)["held"]:
        assert time.monotonic() < until
        time.sleep(0.05)


def order_number() -> int:
    return uuid.uuid4().int % 10**12


def test_requests_of_one_order_exclude_each_other(server: Server, cluster: Cluster) -> None:
    order = order_number()
    with holdfast.Client(cluster.addresses) as hf, ThreadPoolExecutor(1) as threads:
        first = threads.submit(server.ship, order, 4)
        await_holder(hf, f"orders/{order}")
        status, text = server.ship(order)
        assert status == 423 and "is held by session" in text
        assert server.ship(order + 1)[0] == 200, "another order"
        assert first.result()[0] == 200
        assert server.ship(order)[0] == 200


def test_a_lost_lock_is_an_error_of_the_request(server: Server, cluster: Cluster) -> None:
    order = order_number()
    with holdfast.Client(cluster.addresses) as hf, ThreadPoolExecutor(1) as threads:
        request = threads.submit(server.ship, order, 4)
        await_holder(hf, f"orders/{order}")
        hf.force_release(f"orders/{order}", "maintenance")
        status, text = request.result()
    assert status == 503 and "the order was not shipped" in text


def test_a_killed_server_frees_its_locks_after_the_ttl(server: Server, cluster: Cluster) -> None:
    order = order_number()
    with holdfast.Client(cluster.addresses) as hf, ThreadPoolExecutor(1) as threads:
        request = threads.submit(server.ship, order, 60)
        await_holder(hf, f"orders/{order}")
        token = hf.lock_state(f"orders/{order}")["holders"][0]["token"]
        os.kill(server.process.pid, signal.SIGKILL)
        with pytest.raises(OSError):
            request.result()
        with hf.lock(f"orders/{order}", wait=20) as guard:
            assert guard.token > token
