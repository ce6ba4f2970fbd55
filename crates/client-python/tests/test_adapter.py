"""The adapter of the scenario suite."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

from conftest import Cluster

ADAPTER = Path(__file__).resolve().parent.parent / "adapter" / "adapter.py"


class Program:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(ADAPTER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._seen: Dict[int, Any] = {}
        self._events: Dict[str, Any] = {}

    def send(self, **request: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def answer(self, number: int) -> Any:
        while number not in self._seen:
            self._read()
        return self._seen[number]

    def event(self, name: str) -> Any:
        while name not in self._events:
            self._read()
        return self._events[name]

    def _read(self) -> None:
        assert self._process.stdout
        line = json.loads(self._process.stdout.readline())
        if "event" in line:
            self._events[line["event"]] = line
        else:
            self._seen[line["id"]] = line

    def end(self) -> int:
        self.send(id=99, do="shutdown")
        assert self.answer(99) == {"id": 99, "ok": {}}
        return self._process.wait(20)


def test_the_protocol(cluster: Cluster) -> None:
    program = Program()
    program.send(id=1, do="client", name="c", addresses=cluster.addresses, ttl_ms=15000)
    program.send(id=2, do="acquire", client="c", lock="adapter/a", guard="g", wait_ms=20000)
    token = program.answer(2)["ok"]["token"]
    program.send(id=3, do="acquire", client="c", lock="adapter/a", guard="h", wait_ms=0)
    busy = program.answer(3)["error"]
    assert (busy["kind"], busy["code"], busy["retryable"]) == ("busy", "lock-busy", True)
    program.send(id=4, do="acquire", client="c", lock="adapter/a", guard="h")
    program.send(id=5, do="cancel", request=4)
    assert program.answer(4)["error"]["kind"] == "cancelled"
    program.send(id=6, do="headers", guard="g")
    assert program.answer(6)["ok"] == {"headers": {"Fencing-Token": f'{token}; resource="adapter/a"'}}
    program.send(id=7, do="fork", client="c", lock="adapter/child")
    assert program.answer(7)["ok"]["session"] != program.answer(2)["ok"]["session"]
    program.send(id=8, do="acquire", client="c", lock="a", guard="x", unknown=1)
    assert program.answer(8)["error"]["kind"] == "invalid-argument"
    program.send(id=9, do="dance")
    assert program.answer(9)["error"]["kind"] == "unsupported"
    program.send(id=10, do="force_release", client="c", lock="adapter/a", reason="test")
    assert program.event("lost")["cause"] == "force-released"
    program.send(id=11, do="release", guard="g")
    assert program.answer(11)["error"]["kind"] == "lost"
    assert program.end() == 0
