"""Fencing in SQL databases: the mark of a resource rises first, in the same transaction as the writes.

The table `fence` has one row for each resource: the largest token that has written to it. `holdfast fence init` prints the
statements that create it. A transaction that a former holder begins gets `Stale`, and changes nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Iterator, Optional, Protocol, Tuple, Union

from ._guard import SingleGuardBase

if TYPE_CHECKING:
    import sqlite3

_TOKEN_MAX = 2**53 - 1

#: Creates the marks in SQLite 3.35 or later. Safe to run again.
SQLITE_SCHEMA = """
CREATE TABLE IF NOT EXISTS fence (
    resource TEXT    PRIMARY KEY NOT NULL CHECK (resource <> ''),
    token    INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token BETWEEN 1 AND 9007199254740991),
    holder   TEXT,
    seen_at  TEXT    NOT NULL DEFAULT (datetime('now'))
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS fence_never_falls BEFORE UPDATE OF token ON fence WHEN NEW.token < OLD.token
BEGIN
    SELECT RAISE(ABORT, 'FN001: a mark never falls: the token is stale');
END;
"""

_SQLITE_RAISE = """
INSERT INTO fence (resource, token, holder) SELECT ?1, ?3, ?4 WHERE ?3 <= ?2
    ON CONFLICT (resource) DO UPDATE
   SET holder  = CASE WHEN excluded.token > token THEN excluded.holder ELSE holder END,
       seen_at = CASE WHEN excluded.token > token THEN excluded.seen_at ELSE seen_at END,
       token   = max(token, excluded.token)
 WHERE token <= ?2
"""


# The trigger of a guarded table reads the settings, which end with the transaction.
_POSTGRESQL_RAISE = """
SELECT fence_check_shared(resource, token, floor, holder), set_config('fence.resource', resource, true),
       set_config('fence.token', CAST(token AS text), true), set_config('fence.floor', CAST(floor AS text), true),
       set_config('fence.holder', coalesce(holder, ''), true)
  FROM (VALUES (CAST({0} AS text), CAST({1} AS bigint), CAST({2} AS bigint), CAST({3} AS text)))
       AS claim (resource, token, floor, holder)
"""

#: A flag of MySQL's protocol.
_SERVER_STATUS_IN_TRANS = 1

_MYSQL_RAISE = "CALL fence_check_shared(%s, %s, %s, %s)"


class Stale(Exception):
    """A newer holder has written to the resource. Discard what was read, and acquire the lock again."""

    def __init__(self, resource: str, token: int, newest: Optional[int] = None) -> None:
        known = f": the newest is {newest}" if newest is not None else ""
        super().__init__(f'stale fencing token {token} for "{resource}"{known}')
        self.resource = resource
        self.token = token
        #: The mark, if the database named it.
        self.newest = newest


@dataclass(frozen=True)
class Claim:
    """The claim of a holder on a resource."""

    resource: str
    token: int
    #: The smallest token that may still be valid; that of an exclusive holder is its token.
    floor: int
    holder: Optional[str] = None

    def __post_init__(self) -> None:
        if not self.resource or not 1 <= self.floor <= self.token <= _TOKEN_MAX:
            raise ValueError(f"{self} is no claim: pass the token of a grant, and name the resource")


Holder = Union["SingleGuardBase[Any, Any]", Claim]


def claim(of: Holder, resource: Optional[str] = None) -> Claim:
    """The claim of a guard, after a check that the lock is held. The resource is the lock unless another one is named.

    A slot of the guard, such as `pool#3`, has one holder at a time, so its mark rises to the whole token.
    Raises `holdfast.Lost` if the guard is lost.
    """
    if isinstance(of, Claim):
        return replace(of, resource=resource) if resource else of
    of.ensure()
    resource = resource or of.lock
    return Claim(resource, of.token, of._floor_of(resource), of.session)


class Cursor(Protocol):
    """A cursor of PEP 249 with the parameter style `%s`, such as that of psycopg."""

    def execute(self, query: Any, params: Any = ..., /) -> Any: ...


def postgresql(cursor: Cursor, of: Holder, resource: Optional[str] = None) -> Claim:
    """Raises the mark in PostgreSQL. Call it as the first statement of the transaction, at `READ COMMITTED`.

    The next statement then sees every write of the former holder. Works with psycopg, psycopg2 and Django's cursors. Raises
    `ValueError` if no transaction is open.
    """
    claimed = claim(of, resource)
    try:
        cursor.execute(*postgresql_statement(claimed))
    except Exception as error:
        if _is_stale(error):
            raise Stale(claimed.resource, claimed.token) from error
        raise
    _check_transaction(getattr(cursor, "connection", None))
    return claimed


def postgresql_statement(claimed: Claim) -> Tuple[str, Tuple[Any, ...]]:
    """The statement that raises the mark, and its parameters, for a driver with another way to run it."""
    return _POSTGRESQL_RAISE.format("%s", "%s", "%s", "%s"), _in_order(claimed)


def _in_order(claimed: Claim) -> Tuple[Any, ...]:
    return (claimed.resource, claimed.token, claimed.floor, claimed.holder)


def sqlalchemy(connection: Any, of: Holder, resource: Optional[str] = None) -> Claim:
    """Raises the mark in PostgreSQL, MySQL, MariaDB or SQLite, through a connection or a session of SQLAlchemy.

    Call it as the first statement of the transaction. With asyncio: `await session.run_sync(fence.sqlalchemy, guard)`.
    """
    from sqlalchemy import text

    if not hasattr(connection, "exec_driver_sql"):
        connection = connection.connection()
    claimed = claim(of, resource)
    dialect = connection.dialect.name
    if dialect == "sqlite":
        raise_mark_sqlite(connection.connection.dbapi_connection, claimed)
    elif dialect == "postgresql":
        names = (":resource", ":token", ":floor", ":holder")
        _execute(connection, text(_POSTGRESQL_RAISE.format(*names)), claimed)
    elif dialect in ("mysql", "mariadb"):
        _execute(connection, text("CALL fence_check_shared(:resource, :token, :floor, :holder)"), claimed)
    else:
        raise NotImplementedError(f"no guard for {dialect}: raise the mark by another statement")
    _check_transaction(connection.connection.driver_connection)
    return claimed


def _execute(connection: Any, statement: Any, claimed: Claim) -> None:
    try:
        connection.execute(statement, vars(claimed))
    except Exception as error:
        if _is_stale(error):
            raise Stale(claimed.resource, claimed.token) from error
        raise


def mysql(cursor: Cursor, of: Holder, resource: Optional[str] = None) -> Claim:
    """Raises the mark in MySQL or MariaDB. Call it as the first statement of the transaction.

    Works with mysqlclient, PyMySQL and the cursors of Django. Tested with MariaDB.
    """
    claimed = claim(of, resource)
    try:
        cursor.execute(_MYSQL_RAISE, _in_order(claimed))
    except Exception as error:
        if _is_stale(error):
            raise Stale(claimed.resource, claimed.token) from error
        raise
    _check_transaction(getattr(cursor, "connection", None))
    return claimed


@contextmanager
def sqlite(
    connection: sqlite3.Connection, of: Holder, resource: Optional[str] = None
) -> Iterator[sqlite3.Connection]:
    """A transaction that begins with the mark. It commits at the end of the body, and rolls back after an error.

    It takes the write lock before the body reads.
    """
    if connection.in_transaction:
        raise ValueError("a transaction is open: the mark must rise before the first read")
    claimed = claim(of, resource)
    connection.execute("BEGIN IMMEDIATE")
    try:
        raise_mark_sqlite(connection, claimed)
        yield connection
        _end(connection, "COMMIT")
    except BaseException:
        _end(connection, "ROLLBACK")
        raise


def _end(connection: sqlite3.Connection, statement: str) -> None:
    # With `autocommit=True`, `commit()` does nothing.
    if connection.in_transaction:
        connection.execute(statement)


def raise_mark_sqlite(connection: Any, claimed: Claim) -> None:
    """Raises the mark in an open transaction of SQLite, before its first read."""
    raised = connection.execute(_SQLITE_RAISE, _in_order(claimed))
    if raised.rowcount == 0:
        row = connection.execute("SELECT token FROM fence WHERE resource = ?", (claimed.resource,)).fetchone()
        raise Stale(claimed.resource, claimed.token, row[0] if row else None)
    _check_transaction(connection)


def _check_transaction(connection: Any) -> None:
    """Rejects a connection that has committed the mark by itself. A driver without a transaction status is accepted."""
    if _is_in_transaction(connection) is False:
        raise ValueError("no transaction is open: begin one, or turn autocommit off. The mark and the writes need the same one")


def _is_in_transaction(connection: Any) -> Optional[bool]:
    """The transaction status of the driver; `None` for a driver without one, such as mysqlclient."""
    status = getattr(connection, "in_transaction", None)  # sqlite3 and aiosqlite
    for name in ("get_transaction_status", "is_in_transaction"):  # psycopg2 and aiomysql; asyncpg
        if status is None and callable(getattr(connection, name, None)):
            status = getattr(connection, name)()
    flags = getattr(connection, "server_status", None)  # PyMySQL
    if status is None and isinstance(flags, int):
        status = flags & _SERVER_STATUS_IN_TRANS
    if status is None:
        status = getattr(getattr(connection, "info", None), "transaction_status", None)  # psycopg
    return None if status is None else bool(status)


def _is_stale(error: BaseException) -> bool:
    # The drivers of MySQL report no SQLSTATE.
    return _sqlstate(error) == "FN001" or "stale fencing token" in str(error)


def _sqlstate(error: Optional[BaseException]) -> Optional[str]:
    """The SQLSTATE of an error of psycopg or psycopg2, also inside an error of Django or SQLAlchemy."""
    while error is not None:
        found = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if found:
            return str(found)
        error = getattr(error, "orig", None) or error.__cause__
    return None
