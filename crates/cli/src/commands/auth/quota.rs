//! `holdfast auth quota`: the quotas of subjects without quotas of their own.

use clap::{Args, Subcommand};
use holdfast_api::parameters::subject_quotas::parameter;
use holdfast_api::{Query, SubjectQuotasBody, quotas_path};
use holdfast_client::Call;
use holdfast_client::http::Method;
use holdfast_types::{QuotaKind, SubjectName};

use crate::arguments::ClusterArgs;
use crate::commands::namespace::quota_of;
use crate::commands::once;
use crate::exit::CommandFailure;
use crate::output::{answer, table};

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

pub(super) async fn run(command: QuotaCommand) -> Result<(), CommandFailure> {
    match command {
        QuotaCommand::Show(cluster) => show(&cluster, None).await,
        QuotaCommand::Set(args) => set(&args.cluster, None, &args.quota).await,
    }
}

pub(super) async fn set(
    cluster: &ClusterArgs,
    subject: Option<&SubjectName>,
    quotas: &[(QuotaKind, u64)],
) -> Result<(), CommandFailure> {
    let query =
        quotas.iter().fold(Query::default(), |query, (quota, limit)| match parameter(*quota) {
            Some(parameter) => query.with(&parameter, limit),
            None => query,
        });
    let call = Call::new(Method::PUT, query.target(&quotas_path(subject)));
    once::send(&cluster.client()?, call).await
}

pub(super) async fn show(
    cluster: &ClusterArgs,
    subject: Option<&SubjectName>,
) -> Result<(), CommandFailure> {
    let call = Call::get(quotas_path(subject));
    let body: SubjectQuotasBody = cluster.client()?.call(&call).await?;
    let value = |value: Option<&u64>| value.map_or("-".to_owned(), u64::to_string);
    let rows = QuotaKind::OF_SUBJECT.into_iter().map(|quota| {
        let name = quota.as_str();
        [name.to_owned(), value(body.used.get(name)), value(body.quotas.get(name))]
    });
    let text = table(["quota", "used", "limit"], rows);
    let whose = subject.map_or("default", SubjectName::as_str);
    answer(cluster.format(), &body, whose, &text);
    Ok(())
}

pub(super) fn quota_of_subject(text: &str) -> Result<(QuotaKind, u64), String> {
    quota_of(&QuotaKind::OF_SUBJECT, text)
}
