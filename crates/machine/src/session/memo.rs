//! The first answers to requests with an id, so that a retry has no second effect.
//!
//! Bounds: `memo_per_session_max` and [`Memo::MAX`] answers, and [`Memo::BYTES_MAX`] except for the last answer. The
//! oldest answer is forgotten first.

use std::collections::VecDeque;
use std::hash::Hasher as _;

use holdfast_types::{Multi, MultiReply, Op, OpReply, Outcome, Reply, RequestId, ZnodePath};

use crate::digest::DigestHasher;

/// The remembered answers of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memo {
    /// Oldest first.
    answers: VecDeque<(RequestId, Outcome)>,
    /// Invariant: the sum of [`weight`] over all answers.
    bytes: usize,
    /// Invariant: the sum of [`named`] over all answers.
    named: usize,
}

/// The number of bytes in an answer that the client has chosen: the request id and the created paths.
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

/// The approximate size of an answer in bytes. A multi has a path for each operation.
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

/// Returns the id under which an answer is remembered: two 64-bit hashes of the scope and the request id. A call with
/// the same id and another scope never gets this answer.
pub(crate) fn scoped(scope: &[&str], request: Option<&RequestId>) -> Option<RequestId> {
    let request = request?;
    let half = |seed| {
        let mut fold = DigestHasher::from(seed);
        for part in scope.iter().chain([&request.as_str()]) {
            fold.write_usize(part.len());
            fold.write(part.as_bytes());
        }
        fold.finish()
    };
    RequestId::new(format!("~{:016x}{:016x}", half(1), half(2))).ok()
}

/// The scope of a multi: its operations and their paths, without the data.
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
    /// The largest number of answers under any limit. A lookup reads all of them.
    pub(crate) const MAX: usize = 1024;

    /// The largest total size in bytes, approximately. The last answer is kept regardless of its size.
    pub(crate) const BYTES_MAX: usize = 256 * 1024;

    /// The first answer to a request; `None` if the request is new or forgotten.
    pub(crate) fn recall(&self, request: &RequestId) -> Option<&Outcome> {
        self.answers.iter().find(|(id, _)| id == request).map(|(_, outcome)| outcome)
    }

    /// Remembers an answer, and forgets the oldest answers beyond the bounds.
    pub(crate) fn remember(&mut self, request: RequestId, outcome: Outcome, count_max: u32) {
        let count_max = usize::try_from(count_max).unwrap_or(Self::MAX).min(Self::MAX);
        self.bytes += weight(&outcome);
        self.named += named(&request, &outcome);
        self.answers.push_back((request, outcome));
        let exceeds_bounds = |memo: &Self| {
            memo.answers.len() > count_max
                || (memo.bytes > Self::BYTES_MAX && memo.answers.len() > 1)
        };
        while exceeds_bounds(self)
            && let Some((request, oldest)) = self.answers.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(weight(&oldest));
            self.named = self.named.saturating_sub(named(&request, &oldest));
        }
    }

    /// The number of bytes in the answers that the client has chosen.
    pub(crate) fn bytes_named(&self) -> usize {
        self.named
    }

    /// The answers, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(RequestId, Outcome)> {
        self.answers.iter()
    }

    /// Creates the answers from a snapshot; `None` if there are too many, or a request repeats.
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
