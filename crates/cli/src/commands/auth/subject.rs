//! `holdfast auth subject`, `role` and `quota`: who calls, what the roles allow, and the quotas of subjects.

use clap::{Args, Subcommand};
use holdfast_api::parameters::auth::{CERTIFICATES, CLOSE_SESSIONS, PERMISSIONS, ROLES};
use holdfast_api::parameters::subject_quotas::parameter;
use holdfast_api::{
    Query, RolesBody, SubjectQuotasBody, SubjectsBody, quotas_path, role_path, subject_path,
};
use holdfast_client::Call;
use holdfast_client::http::Method;
use holdfast_types::{CertificateName, Permission, QuotaKind, RoleName, SubjectName};

use super::show_closed;
use crate::arguments::ClusterArgs;
use crate::commands::calls;
use crate::commands::namespace::{quota_of, quota_query, quota_table};
use crate::exit::CommandFailure;
use crate::output::{answer, answer_rows, table, table_or};

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

pub(super) async fn subject(command: SubjectCommand) -> Result<(), CommandFailure> {
    match command {
        SubjectCommand::Ls(cluster) => list_subjects(&cluster).await,
        SubjectCommand::Show(OneSubjectArgs { subject, cluster }) => {
            show_quotas(&cluster, Some(&subject)).await
        }
        SubjectCommand::Set(args) => {
            let OneSubjectArgs { subject, cluster } = &args.subject;
            if args.quota.is_empty() || !args.role.is_empty() || !args.certificate.is_empty() {
                let query = Query::default().with_each(&ROLES, &args.role);
                let query = query.with_each(&CERTIFICATES, &args.certificate);
                let call = Call::new(Method::PUT, query.target(&subject_path(subject)));
                calls::send(&cluster.client()?, call).await?;
            }
            if args.quota.is_empty() {
                return Ok(());
            }
            set_quotas(cluster, Some(subject), &args.quota).await
        }
        SubjectCommand::Rm(args) => {
            let OneSubjectArgs { subject, cluster } = &args.subject;
            let query = Query::default().with_flag(&CLOSE_SESSIONS, args.sessions);
            let call = Call::new(Method::DELETE, query.target(&subject_path(subject)));
            show_closed(cluster, &calls::receive(&cluster.client()?, call).await?);
            Ok(())
        }
    }
}

async fn list_subjects(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
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

#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// List the roles with their permissions.
    Ls(ClusterArgs),
    /// Create a role, or replace its permissions.
    Set(SetRoleArgs),
    /// Delete a role, and take it from its subjects.
    Rm(OneRoleArgs),
}

/// One role.
#[derive(Debug, Args)]
pub(crate) struct OneRoleArgs {
    /// The role.
    role: RoleName,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetRoleArgs {
    #[command(flatten)]
    role: OneRoleArgs,
    /// What the role may do: 'KIND VERB PATTERN', such as 'lock acquire orders/*'. Repeat it for each permission.
    #[arg(long, value_name = "PERMISSION")]
    permission: Vec<Permission>,
}

pub(super) async fn role(command: RoleCommand) -> Result<(), CommandFailure> {
    match command {
        RoleCommand::Ls(cluster) => list_roles(&cluster).await,
        RoleCommand::Set(args) => {
            let OneRoleArgs { role, cluster } = &args.role;
            let query = Query::default().with_each(&PERMISSIONS, &args.permission);
            let call = Call::new(Method::PUT, query.target(&role_path(role)));
            calls::send(&cluster.client()?, call).await
        }
        RoleCommand::Rm(OneRoleArgs { role, cluster }) => {
            let call = Call::new(Method::DELETE, role_path(&role));
            calls::send(&cluster.client()?, call).await
        }
    }
}

async fn list_roles(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let body: RolesBody = cluster.client()?.call(&Call::get("/v1/auth/roles")).await?;
    let rows = body.roles.iter().map(|role| {
        let permissions = if role.role.as_str() == RoleName::ADMIN {
            "everything".to_owned()
        } else {
            role.permissions.join(", ")
        };
        [role.role.to_string(), permissions]
    });
    let text = table(["role", "permissions"], rows);
    let names = body.roles.iter().map(|role| &role.role);
    answer_rows(cluster.format(), &body, &body.roles, names, &text);
    Ok(())
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuotaCommand {
    /// Show the limits.
    Show(ClusterArgs),
    /// Replace the quotas.
    Set(SetQuotasArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SetQuotasArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// A quota, such as sessions=1000. Repeat it for each quota: the others get the values that holdfast defines.
    #[arg(long, value_name = "NAME=LIMIT", value_parser = quota_of_subject)]
    quota: Vec<(QuotaKind, u64)>,
}

pub(super) async fn quota(command: QuotaCommand) -> Result<(), CommandFailure> {
    match command {
        QuotaCommand::Show(cluster) => show_quotas(&cluster, None).await,
        QuotaCommand::Set(args) => set_quotas(&args.cluster, None, &args.quota).await,
    }
}

async fn set_quotas(
    cluster: &ClusterArgs,
    subject: Option<&SubjectName>,
    quotas: &[(QuotaKind, u64)],
) -> Result<(), CommandFailure> {
    let query = quota_query(quotas, parameter);
    let call = Call::new(Method::PUT, query.target(&quotas_path(subject)));
    calls::send(&cluster.client()?, call).await
}

async fn show_quotas(
    cluster: &ClusterArgs,
    subject: Option<&SubjectName>,
) -> Result<(), CommandFailure> {
    let call = Call::get(quotas_path(subject));
    let body: SubjectQuotasBody = cluster.client()?.call(&call).await?;
    let text = quota_table(&QuotaKind::OF_SUBJECT, &body.used, &body.quotas);
    let whose = subject.map_or("default", SubjectName::as_str);
    answer(cluster.format(), &body, whose, &text);
    Ok(())
}

fn quota_of_subject(text: &str) -> Result<(QuotaKind, u64), String> {
    quota_of(&QuotaKind::OF_SUBJECT, text)
}
