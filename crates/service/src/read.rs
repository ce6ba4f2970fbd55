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
            Answer::Fence { valid: is_valid(mode, token, view), token, view }
        }
        Request::Acquire(_)
        | Request::Release { .. }
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
        | Request::Multi(_)
        | Request::Change { .. }
        | Request::Release { .. }
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

fn is_valid(mode: FenceMode, token: FencingToken, view: FenceView) -> bool {
    match mode {
        FenceMode::Current => view.current == Some(token),
        FenceMode::Monotonic => view.highest.is_none_or(|highest| token >= highest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: FencingToken = FencingToken(7);
    const NEW: FencingToken = FencingToken(9);

    #[test]
    fn only_the_present_holders_token_is_current() {
        let held = FenceView { current: Some(NEW), highest: Some(NEW) };
        assert!(is_valid(FenceMode::Current, NEW, held));
        assert!(!is_valid(FenceMode::Current, OLD, held));
        let free = FenceView { current: None, highest: Some(NEW) };
        assert!(!is_valid(FenceMode::Current, NEW, free));
    }

    #[test]
    fn monotonic_accepts_the_highest_and_refuses_less() {
        let free = FenceView { current: None, highest: Some(NEW) };
        assert!(is_valid(FenceMode::Monotonic, NEW, free));
        assert!(!is_valid(FenceMode::Monotonic, OLD, free));
        assert!(is_valid(FenceMode::Monotonic, OLD, FenceView { current: None, highest: None }));
    }
}
