//! `holdfast namespace`: names and quotas of the teams that share a cluster.

use clap::{Args, Subcommand};
use holdfast_api::parameters::namespace::parameter;
use holdfast_api::{NamespaceBody, NamespacesBody, Query, namespace_path};
use holdfast_client::Call;
use holdfast_client::http::Method;
use holdfast_types::{NamespaceName, QuotaKind};

use super::once;
use crate::arguments::ClusterArgs;
use crate::exit::CommandFailure;
use crate::output::{answer, answer_rows, table, table_or};

/// Give teams names of their own, with quotas.
#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// List the namespaces with their quotas.
    Ls(ClusterArgs),
    /// Show the quotas of a namespace and what it uses.
    Show(OneNamespaceArgs),
    /// Register a namespace, or replace all its quotas.
    #[command(
        after_help = "The subjects, locks and recipes of a namespace have names that begin with it, such as team-a/ci. \
                      A subject of a namespace uses only names of the namespace."
    )]
    Set(SetNamespaceArgs),
    /// Delete a namespace to which nothing belongs.
    Rm(OneNamespaceArgs),
}

/// One namespace.
#[derive(Debug, Args)]
pub(crate) struct OneNamespaceArgs {
    /// The namespace.
    namespace: NamespaceName,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetNamespaceArgs {
    #[command(flatten)]
    namespace: OneNamespaceArgs,
    /// A quota, such as locks=1000. Repeat it for each quota; 'holdfast namespace show' lists their names.
    #[arg(long, value_name = "NAME=LIMIT", value_parser = quota)]
    quota: Vec<(QuotaKind, u64)>,
}

pub(crate) async fn run(command: NamespaceCommand) -> Result<(), CommandFailure> {
    match command {
        NamespaceCommand::Ls(cluster) => ls(&cluster).await,
        NamespaceCommand::Show(args) => show(&args).await,
        NamespaceCommand::Set(args) => {
            let OneNamespaceArgs { namespace, cluster } = &args.namespace;
            let query = args.quota.iter().fold(Query::default(), |query, (quota, limit)| {
                match parameter(*quota) {
                    Some(parameter) => query.with(&parameter, limit),
                    None => query,
                }
            });
            let call = Call::new(Method::PUT, query.target(&namespace_path(namespace)));
            once::send(&cluster.client()?, call).await
        }
        NamespaceCommand::Rm(OneNamespaceArgs { namespace, cluster }) => {
            let call = Call::new(Method::DELETE, namespace_path(&namespace));
            once::send(&cluster.client()?, call).await
        }
    }
}

async fn ls(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let body: NamespacesBody = cluster.client()?.call(&Call::get("/v1/namespaces")).await?;
    let rows = body.namespaces.iter().map(|one| {
        let quotas: Vec<_> =
            one.quotas.iter().map(|(quota, limit)| format!("{quota}={limit}")).collect();
        let quotas = if quotas.is_empty() { "unlimited".to_owned() } else { quotas.join(", ") };
        [one.namespace.to_string(), quotas]
    });
    let none = "no namespaces: holdfast namespace set NAME registers one";
    let text = table_or(none, ["namespace", "quotas"], rows);
    let names = body.namespaces.iter().map(|one| &one.namespace);
    answer_rows(cluster.format(), &body, &body.namespaces, names, &text);
    Ok(())
}

async fn show(args: &OneNamespaceArgs) -> Result<(), CommandFailure> {
    let call = Call::get(namespace_path(&args.namespace));
    let body: NamespaceBody = args.cluster.client()?.call(&call).await?;
    let value = |value: Option<&u64>| value.map_or("-".to_owned(), u64::to_string);
    let rows = QuotaKind::OF_NAMESPACE.into_iter().map(|quota| {
        let name = quota.as_str();
        [name.to_owned(), value(body.used.get(name)), value(body.quotas.get(name))]
    });
    let text = table(["quota", "used", "limit"], rows);
    answer(args.cluster.format(), &body, &body.namespace, &text);
    Ok(())
}

fn quota(text: &str) -> Result<(QuotaKind, u64), String> {
    quota_of(&QuotaKind::OF_NAMESPACE, text)
}

/// Reads `NAME=LIMIT`.
pub(super) fn quota_of(kinds: &[QuotaKind], text: &str) -> Result<(QuotaKind, u64), String> {
    let names = || kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ");
    let (name, limit) = text.split_once('=').ok_or("write it as NAME=LIMIT")?;
    let quota = kinds.iter().find(|quota| quota.as_str() == name);
    let quota = quota.ok_or_else(|| format!("'{name}' is no quota; choose one of {}", names()))?;
    let limit = limit.parse().map_err(|_| format!("'{limit}' is no whole number"))?;
    Ok((*quota, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_has_a_known_name_and_a_number() {
        assert_eq!(quota("locks=5"), Ok((QuotaKind::Locks, 5)));
        for bad in ["locks", "locks=", "locks=-1", "lock=5", "=5", "locks=5=5", "streams=5"] {
            assert!(quota(bad).is_err(), "{bad}");
        }
    }
}
