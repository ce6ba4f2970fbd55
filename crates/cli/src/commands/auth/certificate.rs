//! `holdfast auth certificate`: certificates that no port accepts.

use clap::{Args, Subcommand};
use holdfast_api::parameters::auth::DENY_REASON;
use holdfast_api::{DeniedCertificatesBody, Query, denied_certificate_path};
use holdfast_client::Call;
use holdfast_client::http::Method;
use holdfast_types::{CertificateId, Reason};

use crate::arguments::ClusterArgs;
use crate::commands::once;
use crate::exit::CommandFailure;
use crate::output::{answer_rows, table_or};

#[derive(Debug, Subcommand)]
pub(crate) enum CertificateCommand {
    /// Deny a certificate: its connections end, and no port accepts a new one.
    Deny(DenyArgs),
    /// End the denial of a certificate.
    Allow(OneCertificateArgs),
    /// List the denied certificates.
    Ls(ClusterArgs),
}

/// One certificate.
#[derive(Debug, Args)]
pub(crate) struct OneCertificateArgs {
    /// Its serial number, or sha256: and its fingerprint, as openssl x509 -serial -fingerprint -sha256 shows them.
    #[arg(value_name = "SERIAL|sha256:HEX")]
    certificate: CertificateId,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The reason, for the list and the audit trail.
    #[arg(long)]
    reason: Reason,
    #[command(flatten)]
    one: OneCertificateArgs,
}

pub(super) async fn run(command: CertificateCommand) -> Result<(), CommandFailure> {
    let (args, call) = match command {
        CertificateCommand::Deny(DenyArgs { reason, one }) => {
            let query = Query::default().with(&DENY_REASON, &reason);
            let target = query.target(&denied_certificate_path(&one.certificate));
            (one, Call::new(Method::PUT, target))
        }
        CertificateCommand::Allow(one) => {
            let target = denied_certificate_path(&one.certificate);
            (one, Call::new(Method::DELETE, target))
        }
        CertificateCommand::Ls(cluster) => return ls(&cluster).await,
    };
    once::send(&args.cluster.client()?, call).await
}

async fn ls(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let call = Call::get("/v1/auth/denied-certificates");
    let body: DeniedCertificatesBody = cluster.client()?.call(&call).await?;
    let rows = body.certificates.iter().map(|denied| {
        [denied.certificate.clone(), denied.denied_at.to_string(), denied.reason.clone()]
    });
    let text = table_or("no denied certificates", ["certificate", "denied", "reason"], rows);
    let ids = body.certificates.iter().map(|denied| &denied.certificate);
    answer_rows(cluster.format(), &body, &body.certificates, ids, &text);
    Ok(())
}
