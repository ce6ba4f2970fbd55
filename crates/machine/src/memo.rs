//! The first answers to requests that carry an id, so that a retry has no second effect.
//!
//! Owns one session's memory. Refuses to know what was asked.
//! Bound: `memo_per_session_max`, and never more than [`Memo::MAX`]; the oldest answer is forgotten first.

use std::collections::VecDeque;

use holdfast_types::{Outcome, RequestId, Revision, SessionEnd, SessionId, SessionName};

use crate::Machine;
use crate::apply::{Step, expired, no_session};
use crate::plant::Plant;
use crate::sessions::Named;

/// One session's remembered answers, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memo(VecDeque<(RequestId, Outcome)>);

impl Memo {
    /// What no limit can exceed: a look-up reads them all.
    pub(crate) const MAX: usize = 1024;

    /// The first answer to a request; none if it is new, or forgotten.
    pub(crate) fn recall(&self, request: &RequestId) -> Option<&Outcome> {
        self.0.iter().find(|(id, _)| id == request).map(|(_, outcome)| outcome)
    }

    /// Remembers an answer, and forgets the oldest beyond the bound.
    pub(crate) fn remember(&mut self, request: RequestId, outcome: Outcome, count_max: u32) {
        let count_max = usize::try_from(count_max).unwrap_or(Self::MAX).min(Self::MAX);
        self.0.push_back((request, outcome));
        let surplus = self.0.len().saturating_sub(count_max);
        self.0.drain(..surplus);
    }

    /// The answers, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(RequestId, Outcome)> {
        self.0.iter()
    }

    /// A memory read from a snapshot; none if it breaks the bound or names a request twice.
    pub(crate) fn restore(answers: Vec<(RequestId, Outcome)>) -> Option<Self> {
        let twice = (1..answers.len()).any(|i| {
            answers.iter().take(i).any(|(id, _)| Some(id) == answers.get(i).map(|a| &a.0))
        });
        (answers.len() <= Self::MAX && !twice).then(|| Self(answers.into()))
    }
}

impl Machine {
    /// Runs a command once for each request id of a session. The session, if one is named, must be live and speak
    /// through the connection that asks, if it is one.
    pub(crate) fn once(
        &mut self,
        step: &mut Step<'_>,
        (session, attachment, request): (Option<SessionName>, Option<Revision>, Option<RequestId>),
        run: impl FnOnce(&mut Self, Option<SessionId>, &mut Step<'_>) -> Outcome,
    ) -> Outcome {
        let Some(name) = session else { return run(self, None, step) };
        let caller = match self.sessions.named(&name) {
            Some(Named::Open(id)) => id,
            Some(Named::Ended { end: SessionEnd::Expired, .. }) => return Err(expired(name)),
            Some(Named::Ended { end: SessionEnd::Closed, .. }) | None => {
                return Err(no_session(name));
            }
        };
        self.refuse_if_moved(caller, attachment)?;
        let Some(request) = request else { return run(self, Some(caller), step) };
        let session = self.sessions.get(caller);
        let first = session.and_then(|session| session.memo.recall(&request));
        if let Some(first) = first.filter(|_| !self.planted(Plant::MemoBlind)) {
            return first.clone();
        }
        let outcome = run(self, Some(caller), step);
        let count_max = self.limits.memo_per_session_max;
        if let Some(session) = self.sessions.get_mut(caller) {
            session.memo.remember(request, outcome.clone(), count_max);
        }
        outcome
    }
}
