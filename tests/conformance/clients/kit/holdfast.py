"""What is judged: three `holdfast serve` processes, as `holdfast dev` would lay them out, on free ports."""

import os
import subprocess
from pathlib import Path

from kit import ports
from kit.ensemble import Ensemble, Member

ROOT = Path(__file__).resolve().parents[4]


def binary():
    """HOLDFAST_BIN, or what cargo has built last."""
    named = os.environ.get("HOLDFAST_BIN")
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    built = [target / profile / "holdfast" for profile in ("release", "debug")]
    found = [Path(named)] if named else sorted(
        (path for path in built if path.is_file()), key=lambda path: path.stat().st_mtime, reverse=True
    )
    if not found or not found[0].is_file():
        raise RuntimeError(
            f"there is no holdfast at {named or ' or '.join(map(str, built))}: "
            "run cargo build --release -p holdfast, or name one with HOLDFAST_BIN"
        )
    return found[0].resolve()


class HoldfastMember(Member):
    def __init__(self, number, directory, ensemble, http, zookeeper):
        super().__init__(number, directory, zookeeper)
        self.http = http
        self.ensemble = ensemble

    def configure(self):
        (self.directory / "data").mkdir(exist_ok=True)
        text = (
            f'cluster = "conformance"\nnode = {self.number}\ndata_dir = "{self.directory}/data"\n\n'
            f'[log]\nlevel = "info"\nformat = "text"\n{self.ensemble.extra()}{self.ensemble.table()}'
        )
        (self.directory / "node.toml").write_text(text)

    def environment(self):
        # Every variable HOLDFAST_* overrides a key of the file.
        return {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}

    def command(self):
        return [self.ensemble.binary, "serve", "--config", self.directory / "node.toml"]


class HoldfastEnsemble(Ensemble):
    name = "holdfast"
    member_class = HoldfastMember
    settings = ""

    def __init__(self, size=3):
        self.binary = binary()
        super().__init__()
        chosen = ports.choose(3 * size)
        self.addresses = [[f"127.0.0.1:{port}" for port in chosen[3 * i:3 * i + 3]] for i in range(size)]
        for number, (http, _, zookeeper) in enumerate(self.addresses, start=1):
            directory = self.directory / f"member{number}"
            self.members.append(self.member_class(number, directory, self, http, zookeeper))

    def table(self):
        """The members, as node.toml has them."""
        block = '\n[[member]]\nid = {}\nhttp = "{}"\npeer = "{}"\nzookeeper = "{}"\n'
        return "".join(block.format(number, *ports) for number, ports in enumerate(self.addresses, start=1))

    def extra(self):
        """More of node.toml: `settings`, and HOLDFAST_KIT_CONFIG (the name of a file) to judge another configuration."""
        named = os.environ.get("HOLDFAST_KIT_CONFIG")
        return f"{self.settings}\n" + (Path(named).read_text() + "\n" if named else "")

    def run(self, *arguments):
        """Runs a command of holdfast, and returns its output."""
        done = subprocess.run([self.binary, *arguments], capture_output=True, text=True, env=self.members[0].environment())
        if done.returncode != 0:
            raise RuntimeError(f"holdfast {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout.strip()

    def superuser(self):
        """The credentials of a client to which no access list applies. The other clients still need none."""
        header = self.directory / "superuser.token"
        if not header.exists():
            data = self.members[0].directory / "data"
            self.run("auth", "bootstrap", "--mode", "off", "--data-dir", data, "--out", header, "--addr", self.members[0].http)
        return "admin:" + header.read_text().split()[-1]

    @property
    def http_addresses(self):
        return [member.http for member in self.members]
