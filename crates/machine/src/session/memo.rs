//! The first answers to requests that carry an id, so that a retry has no second effect.
//!
//! Bound: `memo_per_session_max`, and never more than [`Memo::MAX`] answers or, except for the last answer,
//! [`Memo::BYTES_MAX`]; the oldest answer is forgotten first.

use std::collections::VecDeque;
use std::hash::Hasher as _;

use holdfast_types::{Multi, MultiReply, Op, OpReply, Outcome, Reply, RequestId, ZnodePath};

use crate::digest::Fold;

/// One session's remembered answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memo {
    /// Oldest first.
    answers: VecDeque<(RequestId, Outcome)>,
    /// Invariant: what they weigh together.
    bytes: usize,
    /// Invariant: what of them their client has named.
    named: usize,
}

/// What a remembered answer keeps of the client's, bytes: the request's id and the paths it made.
fn named(request: &RequestId, outcome: &Outcome) -> usize {
    let result = |result: &OpReply| match result {
        OpReply::Created { path, .. } => path.as_str().len(),
        OpReply::Deleted { .. }
        | OpReply::DataSet { .. }
        | OpReply::AclSet { .. }
        | OpReply::Checked => 0,
    };
    let made = match outcome {
        Ok(Reply::Multi(MultiReply { results, .. })) => results.iter().map(result).sum(),
        Ok(_) | Err(_) => 0,
    };
    request.as_str().len() + made
}

/// What an answer weighs, roughly bytes: a multi has a path to each operation.
pub(crate) fn weight(outcome: &Outcome) -> usize {
    let result = |result: &OpReply| match result {
        OpReply::Created { path, .. } => 128 + path.as_str().len(),
        OpReply::Deleted { .. }
        | OpReply::DataSet { .. }
        | OpReply::AclSet { .. }
        | OpReply::Checked => 128,
    };
    match outcome {
        Ok(Reply::Multi(MultiReply { results, .. })) => {
            256 + results.iter().map(result).sum::<usize>()
        }
        Ok(_) | Err(_) => 256 + ZnodePath::MAX_LEN,
    }
}

/// The id under which an answer is remembered: the request's, and what it asked for. The same id given to another call is
/// another id, so that a call never gets the answer to a different one. Two hashes of 64 bits.
pub(crate) fn scoped(scope: &[&str], request: Option<&RequestId>) -> Option<RequestId> {
    let request = request?;
    let half = |seed| {
        let mut fold = Fold::from(seed);
        for part in scope.iter().chain([&request.as_str()]) {
            fold.write_usize(part.len());
            fold.write(part.as_bytes());
        }
        fold.finish()
    };
    RequestId::new(format!("~{:016x}{:016x}", half(1), half(2))).ok()
}

/// What a multi asks for: its operations and their places, whatever they write there.
pub(crate) fn scope_of(multi: &Multi) -> Vec<&str> {
    let mut scope = vec!["multi"];
    for op in multi.then.iter().chain(&multi.otherwise) {
        match op {
            Op::Create(create) => scope.extend(["create", create.directory.as_str(), &create.name]),
            Op::Delete { path, .. } => scope.extend(["delete", path.as_str()]),
            Op::SetData { path, .. } => scope.extend(["set", path.as_str()]),
            Op::SetAcl { path, .. } => scope.extend(["acl", path.as_str()]),
            Op::Check { path, .. } => scope.extend(["check", path.as_str()]),
        }
    }
    scope
}

impl Memo {
    /// What no limit can exceed: a look-up reads them all.
    pub(crate) const MAX: usize = 1024;

    /// What they weigh together at most, roughly bytes; the last one is kept whatever it weighs.
    pub(crate) const BYTES_MAX: usize = 256 * 1024;

    /// The first answer to a request; none if it is new, or forgotten.
    pub(crate) fn recall(&self, request: &RequestId) -> Option<&Outcome> {
        self.answers.iter().find(|(id, _)| id == request).map(|(_, outcome)| outcome)
    }

    /// Remembers an answer, and forgets the oldest beyond the bounds.
    pub(crate) fn remember(&mut self, request: RequestId, outcome: Outcome, count_max: u32) {
        let count_max = usize::try_from(count_max).unwrap_or(Self::MAX).min(Self::MAX);
        self.bytes += weight(&outcome);
        self.named += named(&request, &outcome);
        self.answers.push_back((request, outcome));
        let is_too_much = |memo: &Self| {
            memo.answers.len() > count_max
                || (memo.bytes > Self::BYTES_MAX && memo.answers.len() > 1)
        };
        while is_too_much(self)
            && let Some((request, oldest)) = self.answers.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(weight(&oldest));
            self.named = self.named.saturating_sub(named(&request, &oldest));
        }
    }

    /// What the client has named in the answers, bytes.
    pub(crate) fn bytes_named(&self) -> usize {
        self.named
    }

    /// The answers, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(RequestId, Outcome)> {
        self.answers.iter()
    }

    /// A memory read from a snapshot; none if it breaks the bound or names a request twice.
    pub(crate) fn restore(answers: Vec<(RequestId, Outcome)>) -> Option<Self> {
        let twice = (1..answers.len()).any(|i| {
            answers.iter().take(i).any(|(id, _)| Some(id) == answers.get(i).map(|a| &a.0))
        });
        let bytes = answers.iter().map(|(_, outcome)| weight(outcome)).sum();
        let named = answers.iter().map(|(request, outcome)| named(request, outcome)).sum();
        let sound = answers.len() <= Self::MAX && !twice;
        sound.then(|| Self { answers: answers.into(), bytes, named })
    }
}
