//! What a request asks of the service, and what its reply will look like.
//!
//! Owns one arm for each request. Refuses to know sockets and what is decided: this is where the wire's words become
//! ours, and nothing is done yet.

use std::sync::Arc;

use holdfast_service::{StreamRead, WatchKind, WatchMode, WatchSet};
use holdfast_types::{Multi, Revision, ZnodePath};
use holdfast_zkwire::{
    AddWatchMode, ErrorCode, ReadOp, Request, Response, SetWatches, WatcherType,
};

use crate::identity::Identities;
use crate::reply::{ReadItem, Shape};
use crate::writes::Write;
use crate::{paths, values, writes};

/// What a connection knows when it understands a request.
#[derive(Debug)]
pub(crate) struct Known {
    /// Who the client is.
    pub(crate) identities: Identities,
    /// What is read at [`paths::CONFIG`]; `None` leaves what the tree has there, which is nothing.
    pub(crate) members: Option<Arc<str>>,
}

impl Known {
    fn members_at(&self, path: &str) -> Option<Arc<str>> {
        self.members.clone().filter(|_| path == paths::CONFIG)
    }

    /// The shape of a read, which shows the members where they are.
    fn shape_at(&self, path: &str, shape: Shape) -> Shape {
        match self.members_at(path) {
            Some(members) => Shape::Members(members, shape.into()),
            None => shape,
        }
    }
}

/// What the service is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Nothing: the reply is known. It takes its place in the order all the same.
    Nothing,
    /// One read, and whether it leaves a watch.
    Read(StreamRead, bool),
    /// Several, at one revision.
    ReadMany(Vec<StreamRead>),
    /// A change of the tree.
    Write(Multi),
    /// That this node has caught up.
    Sync,
    /// A watch that stays.
    AddWatch(ZnodePath, WatchMode),
    /// Whether a watch is there.
    CheckWatches(ZnodePath, WatchKind),
    /// That watches go.
    RemoveWatches(ZnodePath, WatchKind),
    /// That watches come back.
    SetWatches(Revision, WatchSet),
    /// That the session ends.
    Close,
    /// That somebody is known: scheme and proof.
    Prove(String, Vec<u8>),
}

/// A request, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// What is asked.
    pub(crate) question: Question,
    /// What is told.
    pub(crate) shape: Shape,
}

impl Plan {
    fn new(question: Question, shape: Shape) -> Self {
        Self { question, shape }
    }

    /// A reply that is known.
    pub(crate) fn known(reply: Result<Response, ErrorCode>) -> Self {
        Self::new(Question::Nothing, Shape::Fixed(reply))
    }

    fn refuse(code: ErrorCode) -> Self {
        Self::known(Err(code))
    }

    fn read(
        read: impl FnOnce(ZnodePath) -> StreamRead,
        path: &str,
        watch: bool,
        shape: Shape,
    ) -> Self {
        match paths::to_read(path) {
            Some(path) => Self::new(Question::Read(read(path), watch), shape),
            None => Self::refuse(paths::unreadable()),
        }
    }
}

impl From<Write> for Plan {
    fn from(write: Write) -> Self {
        Self::new(Question::Write(write.multi), write.shape)
    }
}

/// What a request means.
pub(crate) fn plan(request: Request, known: &Known) -> Plan {
    match request {
        Request::Create(create) => writes::single(writes::create(create)).into(),
        Request::Delete { path, version } => writes::single(writes::delete(&path, version)).into(),
        Request::SetData { path, data, version } => {
            writes::single(writes::set_data(&path, data, version)).into()
        }
        Request::SetAcl { path, acl, version } => {
            writes::single(writes::set_acl(&path, acl, version)).into()
        }
        Request::Check { path, version } => writes::single(writes::check(&path, version)).into(),
        Request::Multi(ops) => writes::many(ops).into(),
        Request::Exists { path, watch } => exists(&path, watch, known),
        Request::GetData { path, watch } => {
            Plan::read(StreamRead::Data, &path, watch, known.shape_at(&path, Shape::Data))
        }
        Request::GetChildren { path, watch } => {
            Plan::read(StreamRead::Children, &path, watch, Shape::Children)
        }
        Request::GetChildren2 { path, watch } => {
            Plan::read(StreamRead::Children, &path, watch, known.shape_at(&path, Shape::Children2))
        }
        Request::GetAcl { path } => {
            Plan::read(StreamRead::Acl, &path, false, known.shape_at(&path, Shape::Acl))
        }
        Request::GetAllChildrenNumber { path } => {
            Plan::read(StreamRead::Descendants, &path, false, Shape::Count)
        }
        Request::GetEphemerals { prefix } => {
            Plan::new(Question::Read(StreamRead::Ephemerals(prefix), false), Shape::Ephemerals)
        }
        Request::MultiRead(reads) => many_reads(reads, known),
        Request::Sync { path } => Plan::new(Question::Sync, Shape::Sync(path)),
        Request::Ping => Plan::known(Ok(Response::Empty)),
        Request::AddWatch { path, mode } => add_watch(&path, mode),
        Request::CheckWatches { path, kind } => watches(&path, kind, Question::CheckWatches),
        Request::RemoveWatches { path, kind } => watches(&path, kind, Question::RemoveWatches),
        Request::SetWatches(watches) => set_watches(watches),
        Request::Auth { scheme, auth, .. } => {
            let proof = auth.unwrap_or_default().into();
            Plan::new(Question::Prove(scheme, proof), Shape::Fixed(Ok(Response::Empty)))
        }
        Request::WhoAmI => Plan::known(Ok(Response::WhoAmI(known.identities.shown()))),
        Request::CloseSession => Plan::new(Question::Close, Shape::Empty),
        Request::Reconfig(_) => Plan::refuse(ErrorCode::ReconfigDisabled),
        Request::DeleteContainer | Request::Sasl { .. } => Plan::refuse(ErrorCode::Unimplemented),
        Request::Unknown(_) => {
            Plan::new(Question::Nothing, Shape::Parting(ErrorCode::Unimplemented))
        }
    }
}

fn exists(path: &str, watch: bool, known: &Known) -> Plan {
    let shape = known.shape_at(path, Shape::Exists);
    match paths::to_read(path) {
        Some(path) => Plan::new(Question::Read(StreamRead::Exists(path), watch), shape),
        None => Plan::refuse(paths::inexistent(path)),
    }
}

fn many_reads(reads: Vec<ReadOp>, known: &Known) -> Plan {
    if reads.len() > Multi::OPS_MAX {
        return Plan::refuse(ErrorCode::BadArguments);
    }
    let mut questions = Vec::new();
    let items = reads.into_iter().map(|read| {
        let (path, item, read): (_, _, fn(ZnodePath) -> StreamRead) = match read {
            ReadOp::GetData { path, .. } => {
                let item = known.members_at(&path).map_or(ReadItem::Data, ReadItem::Members);
                (path, item, StreamRead::Data)
            }
            ReadOp::GetChildren { path, .. } => (path, ReadItem::Children, StreamRead::Children),
        };
        let Some(path) = paths::to_read(&path) else { return ReadItem::Nowhere };
        questions.push(read(path));
        item
    });
    let items = items.collect();
    Plan::new(Question::ReadMany(questions), Shape::MultiRead(items))
}

/// Where no node can be, there is nothing to wait for.
fn add_watch(path: &str, mode: AddWatchMode) -> Plan {
    let mode = match mode {
        AddWatchMode::Persistent => WatchMode::Persistent,
        AddWatchMode::PersistentRecursive => WatchMode::PersistentRecursive,
        AddWatchMode::Unknown(_) => return Plan::refuse(ErrorCode::MarshallingError),
    };
    match paths::to_read(path) {
        Some(path) => Plan::new(Question::AddWatch(path, mode), Shape::AddWatch),
        None => Plan::known(Ok(Response::AddWatch)),
    }
}

fn watches(path: &str, kind: WatcherType, ask: fn(ZnodePath, WatchKind) -> Question) -> Plan {
    let kind = match kind {
        WatcherType::Children => WatchKind::Child,
        WatcherType::Data => WatchKind::Data,
        WatcherType::Any => WatchKind::Any,
        WatcherType::Unknown(_) => return Plan::refuse(ErrorCode::MarshallingError),
    };
    match paths::to_read(path) {
        Some(path) => Plan::new(ask(path, kind), Shape::Watched),
        None => Plan::refuse(ErrorCode::NoWatcher),
    }
}

fn set_watches(watches: SetWatches) -> Plan {
    let good = |paths: Vec<String>| paths.iter().filter_map(|path| paths::to_read(path)).collect();
    let SetWatches { relative_zxid, data, exist, child, persistent, recursive } = watches;
    let set = WatchSet {
        data: good(data),
        exist: good(exist),
        child: good(child),
        persistent: good(persistent),
        persistent_recursive: good(recursive),
    };
    Plan::new(Question::SetWatches(values::revision(relative_zxid), set), Shape::Empty)
}

#[cfg(test)]
mod tests;
