"""What has to be installed, and how: by apt-get as root on Debian; elsewhere the names are said.

Owns the build directory too (`conformance` in cargo's target directory), where environments and programs stay
between runs. Nothing is written outside of it, but for the packages.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from kit import holdfast, zookeeper

JAVA = "/usr/share/java"
GO = "/usr/share/gocode/src"
CURATOR_JARS = [f"{JAVA}/curator-{part}.jar" for part in ("recipes", "framework", "client")]
# ZooKeeper's own lock recipe, of libzookeeper-java.
RECIPE_JARS = [f"{JAVA}/zookeeper-recipes-lock.jar"]
# The TLS of ZooKeeper's Java client.
NETTY_PARTS = "common buffer resolver transport transport-native-unix-common transport-native-epoll codec handler"
NETTY_JARS = [f"{JAVA}/netty-{part}.jar" for part in NETTY_PARTS.split()]
# A mark of presence (a path, or a command) for each package.
PACKAGES = {
    "venv": [("python3-venv", None)],
    "zookeeper": [
        ("default-jre-headless", "java"),
        ("libzookeeper-java", zookeeper.JAR),
        ("liblog4j1.2-java", f"{JAVA}/log4j-1.2.jar"),
        ("libslf4j-java", f"{JAVA}/slf4j-log4j12.jar"),
    ],
    "curator": [
        ("default-jdk-headless", "javac"),
        ("libcurator-recipes-java", CURATOR_JARS[0]),
        ("libcurator-framework-java", CURATOR_JARS[1]),
        ("libcurator-client-java", CURATOR_JARS[2]),
        ("libslf4j-java", f"{JAVA}/slf4j-nop.jar"),
    ],
    "c": [
        ("gcc", "cc"),
        ("libc6-dev", "/usr/include/stdio.h"),
        ("libzookeeper-mt2", "libzookeeper_mt.so.2"),
        ("libzookeeper-st2", "libzookeeper_st.so.2"),
        ("libzookeeper-mt-dev", "/usr/include/zookeeper/zookeeper.h"),
    ],
    "postgres": [("postgresql", "/usr/lib/postgresql")],
    "clickhouse": [("clickhouse-server", "clickhouse-server")],
    "maven": [("maven", "mvn"), ("default-jdk-headless", "javac")],
    "libkv": [
        ("golang-go", "go"),
        ("golang-github-docker-libkv-dev", f"{GO}/github.com/docker/libkv"),
        ("golang-github-stretchr-testify-dev", f"{GO}/github.com/stretchr/testify"),
    ],
    "netty": [("libnetty-java", NETTY_JARS[0])],
    "zkcli": [("zookeeper", "/usr/share/zookeeper/bin/zkCli.sh"), ("default-jre-headless", "java")],
}


class Missing(Exception):
    """A step that cannot run here, and what would let it."""


def build_directory():
    """Where programs are compiled to and environments live."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or holdfast.ROOT / "target")
    directory = (target / "conformance").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextlib.contextmanager
def _alone():
    """One run at a time installs or builds; another one waits."""
    with open(build_directory() / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_there(package, mark):
    if mark is None:
        return _venv_works()
    if mark.startswith("/"):
        return os.path.exists(mark)
    if ".so." in mark:
        return any((Path(place) / mark).exists() for place in _library_places())
    return shutil.which(mark) is not None


def _library_places():
    return [*Path("/usr/lib").glob("*-linux-gnu"), Path("/usr/lib"), Path("/usr/lib64")]


def _venv_works():
    probe = ["python3", "-c", "import venv, ensurepip"]
    return subprocess.run(probe, capture_output=True).returncode == 0


def ensure(*groups):
    """Installs what is missing of these groups; raises Missing with the command to run if that is not for us to do."""
    with _alone():
        _ensure(groups)


def _ensure(groups):
    wanted = dict(pair for group in groups for pair in PACKAGES[group])
    absent = [package for package, mark in wanted.items() if not _is_there(package, mark)]
    if not absent:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Missing(f"not installed: {' '.join(absent)}; on Debian, as root: apt-get install {' '.join(absent)}")
    print(f"installing {' '.join(absent)}", flush=True)
    _apt_get("update", "-q")
    _apt_get("install", "-qy", "--no-install-recommends", *absent)


def _apt_get(*arguments):
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    done = subprocess.run(["apt-get", *arguments], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"apt-get {' '.join(arguments)} failed:\n{(done.stdout + done.stderr)[-800:]}")


def debian_version(package):
    """The version of an installed package."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    return done.stdout or "unknown"


def keep_logs(name, servers):
    """Copies the logs of servers whose directories end with the run."""
    kept = build_directory() / name
    kept.mkdir(exist_ok=True)
    for server in servers:
        shutil.copy(server.log_file, kept / f"{server.directory.name}-{server.log_file.name}")
    print(f"  what the servers said: {kept}")


def python(requirements):
    """A Python of its own with what a requirements file names; made once per content of the file."""
    ensure("venv")
    with _alone():
        return _python(requirements.read_text(), build_directory() / f"python-{requirements.parent.name}")


def _python(text, directory):
    mark = directory / "installed.txt"
    found = directory / "bin" / "python"
    if mark.is_file() and mark.read_text() == text and found.exists():
        return found
    print("making a Python environment", flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    _checked(["python3", "-m", "venv", directory])
    for step in _steps(text):
        _checked([found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *step(directory)])
    mark.write_text(text)
    return found


def _steps(text):
    """If every line has a hash, they are installed as they are. Else those with a hash are installed by themselves, from
    source and without what they depend on, after the others."""
    blocks = [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    hashed = [line for line in blocks if "--hash" in line]
    plain = [line for line in blocks if "--hash" not in line]

    def from_source(directory):
        (directory / "hashed.txt").write_text("\n".join(hashed) + "\n")
        return ["--no-deps", "--no-binary", ":all:", "--require-hashes", "-r", directory / "hashed.txt"]

    def all_hashed(directory):
        (directory / "hashed.txt").write_text("\n".join(hashed) + "\n")
        return ["--only-binary", ":all:", "--require-hashes", "-r", directory / "hashed.txt"]

    return [lambda _: plain, from_source] if plain else [all_hashed]


def _checked(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Missing(f"{' '.join(map(str, command))} failed:\n{(done.stdout + done.stderr)[-1500:]}")


def java_classes(source, *more):
    """Compiles Java programs against Debian's jars; the class path to run them with."""
    ensure("curator")
    with _alone():
        return _java_classes(source, *more)


def _java_classes(source, *more):
    classes = build_directory() / "classes" / source.stem
    class_path = ":".join([*CURATOR_JARS, *RECIPE_JARS, f"{JAVA}/slf4j-api.jar", f"{JAVA}/slf4j-nop.jar"])
    sources = [source, *more]
    newest = max(path.stat().st_mtime for path in sources)
    compiled = classes / f"{source.stem}.class"
    if not compiled.exists() or compiled.stat().st_mtime < newest:
        classes.mkdir(parents=True, exist_ok=True)
        _checked(["javac", "-nowarn", "-Xlint:-options", "-d", classes, "-cp", class_path, *sources])
    return f"{classes}:{class_path}"


def maven_jars(pom):
    """A folder with the dependencies of a `pom.xml`, from Maven's registry."""
    ensure("maven")
    with _alone():
        directory = build_directory() / f"jars-{pom.parent.name}"
        mark = directory / "installed.xml"
        if not mark.is_file() or mark.read_text() != pom.read_text():
            shutil.rmtree(directory, ignore_errors=True)
            goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies"
            _checked(["mvn", "-q", "-B", "-f", pom, goal, f"-DoutputDirectory={directory}"])
            mark.write_text(pom.read_text())
        return directory


def java_with(source, jars):
    """Compiles a Java program against a folder of jars; the class path of the program alone."""
    with _alone():
        classes = build_directory() / "classes" / source.stem
        shutil.rmtree(classes, ignore_errors=True)
        classes.mkdir(parents=True)
        _checked(["javac", "-nowarn", "-d", classes, "-cp", f"{jars}/*", source])
        return classes


def c_program(source, library, *defines):
    """Compiles a C program against one of ZooKeeper's C clients (`mt` or `st`)."""
    ensure("c")
    with _alone():
        return _c_program(source, library, *defines)


def _c_program(source, library, *defines):
    program = build_directory() / source.stem
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-pthread", *(f"-D{name}" for name in defines)]
        _checked(["cc", *flags, "-o", program, source, f"-l:libzookeeper_{library}.so.2"])
    return program


def go_program(directory):
    """Compiles a Go program; its modules come from Go's module proxy, by the hashes in go.sum."""
    if not shutil.which("go"):
        raise Missing("not installed: go 1.19 or later")
    with _alone():
        program = build_directory() / f"{directory.parent.name}-go"
        newest = max(path.stat().st_mtime for path in directory.iterdir())
        if not program.exists() or program.stat().st_mtime < newest:
            _checked(["go", "build", "-mod=readonly", "-o", program, "."], cwd=directory)
        return program
