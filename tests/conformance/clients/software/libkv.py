"""libkv: the tests of its store on go-zookeeper. Docker Swarm used it; valkeyrie and Traefik continue it."""

import json
import os

from kit import needs, spawn
from software.case import Case

PACKAGE = "github.com/docker/libkv/store/zookeeper"


def run(ensemble, quick):
    needs.ensure("libkv")
    # Debian's packages of Go are sources; the address is a variable of the tests.
    environment = dict(os.environ, GO111MODULE="off", GOPATH="/usr/share/gocode", GOFLAGS="")
    flags = f"-X {PACKAGE}.client={ensemble.members[0].address}"
    command = ["go", "test", "-json", "-count=1", "-vet=off", "-ldflags", flags, PACKAGE]
    code, output = spawn.run(command, 600, env=environment)
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    outcomes = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    cases = [
        Case(event["Test"], outcomes[event["Action"]], event["Elapsed"], said(events, event["Test"]))
        for event in events
        if "Test" in event and event["Action"] in outcomes
    ]
    if not cases:
        raise RuntimeError(f"the tests of {PACKAGE} ended with {code}:\n{output[-2000:]}")
    return needs.debian_version("golang-github-docker-libkv-dev"), cases


def said(events, test):
    lines = [event["Output"] for event in events if event["Action"] == "output" and event.get("Test") == test]
    return " ".join("".join(lines).split())[-300:]
