//! Watch operations: `addWatch`, `checkWatches`, `removeWatches` and `setWatches`.
//!
//! A watch at a path that no node can have is accepted and never fires.

use holdfast_service::{WatchKind, WatchMode, WatchSet};
use holdfast_types::ZnodePath;
use holdfast_zkwire::{AddWatchMode, ErrorCode, Response, SetWatches, WatcherType};

use super::operation::{ReplyFormat, StreamCall, ZkOperation};
use crate::{paths, values};

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
