//! The memory of a decoded value beside its frame, computed from the capacities of its strings and vectors.
//!
//! Data shares the memory of the frame and is not counted.

use holdfast_zkwire::{
    Acl, AuthId, Create, MultiOp, MultiResult, ReadOp, ReadResult, Request, Response, SetWatches,
};

fn own<T>(items: &Vec<T>) -> usize {
    items.capacity() * size_of::<T>()
}

fn list<T>(items: &Vec<T>, of: impl Fn(&T) -> usize) -> usize {
    own(items) + items.iter().map(of).sum::<usize>()
}

fn texts(items: &Vec<String>) -> usize {
    list(items, String::capacity)
}

fn acls(items: &Vec<Acl>) -> usize {
    list(items, |acl| acl.scheme.capacity() + acl.id.capacity())
}

fn create(create: &Create) -> usize {
    create.path.capacity() + acls(&create.acl)
}

fn multi_op(op: &MultiOp) -> usize {
    match op {
        MultiOp::Create(op) => create(op),
        MultiOp::Delete { path, .. }
        | MultiOp::SetData { path, .. }
        | MultiOp::Check { path, .. } => path.capacity(),
    }
}

fn read_op(op: &ReadOp) -> usize {
    match op {
        ReadOp::GetData { path, .. } | ReadOp::GetChildren { path, .. } => path.capacity(),
    }
}

fn watches(watches: &SetWatches) -> usize {
    let SetWatches { relative_zxid: _, data, exist, child, persistent, recursive } = watches;
    [data, exist, child, persistent, recursive].into_iter().map(texts).sum()
}

/// The memory of a request, bytes.
pub(crate) fn of_request(request: &Request) -> usize {
    match request {
        Request::Create(op) => create(op),
        Request::Delete { path, .. }
        | Request::Exists { path, .. }
        | Request::GetData { path, .. }
        | Request::SetData { path, .. }
        | Request::GetAcl { path }
        | Request::GetChildren { path, .. }
        | Request::GetChildren2 { path, .. }
        | Request::Sync { path }
        | Request::Check { path, .. }
        | Request::CheckWatches { path, .. }
        | Request::RemoveWatches { path, .. }
        | Request::GetAllChildrenNumber { path }
        | Request::AddWatch { path, .. } => path.capacity(),
        Request::SetAcl { path, acl, .. } => path.capacity() + acls(acl),
        Request::Multi(ops) => list(ops, multi_op),
        Request::MultiRead(ops) => list(ops, read_op),
        Request::Reconfig(reconfig) => {
            let texts = [&reconfig.joining, &reconfig.leaving, &reconfig.members];
            texts.into_iter().flatten().map(String::capacity).sum()
        }
        Request::Auth { scheme, .. } => scheme.capacity(),
        Request::SetWatches(set) => watches(set),
        Request::GetEphemerals { prefix } => prefix.capacity(),
        Request::Ping
        | Request::DeleteContainer
        | Request::Sasl { .. }
        | Request::WhoAmI
        | Request::CloseSession
        | Request::Unknown(_) => 0,
    }
}

fn multi_result(result: &MultiResult) -> usize {
    match result {
        MultiResult::Created { path } | MultiResult::Created2 { path, .. } => path.capacity(),
        MultiResult::Deleted
        | MultiResult::DataSet { .. }
        | MultiResult::Checked
        | MultiResult::RolledBack
        | MultiResult::Failed(_) => 0,
    }
}

fn read_result(result: &ReadResult) -> usize {
    match result {
        ReadResult::Children(names) => texts(names),
        ReadResult::Data { .. } | ReadResult::Failed(_) => 0,
    }
}

fn id(id: &AuthId) -> usize {
    id.scheme.capacity() + id.id.capacity()
}

/// The memory of a reply, bytes.
pub(crate) fn of_response(response: &Response) -> usize {
    match response {
        Response::Created { path } | Response::Created2 { path, .. } | Response::Sync { path } => {
            path.capacity()
        }
        Response::Acl { acl, .. } => acls(acl),
        Response::Children(names)
        | Response::Children2 { children: names, .. }
        | Response::Ephemerals(names) => texts(names),
        Response::Multi(results) => list(results, multi_result),
        Response::MultiRead(results) => list(results, read_result),
        Response::WhoAmI(ids) => list(ids, id),
        Response::Stat(_)
        | Response::Data { .. }
        | Response::ChildrenCount(_)
        | Response::AddWatch
        | Response::Sasl { .. }
        | Response::Empty => 0,
    }
}
