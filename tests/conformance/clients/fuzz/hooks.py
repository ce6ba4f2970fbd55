"""What schemathesis sends, bent so that calls meet each other: half of all names are few, half of all calls say no more
than they must, most waits are short.

Loaded by schemathesis itself (SCHEMATHESIS_HOOKS). Refuses to judge anything.
"""

import os
import re
import zlib

import schemathesis
from schemathesis.core import NOT_SET

UNITS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
WAIT_MS = 100
WAIT_MAX_MS = 300_000
NAMES = ("session", "owner", "entry", "request", "name", "id", "prefix", "path")
FEW = ("n0", "n1", "n2", "n3")
# Queries that are as good as any, where what must be said is hard to guess.
ENOUGH = {
    "/v1/watch": {"prefix": "/", "since": 0},
    "/v1/fence/{name}": {"token": 2**53 - 1, "mode": "monotonic"},
}
# Calls that say everything in their body.
BODY_ALONE = ("/v1/txn",)
# Of an object of a transaction: keys whose value is a path.
PATHS = ("path", "create", "set", "delete", "set_acl", "check")


def half(text):
    """A coin that falls the same way for the same value."""
    return zlib.crc32(repr(text).encode()) % 2 == 0


def known(key, value):
    """One of few names instead of a wild one, in every second case."""
    if not isinstance(value, str) or key not in NAMES or not half(value):
        return value
    return FEW[zlib.crc32(value.encode(errors="replace")) // 2 % len(FEW)]


def shortened(text):
    """A wait that the server would take, but shorter; anything else as it is."""
    parts = re.findall(r"([0-9]+)(ms|h|m|s)", text)
    if "".join(number + unit for number, unit in parts) != text:
        return text
    ms = sum(int(number) * UNITS[unit] for number, unit in parts)
    return f"{WAIT_MS}ms" if WAIT_MS < ms <= WAIT_MAX_MS else text


def bend(fields):
    """Changes fields of a query, a path or a body in place."""
    for key, value in list(fields.items()):
        fields[key] = known(key, value)
        if key == "wait" and isinstance(value, str):
            fields[key] = shortened(value)
        if key == "ttl" and isinstance(value, str) and half(value):
            fields[key] = "30s"


def thin(case):
    """Leaves out what need not be said, in every second call, so that parameters that exclude each other do not meet."""
    if not isinstance(case.query, dict) or not half(sorted(case.query.items(), key=repr)):
        return
    needed = {parameter.name for parameter in case.operation.iter_parameters() if parameter.is_required}
    case.query = dict(ENOUGH.get(case.path) or {key: value for key, value in case.query.items() if key in needed})
    if isinstance(case.body, dict) and case.path not in BODY_ALONE:
        case.body = NOT_SET


def bend_transaction(body):
    """Half of the objects are about few nodes below the root."""
    for key in ("if", "then", "else"):
        for item in body.get(key) or [] if isinstance(body.get(key), list) else []:
            for path in PATHS:
                if isinstance(item, dict) and isinstance(item.get(path), str) and half(item[path]):
                    item[path] = "/" + FEW[zlib.crc32(item[path].encode(errors="replace")) // 2 % len(FEW)]


def keep_administrator(case):
    """The administrator and its access token stay, because every call uses them."""
    if not case.path.startswith("/v1/auth") or not isinstance(case.path_parameters, dict):
        return
    kept = os.environ.get("HOLDFAST_FUZZ_KEPT", "").split()
    case.path_parameters = {key: FEW[0] if value in kept else value for key, value in case.path_parameters.items()}


def keep_members(case):
    """The members and the leader stay, and changes are accepted: changes of members are only checked, leadership goes to
    no node, and the reason of a seal is too long."""
    more = {}
    if case.path.startswith("/v1/members"):
        more = {"dry_run": "true"}
    if case.path == "/v1/cluster/transfer":
        more = {"to": 2**40}
    if case.path == "/v1/cluster/seal" and case.method == "PUT":
        more = {"reason": "r" * 10_000}
    if more:
        case.query = {**(case.query if isinstance(case.query, dict) else {}), **more}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Every call goes through here, whatever phase made it."""
    thin(case)
    if case.path in BODY_ALONE and isinstance(case.body, dict):
        bend_transaction(case.body)
    for fields in (case.path_parameters, case.query, case.body):
        if isinstance(fields, dict):
            bend(fields)
    keep_members(case)
    keep_administrator(case)
    if case.path == "/v1/watch" and isinstance(case.query, dict) and "wait" not in case.query:
        case.query["wait"] = f"{WAIT_MS}ms"
