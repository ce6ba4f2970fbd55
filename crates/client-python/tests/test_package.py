"""The package as a user gets it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import Cluster

PACKAGE = Path(__file__).resolve().parent.parent


def test_both_apis_have_the_same_names() -> None:
    subprocess.run([sys.executable, str(PACKAGE / "scripts" / "blocking"), "--check"], check=True)


def test_the_readme_runs(cluster: Cluster) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        block = block.replace('["10.0.0.1:7400", "10.0.0.2:7400", "10.0.0.3:7400"]', repr(cluster.addresses))
        environment = {**os.environ, "HOLDFAST_ADDR": ",".join(cluster.addresses)}
        run = subprocess.run(
            [sys.executable, "-W", "error", "-c", block], env=environment, capture_output=True, text=True, timeout=60
        )
        assert run.returncode == 0 and not run.stderr, run.stderr
        assert re.search(r"\d", run.stdout)


def test_files_and_functions_are_short() -> None:
    for path in PACKAGE.glob("holdfast/**/*.py"):
        assert len(path.read_text().splitlines()) <= 400, path
