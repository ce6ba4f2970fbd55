//! Prefixes every path of a run's requests with the folder of the run.
//!
//! Invalid and empty paths, and paths that begin with `^`, stay unchanged.

use holdfast_zkwire::{Acl, Create, CreateMode, CreateOp, MultiOp, ReadOp, Request, SetWatches};

use super::Target;
use holdfast_lab::zk::{ZkConnection, ZkIncoming, new_session};

/// Creates the folder in a separate session.
pub(super) async fn make(target: &Target, folder: &str) -> Result<(), String> {
    let hello = new_session(SESSION_MS);
    let address = *target.nodes.first().ok_or("a target without nodes")?;
    let (mut connection, answer) = ZkConnection::open(address, &hello).await?;
    answer.ok_or("no session for the folder")?;
    let create = Create {
        op: CreateOp::Create,
        path: folder.to_owned(),
        data: None,
        acl: vec![Acl::open()],
        mode: CreateMode::Persistent,
    };
    connection.send(&Request::Create(create)).await;
    connection.send(&Request::CloseSession).await;
    match connection.next().await {
        ZkIncoming::Reply { header, .. } if header.err == 0 => {}
        other => return Err(format!("the folder {folder} cannot be created: {other:?}")),
    }
    connection.next().await;
    Ok(())
}

/// Session timeout.
pub(super) const SESSION_MS: i32 = 40_000;

fn put(path: &mut String, folder: &str) {
    if let Some(outside) = path.strip_prefix('^') {
        *path = outside.to_owned();
    } else if path == "/" {
        folder.clone_into(path);
    } else if path.starts_with('/') {
        path.insert_str(0, folder);
    }
}

fn put_create(create: &mut Create, folder: &str) {
    // A node below the folder, never a sibling of it.
    if create.path == "/" {
        create.path = format!("{folder}/");
    } else {
        put(&mut create.path, folder);
    }
}

/// The request with prefixed paths.
pub(super) fn inside(request: &Request, folder: &str) -> Request {
    let mut request = request.clone();
    match &mut request {
        Request::Create(create) => put_create(create, folder),
        Request::Delete { path, .. }
        | Request::Exists { path, .. }
        | Request::GetData { path, .. }
        | Request::SetData { path, .. }
        | Request::GetAcl { path }
        | Request::SetAcl { path, .. }
        | Request::GetChildren { path, .. }
        | Request::GetChildren2 { path, .. }
        | Request::Sync { path }
        | Request::Check { path, .. }
        | Request::CheckWatches { path, .. }
        | Request::RemoveWatches { path, .. }
        | Request::GetEphemerals { prefix: path }
        | Request::GetAllChildrenNumber { path }
        | Request::AddWatch { path, .. } => put(path, folder),
        Request::Multi(ops) => ops.iter_mut().for_each(|op| match op {
            MultiOp::Create(create) => put_create(create, folder),
            MultiOp::Delete { path, .. }
            | MultiOp::SetData { path, .. }
            | MultiOp::Check { path, .. } => put(path, folder),
        }),
        Request::MultiRead(ops) => ops.iter_mut().for_each(|op| match op {
            ReadOp::GetData { path, .. } | ReadOp::GetChildren { path, .. } => put(path, folder),
        }),
        Request::SetWatches(watches) => put_watches(watches, folder),
        Request::Ping
        | Request::Reconfig(_)
        | Request::DeleteContainer
        | Request::Auth { .. }
        | Request::Sasl { .. }
        | Request::WhoAmI
        | Request::CloseSession
        | Request::Unknown(_) => {}
    }
    request
}

fn put_watches(watches: &mut SetWatches, folder: &str) {
    let SetWatches { data, exist, child, persistent, recursive, .. } = watches;
    for list in [data, exist, child, persistent, recursive] {
        for path in list {
            put(path, folder);
        }
    }
}
