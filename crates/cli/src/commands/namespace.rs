//! `holdfast namespace`: names and quotas of the teams that share a cluster.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use holdfast_api::parameters::namespace::parameter;
use holdfast_api::{NamespaceBody, NamespacesBody, Param, Query, namespace_path};
use holdfast_client::Call;
use holdfast_client::http::Method;
use holdfast_types::{NamespaceName, QuotaKind};

use super::calls;
use crate::arguments::ClusterArgs;
use crate::exit::CommandFailure;
use crate::output::{answer, answer_rows, cell, table, table_or};

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
            let query = quota_query(&args.quota, parameter);
            let call = Call::new(Method::PUT, query.target(&namespace_path(namespace)));
            calls::send(&cluster.client()?, call).await
        }
        NamespaceCommand::Rm(OneNamespaceArgs { namespace, cluster }) => {
            let call = Call::new(Method::DELETE, namespace_path(&namespace));
            calls::send(&cluster.client()?, call).await
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
    let text = quota_table(&QuotaKind::OF_NAMESPACE, &body.used, &body.quotas);
    answer(args.cluster.format(), &body, &body.namespace, &text);
    Ok(())
}

fn quota(text: &str) -> Result<(QuotaKind, u64), String> {
    quota_of(&QuotaKind::OF_NAMESPACE, text)
}

/// The query with the parameters of these quotas.
pub(super) fn quota_query(
    quotas: &[(QuotaKind, u64)],
    parameter: impl Fn(QuotaKind) -> Option<Param>,
) -> Query {
    let limits = quotas.iter().filter_map(|(quota, limit)| Some((parameter(*quota)?, limit)));
    limits.fold(Query::default(), |query, (parameter, limit)| query.with(&parameter, limit))
}

/// The use and the limit of each quota, by name.
pub(super) fn quota_table(
    kinds: &[QuotaKind],
    used: &BTreeMap<String, u64>,
    limits: &BTreeMap<String, u64>,
) -> String {
    let names = kinds.iter().map(|quota| quota.as_str());
    let rows = names.map(|name| [name.to_owned(), cell(used.get(name)), cell(limits.get(name))]);
    table(["quota", "used", "limit"], rows)
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
