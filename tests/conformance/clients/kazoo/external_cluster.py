"""A pytest plugin: kazoo's own test suite, against members that somebody else started.

kazoo's tests reach servers through `kazoo.testing.harness.get_global_cluster` alone. This replaces it by a cluster
whose members are started and stopped over the control socket that KIT_CONTROL names. Each result goes as one JSON
line to the file that KIT_RESULTS names, with whether the test asked for a server's address. kazoo itself is not
touched; the two packages that only its own cluster needs (to make certificates) are replaced by empty modules.
"""

import atexit
import json
import os
import socket
import sys
import threading
import types

import pytest

for absent in ("OpenSSL", "jks"):
    sys.modules.setdefault(absent, types.ModuleType(absent))

from kazoo.testing import harness  # noqa: E402


class Control:
    """Asks one thing at a time, from any thread."""

    def __init__(self, path):
        self._path = path

    def ask(self, what, **parameters):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._path)
            connection.sendall(json.dumps({"do": what, "with": parameters}).encode() + b"\n")
            answer = json.loads(connection.makefile().readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["ok"]


class Member:
    """What kazoo's tests use of a ManagedZooKeeper."""

    def __init__(self, control, index, address):
        self._control = control
        self._index = index
        self._address = address

    @property
    def address(self):
        Touched.servers = True
        return self._address

    @property
    def secure_address(self):
        pytest.skip("the ensemble has no TLS")

    @property
    def client_port(self):
        return int(self.address.rsplit(":", 1)[1])

    @property
    def running(self):
        return self._control.ask("running", member=self._index)

    def run(self):
        self._control.ask("run", member=self._index)

    def stop(self):
        self._control.ask("stop", member=self._index)


class Cluster:
    """What kazoo's harness uses of a ZookeeperCluster."""

    def __init__(self, control):
        self._control = control
        self._members = [
            Member(control, index, member["address"]) for index, member in enumerate(control.ask("members"))
        ]
        self._switches = {"local_sessions": False, "sasl": False}

    def __getitem__(self, index):
        return self._members[index]

    def __iter__(self):
        return iter(self._members)

    def start(self):
        self._control.ask("start")

    def stop(self):
        for member in self:
            member.stop()

    def terminate(self):
        """At the end of each test class. Tests use directories of their own, so members that run may go on."""
        if not all(member.running for member in self):
            self._control.ask("reset")

    def reset(self):
        self._control.ask("reset")

    def get_logs(self):
        return self._control.ask("logs", lines=30)

    def get_ssl_client_configuration(self):
        pytest.skip("the ensemble has no TLS")

    def follow_environment(self):
        """The suite changes its environment to ask for another configuration."""
        wanted = {
            "local_sessions": os.environ.get("ZOOKEEPER_LOCAL_SESSION_RO") == "true",
            "sasl": os.environ.get("ZOOKEEPER_JAAS_AUTH") == "digest",
        }
        if wanted != self._switches:
            self._switches = wanted
            self._control.ask("switch", **wanted)


class Touched:
    """Whether the test that runs asked for a server."""

    servers = False
    guard = threading.Lock()
    cluster = None


def get_global_cluster():
    with Touched.guard:
        if Touched.cluster is None:
            Touched.cluster = Cluster(Control(os.environ["KIT_CONTROL"]))
        Touched.cluster.follow_environment()
        return Touched.cluster


harness.get_global_cluster = get_global_cluster


def short(nodeid):
    """`test_lock.py::Class::test`, wherever the suite was unpacked."""
    return nodeid[nodeid.rfind("test_", 0, nodeid.find("::")):]


class Results:
    """One line for each test, written when it has ended."""

    def __init__(self, path):
        self._file = open(path, "a", buffering=1)
        self._worst = None

    def begin(self):
        Touched.servers = False
        self._worst = {"outcome": "passed", "why": "", "seconds": 0.0}

    def add(self, report):
        self._worst["seconds"] += report.duration
        if report.failed or (report.skipped and self._worst["outcome"] == "passed"):
            self._worst["outcome"] = report.outcome
            self._worst["why"] = reason(report)

    def end(self, nodeid):
        line = dict(self._worst, test=short(nodeid), servers=Touched.servers)
        self._file.write(json.dumps(line) + "\n")


def reason(report):
    """The last line of what went wrong, and where."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr)[-300:]
    return f"{os.path.basename(crash.path)}:{crash.lineno}: {crash.message}"[:400]


RESULTS = Results(os.environ["KIT_RESULTS"])
atexit.register(RESULTS._file.close)


def pytest_collection_modifyitems(config, items):
    """Only the tests that KIT_TESTS lists, in the suite's own order; all without it."""
    wanted_file = os.environ.get("KIT_TESTS")
    if not wanted_file:
        return
    with open(wanted_file) as file:
        wanted = set(file.read().split())
    chosen = [item for item in items if short(item.nodeid) in wanted]
    config.hook.pytest_deselected(items=[item for item in items if short(item.nodeid) not in wanted])
    items[:] = chosen


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid, location):
    RESULTS.begin()


def pytest_runtest_logreport(report):
    RESULTS.add(report)


def pytest_runtest_logfinish(nodeid, location):
    RESULTS.end(nodeid)
