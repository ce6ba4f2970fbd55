"""A MariaDB server for one test run, if the machine has one."""

from __future__ import annotations

import getpass
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import List


def is_installed() -> bool:
    return all(shutil.which(program) for program in ("mariadbd", "mariadb-install-db", "mariadb"))


class MariaDb:
    """A server on a unix socket, with the database `shop` and the marks."""

    def __init__(self, program: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mariadb-", dir="/tmp"))
        self.socket = str(self._folder / "socket")
        options = ["--no-defaults", f"--datadir={self._folder / 'data'}", f"--user={getpass.getuser()}"]
        install = ["mariadb-install-db", *options, "--skip-test-db", "--auth-root-authentication-method=normal"]
        subprocess.run(install, check=True, capture_output=True)
        server = ["mariadbd", *options, f"--socket={self.socket}", "--skip-networking"]
        self._server = subprocess.Popen(server, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while subprocess.run(self._client("-e", "CREATE DATABASE shop"), capture_output=True).returncode:
            assert time.monotonic() < until and self._server.poll() is None
            time.sleep(0.1)
        marks = subprocess.run([program, "fence", "init", "--mysql"], check=True, capture_output=True)
        subprocess.run(self._client("shop"), check=True, input=marks.stdout)

    def _client(self, *arguments: str) -> List[str]:
        return ["mariadb", "--no-defaults", "--user=root", f"--socket={self.socket}", *arguments]

    def stop(self) -> None:
        self._server.kill()
        self._server.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
