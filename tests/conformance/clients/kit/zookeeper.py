"""The reference: a three-node ensemble of Debian's ZooKeeper 3.8.0."""

import os
import shutil

from kit import ports
from kit.ensemble import Ensemble, Member

JAR = "/usr/share/java/zookeeper.jar"
# The password of "super" is "test": what kazoo's own harness gives its ensemble.
SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="

LOG4J = """log4j.rootLogger=INFO, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} %-5p [%t:%C{1}@%L] - %m%n
"""

CONFIGURATION = """tickTime=2000
initLimit=10
syncLimit=5
dataDir={directory}/data
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
extendedTypesEnabled=true
reconfigEnabled=true
localSessionsEnabled={local_sessions}
localSessionsUpgradingEnabled={local_sessions}
{servers}
"""

SASL_PROVIDER = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
# The users that kazoo's tests know.
JAAS = """Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="super_secret"
    user_jaasuser="jaas_password";
};
"""


class ZooKeeperMember(Member):
    def __init__(self, number, directory, ensemble, client_port):
        super().__init__(number, directory, f"127.0.0.1:{client_port}")
        self.ensemble = ensemble

    def configure(self):
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(f"{self.number}\n")
        (self.directory / "log4j.properties").write_text(LOG4J)
        for written in self.directory.glob("zoo.cfg*"):
            written.unlink()
        text = CONFIGURATION.format(
            directory=self.directory,
            servers=self.ensemble.servers(),
            local_sessions="true" if self.ensemble.local_sessions else "false",
        )
        if self.ensemble.sasl:
            text += SASL_PROVIDER
            (self.directory / "jaas.conf").write_text(JAAS)
        (self.directory / "zoo.cfg").write_text(text)

    def environment(self):
        return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8"}

    def command(self):
        properties = {
            "java.awt.headless": "true",
            "file.encoding": "UTF-8",
            "readonlymode.enabled": "true",
            "log4j.configuration": f"file:{self.directory}/log4j.properties",
            "zookeeper.DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
        }
        if self.ensemble.sasl:
            properties["java.security.auth.login.config"] = str(self.directory / "jaas.conf")
        return [
            shutil.which("java") or "java",
            "-Xmx512m",
            *(f"-D{key}={value}" for key, value in properties.items()),
            "-cp",
            f"{JAR}:/usr/share/java/slf4j-log4j12.jar:/usr/share/java/log4j-1.2.jar",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self.directory / "zoo.cfg"),
        ]


class ZooKeeperEnsemble(Ensemble):
    name = "zookeeper"

    def __init__(self, size=3):
        super().__init__()
        self.local_sessions = False
        self.sasl = False
        chosen = ports.choose(3 * size)
        self.ports = [tuple(chosen[3 * i:3 * i + 3]) for i in range(size)]
        for number, (client, _, _) in enumerate(self.ports, start=1):
            directory = self.directory / f"member{number}"
            self.members.append(ZooKeeperMember(number, directory, self, client))

    def superuser(self):
        """The credentials of a client to which no access list applies."""
        return "super:test"

    def servers(self):
        """The ensemble, as zoo.cfg has it."""
        line = "server.{}=127.0.0.1:{}:{}:participant;127.0.0.1:{}"
        numbered = enumerate(self.ports, start=1)
        return "\n".join(line.format(number, peer, vote, client) for number, (client, peer, vote) in numbered)

    def switch(self, local_sessions, sasl):
        """Ends and empties the ensemble if it is configured otherwise; the next start has it as wanted."""
        if (local_sessions, sasl) != (self.local_sessions, self.sasl):
            self.reset()
            self.local_sessions, self.sasl = local_sessions, sasl
