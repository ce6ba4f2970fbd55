"""ClickHouse from Debian: two replicas of a table, a thread that inserts all the time, and faults.

An insert is acknowledged by the replica that has stored it; the other one copies it.
"""

import itertools
import shutil
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from kit import needs, ports, spawn
from software.case import scenarios, wait
from software.coordination import LONG_S, Coordination

SESSION_MS = 10_000
CONFIG = """<yandex>
  <logger><level>information</level><console>1</console></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>{http}</http_port> <tcp_port>{tcp}</tcp_port>
  <interserver_http_port>{interserver}</interserver_http_port> <interserver_http_host>127.0.0.1</interserver_http_host>
  <path>{directory}/data/</path> <tmp_path>{directory}/tmp/</tmp_path> <format_schema_path>{directory}/schemas/</format_schema_path>
  <users_config>users.xml</users_config> <default_profile>default</default_profile> <default_database>default</default_database>
  <mark_cache_size>67108864</mark_cache_size>
  <zookeeper>{nodes}<session_timeout_ms>{session_ms}</session_timeout_ms></zookeeper>
  <macros><replica>{number}</replica></macros>
  <remote_servers><both><shard><internal_replication>true</internal_replication>{replicas}</shard></both></remote_servers>
  <distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>
</yandex>
"""
USERS = """<yandex>
  <profiles><default/></profiles> <quotas><default/></quotas>
  <users><default><password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
</yandex>
"""


class Replica:
    def __init__(self, number, directory):
        self.number, self.directory = number, directory / f"replica{number}"
        self.directory.mkdir()
        self.http, self.tcp, self.interserver = ports.choose(3)
        self.process = None

    @property
    def log_file(self):
        return self.directory / "server.log"

    def configure(self, members, replicas):
        address = "<{0}><host>127.0.0.1</host><port>{1}</port></{0}>"
        nodes = "".join(address.format("node", member.address.split(":")[1]) for member in members)
        both = "".join(address.format("replica", replica.tcp) for replica in replicas)
        filled = CONFIG.format(**vars(self), nodes=nodes, replicas=both, session_ms=SESSION_MS)
        (self.directory / "config.xml").write_text(filled)
        (self.directory / "users.xml").write_text(USERS)

    def start(self):
        with open(self.log_file, "ab") as log:
            command = ["clickhouse-server", f"--config-file={self.directory / 'config.xml'}"]
            self.process = spawn.start(command, stdout=log, stderr=log, cwd=self.directory)

    def query(self, sql, timeout_s=60):
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}/", data=sql.encode())
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:
            return reply.read().decode().split()


class Cluster:
    def __init__(self, ensemble):
        needs.ensure("clickhouse")
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-kit-clickhouse-"))
        self.replicas = [Replica(number, self.directory) for number in (1, 2)]
        for replica in self.replicas:
            replica.configure(ensemble.members, self.replicas)
        self.acknowledged, self.ends = [], threading.Event()
        self.writer = threading.Thread(target=self.write, daemon=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ends.set()
        for replica in self.replicas:
            if replica.process:
                spawn.kill(replica.process)
        shutil.rmtree(self.directory, ignore_errors=True)

    def write(self):
        """Inserts numbers through one replica and the other by turns."""
        for number, replica in zip(itertools.count(), itertools.cycle(self.replicas)):
            if self.ends.wait(0.05):
                return
            try:
                replica.query(f"INSERT INTO orders VALUES ({number})", timeout_s=30)
            except OSError:
                continue
            self.acknowledged.append(number)

    def on_both(self, statement):
        """Runs a statement with `ON CLUSTER`, which goes through the coordination service."""
        self.replicas[0].query(statement)

    def bootstrap(self):
        for replica in self.replicas:
            replica.start()
        for replica in self.replicas:
            wait(lambda: replica.query("SELECT count() FROM system.zookeeper WHERE path = '/'"), LONG_S, "a replica")
        self.on_both(
            "CREATE TABLE orders ON CLUSTER both (number UInt64) "
            "ENGINE = ReplicatedMergeTree('/clickhouse/tables/orders', '{replica}') ORDER BY number"
        )
        self.writer.start()
        self.await_inserts()

    def await_inserts(self):
        enough = len(self.acknowledged) + 10
        wait(lambda: len(self.acknowledged) >= enough, LONG_S, "ten inserts")

    def await_same(self):
        """Until both replicas have every acknowledged insert of now."""
        count = len(self.acknowledged)

        def both():
            return all(int(replica.query("SELECT count() FROM orders")[0]) >= count for replica in self.replicas)
        wait(both, LONG_S, "the same rows on both replicas")

    def check_whole(self, began):
        self.await_inserts()
        self.on_both(f"CREATE TABLE after_{began:.0f} ON CLUSTER both (number UInt64) ENGINE = Memory")
        inserts = time.time() - began
        self.await_same()
        return f"ten inserts and a table on both {inserts:.1f} s after the fault began"

    def replica_killed(self):
        began = time.time()
        spawn.kill(self.replicas[1].process)
        self.await_inserts()
        self.replicas[1].start()
        wait(lambda: self.replicas[1].query("SELECT 1"), LONG_S, "the replica")
        return self.check_whole(began)

    def nothing_lost(self):
        self.ends.set()
        self.writer.join()
        self.await_same()
        for replica in self.replicas:
            stored = set(map(int, replica.query("SELECT number FROM orders")))
            if lost := set(self.acknowledged) - stored:
                count = len(self.acknowledged)
                raise AssertionError(f"{len(lost)} of {count} acknowledged inserts lost on one replica, e.g. {min(lost)}")
        return f"{len(self.acknowledged)} inserts"


def run(ensemble, quick):
    with Cluster(ensemble) as cluster:
        # Without a leader of the coordination service, the tables take no inserts.
        faults = Coordination(ensemble, lambda: None, cluster.check_whole)
        own = [(name, getattr(cluster, name)) for name in ("bootstrap", "replica_killed", "nothing_lost")]
        cases = scenarios([own[0], *faults.steps(), *own[1:]])
        if any(case.outcome == "failed" for case in cases):
            needs.keep_logs("clickhouse", [*cluster.replicas, *ensemble.members])
        return needs.debian_version("clickhouse-server"), cases
