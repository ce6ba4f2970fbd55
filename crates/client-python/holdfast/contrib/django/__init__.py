"""Locks and fenced transactions in Django.

The setting `HOLDFAST` has the options of `holdfast.Client`: `HOLDFAST = {"addresses": ["10.0.0.1:7400"]}`. The table of marks
comes from `holdfast fence init --postgres`, `--mysql` or `--sqlite`. The application `holdfast.contrib.django` has the command
`migrate_once`.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections, transaction

from ... import Client, Guard, Lock, fence

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..._request import LockOptions

_clients: Dict[str, Client] = {}
_mutex = threading.Lock()


def client() -> Client:
    """The client of this process, with the options of the setting `HOLDFAST`."""
    with _mutex:
        if "default" not in _clients:
            _clients["default"] = Client(**getattr(settings, "HOLDFAST", {}))
        return _clients["default"]


def lock(name: str, **options: Unpack[LockOptions]) -> Lock:
    """A lock of the client of this process, for `with` or `acquire()`."""
    return client().lock(name, **options)


@contextmanager
def fenced_atomic(
    name: str, *, resource: Optional[str] = None, using: Optional[str] = None, **options: Unpack[LockOptions]
) -> Iterator[Guard]:
    """Takes the lock, and opens a transaction whose first statement raises the mark of the resource.

    The transaction commits before the lock is released. It must be the outermost one, because it must not have read
    anything before the mark rises. Raises `holdfast.fence.Stale` for a former holder.
    """
    alias = using or DEFAULT_DB_ALIAS
    with lock(name, **options) as guard:
        with transaction.atomic(using=alias, durable=True):
            raise_mark(guard, resource, using=alias)
            yield guard


def raise_mark(of: fence.Holder, resource: Optional[str] = None, *, using: Optional[str] = None) -> None:
    """Raises the mark in the transaction that is open, as its first statement."""
    connection: Any = connections[using or DEFAULT_DB_ALIAS]
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("raise the mark inside of a transaction")
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            fence.postgresql(cursor, of, resource)
        elif connection.vendor == "mysql":
            fence.mysql(cursor, of, resource)
        elif connection.vendor == "sqlite":
            # The cursor of Django translates placeholders.
            fence.raise_mark_sqlite(cursor.connection, fence.claim(of, resource))
        else:
            raise NotImplementedError(f"no guard for {connection.vendor}: raise the mark by another statement")
