"""Three nodes that require TLS on every port and a permission for every call."""

import ssl

from kit import words
from kit.holdfast import HoldfastEnsemble, HoldfastMember


class SecureMember(HoldfastMember):
    def configure(self):
        super().configure()
        pki = self.ensemble.pki
        section = (
            f'\n[tls]\ncert = "{pki}/node-{self.number}.pem"\nkey = "{pki}/node-{self.number}.key"\nca = "{pki}/ca.pem"\n'
            'min_version = "1.2"\n\n[zookeeper]\nclient_certificates = "request"\n'
        )
        config = self.directory / "node.toml"
        config.write_text(config.read_text() + section)


class SecureEnsemble(HoldfastEnsemble):
    member_class = SecureMember

    def __init__(self):
        super().__init__()
        self.pki = self.directory / "pki"
        self.certs("init", "--cluster", "conformance")
        for member in self.members:
            self.certs("node", f"node-{member.number}", "--host", "127.0.0.1,localhost")
        self.certs("client", "ci")

    def certs(self, *arguments):
        self.run("certs", *arguments, "--dir", self.pki)

    @property
    def ca(self):
        return self.pki / "ca.pem"

    def mode(self, address):
        return words.mode(address, ssl.create_default_context(cafile=self.ca))

    def admit(self, subject, permissions, *options):
        """Bootstraps access, and adds a subject with a role of these permissions. Returns its access token."""
        nodes = ["--addr", ",".join(self.http_addresses), "--cacert", self.ca]
        admin = self.directory / "admin.token"
        data = self.members[0].directory / "data"
        self.run("auth", "bootstrap", "--data-dir", data, "--out", admin, "--addr", self.http_addresses[0], *nodes[2:])
        nodes += ["--access-token-file", admin]
        self.run("auth", "role", "set", subject, *[word for text in permissions for word in ("--permission", text)], *nodes)
        self.run("auth", "subject", "set", subject, "--role", subject, *options, *nodes)
        return self.run("auth", "token", "new", subject, "-o", "value", *nodes)

    def guard(self):
        """Adds the subject `ci`, with an access token and a certificate. Returns the token."""
        permissions = ["lock acquire deploy/*", "tree write /locks/deploy", "tree write /locks/deploy/*", "tree read *", "metrics read"]
        return self.admit("ci", permissions, "--certificate", "CN=ci,O=conformance")
