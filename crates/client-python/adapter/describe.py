"""Describes this client for the table of names, by reflection."""

from __future__ import annotations

import dataclasses
import inspect
import os
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Type, get_type_hints

import holdfast
from holdfast import _request, aio
from holdfast.errors import _LOSS_TEXTS

Names = Dict[str, Dict[str, Any]]

#: Annotations of the signature, without `Optional`.
CLIENT_TYPES = {
    "Union[str, Iterable[str], None]": "texts",
    "Duration": "duration",
    "str": "text",
    "Path": "text",
    "Mapping[str, str]": "map",
    "Metrics": "metrics",
}
#: Annotations of a checked request: its times are seconds.
LOCK_TYPES = {"float": "duration", "str": "text", "int": "integer", "bool": "flag"}
METRIC_TYPES = {"str": "text", "float": "duration", "BaseException": "error", "bool": "flag"}


def describe(kinds: Mapping[Type[Exception], str]) -> Dict[str, Names]:
    for cls in (holdfast.Client, aio.Client):
        assert inspect.signature(cls) == inspect.signature(holdfast.Client), "both APIs have the same options"
    return {
        "client_options": client_options(),
        "lock_options": lock_options(),
        "errors": errors(kinds),
        "loss_causes": {cause: {} for cause in _LOSS_TEXTS},
        "guard_members": {name: {} for name in public(holdfast.Guard)},
        "metrics": {name: {"arguments": arguments(method)} for name, method in vars(holdfast.Metrics).items() if callable(method)},
    }


def word(annotation: str, words: Mapping[str, str]) -> str:
    bare = annotation[len("Optional[") : -1] if annotation.startswith("Optional[") else annotation
    return words.get(bare, bare)


def client_options() -> Names:
    os.environ.pop("HOLDFAST_ADDR", None)
    found: Names = {}
    for name, parameter in inspect.signature(holdfast.Client).parameters.items():
        kind = word(str(parameter.annotation), CLIENT_TYPES)
        default = parameter.default
        found[name] = {"type": kind, "default": int(default * 1000) if kind == "duration" and default else default}
    options = holdfast.Client()._options
    found["addresses"]["default"] = [f"{host}:{port}" for _, host, port in options.addresses]
    found["labels"]["default"] = options.labels
    return found


def lock_options() -> Names:
    fields = [field for field in dataclasses.fields(_request.LockRequest) if field.name != "locks"]
    accepted = {*_request._DURATIONS, *_request._TYPES}
    assert accepted == {field.name for field in fields}, "a request has the options that it accepts"
    return {field.name: {"type": word(str(field.type), LOCK_TYPES), "default": field.default} for field in fields}


def errors(kinds: Mapping[Type[Exception], str]) -> Names:
    exported = [getattr(holdfast, name) for name in holdfast.__all__]
    classes = [cls for cls in exported if isinstance(cls, type) and issubclass(cls, holdfast.Error) and cls is not holdfast.Error]
    return {cls.__name__: {"kind": kinds.get(cls)} for cls in classes}


def public(cls: type) -> Iterable[str]:
    hints = [name for parent in cls.__mro__ for name in vars(parent).get("__annotations__", {})]
    return sorted({name for name in [*dir(cls), *hints] if not name.startswith("_")})


def arguments(method: Callable[..., Any]) -> "list[Optional[str]]":
    hints = get_type_hints(method)
    return [METRIC_TYPES.get(hints[name].__name__) for name in inspect.signature(method).parameters if name != "self"]
