//! `holdfast auth subject`: who calls.

use clap::{Args, Subcommand};
use holdfast_api::parameters::auth::{CERTIFICATES, CLOSE_SESSIONS, ROLES};
use holdfast_api::{Query, SubjectsBody, subject_path};
use holdfast_client::Call;
use holdfast_client::http::Method;
use holdfast_types::{CertificateName, QuotaKind, RoleName, SubjectName};

use super::quota::{self, quota_of_subject};
use super::show_closed;
use crate::arguments::ClusterArgs;
use crate::commands::once;
use crate::exit::CommandFailure;
use crate::output::{answer_rows, table_or};

#[derive(Debug, Subcommand)]
pub(crate) enum SubjectCommand {
    /// List the subjects with their roles and certificates.
    Ls(ClusterArgs),
    /// Show the limits of a subject, and what it uses.
    Show(OneSubjectArgs),
    /// Create a subject, or replace its roles and certificates; or replace its quotas.
    Set(SetSubjectArgs),
    /// Delete a subject with its access tokens.
    Rm(DeleteSubjectArgs),
}

/// One subject.
#[derive(Debug, Args)]
pub(crate) struct OneSubjectArgs {
    /// The person or program, such as ci/deploy.
    subject: SubjectName,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetSubjectArgs {
    #[command(flatten)]
    subject: OneSubjectArgs,
    /// A role of the subject. Repeat it for each role.
    #[arg(long)]
    role: Vec<RoleName>,
    /// A URI or the subject of a client certificate that proves this subject. Repeat it for each certificate.
    #[arg(long, value_name = "NAME", value_parser = |text: &str| CertificateName::new(text))]
    certificate: Vec<CertificateName>,
    /// A quota, such as sessions=100. Repeat it for each quota: the others get their defaults. Without --role and
    /// --certificate, only the quotas change.
    #[arg(long, value_name = "NAME=LIMIT", value_parser = quota_of_subject)]
    quota: Vec<(QuotaKind, u64)>,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteSubjectArgs {
    #[command(flatten)]
    subject: OneSubjectArgs,
    /// Also close its sessions.
    #[arg(long)]
    sessions: bool,
}

pub(super) async fn run(command: SubjectCommand) -> Result<(), CommandFailure> {
    match command {
        SubjectCommand::Ls(cluster) => ls(&cluster).await,
        SubjectCommand::Show(OneSubjectArgs { subject, cluster }) => {
            quota::show(&cluster, Some(&subject)).await
        }
        SubjectCommand::Set(args) => {
            let OneSubjectArgs { subject, cluster } = &args.subject;
            if args.quota.is_empty() || !args.role.is_empty() || !args.certificate.is_empty() {
                let query = Query::default().with_each(&ROLES, &args.role);
                let query = query.with_each(&CERTIFICATES, &args.certificate);
                let call = Call::new(Method::PUT, query.target(&subject_path(subject)));
                once::send(&cluster.client()?, call).await?;
            }
            if args.quota.is_empty() {
                return Ok(());
            }
            quota::set(cluster, Some(subject), &args.quota).await
        }
        SubjectCommand::Rm(args) => {
            let OneSubjectArgs { subject, cluster } = &args.subject;
            let query = Query::default().with_flag(&CLOSE_SESSIONS, args.sessions);
            let call = Call::new(Method::DELETE, query.target(&subject_path(subject)));
            show_closed(cluster, &once::receive(&cluster.client()?, call).await?);
            Ok(())
        }
    }
}

async fn ls(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let body: SubjectsBody = cluster.client()?.call(&Call::get("/v1/auth/subjects")).await?;
    let rows = body.subjects.iter().map(|subject| {
        let roles: Vec<_> = subject.roles.iter().map(RoleName::as_str).collect();
        let certificates: Vec<_> =
            subject.certificates.iter().map(CertificateName::as_str).collect();
        [subject.subject.to_string(), roles.join(", "), certificates.join("; ")]
    });
    let none = "no subjects: holdfast auth subject set NAME --role ROLE adds one";
    let text = table_or(none, ["subject", "roles", "certificates"], rows);
    let names = body.subjects.iter().map(|subject| &subject.subject);
    answer_rows(cluster.format(), &body, &body.subjects, names, &text);
    Ok(())
}
