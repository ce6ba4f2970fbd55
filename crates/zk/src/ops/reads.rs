//! Reads: `exists`, `getData`, `getChildren`, `getChildren2`, `getACL`, `getAllChildrenNumber`, `getEphemerals` and
//! `multiRead`; and the operations of watches: `addWatch`, `checkWatches`, `removeWatches` and `setWatches`.
//!
//! The first half translates the requests, the second half the results. A watch at a path that no node can have is accepted
//! and never fires.

use holdfast_service::{StreamAnswer, StreamRead, WatchKind, WatchMode, WatchSet};
use holdfast_types::{Multi, Rejection, Stat, ZnodePath};
use holdfast_zkwire::{
    AddWatchMode, ErrorCode, ReadOp, ReadResult, Response, SetWatches, WatcherType,
};

use super::{MultiReadItem, ReadFormat, ReplyFormat, StreamCall, ZkOperation};
use crate::context::members_text;
use crate::errors::error_code;
use crate::{paths, values};

pub(crate) fn exists(path: &str, watch: bool) -> ZkOperation {
    match paths::to_read(path) {
        Some(node) => read(StreamRead::Exists(node), watch, ReadFormat::Exists),
        None => ZkOperation::error(paths::exists_error(path)),
    }
}

pub(crate) fn node_data(path: &str, watch: bool) -> ZkOperation {
    read_node(StreamRead::Data, path, watch, ReadFormat::Data)
}

pub(crate) fn children(path: &str, watch: bool) -> ZkOperation {
    read_node(StreamRead::Children, path, watch, ReadFormat::Children)
}

pub(crate) fn children_with_stat(path: &str, watch: bool) -> ZkOperation {
    read_node(StreamRead::Children, path, watch, ReadFormat::Children2)
}

pub(crate) fn node_acl(path: &str) -> ZkOperation {
    read_node(StreamRead::Acl, path, false, ReadFormat::Acl)
}

pub(crate) fn descendant_count(path: &str) -> ZkOperation {
    read_node(StreamRead::Descendants, path, false, ReadFormat::DescendantCount)
}

pub(crate) fn ephemerals(prefix: String) -> ZkOperation {
    read(StreamRead::Ephemerals(prefix), false, ReadFormat::Ephemerals)
}

pub(crate) fn multi_read(reads: Vec<ReadOp>) -> ZkOperation {
    if reads.len() > Multi::OPS_MAX {
        return ZkOperation::error(ErrorCode::BadArguments);
    }
    let mut calls = Vec::new();
    let items = reads.into_iter().map(|read| {
        let (path, item, read): (_, _, fn(ZnodePath) -> StreamRead) = match read {
            ReadOp::GetData { path, .. } => (path, MultiReadItem::Data, StreamRead::Data),
            ReadOp::GetChildren { path, .. } => {
                (path, MultiReadItem::Children, StreamRead::Children)
            }
        };
        let Some(path) = paths::to_read(&path) else { return MultiReadItem::NoNode };
        calls.push(read(path));
        item
    });
    let items = items.collect();
    ZkOperation::new(StreamCall::ReadMany(calls), ReplyFormat::MultiRead(items))
}

fn read(read: StreamRead, watch: bool, format: ReadFormat) -> ZkOperation {
    ZkOperation::new(StreamCall::Read(read, watch), ReplyFormat::Read(format))
}

fn read_node(
    node: impl FnOnce(ZnodePath) -> StreamRead,
    path: &str,
    watch: bool,
    format: ReadFormat,
) -> ZkOperation {
    match paths::to_read(path) {
        Some(path) => read(node(path), watch, format),
        None => ZkOperation::error(paths::READ_ERROR),
    }
}

pub(crate) fn add_watch(path: &str, mode: AddWatchMode) -> ZkOperation {
    let mode = match mode {
        AddWatchMode::Persistent => WatchMode::Persistent,
        AddWatchMode::PersistentRecursive => WatchMode::PersistentRecursive,
        AddWatchMode::Unknown(_) => return ZkOperation::error(ErrorCode::MarshallingError),
    };
    match paths::to_read(path) {
        Some(path) => ZkOperation::new(StreamCall::AddWatch(path, mode), ReplyFormat::AddWatch),
        None => ZkOperation::fixed(Ok(Response::AddWatch)),
    }
}

pub(crate) fn check_watches(path: &str, kind: WatcherType) -> ZkOperation {
    existing(path, kind, StreamCall::CheckWatches)
}

pub(crate) fn remove_watches(path: &str, kind: WatcherType) -> ZkOperation {
    existing(path, kind, StreamCall::RemoveWatches)
}

fn existing(
    path: &str,
    kind: WatcherType,
    call: fn(ZnodePath, WatchKind) -> StreamCall,
) -> ZkOperation {
    let kind = match kind {
        WatcherType::Children => WatchKind::Child,
        WatcherType::Data => WatchKind::Data,
        WatcherType::Any => WatchKind::Any,
        WatcherType::Unknown(_) => return ZkOperation::error(ErrorCode::MarshallingError),
    };
    match paths::to_read(path) {
        Some(path) => ZkOperation::new(call(path, kind), ReplyFormat::WatchExists),
        None => ZkOperation::error(ErrorCode::NoWatcher),
    }
}

pub(crate) fn set_watches(watches: SetWatches) -> ZkOperation {
    let valid = |paths: Vec<String>| paths.iter().filter_map(|path| paths::to_read(path)).collect();
    let SetWatches { relative_zxid, data, exist, child, persistent, recursive } = watches;
    let set = WatchSet {
        data: valid(data),
        exist: valid(exist),
        child: valid(child),
        persistent: valid(persistent),
        persistent_recursive: valid(recursive),
    };
    let since = values::revision(relative_zxid);
    ZkOperation::new(StreamCall::SetWatches(since, set), ReplyFormat::Empty)
}

/// The reply to one read. `reply_loop` counts descendants. A result of another kind is a bug of this server.
pub(crate) fn response(format: ReadFormat, answer: StreamAnswer) -> Result<Response, ErrorCode> {
    Ok(match (format, with_members(answer)) {
        (ReadFormat::Exists, StreamAnswer::Exists(stat)) => Response::Stat(values::stat(&stat)),
        (ReadFormat::Data, StreamAnswer::Data { data, stat }) => {
            Response::Data { data: values::wire_data(data), stat: values::stat(&stat) }
        }
        (ReadFormat::Children, StreamAnswer::Children { names, .. }) => Response::Children(names),
        (ReadFormat::Children2, StreamAnswer::Children { names, stat }) => {
            Response::Children2 { children: names, stat: values::stat(&stat) }
        }
        (ReadFormat::Acl, StreamAnswer::Acl { acl, stat }) => {
            Response::Acl { acl: values::wire_acl(acl), stat: values::stat(&stat) }
        }
        (ReadFormat::Ephemerals, StreamAnswer::Ephemerals(paths)) => {
            Response::Ephemerals(paths.iter().map(ToString::to_string).collect())
        }
        _ => return Err(ErrorCode::SystemError),
    })
}

/// The reply to a `multiRead`. Each read fails independently.
pub(crate) fn multi_read_results(
    items: Vec<MultiReadItem>,
    answers: Vec<Result<StreamAnswer, Rejection>>,
) -> Vec<ReadResult> {
    let mut answers = answers.into_iter();
    let one = |item| {
        if item == MultiReadItem::NoNode {
            return ReadResult::Failed(ErrorCode::NoNode);
        }
        let answer = match answers.next() {
            Some(Ok(answer)) => with_members(answer),
            Some(Err(why)) => return ReadResult::Failed(error_code(&why)),
            None => return ReadResult::Failed(ErrorCode::SystemError),
        };
        match (item, answer) {
            (MultiReadItem::Data, StreamAnswer::Data { data, stat }) => {
                ReadResult::Data { data: values::wire_data(data), stat: values::stat(&stat) }
            }
            (MultiReadItem::Children, StreamAnswer::Children { names, .. }) => {
                ReadResult::Children(names)
            }
            _ => ReadResult::Failed(ErrorCode::SystemError),
        }
    };
    items.into_iter().map(one).collect()
}

/// Shows the members as the data of the node of an answer.
fn with_members(answer: StreamAnswer) -> StreamAnswer {
    let StreamAnswer::OfMembers { answer, members } = answer else { return answer };
    let Some(text) = members_text(&members) else { return *answer };
    let adapt =
        |stat: Stat| Stat { data_length: i32::try_from(text.len()).unwrap_or(i32::MAX), ..stat };
    match *answer {
        StreamAnswer::Exists(stat) => StreamAnswer::Exists(adapt(stat)),
        StreamAnswer::Data { stat, .. } => {
            StreamAnswer::Data { data: text.as_bytes().into(), stat: adapt(stat) }
        }
        StreamAnswer::Children { names, stat } => {
            StreamAnswer::Children { names, stat: adapt(stat) }
        }
        StreamAnswer::Acl { acl, stat } => StreamAnswer::Acl { acl, stat: adapt(stat) },
        other @ (StreamAnswer::Ephemerals(_)
        | StreamAnswer::OfMembers { .. }
        | StreamAnswer::Descendants(_)
        | StreamAnswer::Many(_)
        | StreamAnswer::Multi { .. }
        | StreamAnswer::Watched(_)
        | StreamAnswer::Done) => other,
    }
}
