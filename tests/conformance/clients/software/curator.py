"""Curator: its own tests of its recipes and its framework. Only the server that each test starts is replaced.

Tests of `TestingCluster` start an ensemble of ZooKeeper themselves, which tests nothing here: they are left out.
"""

import os
import subprocess
import xml.etree.ElementTree
import zipfile
from pathlib import Path

from kit import needs, spawn
from software.case import Case

HERE = Path(__file__).resolve().parent / "curator"
VERSION = "5.9.0"
# Its tests set the same of their own server.
SETTINGS = """
[tree]
container_idle = "1s"
sweep_every = "100ms"
"""
CLASS_TIMEOUT_S = 900


def run(ensemble, quick):
    jars = needs.maven_jars(HERE / "pom.xml")
    replaced = needs.java_with(HERE / "TestingServer.java", jars)
    wanted = os.environ.get("HOLDFAST_CURATOR_TESTS")
    names = wanted.split(",") if wanted else sorted(classes(jars))
    cases = []
    for name in names:
        found = run_class(name, f"{replaced}:{jars}/*", ensemble)
        failed = [case.name for case in found if case.outcome == "failed"]
        print(f"  {name}: {len(found)} cases, {len(failed)} failed {' '.join(failed)}", flush=True)
        cases += found
    return VERSION, cases


def classes(jars):
    """Test classes of both modules."""
    for jar in Path(jars).glob("curator-*-tests.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                simple = name.rsplit("/", 1)[-1]
                if simple.startswith("Test") and simple.endswith(".class") and "$" not in simple:
                    if b"curator/test/TestingCluster" not in archive.read(name):
                        yield name.removesuffix(".class").replace("/", ".")


def run_class(name, class_path, ensemble):
    """Each class in a process of its own, so that one that hangs is one failed case."""
    reports = needs.build_directory() / "curator-reports" / ensemble.name / name
    subprocess.run(["rm", "-rf", reports], check=True)
    command = [
        "java", "-Xmx512m", f"-Dnode={ensemble.members[0].address}", f"-Dsuperuser={ensemble.superuser()}",
        "-Dcurator-log-only-first-connection-issue-as-error-level=true",
        "-cp", class_path, "org.junit.platform.console.ConsoleLauncher", "--select-class", name,
        "--reports-dir", reports, "--details", "none", "--disable-banner",
    ]
    code, output = spawn.run(command, CLASS_TIMEOUT_S)
    cases = [case for report in reports.glob("*.xml") for case in read(report)]
    if code is None:
        cases.append(Case(f"{name}.all", "failed", CLASS_TIMEOUT_S, "did not end"))
    elif code not in (0, 1) or not reports.is_dir():
        cases.append(Case(f"{name}.all", "failed", 0, output[-400:]))
    return cases


def read(report):
    for found in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        problem = next((found.find(kind) for kind in ("failure", "error") if found.find(kind) is not None), None)
        outcome = "failed" if problem is not None else "skipped" if found.find("skipped") is not None else "passed"
        name = f"{found.get('classname').rsplit('.', 1)[-1]}.{found.get('name').removesuffix('()')}"
        note = " ".join((problem.get("message") or problem.text or "").split())[:200] if problem is not None else ""
        yield Case(name, outcome, float(found.get("time") or 0), note)
