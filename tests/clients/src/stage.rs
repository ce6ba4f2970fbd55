//! The cluster of a scenario with its operator, its files and its adapters.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use holdfast_client::AccessToken;
use holdfast_lab::Cluster;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::adapter::Adapter;
use crate::operator::Operator;
use crate::proxy::ClientProxies;
use crate::scenario::ClusterOptions;
use crate::value::Saved;

/// Everything that the steps of one scenario act on.
pub struct Stage {
    /// The nodes.
    pub cluster: Cluster,
    /// The driver's own caller.
    pub operator: Arc<Operator>,
    /// The answers that steps have saved.
    pub saved: Saved,
    /// The proxies of each client.
    pub proxies: BTreeMap<String, ClientProxies>,
    /// The adapters by the name of their process.
    pub adapters: BTreeMap<String, Adapter>,
    command: String,
    /// Certificates, and files of the scenario.
    pub files: TempDir,
}

impl Stage {
    /// Starts the cluster. Adapters start at their first call.
    ///
    /// # Errors
    /// If the certificates or the first administrator cannot be made.
    pub async fn start(options: &ClusterOptions, command: &str) -> Result<Self, String> {
        let files = tempfile::Builder::new().prefix("holdfast-clients-").tempdir();
        let files = files.map_err(|error| error.to_string())?;
        let mut saved = Saved::default();
        saved.insert("dir", json!(files.path()));
        let mut config = options.config.clone();
        if options.tls {
            make_certificates(files.path())?;
            let path = |name: &str| files.path().join(name).display().to_string();
            config.push_str(&tls_config(files.path()));
            saved.insert(
                "tls",
                json!({ "ca": path("ca.pem"), "certificate": path("ci.pem"), "key": path("ci.key") }),
            );
        }
        let builder = Cluster::of(options.nodes).extra(&config);
        let builder = if options.clocks { builder.with_own_clocks() } else { builder };
        let cluster = builder.start().await;
        let bases = || cluster.nodes().iter().map(|node| node.http.base().to_owned()).collect();
        let mut operator = Operator::new(bases(), None).map_err(|error| error.to_string())?;
        if options.auth {
            let proof = cluster.nodes()[0].prove_ownership();
            let line = format!("POST /v1/auth/bootstrap?mode=on&proof={proof}");
            let answer = operator.call(&line, None).await?;
            let secret = answer.body["token"].as_str().ok_or("no token of the administrator")?;
            saved.insert("operator", json!({ "secret": secret }));
            operator = Operator::new(bases(), Some(AccessToken::text(secret)))
                .map_err(|error| error.to_string())?;
        }
        Ok(Self {
            cluster,
            operator: Arc::new(operator),
            saved,
            proxies: BTreeMap::new(),
            adapters: BTreeMap::new(),
            command: command.to_owned(),
            files,
        })
    }

    /// The adapter's process with this name, started if it is not running.
    ///
    /// # Errors
    /// If it does not start.
    pub fn adapter(&mut self, name: &str) -> Result<&mut Adapter, String> {
        if !self.adapters.contains_key(name) {
            self.adapters.insert(name.to_owned(), Adapter::start(&self.command)?);
        }
        self.adapters.get_mut(name).ok_or_else(|| format!("no adapter {name}"))
    }

    /// The saved answers, and an adapter.
    ///
    /// # Errors
    /// If the adapter does not start.
    pub fn saved_and_adapter(&mut self, name: &str) -> Result<(&Saved, &mut Adapter), String> {
        self.adapter(name)?;
        let adapter = self.adapters.get_mut(name).ok_or_else(|| format!("no adapter {name}"))?;
        Ok((&self.saved, adapter))
    }

    /// Starts the proxies of a client to some nodes, all by default, and returns their addresses.
    ///
    /// # Errors
    /// If the address of a node is invalid.
    pub async fn connect(&mut self, client: &str, nodes: &[u64]) -> Result<Vec<String>, String> {
        let known = self.cluster.nodes().iter();
        let known = known.filter(|node| nodes.is_empty() || nodes.contains(&node.id));
        let targets: Result<Vec<SocketAddr>, String> =
            known.map(|node| address(node.http.base())).collect();
        let proxies = ClientProxies::start(targets?).await;
        let addresses = proxies.addresses().iter().map(SocketAddr::to_string).collect();
        self.proxies.insert(client.to_owned(), proxies);
        Ok(addresses)
    }

    /// The id of the leader, as a node that answers knows it.
    pub async fn leader(&self) -> Option<u64> {
        self.operator.read("/v1/cluster").await?["leader"].as_u64()
    }
}

fn address(base: &str) -> Result<SocketAddr, String> {
    let address = base.trim_start_matches("http://");
    address.parse().map_err(|_| format!("{base} is no address"))
}

fn tls_config(dir: &Path) -> String {
    let path = |name: &str| Value::from(dir.join(name).display().to_string());
    let (cert, key, ca) = (path("node-1.pem"), path("node-1.key"), path("ca.pem"));
    // The laboratory calls the nodes without TLS.
    format!(
        "\n[tls]\ncert = {cert}\nkey = {key}\nca = {ca}\n\n[http]\ntls = \"allow\"\nclient_certificates = \"request\"\n"
    )
}

/// Makes an authority, a certificate of node 1 and one of a client.
fn make_certificates(dir: &Path) -> Result<(), String> {
    let run = |args: &[&str]| {
        let mut command = Command::new(holdfast_lab::binary());
        let output = command.arg("certs").args(args).output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or_else(|| format!("certs {args:?}: {text}"))
    };
    let dir = dir.display().to_string();
    run(&["init", "--cluster", "laboratory", "--dir", &dir])?;
    run(&["node", "node-1", "--host", "127.0.0.1,localhost", "--dir", &dir])?;
    run(&["client", "ci", "--dir", &dir])
}

/// How long a node may take to start or to elect a leader.
pub const NODE_TIME: Duration = Duration::from_secs(20);
