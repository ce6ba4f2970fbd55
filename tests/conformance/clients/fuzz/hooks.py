"""What schemathesis sends, bent so that calls meet each other: half of all names are few, most waits are short.

Loaded by schemathesis itself (SCHEMATHESIS_HOOKS). Refuses to judge anything.
"""

import re
import zlib

import schemathesis

UNITS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
WAIT_MS = 100
WAIT_MAX_MS = 300_000
NAMES = ("session", "owner", "entry", "request", "name", "id", "prefix", "path")
FEW = ("n0", "n1", "n2", "n3")


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


@schemathesis.hook
def before_call(context, case, kwargs):
    """Every call goes through here, whatever phase made it."""
    for fields in (case.path_parameters, case.query, case.body):
        if isinstance(fields, dict):
            bend(fields)
    if case.path == "/v1/watch" and isinstance(case.query, dict) and "wait" not in case.query:
        case.query["wait"] = f"{WAIT_MS}ms"
