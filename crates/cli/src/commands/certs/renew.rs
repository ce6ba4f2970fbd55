//! `holdfast certs check` and `certs renew`: certificates that expire soon.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use holdfast_tls::CertificateInfo;

use super::authority::{CertificateOf, write_pair};
use super::{
    CLIENT_DAYS, NODE_DAYS, ShownCertificate, cluster_name, infos_of, open_authority, show_table,
};
use crate::arguments::OutputArgs;
use crate::exit::CommandFailure;
use crate::output::print;

#[derive(Debug, Args)]
pub(crate) struct CertsCheckArgs {
    /// Files with certificates in PEM form.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The days that each certificate must still be valid.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=36_500))]
    days: u32,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CertsRenewArgs {
    /// The names of the certificates; by default all in the directory, without that of the CA.
    #[arg(value_parser = cluster_name)]
    names: Vec<String>,
    /// Renew only certificates that are valid for fewer days.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=36_500))]
    within: u32,
    /// The validity of the new certificates, days; by default 365 for a node and 90 for a client.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: Option<u32>,
    /// The directory of the CA and of the certificates.
    #[arg(long, value_name = "DIR", default_value = "pki")]
    dir: PathBuf,
}

pub(super) fn check(args: &CertsCheckArgs) -> Result<(), CommandFailure> {
    let now = SystemTime::now();
    let mut shown = Vec::new();
    let mut wrong = Vec::new();
    for file in &args.files {
        for info in infos_of(file)? {
            let left = info.days_left(now);
            let name = format!("{} ({})", file.display(), info.subject);
            if info.not_after <= now {
                wrong.push(format!("{name} has expired"));
            } else if info.not_before > now {
                wrong.push(format!("{name} is not valid yet"));
            } else if left < u64::from(args.days) {
                wrong.push(format!("{name} expires in {left} days"));
            }
            shown.push(ShownCertificate::new(file, info, now));
        }
    }
    show_table(args.output.format, &shown);
    if wrong.is_empty() { Ok(()) } else { Err(CommandFailure::Failed(wrong.join("; "))) }
}

pub(super) fn renew(args: &CertsRenewArgs) -> Result<(), CommandFailure> {
    let names = if args.names.is_empty() { names_in(&args.dir)? } else { args.names.clone() };
    if names.is_empty() {
        let dir = args.dir.display();
        return Err(CommandFailure::Failed(format!("{dir} has no certificate to renew")));
    }
    let authority = open_authority(&args.dir)?;
    let now = SystemTime::now();
    for name in names {
        let path = args.dir.join(format!("{name}.pem"));
        let failed =
            |reason: String| CommandFailure::Failed(format!("{}: {reason}", path.display()));
        let info = infos_of(&path)?.swap_remove(0);
        let left = info.days_left(now);
        if left >= u64::from(args.within) {
            print(&format!("{name}: kept, valid for {left} days"));
            continue;
        }
        let (of, days) = owner_of(&info, &name).map_err(failed)?;
        let days = args.days.unwrap_or(days);
        let pair = authority.create(&name, &of, days).map_err(failed)?;
        write_pair(&args.dir, &name, &pair, true)?;
        print(&format!("{name}: renewed, valid for {days} days"));
    }
    Ok(())
}

/// The names of the certificates with a key in a directory, without the CA.
fn names_in(dir: &Path) -> Result<Vec<String>, CommandFailure> {
    let failed = |error: std::io::Error| {
        CommandFailure::Failed(format!("cannot read {}: {error}", dir.display()))
    };
    let mut names = Vec::new();
    for file in std::fs::read_dir(dir).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        let is_certificate = path.extension().is_some_and(|extension| extension == "pem");
        let name = path.file_stem().and_then(|stem| stem.to_str());
        let name = name.filter(|name| *name != "ca" && is_certificate);
        names.extend(name.filter(|_| path.with_extension("key").exists()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// The owner of a certificate of `holdfast certs`, and the default validity in days of its next one.
fn owner_of(info: &CertificateInfo, name: &str) -> Result<(CertificateOf, u32), String> {
    let is = |kind: &str| {
        info.uris.iter().any(|uri| {
            let rest = uri.strip_prefix("holdfast://").and_then(|rest| rest.split_once('/'));
            rest.is_some_and(|(_, owner)| owner.split_once('/') == Some((kind, name)))
        })
    };
    if is("node") {
        let addresses = info.addresses.iter().map(std::net::IpAddr::to_string);
        let hosts = info.dns_names.iter().cloned().chain(addresses).collect();
        return Ok((CertificateOf::Node { hosts }, NODE_DAYS));
    }
    if is("client") {
        return Ok((CertificateOf::Client, CLIENT_DAYS));
    }
    Err(format!("it is not a certificate that 'holdfast certs' created for {name}"))
}
