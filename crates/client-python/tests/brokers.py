"""A Redis server for the tests of Celery, if the machine has one."""

from __future__ import annotations

import shutil
import subprocess
from typing import Iterator

import pytest
from conftest import free_port


def redis() -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server")
    port = free_port()
    command = [program, "--port", str(port), "--save", ""]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout and any("Ready to accept" in line for line in server.stdout)
    yield f"redis://127.0.0.1:{port}/0"
    server.terminate()
    server.wait()
