//! Reads: linearizable after a barrier, or what this node has, labelled with its age.

use std::time::Duration;

use holdfast_machine::Machine;
use holdfast_types::{FenceView, FencingToken, Revision, SessionName};

use crate::acquire::WAITERS_SHOWN;
use crate::answer::{Answer, Failure, Response};
use crate::request::{FenceMode, ReadMode, Request};
use crate::service::Service;

impl Service {
    pub(crate) async fn read(&self, request: Request) -> Result<Response, Failure> {
        let mode = read_mode(&request);
        if mode == ReadMode::Linearizable {
            self.raft().read_barrier(self.deadline()).await?;
        }
        if let Request::Session { session, .. } = request {
            return self.read_session(&session, mode).await;
        }
        let look = |machine: &Machine| evaluate(machine, request);
        let (answer, revision) = self.raft().read(|machine| (look(machine), machine.revision()));
        Ok(self.labelled(answer?, revision, mode))
    }

    /// A session with what is left of its lease, which only the leader knows.
    async fn read_session(
        &self,
        session: &SessionName,
        mode: ReadMode,
    ) -> Result<Response, Failure> {
        let (view, revision) = (self.view(session)?, self.revision());
        let expires_in = match mode {
            ReadMode::Linearizable => self.remaining(session, self.deadline()).await?,
            ReadMode::Stale => Duration::ZERO,
        };
        Ok(self.labelled(Answer::Session { view, created: false, expires_in }, revision, mode))
    }

    pub(crate) fn labelled(&self, reply: Answer, revision: Revision, mode: ReadMode) -> Response {
        let leader_contact = match mode {
            ReadMode::Linearizable => None,
            ReadMode::Stale => Some(self.raft().status().leader_contact.unwrap_or(Duration::MAX)),
        };
        Response { reply, revision, leader_contact }
    }
}

fn evaluate(machine: &Machine, request: Request) -> Result<Answer, Failure> {
    Ok(match request {
        Request::Lock { lock, .. } => Answer::Lock(machine.lock(&lock, WAITERS_SHOWN)),
        Request::Locks { filter, after, limit, .. } => {
            Answer::Locks(machine.locks(&filter, after.as_deref(), limit))
        }
        Request::Sessions { after, limit, .. } => {
            Answer::Sessions(machine.sessions(after.as_deref(), limit))
        }
        Request::Fence { lock, token, mode, .. } => {
            let view = machine.fence(&lock);
            let valid = match mode {
                FenceMode::Current => machine.is_held_with(&lock, token),
                FenceMode::Monotonic => is_not_overtaken(token, view),
            };
            Answer::Fence { valid, token, view }
        }
        Request::Acquire(_)
        | Request::Recipe(_)
        | Request::Release { .. }
        | Request::SetPolicy { .. }
        | Request::AcquireAll(_)
        | Request::ReleaseAll { .. }
        | Request::Break(_)
        | Request::AskRelease(_)
        | Request::HandOver(_)
        | Request::OpenSession { .. }
        | Request::KeepAlive { .. }
        | Request::Listen(_)
        | Request::KeepManyAlive { .. }
        | Request::EndSession { .. }
        | Request::Explain { .. }
        | Request::History(_)
        | Request::Contention { .. }
        | Request::CloseSession { .. }
        | Request::Multi(_)
        | Request::Change { .. }
        | Request::Node { .. }
        | Request::Children { .. }
        | Request::Subtree { .. }
        | Request::Acl { .. }
        | Request::Session { .. } => return Err(Failure::OutcomeUnknown),
    })
}

pub(crate) fn read_mode(request: &Request) -> ReadMode {
    match request {
        Request::Lock { read, .. }
        | Request::Locks { read, .. }
        | Request::Contention { read, .. }
        | Request::Session { read, .. }
        | Request::Sessions { read, .. }
        | Request::Fence { read, .. }
        | Request::Node { read, .. }
        | Request::Children { read, .. }
        | Request::Subtree { read, .. }
        | Request::Acl { read, .. } => *read,
        Request::Acquire(_)
        | Request::Recipe(_)
        | Request::Multi(_)
        | Request::Change { .. }
        | Request::Release { .. }
        | Request::SetPolicy { .. }
        | Request::AcquireAll(_)
        | Request::ReleaseAll { .. }
        | Request::Break(_)
        | Request::AskRelease(_)
        | Request::HandOver(_)
        | Request::OpenSession { .. }
        | Request::KeepAlive { .. }
        | Request::Listen(_)
        | Request::KeepManyAlive { .. }
        | Request::EndSession { .. }
        | Request::Explain { .. }
        | Request::History(_)
        | Request::CloseSession { .. } => ReadMode::Linearizable,
    }
}

/// While somebody holds, only what is below the floor is stale; while nobody does, what is older than the last grant.
fn is_not_overtaken(token: FencingToken, view: FenceView) -> bool {
    match view.current {
        Some(_) => token >= view.floor,
        None => view.highest.is_none_or(|highest| token >= highest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_refuses_what_was_overtaken() {
        let [old, floor, newest, next] = [5, 7, 9, 10].map(FencingToken);
        let held = FenceView { current: Some(newest), floor, highest: Some(newest) };
        assert!(is_not_overtaken(floor, held) && is_not_overtaken(newest, held));
        assert!(!is_not_overtaken(old, held));
        let free = FenceView { current: None, floor: next, highest: Some(newest) };
        assert!(is_not_overtaken(newest, free) && !is_not_overtaken(floor, free));
        assert!(is_not_overtaken(old, FenceView { highest: None, ..free }));
    }
}
