//! Arguments that several commands share, and the parsers of their values.

use std::path::{self, Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use holdfast_client::http::ClientTls;
use holdfast_client::{AccessToken, Client, ClientBuilder, Error};
use holdfast_tls::TlsConnector;
use holdfast_types::{FencingToken, LockName, NodeId};

use crate::exit::{CommandFailure, is_wrong_input, with_hint};
use crate::hints::common_hint;

const HTTPS: &str = "https://";

/// The nodes that the command calls.
static CALLED: OnceLock<NodesArgs> = OnceLock::new();

/// Returns the nodes that the command called, if any.
pub fn called_nodes() -> Option<&'static NodesArgs> {
    CALLED.get()
}

/// The nodes of the cluster.
#[derive(Clone, Debug, Args)]
pub struct NodesArgs {
    /// HTTP addresses of one or more nodes, separated by commas; any node serves the whole cluster.
    #[arg(
        long,
        env = "HOLDFAST_ADDR",
        value_name = "ADDR[,ADDR]",
        value_delimiter = ',',
        default_value = "127.0.0.1:7400"
    )]
    pub addr: Vec<String>,
    #[command(flatten)]
    pub credentials: CredentialArgs,
}

/// How this client trusts the nodes, and how it proves who it is.
#[derive(Clone, Debug, Default, Args)]
pub struct CredentialArgs {
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    access_token: AccessTokenArgs,
}

/// The access token. No option has its text: other users of the machine can see the arguments of a process.
#[derive(Clone, Debug, Default, Args)]
struct AccessTokenArgs {
    /// The file with the access token; `HOLDFAST_ACCESS_TOKEN` has the token itself.
    #[arg(long, env = "HOLDFAST_ACCESS_TOKEN_FILE", value_name = "FILE")]
    access_token_file: Option<PathBuf>,
}

impl CredentialArgs {
    /// Reads the access token; `None` if there is none.
    pub fn access_token(&self) -> Result<Option<AccessToken>, CommandFailure> {
        if let Some(path) = &self.access_token.access_token_file {
            let unusable = |error| CommandFailure::usage(format!("{}: {error}", path.display()));
            return AccessToken::file(path).map(Some).map_err(unusable);
        }
        let token = std::env::var("HOLDFAST_ACCESS_TOKEN").ok();
        Ok(token.filter(|token| !token.is_empty()).map(AccessToken::text))
    }

    /// The variables that give another process of this program the same arguments.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, PathBuf)> {
        let file = self.access_token.access_token_file.as_deref();
        let files =
            self.tls.variables().chain(file.map(|file| ("HOLDFAST_ACCESS_TOKEN_FILE", file)));
        // The command may change its directory.
        files.map(|(name, file)| (name, path::absolute(file).unwrap_or_else(|_| file.to_owned())))
    }
}

/// TLS to the nodes.
#[derive(Clone, Debug, Default, Args)]
pub struct TlsArgs {
    /// The certificates of the CAs that sign the nodes' certificates, in PEM form. Addresses without a scheme then mean https.
    #[arg(long, env = "HOLDFAST_CACERT", value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// The certificate of this client, in PEM form.
    #[arg(long, env = "HOLDFAST_CERT", value_name = "FILE", requires = "cert_key")]
    cert: Option<PathBuf>,
    /// The private key of this client, in PEM form.
    #[arg(long, env = "HOLDFAST_CERT_KEY", value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Reads the files; `None` without arguments.
    fn read(&self) -> Result<Option<ClientTls>, CommandFailure> {
        let read = |path: &PathBuf| {
            std::fs::read(path)
                .map_err(|error| CommandFailure::usage(format!("{}: {error}", path.display())))
        };
        let ca = self.cacert.as_ref().map(read).transpose()?;
        if let (Some(path), Some(pem)) = (&self.cacert, &ca)
            && !String::from_utf8_lossy(pem).contains("BEGIN CERTIFICATE")
        {
            let path = path.display();
            return Err(CommandFailure::usage(format!("{path} has no certificate in PEM form")));
        }
        let identity = match (&self.cert, &self.cert_key) {
            (Some(cert), Some(key)) => Some([read(cert)?, read(key)?].concat()),
            _ => None,
        };
        let is_given = ca.is_some() || identity.is_some();
        Ok(is_given.then_some(ClientTls { ca, identity }))
    }

    /// For a caller without an HTTP library; `None` without the certificates of a CA.
    pub fn connector(&self) -> Result<Option<TlsConnector>, CommandFailure> {
        let Some(ca) = &self.cacert else { return Ok(None) };
        let connector = match (&self.cert, &self.cert_key) {
            (Some(cert), Some(key)) => TlsConnector::open_as(ca, cert, key),
            _ => TlsConnector::open(ca),
        };
        connector.map(Some).map_err(CommandFailure::usage)
    }

    fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let all = [
            ("HOLDFAST_CACERT", &self.cacert),
            ("HOLDFAST_CERT", &self.cert),
            ("HOLDFAST_CERT_KEY", &self.cert_key),
        ];
        all.into_iter().filter_map(|(name, path)| Some((name, path.as_deref()?)))
    }
}

impl NodesArgs {
    /// The same arguments for one node. If an address of these has the scheme https, one without a scheme gets it.
    #[must_use]
    pub fn only(&self, address: &str) -> Self {
        let address = address.trim();
        let needs_scheme = self.names_https() && !address.contains("://");
        let scheme = if needs_scheme { HTTPS } else { "" };
        Self { addr: vec![format!("{scheme}{address}")], credentials: self.credentials.clone() }
    }

    /// The failure of calls of single nodes. It names the addresses, if there are several.
    pub(crate) fn failure(&self, mut failed: Vec<(&str, Error)>) -> CommandFailure {
        if self.addr.len() == 1
            && let Some((_, error)) = failed.pop()
        {
            return error.into();
        }
        let reason = |(address, error): &(&str, Error)| {
            format!("{address}: {}", with_hint(error, common_hint(error)))
        };
        let reasons = failed.iter().map(reason).collect::<Vec<_>>().join("; ");
        if failed.iter().all(|(_, error)| is_wrong_input(error)) {
            return CommandFailure::usage(reasons);
        }
        CommandFailure::failed(reasons)
    }

    /// Reads the certificates; `None` for calls without TLS. Without the certificates of a CA, the system's CAs count.
    pub fn tls(&self) -> Result<Option<ClientTls>, CommandFailure> {
        let tls = self.credentials.tls.read()?;
        Ok(tls.or_else(|| self.names_https().then(ClientTls::default)))
    }

    fn names_https(&self) -> bool {
        self.addr.iter().any(|address| address.trim_start().starts_with(HTTPS))
    }

    pub fn client(&self) -> Result<Client, CommandFailure> {
        self.client_with(|builder| builder)
    }

    pub fn client_with(
        &self,
        options: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Client, CommandFailure> {
        drop(CALLED.set(self.clone()));
        let mut builder = Client::builder(&self.addr);
        if let Some(tls) = self.tls()? {
            builder = builder.tls(tls);
        }
        if let Some(token) = self.credentials.access_token()? {
            builder = builder.access_token(token);
        }
        let client = options(builder).build();
        client.map_err(|error| {
            CommandFailure::usage(format!("{error}; see --addr and HOLDFAST_ADDR"))
        })
    }
}

/// The nodes of the cluster, and the format of the output.
#[derive(Clone, Debug, Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    pub nodes: NodesArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl ClusterArgs {
    pub fn client(&self) -> Result<Client, CommandFailure> {
        self.nodes.client()
    }

    /// A client for reads that return at once. A node without a leader answers after 5 s, which this client awaits.
    pub(crate) fn quick_client(&self) -> Result<Client, CommandFailure> {
        self.nodes.client_with(|builder| builder.request_timeout(Duration::from_secs(7)))
    }

    pub fn format(&self) -> Format {
        self.output.format
    }
}

/// The format of the output.
#[derive(Clone, Debug, Args)]
pub struct OutputArgs {
    /// The format of the output.
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// The output format of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text and tables for people.
    Table,
    /// One JSON document: the body of the HTTP API.
    Json,
    /// One JSON document for each row or event.
    Jsonl,
    /// Only the most important value, for shell variables.
    Value,
}

/// One lock.
#[derive(Debug, Args)]
pub(crate) struct OneLockArgs {
    /// The name, which may contain '/'.
    pub name: LockName,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// One latch, barrier, counter or group.
#[derive(Debug, Args)]
pub(crate) struct RecipeArgs {
    /// The name, which may contain '/'.
    pub name: String,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// The user for nodes with access lists.
#[derive(Debug, Args)]
pub(crate) struct UserArgs {
    /// The user and the password, for nodes with access lists.
    #[arg(long, env = "HOLDFAST_USER", value_name = "NAME:PASSWORD", hide_env_values = true, value_parser = user)]
    user: Option<String>,
}

impl UserArgs {
    /// The header that authenticates the user.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let header =
            |user| ("authorization".to_owned(), format!("Basic {}", STANDARD.encode(user)));
        self.user.iter().map(header).collect()
    }
}

fn user(text: &str) -> Result<String, String> {
    let error = || "write NAME:PASSWORD, with a colon".to_owned();
    text.contains(':').then(|| text.to_owned()).ok_or_else(error)
}

/// The name of a cluster, as in its configuration.
pub fn cluster_name(text: &str) -> Result<String, String> {
    let error = || "write letters, digits, '-', '_' and '.', at most 64".to_owned();
    let is_name = !text.is_empty() && is_cluster_name(text);
    is_name.then(|| text.to_owned()).ok_or_else(error)
}

/// The id of a node, as in its configuration.
pub fn node_id(text: &str) -> Result<NodeId, String> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.map(NodeId).ok_or_else(|| format!("{text} is not a node id: write a whole number from 1"))
}

pub(crate) fn fencing_token(text: &str) -> Result<FencingToken, String> {
    let token = text.parse().ok().filter(|token| (1..FencingToken::END).contains(token));
    token.map(FencingToken).ok_or_else(|| format!("{text:?} is not a token, such as 4711"))
}

/// Returns a value that may be secret, or the content of the file for `@FILE`. Other users of the machine can see the
/// arguments of a process.
pub fn text_or_file(text: &str) -> Result<String, String> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    Ok(text.trim().to_owned())
}

pub fn duration(text: &str) -> Result<Duration, String> {
    holdfast_api::parse_duration(text).map_err(|error| error.to_string())
}

pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

/// The length of a list.
pub(crate) fn list_length(text: &str) -> Result<usize, String> {
    let parsed = text.parse().ok().filter(|count| (1..=1_000).contains(count));
    parsed.ok_or_else(|| format!("{text} is not a number from 1 to 1000"))
}

/// The name of the probe lock of `doctor`, without `--probe`.
pub const PROBE: &str = "holdfast-doctor";

/// Whether a text is the name of a cluster: letters, digits, `-`, `_` and `.`, at most 64 bytes.
pub fn is_cluster_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= 64 && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_scheme_means_https_if_another_one_has_it() {
        let nodes = |addr: &[&str]| NodesArgs {
            addr: addr.iter().map(|address| (*address).to_owned()).collect(),
            credentials: CredentialArgs::default(),
        };
        let secure = nodes(&["a:1", "https://b:1"]);
        assert!(secure.tls().unwrap().is_some());
        assert_eq!(secure.only("c:1").addr, ["https://c:1"]);
        assert_eq!(secure.only("http://c:1").addr, ["http://c:1"]);
        assert_eq!(secure.only(" c:1").addr, ["https://c:1"]);
        let plain = nodes(&["a:1", "http://b:1"]);
        assert!(plain.tls().unwrap().is_none());
        assert_eq!(plain.only("c:1").addr, ["c:1"]);
    }
}
