"""The package as a user gets it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import List

import pytest
from conftest import Cluster

PACKAGE = Path(__file__).resolve().parent.parent
# Without PYTHONPATH, an environment has only what is installed in it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def output(command: List[str], folder: Path, **environment: str) -> str:
    run = subprocess.run(
        command, cwd=folder, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0 and not run.stderr, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and with the wheel that is built from its files."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("archives")
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, PACKAGE], check=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def python(archives: Path) -> str:
    """The interpreter of a new environment that has only the wheel."""
    venv.create(archives / "venv", with_pip=True)
    python = str(archives / "venv" / "bin" / "python")
    (wheel,) = archives.glob("*.whl")
    output([python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", str(wheel)], archives)
    return python


def test_both_apis_have_the_same_names() -> None:
    subprocess.run([sys.executable, str(PACKAGE / "scripts" / "blocking"), "--check"], check=True)


def test_an_environment_gets_every_module_with_types_and_no_test(archives: Path, python: str) -> None:
    program = "import holdfast, holdfast.aio, holdfast.fence; print(holdfast.__file__)"
    installed = Path(output([python, "-W", "error", "-c", program], archives).strip()).parent
    assert archives in installed.parents
    files = {str(path.relative_to(installed)) for path in installed.rglob("*.py")}
    assert files == {str(path.relative_to(PACKAGE / "holdfast")) for path in (PACKAGE / "holdfast").rglob("*.py")}
    assert (installed / "py.typed").exists()


def test_the_source_distribution_has_the_tests(archives: Path) -> None:
    (archive,) = archives.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert {str(path.relative_to(PACKAGE)) for path in (PACKAGE / "tests").glob("*.py")} <= names
    assert {"README.md", "pyproject.toml", "scripts/blocking"} <= names


def test_the_readme_runs(cluster: Cluster, archives: Path, python: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        block = block.replace('["10.0.0.1:7400", "10.0.0.2:7400", "10.0.0.3:7400"]', repr(cluster.addresses))
        addresses = ",".join(cluster.addresses)
        assert re.search(r"\d", output([python, "-W", "error", "-c", block], archives, HOLDFAST_ADDR=addresses))


def test_files_and_functions_are_short() -> None:
    for path in PACKAGE.glob("holdfast/**/*.py"):
        assert len(path.read_text().splitlines()) <= 400, path
