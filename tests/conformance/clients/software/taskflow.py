"""taskflow: its own tests of job boards, persistence and conductors on ZooKeeper."""

import os
from pathlib import Path

from software.case import unittests

HERE = Path(__file__).resolve().parent
VERSION = "6.5.0"
MODULES = ["jobs.test_zk_job", "persistence.test_zk_persistence", "test_conductors"]


def run(ensemble, quick):
    port = ensemble.members[0].address.rsplit(":", 1)[1]
    environment = dict(os.environ, TASKFLOW_TEST_ZOOKEEPER_PORT=port)
    modules = [f"taskflow.tests.unit.{module}" for module in MODULES]
    version, cases = VERSION, unittests(HERE / "requirements.txt", modules, environment)
    if not any(case.outcome == "passed" and "Zookeeper" in case.name for case in cases):
        raise RuntimeError("taskflow found no server: no test of its ZooKeeper classes ran")
    return version, cases
