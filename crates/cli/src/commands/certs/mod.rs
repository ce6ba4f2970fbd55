//! `holdfast certs`: a CA and certificates for those who have none.
//!
//! `authority` creates and writes certificates, `renew` replaces those that expire soon, and this file has the
//! other arguments and the output.

mod authority;
mod renew;

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, Subcommand};
use holdfast_tls::{CertificateInfo, certificates_of};
use serde::Serialize;

use self::authority::{Authority, CertificateOf, Pair, read, write_pair};
use crate::arguments::{self, Format, OutputArgs};
use crate::exit::CommandFailure;
use crate::output::{answer_rows, print, table};

/// Create and show certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// Create a certificate authority (CA).
    Init(CertsInitArgs),
    /// Create the certificate of a node.
    Node(CertsNodeArgs),
    /// Create the certificate of a client.
    Client(CertsClientArgs),
    /// Show certificates: the owner, the names and the validity.
    Show(CertsShowArgs),
    /// Fail if a certificate has expired or expires soon.
    #[command(
        after_help = "Exit codes: 0 if every certificate is valid for long enough, 1 otherwise."
    )]
    Check(renew::CertsCheckArgs),
    /// Replace certificates that expire soon by new ones with the same names.
    #[command(after_help = "Nodes use new certificates within 10 s.")]
    Renew(renew::CertsRenewArgs),
}

/// The default validity of the certificate of a node, days.
const NODE_DAYS: u32 = 365;
/// The default validity of the certificate of a client, days.
const CLIENT_DAYS: u32 = 90;

/// The directory of the CA and of new certificates.
#[derive(Debug, Args)]
pub(crate) struct DirectoryArgs {
    /// The directory of the CA and of new certificates.
    #[arg(long, value_name = "DIR", default_value = "pki")]
    dir: PathBuf,
    /// Replace existing files. Nodes use the new ones within 10 s.
    #[arg(long)]
    replace: bool,
    /// Keep existing files, and succeed.
    #[arg(long, conflicts_with = "replace")]
    keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CertsInitArgs {
    /// The name of the cluster.
    #[arg(long, default_value = "holdfast", value_parser = cluster_name)]
    cluster: String,
    /// The validity, days.
    #[arg(long, default_value_t = 3_650, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    #[command(flatten)]
    directory: DirectoryArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CertsNodeArgs {
    /// The name of the node, and of the new files.
    #[arg(value_parser = cluster_name)]
    name: String,
    /// The host names and IP addresses that clients and other nodes use for the node, separated by commas.
    #[arg(long, value_name = "HOST[,HOST]", value_delimiter = ',', required = true)]
    host: Vec<String>,
    /// The validity, days.
    #[arg(long, default_value_t = NODE_DAYS, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    #[command(flatten)]
    directory: DirectoryArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CertsClientArgs {
    /// The name of the client, and of the new files.
    #[arg(value_parser = cluster_name)]
    name: String,
    /// The validity, days.
    #[arg(long, default_value_t = CLIENT_DAYS, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    #[command(flatten)]
    directory: DirectoryArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CertsShowArgs {
    /// Files with certificates in PEM form.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(command: &CertsCommand) -> Result<(), CommandFailure> {
    match command {
        CertsCommand::Init(args) => init(args),
        CertsCommand::Node(args) => {
            let of = CertificateOf::Node { hosts: args.host.clone() };
            create(&args.name, &of, args.days, &args.directory)
        }
        CertsCommand::Client(args) => {
            create(&args.name, &CertificateOf::Client, args.days, &args.directory)
        }
        CertsCommand::Show(args) => show(args),
        CertsCommand::Check(args) => renew::check(args),
        CertsCommand::Renew(args) => renew::renew(args),
    }
}

/// Creates a CA and the certificates of these nodes of this machine, except those that exist.
pub fn create_missing(dir: &Path, cluster: &str, nodes: &[String]) -> Result<(), String> {
    const DAYS: u32 = 365;
    let failed = |failure: CommandFailure| failure.to_string();
    // A kill may leave a key without its certificate.
    let exists = |name: &str, kind| dir.join(format!("{name}.{kind}")).exists();
    let missing = |name: &str| !exists(name, "key") || !exists(name, "pem");
    // Without its certificate, the key of a CA may still have signed others.
    if missing("ca") && !nodes.iter().any(|name| exists(name, "pem")) {
        let pair = authority::new_authority(cluster, DAYS)?;
        write_pair(dir, "ca", &pair, true).map_err(failed)?;
    }
    let [certificate, key] = ["ca.pem", "ca.key"].map(|file| dir.join(file));
    let (certificate, key) = (read(&certificate).map_err(failed)?, read(&key).map_err(failed)?);
    let authority = Authority::open(&Pair { certificate, key })?;
    let hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    for name in nodes.iter().filter(|name| missing(name)) {
        let of = CertificateOf::Node { hosts: hosts.clone() };
        write_pair(dir, name, &authority.create(name, &of, DAYS)?, true).map_err(failed)?;
    }
    Ok(())
}

impl DirectoryArgs {
    /// Whether both files exist and stay.
    fn keeps(&self, name: &str) -> bool {
        let files = [format!("{name}.pem"), format!("{name}.key")];
        let all_exist = files.iter().all(|file| self.dir.join(file).exists());
        if self.keep && all_exist {
            print(&format!("kept: {}", self.dir.join(format!("{name}.pem")).display()));
        }
        self.keep && all_exist
    }
}

fn init(args: &CertsInitArgs) -> Result<(), CommandFailure> {
    if args.directory.keeps("ca") {
        return Ok(());
    }
    let dir = &args.directory;
    // A kill may have left the key alone, before it could sign anything.
    let replaces = dir.replace || dir.keep && !has_certificates(&dir.dir);
    let pair =
        authority::new_authority(&args.cluster, args.days).map_err(CommandFailure::Failed)?;
    let (certificate, key) = write_pair(&dir.dir, "ca", &pair, replaces)?;
    let (certificate, key) = (certificate.display(), key.display());
    print(&format!(
        "the certificate of the CA: {certificate}\nits private key: {key} (its owner can create certificates: keep it off the \
         nodes)\nnext: holdfast certs node NAME --host HOST"
    ));
    Ok(())
}

fn has_certificates(dir: &Path) -> bool {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    files.into_iter().any(|file| file.path().extension().is_some_and(|kind| kind == "pem"))
}

fn create(
    name: &str,
    of: &CertificateOf,
    days: u32,
    directory: &DirectoryArgs,
) -> Result<(), CommandFailure> {
    if name == "ca" {
        let reason = "ca.pem and ca.key are the files of the CA: give the certificate another name";
        return Err(CommandFailure::usage(reason));
    }
    if directory.keeps(name) {
        return Ok(());
    }
    let pair =
        open_authority(&directory.dir)?.create(name, of, days).map_err(CommandFailure::Failed)?;
    // A kill may have left the key without its certificate.
    let has_no_certificate = !directory.dir.join(format!("{name}.pem")).exists();
    let replaces = directory.replace || directory.keep && has_no_certificate;
    let (certificate, key) = write_pair(&directory.dir, name, &pair, replaces)?;
    print(&format!("certificate: {}\nprivate key: {}", certificate.display(), key.display()));
    Ok(())
}

fn open_authority(dir: &Path) -> Result<Authority, CommandFailure> {
    let [certificate, key] = ["ca.pem", "ca.key"].map(|file| dir.join(file));
    let pair = Pair { certificate: read(&certificate)?, key: read(&key)? };
    Authority::open(&pair)
        .map_err(|reason| CommandFailure::failed(format!("{}: {reason}", certificate.display())))
}

/// What `show` prints of a certificate.
#[derive(Debug, Serialize)]
struct ShownCertificate {
    file: PathBuf,
    subject: String,
    issuer: String,
    names: Vec<String>,
    days_left: u64,
    usage: String,
}

impl ShownCertificate {
    fn new(file: &Path, info: CertificateInfo, now: SystemTime) -> Self {
        let days_left = info.days_left(now);
        let uses = [(info.is_ca, "CA"), (info.for_servers, "server"), (info.for_clients, "client")];
        let uses: Vec<_> = uses.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        let usage = if info.is_ca { "CA".to_owned() } else { uses.join(", ") };
        let addresses = info.addresses.iter().map(IpAddr::to_string);
        let names = info.dns_names.into_iter().chain(addresses).chain(info.uris).collect();
        let (subject, issuer) = (info.subject, info.issuer);
        Self { file: file.to_owned(), subject, issuer, names, days_left, usage }
    }
}

fn show(args: &CertsShowArgs) -> Result<(), CommandFailure> {
    let now = SystemTime::now();
    let mut shown = Vec::new();
    for file in &args.files {
        let infos = infos_of(file)?.into_iter();
        shown.extend(infos.map(|info| ShownCertificate::new(file, info, now)));
    }
    show_table(args.output.format, &shown);
    Ok(())
}

/// The certificates of a file, at least one.
fn infos_of(file: &Path) -> Result<Vec<CertificateInfo>, CommandFailure> {
    let failed = |reason: String| CommandFailure::failed(format!("{}: {reason}", file.display()));
    let certificates = certificates_of(read(file)?.as_bytes()).map_err(failed)?;
    if certificates.is_empty() {
        return Err(failed("no certificate in PEM form".to_owned()));
    }
    let infos = certificates.iter().map(CertificateInfo::of);
    infos.collect::<Result<_, _>>().map_err(failed)
}

fn show_table(format: Format, shown: &[ShownCertificate]) {
    let rows = shown.iter().map(|certificate| {
        [
            certificate.file.display().to_string(),
            certificate.subject.clone(),
            certificate.names.join(", "),
            certificate.usage.clone(),
            certificate.days_left.to_string(),
            certificate.issuer.clone(),
        ]
    });
    let text = table(["file", "subject", "names", "usage", "days left", "issuer"], rows);
    let days = shown.iter().map(|certificate| certificate.days_left);
    answer_rows(format, &shown, shown, days, &text);
}

/// A name that is also a file name, which does not begin with a dot, and a part of a URI.
fn cluster_name(text: &str) -> Result<String, String> {
    // An empty name gets the error for every wrong one.
    arguments::cluster_name(if text.starts_with('.') { "" } else { text })
}
