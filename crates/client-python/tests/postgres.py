"""A PostgreSQL server for one test run, if the machine has one."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import List, Optional


def programs() -> Optional[Path]:
    """The directory of `initdb` and `postgres`."""
    found = shutil.which("initdb")
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    candidates += [Path(found).resolve().parent] if found else []
    return next((path for path in candidates if (path / "postgres").exists()), None)


class Postgres:
    """A server on a unix socket, without durability."""

    def __init__(self, directory: Path) -> None:
        self.host = tempfile.mkdtemp(prefix="pg-", dir="/tmp")
        self._as_user: List[str] = []
        if os.getuid() == 0:
            user = next(user for user in ("postgres", "nobody") if any(entry.pw_name == user for entry in pwd.getpwall()))
            shutil.chown(self.host, user)
            self._as_user = ["setpriv", "--reuid", user, "--clear-groups"]
        data = f"{self.host}/data"
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [*self._as_user, str(directory / "initdb"), "-D", data, *options], check=True, stdout=subprocess.DEVNULL
        )
        command = [*self._as_user, str(directory / "postgres"), "-D", data, "-k", self.host, "-h", "", "-c", "fsync=off"]
        self._server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while not os.path.exists(f"{self.host}/.s.PGSQL.5432"):
            assert time.monotonic() < until and self._server.poll() is None
            time.sleep(0.1)

    @property
    def dsn(self) -> str:
        return f"host={self.host} user=postgres dbname=postgres"

    def stop(self) -> None:
        self._server.terminate()
        self._server.wait(30)
        shutil.rmtree(self.host, ignore_errors=True)
