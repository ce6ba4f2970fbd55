"""Kafka in ZooKeeper mode: two brokers below a chroot, a producer that writes all the time, and faults.

The topic has a copy on each broker. A write is acknowledged when all brokers in sync have it.
"""

import json
import shutil
import tempfile
import time
from pathlib import Path

from kit import needs, ports, spawn
from software.case import scenarios, wait
from software.coordination import LONG_S, Coordination

HERE = Path(__file__).resolve().parent / "kafka"
VERSION = "3.9.1"
SESSION_MS = 18_000


class Broker:
    def __init__(self, number, directory, class_path, coordination):
        self.directory = directory / f"broker{number}"
        self.directory.mkdir()
        self.class_path = class_path
        self.address = f"127.0.0.1:{ports.choose(1)[0]}"
        settings = {
            "broker.id": number,
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": self.directory / "data",
            "zookeeper.connect": coordination,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "offsets.topic.replication.factor": 2,
        }
        self.config = self.directory / "server.properties"
        self.config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.process = None

    def start(self):
        with open(self.log_file, "ab") as log:
            logging = f"-Dlog4j.configuration=file:{HERE / 'log4j.properties'}"
            command = ["java", "-Xmx512m", logging, "-cp", self.class_path, "kafka.Kafka", self.config]
            self.process = spawn.start(command, stdout=log, stderr=log, cwd=self.directory)

    @property
    def log_file(self):
        return self.directory / "broker.log"

    def lost_session(self):
        return "Session expired" in self.log_file.read_text(errors="replace")


class Cluster:
    def __init__(self, ensemble):
        self.class_path = f"{needs.maven_jars(HERE / 'pom.xml')}/*"
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-kit-kafka-"))
        coordination = f"{ensemble.connect_string}/kafka"
        self.brokers = [Broker(number, self.directory, self.class_path, coordination) for number in (1, 2)]
        self.servers = ",".join(broker.address for broker in self.brokers)
        self.sent = self.directory / "sent.jsonl"
        self.producer = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [self.producer, *(broker.process for broker in self.brokers)]:
            if process:
                spawn.kill(process)
        shutil.rmtree(self.directory, ignore_errors=True)

    def tool(self, name, *arguments, timeout_s=90):
        """The output of one of Kafka's own tools."""
        command = ["java", "-Xmx256m", "-cp", self.class_path, f"org.apache.kafka.tools.{name}", *arguments]
        code, output = spawn.run(command, timeout_s)
        if code != 0:
            raise RuntimeError(f"{name} ended with {code}: {output[-500:]}")
        return output

    def topics(self, *arguments):
        return self.tool("TopicCommand", "--bootstrap-server", self.servers, *arguments)

    def bootstrap(self):
        for broker in self.brokers:
            broker.start()
        topic = ["--create", "--if-not-exists", "--topic", "orders", "--partitions", "4", "--replication-factor", "2"]
        wait(lambda: self.topics(*topic), LONG_S, "the topic")
        command = ["--topic", "orders", "--bootstrap-server", self.servers, "--throughput", "20", "--acks", "-1"]
        with open(self.sent, "wb") as sent:
            program = ["java", "-Xmx256m", "-cp", self.class_path, "org.apache.kafka.tools.VerifiableProducer", *command]
            self.producer = spawn.start(program, stdout=sent, stderr=sent)
        wait(self.acknowledged, LONG_S, "the first write")
        self.await_in_sync()

    def acknowledged(self):
        """The values of the acknowledged records."""
        lines = [line for line in self.sent.read_text(errors="replace").splitlines() if '"producer_send_success"' in line]
        return [json.loads(line)["value"] for line in lines if line.endswith("}")]

    def await_writes(self):
        """Ten writes from now on."""
        enough = len(self.acknowledged()) + 10
        wait(lambda: len(self.acknowledged()) >= enough, LONG_S, "ten writes")

    def await_in_sync(self):
        """Until every partition has both copies."""
        arguments = ["--describe", "--topic", "orders", "--under-replicated-partitions"]
        wait(lambda: "Partition:" not in self.topics(*arguments), LONG_S, "both copies in sync")

    def check_whole(self, began):
        """A new topic needs the controller, and thus the coordination service. No broker has lost its session."""
        self.topics("--create", "--topic", f"after-{began:.0f}", "--partitions", "1", "--replication-factor", "2")
        self.await_writes()
        self.await_in_sync()
        if lost := [broker.directory.name for broker in self.brokers if broker.lost_session()]:
            raise AssertionError(f"lost their sessions: {', '.join(lost)}")

    def broker_killed(self):
        """Kills the controller."""
        controller = wait(self.controller, LONG_S, "a controller")
        spawn.kill(controller.process)
        began = time.time()
        self.await_writes()
        took = time.time() - began
        wait(lambda: self.controller() not in (None, controller), LONG_S, "another controller")
        controller.start()
        self.await_in_sync()
        return f"ten writes after {took:.1f} s"

    def controller(self):
        """The broker that wrote last that it is the controller, if it runs."""
        running = [broker for broker in self.brokers if broker.process.poll() is None]
        found = [broker for broker in running if self.elections(broker)]
        return max(found, key=lambda broker: self.elections(broker)[-1], default=None)

    @staticmethod
    def elections(broker):
        """The epochs of this broker as the controller."""
        lines = broker.log_file.read_text(errors="replace").splitlines()
        won = "successfully elected as the controller. Epoch incremented to "
        return [int(line.split(won)[1].split()[0]) for line in lines if won in line]

    def nothing_lost(self):
        spawn.end(self.producer, 30)
        acknowledged = set(self.acknowledged())
        arguments = ["--bootstrap-server", self.servers, "--topic", "orders", "--from-beginning", "--timeout-ms", "15000"]
        stored = set(self.tool("consumer.ConsoleConsumer", *arguments, timeout_s=120).split())
        if lost := acknowledged - stored:
            raise AssertionError(f"{len(lost)} of {len(acknowledged)} acknowledged records lost, e.g. {min(lost)}")
        return f"{len(acknowledged)} records"


def run(ensemble, quick):
    with Cluster(ensemble) as cluster:
        faults = Coordination(ensemble, cluster.await_writes, cluster.check_whole)
        own = [(name, getattr(cluster, name)) for name in ("bootstrap", "broker_killed", "nothing_lost")]
        cases = scenarios([own[0], *faults.steps(), *own[1:]])
        if any(case.outcome == "failed" for case in cases):
            needs.keep_logs("kafka", [*cluster.brokers, *ensemble.members])
        return VERSION, cases
