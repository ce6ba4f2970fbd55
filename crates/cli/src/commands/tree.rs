//! `holdfast tree`: reads, changes and watches znodes.

mod quota;

use std::io::Read as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_api::parameters::{LIMIT, PAGE_TOKEN, REQUEST, tree};
use holdfast_api::{
    ChildBody, ChildrenBody, JsonBody, LIST_LIMIT_MAX, Query, StatBody, SubtreeBody, ZnodeBody,
    parse_acl_entry, tree_path,
};
use holdfast_client::http::Method;
use holdfast_client::{Call, Copies, Error, with_request_number};
use holdfast_types::{SessionName, ZnodePath};

use super::calls;
use super::watch::{self, WatchArgs};
use crate::arguments::{ClusterArgs, UserArgs, duration};
use crate::exit::CommandFailure;
use crate::output::{
    answer, answer_rows, check_complete, facts, print_data, table_or, write_stderr,
};

/// Read, change and watch znodes.
#[derive(Debug, Subcommand)]
pub(crate) enum TreeCommand {
    /// Print the data of a znode as it is.
    Get(ZnodeArgs),
    /// Show the metadata of a znode.
    Stat(ZnodeArgs),
    /// List the children of a znode.
    Ls(TreeLsArgs),
    /// Create a znode; print its path.
    Create(TreeCreateArgs),
    /// Replace the data of an existing znode.
    Set(TreeSetArgs),
    /// Delete a znode.
    Rm(TreeRmArgs),
    /// Print the changes below a path until ^C.
    Watch(WatchArgs),
    /// Show, set or delete the quotas of subtrees.
    Quota(quota::TreeQuotaArgs),
}

/// A znode of the tree.
#[derive(Debug, Args)]
pub(crate) struct ZnodeArgs {
    /// The path; the first '/' may be left out.
    path: String,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TreeLsArgs {
    /// List all descendants.
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    node: ZnodeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TreeCreateArgs {
    #[command(flatten)]
    node: ZnodeArgs,
    /// The data; '-' reads it from stdin.
    #[arg(default_value = "")]
    data: String,
    /// Append the next number of the directory to the name.
    #[arg(long)]
    sequential: bool,
    /// Also create missing parents.
    #[arg(short, long)]
    parents: bool,
    /// Delete the znode when this session, which must be open, ends.
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["container", "ttl"])]
    ephemeral: Option<SessionName>,
    /// Delete the znode after its last child.
    #[arg(long, conflicts_with = "ttl")]
    container: bool,
    /// Delete the znode if it has no children and was not changed for this time.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,
    /// An entry of the access list; may be given several times.
    #[arg(long, value_name = "SCHEME:ID:PERMS")]
    acl: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TreeSetArgs {
    #[command(flatten)]
    node: ZnodeArgs,
    /// The new data; '-' reads it from stdin.
    data: String,
    /// Only if the znode has this version.
    #[arg(long, value_name = "N")]
    version: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct TreeRmArgs {
    /// Also delete all descendants.
    #[arg(short, long)]
    recursive: bool,
    /// Only if the znode has this version.
    #[arg(long, value_name = "N")]
    version: Option<u32>,
    #[command(flatten)]
    node: ZnodeArgs,
}

pub(crate) async fn run(command: TreeCommand) -> Result<(), CommandFailure> {
    match command {
        TreeCommand::Get(node) => get(&node).await,
        TreeCommand::Stat(node) => stat(&node).await,
        TreeCommand::Ls(args) => ls(&args).await,
        TreeCommand::Create(args) => create(&args).await,
        TreeCommand::Set(args) => set(&args).await,
        TreeCommand::Rm(args) => rm(&args).await,
        TreeCommand::Watch(args) => watch::run(args).await,
        TreeCommand::Quota(args) => quota::run(args).await,
    }
}

impl ZnodeArgs {
    /// Returns the path with its leading slash.
    fn rooted(&self) -> String {
        format!("/{}", self.path.strip_prefix('/').unwrap_or(&self.path))
    }

    fn znode_path(&self) -> Result<ZnodePath, CommandFailure> {
        ZnodePath::new(self.rooted()).map_err(CommandFailure::usage)
    }

    fn with_user(&self, call: Call) -> Call {
        let headers = self.user.headers().into_iter().chain(call.headers).collect();
        Call { headers, ..call }
    }

    async fn read(&self, target: String) -> Result<Vec<u8>, CommandFailure> {
        let call = self.with_user(Call::get(target));
        let answer = self.cluster.client()?.call_raw(&call).await;
        let failed = |error| CommandFailure::of_tree_call(error, false);
        answer.map(|answer| answer.body).map_err(failed)
    }

    async fn read_json<T: JsonBody>(&self, target: String) -> Result<T, CommandFailure> {
        parse(&self.read(target).await?)
    }

    /// Makes a change with a request number of the session that the call names.
    async fn change_of_session(&self, call: Call) -> Result<Vec<u8>, CommandFailure> {
        let (creates, client) = (creates(&call), self.cluster.client()?);
        let call = self.with_user(call);
        let send = |request| {
            let query = Query::default().with(&REQUEST, &request).target("");
            let target = format!("{}{}", call.target, query.replacen('?', "&", 1));
            let (client, call) = (&client, Call { target, ..call.clone() });
            async move { client.call_raw(&call).await }
        };
        let failed = |error| CommandFailure::of_tree_call(error, creates);
        with_request_number(send).await.map(|answer| answer.body).map_err(failed)
    }

    /// Makes a change that the cluster executes once.
    async fn change(&self, call: Call) -> Result<Vec<u8>, CommandFailure> {
        let creates = creates(&call);
        let client = self.cluster.client()?;
        let answer = calls::closing(&client, client.call_once_raw(self.with_user(call))).await;
        let failed = |error| CommandFailure::of_tree_call(error, creates);
        answer.map(|answer| answer.body).map_err(failed)
    }
}

fn creates(call: &Call) -> bool {
    matches!(call.method, Method::PUT | Method::POST)
}

fn parse<T: JsonBody>(body: &[u8]) -> Result<T, CommandFailure> {
    let foreign = |error: serde_json::Error| Error::UnexpectedResponse(error.to_string()).into();
    T::from_json(body).map_err(foreign)
}

/// Returns the data as given, or all of stdin for `-`.
fn data(text: &str) -> Result<Vec<u8>, CommandFailure> {
    if text != "-" {
        return Ok(text.as_bytes().to_vec());
    }
    let mut data = Vec::new();
    std::io::stdin().lock().read_to_end(&mut data).map_err(CommandFailure::failed)?;
    Ok(data)
}

/// Prints the unmodified data in every output format; on a terminal, its hidden characters become visible.
async fn get(node: &ZnodeArgs) -> Result<(), CommandFailure> {
    print_data(&node.read(tree_path(&node.znode_path()?)).await?);
    check_complete()
}

async fn stat(node: &ZnodeArgs) -> Result<(), CommandFailure> {
    let target = format!("{}?stat", tree_path(&node.znode_path()?));
    let body: ZnodeBody = node.read_json(target).await?;
    answer(node.cluster.format(), &body, body.stat.version, &stat_text(&body));
    Ok(())
}

fn stat_text(body: &ZnodeBody) -> String {
    let stat = &body.stat;
    let mut rows = vec![
        ("path", body.path.to_string()),
        ("kind", stat.kind.as_str().to_owned()),
        ("version", stat.version.to_string()),
        ("bytes", stat.data_length.to_string()),
        ("children", stat.children.to_string()),
        ("children version", stat.children_version.to_string()),
        ("acl version", stat.acl_version.to_string()),
        ("created in", stat.created_revision.to_string()),
        ("modified in", stat.modified_revision.to_string()),
    ];
    rows.extend(stat.session_number.map(|number| ("session number", number.to_string())));
    rows.extend(stat.ttl_ms.map(|ms| ("ttl", format!("{ms}ms"))));
    facts(["fact", "value"], rows)
}

async fn ls(args: &TreeLsArgs) -> Result<(), CommandFailure> {
    let (node, path) = (&args.node, args.node.znode_path()?);
    let list = if args.recursive { tree::RECURSIVE } else { tree::CHILDREN };
    let first = Query::default().with_flag(&list, true).with(&LIMIT, &LIST_LIMIT_MAX);
    let mut query = first.clone();
    let mut found: Vec<ChildBody> = Vec::new();
    loop {
        let target = query.target(&tree_path(&path));
        let next = if args.recursive {
            let page: SubtreeBody = node.read_json(target).await?;
            let named =
                |node: ZnodeBody| ChildBody { name: node.path.to_string(), stat: node.stat };
            found.extend(page.znodes.into_iter().map(named));
            page.next_page_token
        } else {
            let page: ChildrenBody = node.read_json(target).await?;
            found.extend(page.children);
            page.next_page_token
        };
        let Some(token) = next else { break };
        query = first.clone().with(&PAGE_TOKEN, &token);
    }
    let header = ["name", "kind", "version", "bytes", "children"];
    let names = found.iter().map(|child| &child.name);
    let text = table_or("no children", header, found.iter().map(row));
    answer_rows(node.cluster.format(), &found, &found, names, &text);
    Ok(())
}

fn row(child: &ChildBody) -> [String; 5] {
    let StatBody { kind, version, data_length, children, .. } = &child.stat;
    [
        child.name.clone(),
        kind.as_str().to_owned(),
        version.to_string(),
        data_length.to_string(),
        children.to_string(),
    ]
}

async fn create(args: &TreeCreateArgs) -> Result<(), CommandFailure> {
    let (path, sequential) = (args.node.rooted(), args.sequential);
    let (directory, name) =
        ZnodePath::for_create(&path, sequential).map_err(CommandFailure::usage)?;
    let query = create_query(args)?;
    let call = if sequential {
        let query = query.with_flag(&tree::SEQUENTIAL, true).with(&tree::NAME, &name);
        Call::new(Method::POST, query.target(&tree_path(&directory)))
    } else {
        let path = directory.child(&name).map_err(CommandFailure::usage)?;
        let headers = vec![("if-none-match".to_owned(), "*".to_owned())];
        Call { headers, ..Call::new(Method::PUT, query.target(&tree_path(&path))) }
    };
    let call = Call { body: data(&args.data)?, ..call };
    let created = if args.ephemeral.is_some() {
        args.node.change_of_session(call.copies(Copies::Harmless)).await?
    } else {
        args.node.change(call).await?
    };
    let body: ZnodeBody = parse(&created)?;
    answer(args.node.cluster.format(), &body, &body.path, body.path.as_str());
    Ok(())
}

fn create_query(args: &TreeCreateArgs) -> Result<Query, CommandFailure> {
    let mut query = Query::default().with_flag(&tree::PARENTS, args.parents);
    query = match (&args.ephemeral, &args.ttl) {
        (Some(session), _) => query.with(&tree::SESSION, session).with_flag(&tree::EPHEMERAL, true),
        (None, Some(ttl)) => query.with(&tree::TTL, ttl),
        (None, None) => query.with_flag(&tree::CONTAINER, args.container),
    };
    for entry in &args.acl {
        query = query.with(&tree::ACL, &parse_acl_entry(entry).map_err(CommandFailure::usage)?);
    }
    Ok(query)
}

async fn set(args: &TreeSetArgs) -> Result<(), CommandFailure> {
    let path = args.node.znode_path()?;
    let headers = vec![if_match(args.version)];
    let body = data(&args.data)?;
    let call = Call { headers, body, ..Call::new(Method::PUT, tree_path(&path)) };
    let body: ZnodeBody = parse(&args.node.change(call).await?)?;
    let version = body.stat.version;
    answer(args.node.cluster.format(), &body, version, &format!("{path} has version {version}"));
    Ok(())
}

async fn rm(args: &TreeRmArgs) -> Result<(), CommandFailure> {
    let path = args.node.znode_path()?;
    let query = Query::default().with_flag(&tree::DELETE_RECURSIVE, args.recursive);
    let headers = args.version.map(|version| if_match(Some(version))).into_iter().collect();
    let target = query.target(&tree_path(&path));
    let call = Call { headers, ..Call::new(Method::DELETE, target) };
    args.node.change(call).await?;
    write_stderr(&format!("holdfast: {path} is deleted"));
    Ok(())
}

/// Returns the condition that the znode has this version, or that it exists.
fn if_match(version: Option<u32>) -> (String, String) {
    let value = version.map_or_else(|| "*".to_owned(), |version| format!("\"{version}\""));
    ("if-match".to_owned(), value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_command::parse;

    #[test]
    fn container_and_ttl_exclude_each_other() {
        let line = "tree create /a x --ttl 1h --parents --acl world:anyone:r";
        let Ok(TreeCommand::Create(args)) = parse(line) else { panic!() };
        assert_eq!((args.data.as_str(), args.parents, args.acl.len()), ("x", true, 1));
        assert!(parse::<TreeCommand>("tree create /a --container --ttl 1h").is_err());
        assert!(parse::<TreeCommand>("tree set /a").unwrap_err().contains("<DATA>"));
    }
}
