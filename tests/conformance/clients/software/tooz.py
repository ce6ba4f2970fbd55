"""tooz: its own tests of locks, groups, elections and partitions. OpenStack's services coordinate through it."""

import os
from pathlib import Path

from software.case import unittests

HERE = Path(__file__).resolve().parent
VERSION = "9.1.0"


def run(ensemble, quick):
    # One node of the three: the tests read at once what another session wrote, and ZooKeeper promises this only to
    # clients of one server.
    address = ensemble.members[0].address
    environment = dict(os.environ, TOOZ_TEST_URL=f"zookeeper://{address}?timeout=10")
    modules = ["tooz.tests.test_coordination", "tooz.tests.test_partitioner"]
    return VERSION, unittests(HERE / "requirements.txt", modules, environment)
