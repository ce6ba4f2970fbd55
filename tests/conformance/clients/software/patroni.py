"""Patroni: three machines with PostgreSQL, a program that writes all the time, and faults.

Every machine is a process namespace: its end takes Patroni and PostgreSQL with it, as a power cut does. `undisturbed`
means that the primary stays, takes writes and was not restarted while the coordination service was at fault.
"""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from kit import needs, ports, spawn
from secure.ensemble import SecureEnsemble
from software.case import scenarios, wait

HERE = Path(__file__).resolve().parent
VERSION = "4.1.5"
TTL_S, LOOP_S, RETRY_S = 30, 2, 14
# How often the configuration names each node. Kazoo waits for a silent node for the session timeout, divided by the names.
NAMES_OF_NODE = 3
FROZEN_S = 20
LONG_S = 120  # for a loaded machine
USER = "postgres"
# PostgreSQL refuses root. The environment of Python may be in root's home.
AS_POSTGRES = [
    "unshare", "--pid", "--fork", "--mount-proc",
    "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=+dac_override",
    "--ambient-caps=+dac_override", "--pdeathsig", "KILL",
]


def postgres_bin():
    return max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))


class Machine:
    """One machine: Patroni and its PostgreSQL."""

    def __init__(self, number, directory, python, coordination):
        self.name = f"machine{number}"
        self.directory = directory / self.name
        self.python = python
        self.directory.mkdir()
        self.api, self.sql = (f"127.0.0.1:{port}" for port in ports.choose(2))
        self.config = self.directory / "patroni.yml"
        self.config.write_text(json.dumps(self.configuration(coordination), indent=1))  # JSON is YAML
        shutil.chown(self.directory, USER, USER)

    def configuration(self, coordination):
        login = {role: {"username": role, "password": "secret"} for role in ("superuser", "replication", "rewind")}
        settings = {"ttl": TTL_S, "loop_wait": LOOP_S, "retry_timeout": RETRY_S, "synchronous_mode": True}
        return {
            "scope": "orders",
            "name": self.name,
            "restapi": {"listen": self.api, "connect_address": self.api},
            "zookeeper": coordination,
            "bootstrap": {"dcs": settings | {"postgresql": {"use_pg_rewind": True}}, "initdb": ["data-checksums"]},
            "postgresql": {
                "listen": self.sql,
                "connect_address": self.sql,
                "bin_dir": str(postgres_bin()),
                "data_dir": str(self.directory / "data"),
                "pgpass": str(self.directory / "pgpass"),
                "authentication": login,
                "parameters": {"unix_socket_directories": str(self.directory), "shared_buffers": "16MB"},
                "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
            },
        }

    @property
    def log_file(self):
        return self.directory / "patroni.log"

    def start(self):
        with open(self.log_file, "ab") as log:
            command = [*AS_POSTGRES, self.python, "-m", "patroni", self.config]
            self.process = spawn.start(command, stdout=log, stderr=log, cwd=self.directory)

    def ask(self, what):
        """The reply of Patroni's REST API, whatever its status; nothing if there is none."""
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{self.api}/{what}", timeout=3) as reply:
            return json.load(reply)


class Cluster:
    """Three machines and the program that writes."""

    def __init__(self, coordination):
        needs.ensure("postgres")
        if os.geteuid() != 0:
            raise needs.Missing("root, for a process namespace of each PostgreSQL server")
        self.python = needs.python(HERE / "requirements.txt")
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-kit-patroni-"))
        self.directory.chmod(0o755)
        self.acknowledged = self.directory / "acknowledged.txt"
        self.acknowledged.touch()
        self.machines = [Machine(number, self.directory, self.python, coordination) for number in (1, 2, 3)]
        self.writer = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [self.writer, *(getattr(machine, "process", None) for machine in self.machines)]:
            if process:
                spawn.kill(process)
        shutil.rmtree(self.directory, ignore_errors=True)

    def bootstrap(self):
        for machine in self.machines:
            machine.start()
        self.await_healthy()
        self.query("CREATE TABLE writes (number bigint)")
        hosts, listening = zip(*(machine.sql.split(":") for machine in self.machines))
        connect = f"host={','.join(hosts)} port={','.join(listening)} user=superuser dbname=postgres " \
            "target_session_attrs=read-write connect_timeout=2"
        self.writer = spawn.start([self.python, HERE / "programs" / "patroni_writer.py", connect, self.acknowledged])
        wait(self.writes, LONG_S, "the first write")

    def primary(self):
        """The machine whose PostgreSQL takes writes; nothing unless it is one."""
        states = [(machine, machine.ask("patroni") or {}) for machine in self.machines]
        found = [machine for machine, state in states if (state.get("role"), state.get("state")) == ("primary", "running")]
        return found[0] if len(found) == 1 else None

    def identity(self):
        """Which server is the primary, and since when it runs."""
        primary = wait(self.primary, LONG_S, "a primary")
        return primary.name, primary.ask("patroni")["postmaster_start_time"]

    def await_healthy(self):
        """Until one machine leads, the others stream, and one of them synchronously."""
        def healthy():
            members = self.primary().ask("cluster")["members"]
            return sorted(member["state"] for member in members) == ["running", "streaming", "streaming"] and \
                sorted(member["role"] for member in members) == ["leader", "replica", "sync_standby"]
        wait(healthy, LONG_S, "a primary with a synchronous and another replica")

    def await_contact(self, since):
        """Until every Patroni has talked with the coordination service after `since`."""
        def seen():
            return all(machine.ask("patroni")["dcs_last_seen"] > since for machine in self.machines)
        wait(seen, LONG_S, "contact of every Patroni with the coordination service")

    def query(self, sql):
        primary = wait(self.primary, LONG_S, "a primary")
        host, port = primary.sql.split(":")
        psql = [postgres_bin() / "psql", "-XAtq", "-h", host, "-p", port, "-U", "superuser", "-c", sql, "postgres"]
        return subprocess.run(psql, check=True, capture_output=True, text=True).stdout.split()

    def writes(self):
        """Number and time of each acknowledged write."""
        lines = self.acknowledged.read_text().splitlines()
        return [(int(number), float(time)) for number, time in map(str.split, lines)]

    def gap(self, since):
        """The longest time without an acknowledged write since then, which must be over."""
        began = time.time()
        wait(lambda: self.writes()[-1][1] > began, LONG_S, "a write")
        times = [since, *(moment for _, moment in self.writes() if moment > since)]
        return f"{max(later - earlier for earlier, later in zip(times, times[1:])):.1f} s without a write"

    def check_nothing_lost(self):
        spawn.kill(self.writer)
        stored = set(map(int, self.query("SELECT number FROM writes")))
        acknowledged = {number for number, _ in self.writes()}
        if lost := acknowledged - stored:
            raise AssertionError(f"{len(lost)} of {len(acknowledged)} acknowledged writes lost, e.g. {min(lost)}")
        return f"{len(acknowledged)} writes"


class Faults:
    """The faults, each on a healthy cluster."""

    def __init__(self, cluster, ensemble):
        self.cluster, self.ensemble = cluster, ensemble

    def leader(self):
        """The leader of the coordination service."""
        def found():
            return [member for member in self.ensemble.members if self.ensemble.mode(member.address) == "leader"]
        return wait(found, LONG_S, "a leader of the coordination service")[0]

    @contextlib.contextmanager
    def undisturbed(self):
        self.cluster.await_healthy()
        before = self.cluster.identity()
        yield
        if (after := self.cluster.identity()) != before:
            raise AssertionError(f"the primary was disturbed: {before}, then {after}")

    def coordination_leader_killed(self):
        with self.undisturbed():
            leader, began = self.leader(), time.time()
            leader.kill()
            self.cluster.await_contact(began + LOOP_S)
            self.ensemble.start()
        return self.cluster.gap(began)

    def coordination_leader_frozen(self):
        with self.undisturbed():
            leader, began = self.leader(), time.time()
            leader.suspend(True)
            try:
                self.cluster.await_contact(began + FROZEN_S)
            finally:
                leader.suspend(False)
            self.ensemble.await_serving(self.ensemble.members)
        return self.cluster.gap(began)

    def coordination_restarted(self):
        with self.undisturbed():
            began = time.time()
            for member in self.ensemble.members:
                member.kill()
            self.ensemble.start()
            self.cluster.await_contact(time.time())
        return self.cluster.gap(began)

    def majority_lost(self):
        """Without a majority no machine may stay the primary."""
        self.cluster.await_healthy()
        leader, began = self.leader(), time.time()
        for member in {leader, self.ensemble.members[0], self.ensemble.members[1]}:
            member.kill()
        if sum(member.running for member in self.ensemble.members) == 2:
            raise AssertionError("a majority is left")
        wait(lambda: not self.cluster.primary(), LONG_S, "the end of the primary")
        demoted = time.time() - began
        self.ensemble.start()
        returned = time.time()
        wait(self.cluster.primary, LONG_S, "a primary")
        return f"primary ends after {demoted:.1f} s, is back {time.time() - returned:.1f} s after the majority; " \
            + self.cluster.gap(began)

    def primary_killed(self):
        self.cluster.await_healthy()
        old, began = self.cluster.primary(), time.time()
        spawn.kill(old.process)
        wait(lambda: self.cluster.primary() not in (None, old), LONG_S, "another primary")
        gap = self.cluster.gap(began)
        old.start()
        self.cluster.await_healthy()
        return gap

    def switchover(self):
        self.cluster.await_healthy()
        old, began = self.cluster.primary(), time.time()
        control = [self.cluster.python.parent / "patronictl", "-c", old.config]
        code, output = spawn.run([*control, "switchover", "orders", "--leader", old.name, "--force"], LONG_S)
        if code != 0:
            raise RuntimeError(output)
        wait(lambda: self.cluster.primary() not in (None, old), LONG_S, "another primary")
        return self.cluster.gap(began)


def play(ensemble, coordination, wanted, words=""):
    """Bootstraps, plays the wanted faults, and looks for lost writes."""
    with Cluster(coordination) as cluster:
        faults = Faults(cluster, ensemble)
        steps = [("bootstrap", cluster.bootstrap), *((name, getattr(faults, name)) for name in wanted)]
        steps.append(("nothing_lost", cluster.check_nothing_lost))
        cases = scenarios([(name + words, step) for name, step in steps])
        if any(case.outcome == "failed" for case in cases):
            needs.keep_logs("patroni", [*cluster.machines, *ensemble.members])
        return cases


def hosts(ensemble):
    return [member.address for member in ensemble.members] * NAMES_OF_NODE


def secure():
    """Over TLS, with a subject that may write the tree below /service and nothing else."""
    with SecureEnsemble() as ensemble:
        ensemble.start()
        permissions = ["tree write /service", "tree write /service/*", "tree read *"]
        token = ensemble.admit("patroni", permissions)
        coordination = {
            "hosts": hosts(ensemble),
            "use_ssl": True,
            "cacert": str(ensemble.ca),
            "verify": True,
            "auth_data": {"digest": f"patroni:{token}"},
        }
        return play(ensemble, coordination, ["coordination_leader_killed", "switchover"], "_over_tls")


def run(ensemble, quick):
    wanted = ["coordination_leader_killed", "coordination_leader_frozen"]
    if not quick:
        wanted += ["primary_killed", "switchover", "coordination_restarted", "majority_lost"]
    cases = play(ensemble, {"hosts": hosts(ensemble)}, wanted)
    if ensemble.name == "holdfast" and not quick:
        cases += secure()
    return VERSION, cases
