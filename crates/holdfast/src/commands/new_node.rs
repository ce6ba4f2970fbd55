//! `holdfast init` and `holdfast join`: prepare the data directory of a new node. They call no node.
//!
//! `init` writes an operator's permission for a new cluster. `join` writes the configuration file and the data directory of an
//! invited member from its join token.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use holdfast_api::JoinToken;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::new_file::{Existing, NewFile, as_owner_of};
use holdfast_cli::output;
use holdfast_raft::{JoinRequest, write_join_request};
use holdfast_tls::TlsFiles;
use holdfast_types::{MemberAddresses, NodeId};
use toml::Value;

/// Permit one node with an empty data directory to create a new cluster.
#[derive(Debug, Args)]
#[command(
    after_help = "Run it once, for one node of a new cluster, before or after its start. Never run it when a cluster has lost its data \
                  directories: bring them back, or restore a backup."
)]
pub(crate) struct InitArgs {
    /// The data directory of the node.
    #[arg(long, env = "HOLDFAST_DATA_DIR", value_name = "DIR")]
    data_dir: PathBuf,
}

/// Writes the file.
///
/// # Errors
/// [`CommandFailure::Failed`] if the directory belongs to a cluster, or cannot be written.
pub(crate) fn init(args: &InitArgs) -> Result<(), CommandFailure> {
    as_owner_of(&args.data_dir, || holdfast_raft::permit_new_cluster(&args.data_dir))?
        .map_err(CommandFailure::failed)?;
    output::print("the node may create a new cluster: it does so when all members run");
    Ok(())
}

/// Prepare this machine for an invited member.
#[derive(Debug, Args)]
#[command(
    after_help = "The join token is that of 'holdfast member add'. For TLS, first create a certificate for the new node: holdfast certs node node-ID --host HOST. Then name its files with --cert, --key and --ca."
)]
pub(crate) struct JoinArgs {
    /// The file with the join token; - for stdin.
    #[arg(value_name = "FILE")]
    token: PathBuf,
    /// The configuration file to write. It must not exist.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The data directory of the node. It must be empty.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// The certificate of the node, in PEM form. The configuration names the files by their absolute paths.
    #[arg(long, value_name = "FILE", requires = "key", requires = "ca")]
    cert: Option<PathBuf>,
    /// The private key of the certificate.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// The certificates of the CAs.
    #[arg(long, value_name = "FILE", requires = "cert")]
    ca: Option<PathBuf>,
}

/// Writes the files.
///
/// # Errors
/// [`CommandFailure::Usage`] for a damaged token, [`CommandFailure::Failed`] if a file cannot be written.
pub(crate) fn join(args: &JoinArgs) -> Result<(), CommandFailure> {
    let token: JoinToken = read(&args.token)?.parse().map_err(CommandFailure::usage)?;
    let request = JoinRequest {
        cluster: token.cluster.clone(),
        cluster_id: token.cluster_id().map_err(CommandFailure::usage)?,
        node: token.node,
        secret: token.secret().map_err(CommandFailure::usage)?,
    };
    let certificate = certificate(args)?;
    let existing = Existing::Kept { advice: "name a new file with --config" };
    let mut new = NewFile::create(&args.config, existing, 0o644)?;
    as_owner_of(&args.data_dir, || write_join_request(&args.data_dir, &request))?
        .map_err(CommandFailure::failed)?;
    let text = config(&absolute(&args.data_dir)?, certificate.as_ref(), &token);
    new.write(text.as_bytes())?;
    new.publish()?;
    let file = args.config.display();
    output::print(&format!(
        "node {} of cluster {} is ready to join. Start it:\n\n  holdfast serve --config {file}",
        token.node, token.cluster
    ));
    Ok(())
}

fn read(path: &Path) -> Result<String, CommandFailure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    read.map_err(|error| CommandFailure::failed(format!("{}: {error}", path.display())))
}

/// A node can start in another directory than this command.
fn absolute(path: &Path) -> Result<PathBuf, CommandFailure> {
    std::path::absolute(path)
        .map_err(|error| CommandFailure::usage(format!("{}: {error}", path.display())))
}

/// The files of the certificate, read and checked as the node will do it.
fn certificate(args: &JoinArgs) -> Result<Option<TlsFiles>, CommandFailure> {
    let (Some(certificate), Some(key), Some(ca)) = (&args.cert, &args.key, &args.ca) else {
        return Ok(None);
    };
    let files = TlsFiles {
        certificate: absolute(certificate)?,
        key: absolute(key)?,
        ca: Some(absolute(ca)?),
    };
    files.check_now().map_err(CommandFailure::usage)?;
    Ok(Some(files))
}

fn config(data_dir: &Path, certificate: Option<&TlsFiles>, token: &JoinToken) -> String {
    let quoted = |path: &Path| Value::from(path.display().to_string());
    let cluster = Value::from(token.cluster.clone());
    let (node, data_dir) = (token.node, quoted(data_dir));
    let tls = certificate.map_or_else(String::new, |TlsFiles { certificate, key, ca }| {
        let [certificate, key] = [certificate, key].map(|path| quoted(path));
        let ca = ca.as_ref().map_or_else(String::new, |ca| format!("ca = {}\n", quoted(ca)));
        format!("\n[tls]\ncert = {certificate}\nkey = {key}\n{ca}")
    });
    let member = |(id, member): (&NodeId, &MemberAddresses)| {
        let MemberAddresses { peer, http, zookeeper } = member;
        format!(
            "\n[[member]]\nid = {id}\nhttp = \"{http}\"\npeer = \"{peer}\"\nzookeeper = \"{zookeeper}\"\n"
        )
    };
    let members: String = token.members.iter().map(member).collect();
    format!(
        "# Written by `holdfast join`. docs/configuration.md explains every key.\n\
         # The cluster keeps its members: later changes are made with `holdfast member`, not here.\n\
         cluster = {cluster}\nnode = {node}\ndata_dir = {data_dir}\nbootstrap = \"join\"\n{tls}{members}"
    )
}
