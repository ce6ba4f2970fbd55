//! `holdfast tree quota`: the quotas of subtrees of znodes.

use clap::{Args, Subcommand};
use holdfast_api::parameters::{LIMIT, PAGE_TOKEN, tree_quota};
use holdfast_api::{
    JsonBody, LIST_LIMIT_MAX, Query, TREE_QUOTAS_PATH, TreeQuotaBody, TreeQuotasBody,
    tree_quota_path,
};
use holdfast_client::Call;
use holdfast_client::http::Method;
use holdfast_types::ZnodePath;

use crate::arguments::{ClusterArgs, UserArgs};
use crate::commands::calls;
use crate::exit::CommandFailure;
use crate::output::{answer, answer_rows, cell, table, table_or};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Clients of ZooKeeper see the same quotas: setquota, listquota, delquota."
)]
pub(crate) struct TreeQuotaArgs {
    #[command(subcommand)]
    command: Option<TreeQuotaCommand>,
    /// The root of one subtree; without it, all quotas are listed.
    path: Option<String>,
    #[command(flatten)]
    call: CallArgs,
}

/// Set or delete the quota of a subtree.
#[derive(Debug, Subcommand)]
enum TreeQuotaCommand {
    /// Set the quota of a subtree, or replace all its limits.
    Set(SetTreeQuotaArgs),
    /// Delete the quota of a subtree, but none of its znodes.
    Rm(OneTreeQuotaArgs),
}

/// The quota of one subtree.
#[derive(Debug, Args)]
struct OneTreeQuotaArgs {
    /// The root of the subtree, which need not exist; the first '/' may be left out.
    path: String,
    #[command(flatten)]
    call: CallArgs,
}

#[derive(Debug, Args)]
struct SetTreeQuotaArgs {
    #[command(flatten)]
    quota: OneTreeQuotaArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

/// The limits of a quota; the others are unlimited.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct LimitArgs {
    /// The most znodes, including the root of the subtree and the queue entries of locks.
    #[arg(long, value_name = "N")]
    znodes: Option<u64>,
    /// The most bytes of data.
    #[arg(long, value_name = "N")]
    bytes: Option<u64>,
    /// Raise the alarm tree-quota-soft from more znodes on.
    #[arg(long, value_name = "N")]
    soft_znodes: Option<u64>,
    /// Raise the alarm tree-quota-soft from more bytes of data on.
    #[arg(long, value_name = "N")]
    soft_bytes: Option<u64>,
}

/// Who calls which cluster.
#[derive(Debug, Args)]
struct CallArgs {
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) async fn run(args: TreeQuotaArgs) -> Result<(), CommandFailure> {
    match (args.command, args.path) {
        (Some(TreeQuotaCommand::Set(args)), _) => {
            let query = args.limits.query();
            args.quota.change(Method::PUT, query).await
        }
        (Some(TreeQuotaCommand::Rm(args)), _) => {
            args.change(Method::DELETE, Query::default()).await
        }
        (None, Some(path)) => show(&path, &args.call).await,
        (None, None) => list(&args.call).await,
    }
}

impl LimitArgs {
    fn query(&self) -> Query {
        [
            (tree_quota::ZNODES, self.znodes),
            (tree_quota::BYTES, self.bytes),
            (tree_quota::SOFT_ZNODES, self.soft_znodes),
            (tree_quota::SOFT_BYTES, self.soft_bytes),
        ]
        .iter()
        .filter_map(|(param, limit)| Some((param, (*limit)?)))
        .fold(Query::default(), |query, (param, limit)| query.with(param, &limit))
    }
}

impl OneTreeQuotaArgs {
    async fn change(&self, method: Method, query: Query) -> Result<(), CommandFailure> {
        let target = query.target(&tree_quota_path(&rooted(&self.path)?));
        let call = Call { headers: self.call.user.headers(), ..Call::new(method, target) };
        let client = self.call.cluster.client()?;
        let changed = calls::closing(&client, client.call_once_raw(call)).await;
        changed.map(drop).map_err(CommandFailure::of_tree_quota_call)
    }
}

impl CallArgs {
    async fn read<T: JsonBody>(&self, target: String) -> Result<T, CommandFailure> {
        let call = Call { headers: self.user.headers(), ..Call::get(target) };
        self.cluster.client()?.call(&call).await.map_err(CommandFailure::of_tree_quota_call)
    }
}

/// The path with its leading slash.
fn rooted(path: &str) -> Result<ZnodePath, CommandFailure> {
    let relative = path.strip_prefix('/').unwrap_or(path);
    ZnodePath::new(format!("/{relative}")).map_err(CommandFailure::usage)
}

async fn show(path: &str, call: &CallArgs) -> Result<(), CommandFailure> {
    let body: TreeQuotaBody = call.read(tree_quota_path(&rooted(path)?)).await?;
    answer(call.cluster.format(), &body, &body.path, &table(HEADER, rows(&body)));
    Ok(())
}

async fn list(call: &CallArgs) -> Result<(), CommandFailure> {
    let first = Query::default().with(&LIMIT, &LIST_LIMIT_MAX);
    let mut query = first.clone();
    let mut found: Vec<TreeQuotaBody> = Vec::new();
    loop {
        let page: TreeQuotasBody = call.read(query.target(TREE_QUOTAS_PATH)).await?;
        found.extend(page.quotas);
        let Some(token) = page.next_page_token else { break };
        query = first.clone().with(&PAGE_TOKEN, &token);
    }
    let none = "no quotas: holdfast tree quota set PATH --znodes N sets one";
    let text = table_or(none, HEADER, found.iter().flat_map(rows));
    let paths = found.iter().map(|quota| &quota.path);
    answer_rows(call.cluster.format(), &found, &found, paths, &text);
    Ok(())
}

const HEADER: [&str; 5] = ["path", "", "used", "soft limit", "limit"];

/// One row for the znodes of a subtree, and one for its bytes.
fn rows(quota: &TreeQuotaBody) -> [[String; 5]; 2] {
    let TreeQuotaBody { path, limits, used } = quota;
    [
        ("znodes", used.znodes, limits.soft_znodes, limits.znodes),
        ("bytes", used.bytes, limits.soft_bytes, limits.bytes),
    ]
    .map(|(what, used, soft, hard)| {
        [path.to_string(), what.to_owned(), used.to_string(), cell(soft), cell(hard)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_command::parse;
    use crate::commands::tree::TreeCommand;

    fn quota(line: &str) -> Result<TreeQuotaArgs, String> {
        let TreeCommand::Quota(args) = parse(line)? else { panic!("another command") };
        Ok(args)
    }

    #[test]
    fn a_quota_is_set_with_at_least_one_limit() {
        let args = quota("tree quota set /cfg --znodes 5 --soft-bytes 0").unwrap();
        let Some(TreeQuotaCommand::Set(args)) = args.command else { panic!("{args:?}") };
        assert_eq!(args.limits.query().target("/q"), "/q?znodes=5&soft_bytes=0");
        assert!(quota("tree quota set /cfg").unwrap_err().contains("--znodes <N>"));
        assert!(quota("tree quota set /cfg --znodes -1").is_err());
    }

    #[test]
    fn without_a_command_the_quotas_are_shown() {
        let args = quota("tree quota cfg").unwrap();
        assert!(args.command.is_none());
        assert_eq!(rooted(&args.path.unwrap()).unwrap().as_str(), "/cfg");
        assert!(quota("tree quota").unwrap().path.is_none());
    }
}
