"""Runs the checks of kazoo and Curator against three secure nodes."""

from pathlib import Path

from kit import needs, spawn, table

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 180


def judge(ensemble):
    """Whether every check holds."""
    python = needs.python(HERE.parent / "kazoo" / "requirements.txt")
    class_path = needs.java_classes(HERE / "SecureCurator.java")
    needs.ensure("netty")
    ensemble.start()
    token = ensemble.guard()
    pki = ensemble.pki
    files = [ensemble.ca, pki / "ci.pem", pki / "ci.key"]
    kazoo = [python, HERE / "kazoo_checks.py", ensemble.connect_string, ensemble.http_addresses[0], *files, token]
    properties = {
        "zookeeper.client.secure": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.trustStore.location": ensemble.ca,
        "zookeeper.ssl.trustStore.type": "PEM",
    }
    options = [f"-D{name}={value}" for name, value in properties.items()]
    jars = ":".join([class_path, *needs.NETTY_JARS])
    curator = ["java", "-Xmx256m", *options, "-cp", jars, "SecureCurator", ensemble.connect_string, token]
    rows, all_hold = [], True
    for command in (kazoo, curator):
        code, output = spawn.run(command, TIMEOUT_S)
        results = [line.split(" ", 1) for line in output.splitlines() if line.startswith(("ok ", "FAILED "))]
        rows += results
        if code != 0 or not results or any(verdict != "ok" for verdict, _ in results):
            all_hold = False
            print(output[-3000:])
    table.show("ZooKeeper clients over TLS", ("verdict", "check"), rows)
    return all_hold
