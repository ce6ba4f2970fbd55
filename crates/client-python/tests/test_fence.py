"""Fencing in real databases."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Iterator

import holdfast
import mariadb
import postgres
import pytest
from conftest import PROGRAM, Cluster
from holdfast import fence
from holdfast.fence import Claim, Stale


def exclusive(token: int, resource: str = "orders") -> Claim:
    return Claim(resource, token, token, f"holder-{token}")


class TestSqlite:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "shop.db"
        connection = sqlite3.connect(path)
        connection.executescript(fence.SQLITE_SCHEMA + fence.SQLITE_SCHEMA)
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, pieces INTEGER NOT NULL)")
        connection.execute("INSERT INTO orders VALUES (7, 100)")
        connection.commit()
        connection.close()
        return path

    def test_a_smaller_token_changes_nothing(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        for token in (33, 34, 34):
            with fence.sqlite(connection, exclusive(token)):
                connection.execute("UPDATE orders SET pieces = pieces - 1 WHERE id = 7")
        with pytest.raises(Stale) as stale:
            with fence.sqlite(connection, exclusive(33)):
                connection.execute("UPDATE orders SET pieces = 0 WHERE id = 7")
        assert (stale.value.token, stale.value.newest) == (33, 34)
        assert connection.execute("SELECT pieces FROM orders").fetchone() == (97,)
        assert not connection.in_transaction

    # `commit()` of a connection with `autocommit=True` does nothing.
    @pytest.mark.parametrize(
        "options", [{}, {"isolation_level": None}, *([{"autocommit": True}] if sys.version_info >= (3, 12) else [])]
    )
    def test_the_end_of_the_body_commits_and_an_error_rolls_back(self, path: Path, options: Any) -> None:
        connection, reader = sqlite3.connect(path, **options), sqlite3.connect(path)
        with pytest.raises(KeyError):
            with fence.sqlite(connection, exclusive(5)):
                connection.execute("UPDATE orders SET pieces = 0")
                raise KeyError
        assert reader.execute("SELECT pieces FROM orders").fetchone() == (100,)
        assert reader.execute("SELECT count(*) FROM fence").fetchone() == (0,)
        with fence.sqlite(connection, exclusive(5)):
            connection.execute("UPDATE orders SET pieces = 99")
        assert reader.execute("SELECT pieces FROM orders").fetchone() == (99,)

    def test_shared_holders_do_not_reject_each_other(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        for token, floor in ((72, 70), (71, 70), (73, 72)):
            with fence.sqlite(connection, Claim("reports", token, floor)):
                pass
        with pytest.raises(Stale):
            with fence.sqlite(connection, Claim("reports", 71, 70)):
                pass

    def test_the_mark_rises_before_the_first_read(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute("UPDATE orders SET pieces = 1")
        with pytest.raises(ValueError, match="transaction"):
            with fence.sqlite(connection, exclusive(1)):
                pass

    def test_a_paused_holder_of_a_real_lock_is_rejected(self, path: Path, cluster: Cluster) -> None:
        name = f"fence/{uuid.uuid4()}"
        connection = sqlite3.connect(path)
        with holdfast.Client(cluster.addresses, ttl=15) as hf:
            former = hf.lock(name).acquire()
            read_before_the_pause = fence.claim(former, "orders")
            hf.force_release(name, "test")
            former.lost.wait(9)
            with hf.lock(name) as guard, fence.sqlite(connection, guard, "orders"):
                connection.execute("UPDATE orders SET pieces = pieces - 1")
            with pytest.raises(holdfast.Lost):
                with fence.sqlite(connection, former, "orders"):
                    pass
            with pytest.raises(Stale):
                with fence.sqlite(connection, read_before_the_pause):
                    connection.execute("UPDATE orders SET pieces = 0")
        assert connection.execute("SELECT pieces FROM orders").fetchone() == (99,)

    def test_a_lost_permit_is_rejected_in_its_slot(self, path: Path, cluster: Cluster) -> None:
        name = f"fence/{uuid.uuid4()}"
        connection = sqlite3.connect(path)
        with holdfast.Client(cluster.addresses, ttl=15) as hf, holdfast.Client(cluster.addresses, ttl=15) as other:
            # Its token is the floor of all later permits.
            neighbour = hf.semaphore(name, 2).acquire()
            lost = other.semaphore(name, 2).acquire()
            (slot,) = lost.slots
            read_before_the_pause = fence.claim(lost, f"{name}#{slot}")
            lost.release()
            successor = other.semaphore(name, 2).acquire()
            assert successor.slots == (slot,) and successor.min_valid_token == neighbour.token
            with fence.sqlite(connection, successor, f"{name}#{slot}"):
                pass
            with pytest.raises(Stale):
                with fence.sqlite(connection, read_before_the_pause):
                    pass
            own, all_permits = f"{name}#{slot}", f'{successor.token}; resource="{name}"; floor={neighbour.token}'
            assert successor.headers(own) == {"Fencing-Token": f'{successor.token}; resource="{own}"'}
            # The floor counts for a resource of all permits, and for the slot of another holder.
            assert successor.headers() == {"Fencing-Token": all_permits}
            assert fence.claim(successor).floor == neighbour.token
            assert fence.claim(successor, f"{name}#{neighbour.slots[0]}").floor == neighbour.token

    def test_a_claim_can_name_another_resource(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        with fence.sqlite(connection, exclusive(41), "invoices"):
            pass
        with pytest.raises(Stale):
            with fence.sqlite(connection, exclusive(40, "invoices")):
                pass


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    psycopg = pytest.importorskip("psycopg")
    programs = postgres.programs()
    if programs is None or PROGRAM is None:
        pytest.skip("no PostgreSQL server, or no program holdfast")
    server = postgres.Postgres(programs)
    schema = subprocess.run([PROGRAM, "fence", "init", "--postgres"], check=True, capture_output=True, text=True)
    for _ in range(100):
        try:
            connection = psycopg.connect(server.dsn)
            break
        except psycopg.OperationalError:
            time.sleep(0.1)
    with connection:
        connection.execute(schema.stdout)
        connection.execute("CREATE TABLE orders AS SELECT 7 AS id, 100 AS pieces")
        connection.execute("CREATE TABLE stock AS SELECT 100 AS pieces")
    guard = [PROGRAM, "fence", "init", "--postgres", "--table", "stock", "--lock", "stock"]
    with psycopg.connect(server.dsn) as connection:
        connection.execute(subprocess.run(guard, check=True, capture_output=True, text=True).stdout)
    yield server.dsn
    server.stop()


class TestPostgres:
    def test_a_smaller_token_changes_nothing(self, dsn: str) -> None:
        import psycopg

        with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
            fence.postgresql(cursor, exclusive(34))
            cursor.execute("UPDATE orders SET pieces = pieces - 1")
        with pytest.raises(Stale):
            with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
                fence.postgresql(cursor, exclusive(33))
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT pieces FROM orders").fetchone() == (99,)

    def test_a_holder_waits_for_the_commit_of_the_former_one(self, dsn: str) -> None:
        import psycopg

        seen = []

        def successor() -> None:
            with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
                fence.postgresql(cursor, exclusive(2, "waits"))
                row = cursor.execute("SELECT pieces FROM orders").fetchone()
                seen.append(row and row[0])

        with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
            fence.postgresql(cursor, exclusive(1, "waits"))
            thread = threading.Thread(target=successor)
            thread.start()
            time.sleep(0.5)
            cursor.execute("UPDATE orders SET pieces = 50")
            assert not seen
        thread.join()
        assert seen == [50]

    def test_a_guarded_table_accepts_the_transaction(self, dsn: str) -> None:
        import psycopg
        import sqlalchemy

        # The holder of the token 8 shares the lock with that of 9, so the trigger raises the mark only to their floor.
        for token in (9, 8):
            with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
                fence.postgresql(cursor, Claim("stock", token, 7))
                cursor.execute("UPDATE stock SET pieces = pieces - 1")
        engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
        with engine.begin() as transaction:
            fence.sqlalchemy(transaction, Claim("stock", 8, 7))
            transaction.execute(sqlalchemy.text("UPDATE stock SET pieces = pieces - 1"))
        engine.dispose()
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT pieces FROM stock").fetchone() == (97,)
            assert connection.execute("SELECT token FROM fence WHERE resource = 'stock'").fetchone() == (7,)

    def test_autocommit_is_rejected(self, dsn: str) -> None:
        import psycopg

        with psycopg.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
            with pytest.raises(ValueError, match="no transaction"):
                fence.postgresql(cursor, exclusive(1, "autocommit"))
            with connection.transaction():
                fence.postgresql(cursor, exclusive(2, "autocommit"))

    def test_sqlalchemy(self, dsn: str) -> None:
        sqlalchemy = pytest.importorskip("sqlalchemy")
        host = dsn.split()[0].partition("=")[2]
        check_sqlalchemy(sqlalchemy.create_engine(f"postgresql+psycopg://postgres@/postgres?host={host}"))


@pytest.fixture(scope="module")
def maria() -> Iterator[mariadb.MariaDb]:
    pytest.importorskip("pymysql")
    if not mariadb.is_installed() or PROGRAM is None:
        pytest.skip("no MariaDB server, or no program holdfast")
    running = mariadb.MariaDb(PROGRAM)
    yield running
    running.stop()


class TestMariaDb:
    def test_a_smaller_token_changes_nothing(self, maria: mariadb.MariaDb) -> None:
        import pymysql

        with pymysql.connect(unix_socket=maria.socket, user="root", database="shop") as connection:
            for token, is_accepted in ((34, True), (33, False), (35, True)):
                with connection.cursor() as cursor:
                    if is_accepted:
                        fence.mysql(cursor, exclusive(token))
                        connection.commit()
                    else:
                        with pytest.raises(Stale):
                            fence.mysql(cursor, exclusive(token))
                        connection.rollback()

    def test_autocommit_is_rejected(self, maria: mariadb.MariaDb) -> None:
        import pymysql

        options = {"unix_socket": maria.socket, "user": "root", "database": "shop", "autocommit": True}
        with pymysql.connect(**options) as connection, connection.cursor() as cursor:
            with pytest.raises(ValueError, match="no transaction"):
                fence.mysql(cursor, exclusive(1, "autocommit"))
            connection.begin()
            fence.mysql(cursor, exclusive(2, "autocommit"))

    def test_sqlalchemy(self, maria: mariadb.MariaDb) -> None:
        sqlalchemy = pytest.importorskip("sqlalchemy")
        engine = sqlalchemy.create_engine(f"mysql+pymysql://root@/shop?unix_socket={maria.socket}")
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("CREATE TABLE orders AS SELECT 7 AS id, 100 AS pieces"))
        check_sqlalchemy(engine)


def check_sqlalchemy(engine: Any) -> None:
    """A former holder changes nothing, through a connection and through a session."""
    from sqlalchemy import text
    from sqlalchemy.orm import Session

    resource = f"alchemy/{uuid.uuid4()}"
    with engine.begin() as connection:
        fence.sqlalchemy(connection, exclusive(9, resource))
    with Session(engine) as session, session.begin():
        fence.sqlalchemy(session, exclusive(10, resource))
        session.execute(text("UPDATE orders SET pieces = 42"))
    with pytest.raises(Stale), engine.begin() as connection:
        fence.sqlalchemy(connection, exclusive(9, resource))
        connection.execute(text("UPDATE orders SET pieces = 0"))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT pieces FROM orders")).scalar() == 42
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        with pytest.raises(ValueError, match="no transaction"):
            fence.sqlalchemy(connection, exclusive(11, resource))
    engine.dispose()


def test_sqlalchemy_with_sqlite(tmp_path: Path) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.executescript(fence.SQLITE_SCHEMA + "CREATE TABLE orders AS SELECT 7 AS id, 100 AS pieces;")
    check_sqlalchemy(sqlalchemy.create_engine(f"sqlite:///{tmp_path}/shop.db"))


def test_sqlalchemy_with_asyncio(tmp_path: Path) -> None:
    pytest.importorskip("aiosqlite")
    pytest.importorskip("greenlet")
    asyncio_of_alchemy = pytest.importorskip("sqlalchemy.ext.asyncio")
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.executescript(fence.SQLITE_SCHEMA)

    async def run() -> None:
        engine = asyncio_of_alchemy.create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.db")
        async with engine.begin() as connection:
            await connection.run_sync(fence.sqlalchemy, exclusive(9))
        with pytest.raises(Stale):
            async with engine.begin() as connection:
                await connection.run_sync(fence.sqlalchemy, exclusive(8))
        async with engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            with pytest.raises(ValueError, match="no transaction"):
                await connection.run_sync(fence.sqlalchemy, exclusive(10))
        await engine.dispose()

    asyncio.run(run())


def test_a_claim_is_checked() -> None:
    for token, floor in ((0, 0), (2**53, 1), (3, 4), (3, 0)):
        with pytest.raises(ValueError):
            Claim("orders", token, floor)
    with pytest.raises(ValueError):
        Claim("", 1, 1)
