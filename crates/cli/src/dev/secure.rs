//! The certificates and the administrator of `holdfast dev --secure`.

use std::path::{Path, PathBuf};

use holdfast_client::http::ClientTls;
use holdfast_client::{AccessToken, Client};

/// The files of a secure development cluster.
pub struct SecureFiles {
    pki: PathBuf,
    /// The access token of the administrator, as the header that `curl -H @FILE` sends.
    pub(super) token: PathBuf,
}

impl SecureFiles {
    pub(super) fn new(dir: &Path) -> Self {
        Self { pki: dir.join("pki"), token: dir.join("admin.token") }
    }

    /// The certificate of the CA.
    pub fn ca(&self) -> PathBuf {
        self.pki.join("ca.pem")
    }

    /// Creates the CA and the certificates of the nodes, unless they exist.
    pub(super) fn create(
        &self,
        cluster: &str,
        nodes: impl Iterator<Item = u64>,
    ) -> Result<(), String> {
        let nodes: Vec<String> = nodes.map(|node| format!("node-{node}")).collect();
        crate::create_missing(&self.pki, cluster, &nodes)
    }

    /// The section `[tls]` of a node.
    pub(super) fn section(&self, node: u64) -> String {
        let path = |file: String| toml::Value::from(self.pki.join(file).display().to_string());
        let [cert, key] = ["pem", "key"].map(|kind| path(format!("node-{node}.{kind}")));
        let ca = path("ca.pem".to_owned());
        format!("\n[tls]\ncert = {cert}\nkey = {key}\nca = {ca}\n")
    }

    /// A client of one node, with the access token if there is one.
    pub(super) fn client(&self, endpoint: &str) -> Result<Client, String> {
        let ca = self.ca();
        let pem = std::fs::read(&ca).map_err(|error| format!("{}: {error}", ca.display()))?;
        let mut builder =
            Client::builder([endpoint]).tls(ClientTls { ca: Some(pem), identity: None });
        if let Ok(token) = AccessToken::file(&self.token) {
            builder = builder.access_token(token);
        }
        builder.build().map_err(|error| error.to_string())
    }
}
