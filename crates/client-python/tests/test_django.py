"""Django on SQLite and PostgreSQL, with a real cluster."""

from __future__ import annotations

import subprocess
import time
import uuid
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

import holdfast
import mariadb
import postgres
import pytest
from conftest import PROGRAM, Cluster
from holdfast import fence
from holdfast.fence import Claim, Stale

django = pytest.importorskip("django")


@pytest.fixture(scope="module")
def databases(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dict[str, Any]]:
    """The default database is SQLite; `postgres` exists if the machine has a server."""
    from django.conf import settings

    path: Path = tmp_path_factory.mktemp("django") / "shop.db"
    databases: Dict[str, Any] = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}}
    programs = postgres.programs()
    server = postgres.Postgres(programs) if programs and PROGRAM else None
    if server:
        engine = "django.db.backends.postgresql"
        databases["postgres"] = {"ENGINE": engine, "NAME": "postgres", "USER": "postgres", "HOST": server.host}
    maria = _mariadb()
    if maria:
        engine = "django.db.backends.mysql"
        databases["mariadb"] = {"ENGINE": engine, "NAME": "shop", "USER": "root", "HOST": maria.socket}
    settings.configure(DATABASES=databases, HOLDFAST={"addresses": cluster.addresses, "ttl": 15}, INSTALLED_APPS=[])
    django.setup()
    yield databases
    from django.db import connections
    from holdfast.contrib import django as contrib

    connections.close_all()
    contrib.client().close()
    if server:
        server.stop()
    if maria:
        maria.stop()


def _mariadb() -> Optional[mariadb.MariaDb]:
    try:
        import pymysql
    except ImportError:
        return None
    # The class for mysqlclient, which must be compiled.
    pymysql.install_as_MySQLdb()
    return mariadb.MariaDb(PROGRAM) if PROGRAM and mariadb.is_installed() else None


@pytest.fixture(params=["default", "postgres", "mariadb"])
def using(request: pytest.FixtureRequest, databases: Dict[str, Any]) -> str:
    """A database with a table and the marks."""
    from django.db import OperationalError, connections

    alias: str = request.param
    if alias not in databases:
        pytest.skip(f"no server for {alias}")
    connection = connections[alias]
    for _ in range(100):
        try:
            connection.ensure_connection()
            break
        except OperationalError:
            time.sleep(0.1)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.connection.executescript(fence.SQLITE_SCHEMA)
        elif connection.vendor == "postgresql":
            command = [str(PROGRAM), "fence", "init", "--postgres"]
            cursor.execute(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        cursor.execute("DROP TABLE IF EXISTS orders")
        cursor.execute("CREATE TABLE orders (pieces integer)")
        cursor.execute("INSERT INTO orders VALUES (100)")
    return alias


def pieces(using: str) -> int:
    from django.db import connections

    with connections[using].cursor() as cursor:
        cursor.execute("SELECT pieces FROM orders")
        return int(cursor.fetchone()[0])


def test_a_transaction_of_a_former_holder_changes_nothing(using: str) -> None:
    from django.db import connections, transaction
    from holdfast.contrib.django import fenced_atomic, raise_mark

    name = f"django/{uuid.uuid4()}"
    with fenced_atomic(name, using=using, wait=20) as former:
        pass
    with fenced_atomic(name, using=using, wait=20) as guard:
        with connections[using].cursor() as cursor:
            cursor.execute("UPDATE orders SET pieces = pieces - 1")
    with pytest.raises(holdfast.Lost):
        guard.ensure()
    with pytest.raises(Stale):
        with transaction.atomic(using=using):
            raise_mark(Claim(name, former.token, former.token), using=using)
            with connections[using].cursor() as cursor:
                cursor.execute("UPDATE orders SET pieces = 0")
    assert pieces(using) == 99


def test_an_error_rolls_back_and_releases_the_lock(using: str) -> None:
    from django.db import connections
    from holdfast.contrib.django import client, fenced_atomic

    name = f"django/{uuid.uuid4()}"
    with pytest.raises(KeyError):
        with fenced_atomic(name, using=using, wait=20):
            with connections[using].cursor() as cursor:
                cursor.execute("UPDATE orders SET pieces = 0")
            raise KeyError
    assert pieces(using) == 100
    assert not client().lock_state(name)["held"]


def test_the_transaction_must_be_the_outermost(using: str) -> None:
    from django.db import transaction
    from holdfast.contrib.django import fenced_atomic, raise_mark

    with transaction.atomic(using=using), pytest.raises(RuntimeError, match="durable"):
        with fenced_atomic("django/outer", using=using, wait=20):
            pass
    with pytest.raises(transaction.TransactionManagementError):
        raise_mark(Claim("django/outer", 1, 1), using=using)
