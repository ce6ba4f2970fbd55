//! `holdfast tree`: nodes of the tree, looked at and changed.

use std::io::Read as _;

use holdfast_api::parameters::{LIMIT, PAGE_TOKEN, tree};
use holdfast_api::{
    ChildBody, ChildrenBody, LIST_LIMIT_MAX, Query, StatBody, SubtreeBody, ZnodeBody,
    parse_acl_entry, tree_path,
};
use holdfast_types::{SessionName, ZnodePath};
use reqwest::Method;

use super::asking::{Ask, Asking};
use crate::cli::{CreateArgs, NodeArgs, RmArgs, SetArgs, TreeCommand, TreeLsArgs};
use crate::exit::Stop;
use crate::output::{answer, answer_rows, complain, print_bytes, table};

pub(super) async fn run(command: TreeCommand) -> Result<(), Stop> {
    match command {
        TreeCommand::Get(node) => get(&node).await,
        TreeCommand::Stat(node) => stat(&node).await,
        TreeCommand::Ls(args) => ls(&args).await,
        TreeCommand::Create(args) => create(&args).await,
        TreeCommand::Set(args) => set(&args).await,
        TreeCommand::Rm(args) => rm(&args).await,
    }
}

fn asking(node: &NodeArgs) -> Result<Asking, Stop> {
    Asking::new(&node.target, node.user.as_deref())
}

/// The path; its first slash may be missing.
fn rooted(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

fn path_of(node: &NodeArgs) -> Result<ZnodePath, Stop> {
    ZnodePath::new(rooted(&node.path)).map_err(Stop::usage)
}

/// The data as it was written, or all of stdin.
fn data_of(text: &str) -> Result<Vec<u8>, Stop> {
    if text != "-" {
        return Ok(text.as_bytes().to_vec());
    }
    let mut data = Vec::new();
    std::io::stdin().lock().read_to_end(&mut data).map_err(Stop::failed)?;
    Ok(data)
}

/// The data and nothing else, whatever the format: it has one already.
async fn get(node: &NodeArgs) -> Result<(), Stop> {
    let ask = Ask::get(tree_path(&path_of(node)?));
    let data = asking(node)?.bytes(&ask).await?;
    print_bytes(&data);
    Ok(())
}

async fn stat(node: &NodeArgs) -> Result<(), Stop> {
    let target = format!("{}?stat", tree_path(&path_of(node)?));
    let body: ZnodeBody = asking(node)?.json(&Ask::get(target)).await?;
    let version = || body.stat.version.to_string();
    answer(node.target.output, &body, version, || table(["fact", "value"], facts(&body)));
    Ok(())
}

fn facts(body: &ZnodeBody) -> Vec<[String; 2]> {
    let stat = &body.stat;
    let mut facts = vec![
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
    facts.extend(stat.session_number.map(|number| ("session number", number.to_string())));
    facts.extend(stat.ttl_ms.map(|ms| ("ttl", format!("{ms}ms"))));
    facts.into_iter().map(|(name, value)| [name.to_owned(), value]).collect()
}

async fn ls(args: &TreeLsArgs) -> Result<(), Stop> {
    let (node, path) = (&args.node, path_of(&args.node)?);
    let mut asking = asking(node)?;
    let list = if args.recursive { tree::RECURSIVE } else { tree::CHILDREN };
    let first = Query::default().with_flag(&list, true).with(&LIMIT, &LIST_LIMIT_MAX);
    let mut query = first.clone();
    let mut found: Vec<ChildBody> = Vec::new();
    loop {
        let ask = Ask::get(query.target(&tree_path(&path)));
        let next = if args.recursive {
            let page: SubtreeBody = asking.json(&ask).await?;
            found.extend(page.nodes.into_iter().map(named_by_path));
            page.next_page_token
        } else {
            let page: ChildrenBody = asking.json(&ask).await?;
            found.extend(page.children);
            page.next_page_token
        };
        let Some(token) = next else { break };
        query = first.clone().with(&PAGE_TOKEN, &token);
    }
    let head = ["name", "kind", "version", "bytes", "children"];
    let name = |child: &ChildBody| child.name.clone();
    answer_rows(node.target.output, &found, &found, name, || table(head, found.iter().map(row)));
    Ok(())
}

fn named_by_path(node: ZnodeBody) -> ChildBody {
    ChildBody { name: node.path.to_string(), stat: node.stat }
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

async fn create(args: &CreateArgs) -> Result<(), Stop> {
    let (path, sequential) = (rooted(&args.node.path), args.sequential);
    let (directory, name) = ZnodePath::for_create(&path, sequential).map_err(Stop::usage)?;
    let query = create_query(args)?;
    let (method, target) = if sequential {
        let query = query.with_flag(&tree::SEQUENTIAL, true).with(&tree::NAME, &name);
        (Method::POST, query.target(&tree_path(&directory)))
    } else {
        let path = directory.child(&name).map_err(Stop::usage)?;
        (Method::PUT, query.target(&tree_path(&path)))
    };
    let condition = (!sequential).then(|| ("if-none-match", "*".to_owned()));
    let body = data_of(&args.data)?;
    let ask = Ask { method, condition, body, again: false, ..Ask::get(target) };
    let body: ZnodeBody = asking(&args.node)?.json(&ask).await?;
    let path = || body.path.to_string();
    answer(args.node.target.output, &body, path, path);
    Ok(())
}

fn create_query(args: &CreateArgs) -> Result<Query, Stop> {
    let session = args.ephemeral.as_ref().map(SessionName::new);
    let session = session.transpose().map_err(Stop::usage)?;
    let mut query = Query::default().with_flag(&tree::PARENTS, args.parents);
    query = match (&session, &args.ttl) {
        (Some(session), _) => query.with(&tree::SESSION, session).with_flag(&tree::EPHEMERAL, true),
        (None, Some(ttl)) => query.with(&tree::TTL, ttl),
        (None, None) => query.with_flag(&tree::CONTAINER, args.container),
    };
    for entry in &args.acl {
        query = query.with(&tree::ACL, &parse_acl_entry(entry).map_err(Stop::usage)?);
    }
    Ok(query)
}

async fn set(args: &SetArgs) -> Result<(), Stop> {
    let (path, body) = (path_of(&args.node)?, data_of(&args.data)?);
    let condition = condition(args.version).or(Some(("if-match", "*".to_owned())));
    let again = args.version.is_none();
    let ask = Ask { method: Method::PUT, condition, body, again, ..Ask::get(tree_path(&path)) };
    let body: ZnodeBody = asking(&args.node)?.json(&ask).await?;
    let version = || body.stat.version.to_string();
    let people = || format!("{path} has version {}", body.stat.version);
    answer(args.node.target.output, &body, version, people);
    Ok(())
}

async fn rm(args: &RmArgs) -> Result<(), Stop> {
    let path = path_of(&args.node)?;
    let query = Query::default().with_flag(&tree::DELETE_RECURSIVE, args.recursive);
    let target = query.target(&tree_path(&path));
    let condition = condition(args.version);
    let ask = Ask { method: Method::DELETE, condition, again: false, ..Ask::get(target) };
    asking(&args.node)?.bytes(&ask).await?;
    complain(&format!("holdfast: {path} is gone"));
    Ok(())
}

fn condition(version: Option<u32>) -> Option<(&'static str, String)> {
    version.map(|version| ("if-match", format!("\"{version}\"")))
}
