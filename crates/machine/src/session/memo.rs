//! The first answers to calls, so that a copy of a call has no second effect: a numbered call is executed once.
//!
//! Bounds: `memo_per_session_max` and [`Memo::MAX`] answers, and [`Memo::BYTES_MAX`] except for the last answer. The
//! oldest answer is forgotten first. A forgotten number raises the floor: no call up to it is executed again.

use std::collections::VecDeque;
use std::hash::Hasher as _;

use holdfast_types::{
    CallScope, Grant, MultiReply, NumberedCall, OpReply, Outcome, Rejection, Reply, RequestNumber,
    Revision, SessionId, SessionRejection, ZnodePath,
};
use serde::{Deserialize, Serialize};

use crate::Machine;
use crate::command_rules::Growth;
use crate::context::ApplyContext;
use crate::digest::DigestHasher;
use crate::lock::lock_entry::SLOT_BYTES;

/// A call whose answer a session remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum AnsweredCall {
    Request(RequestNumber, CallScope),
    /// An arrival at a barrier, by its ticket, and by its number if it has one.
    Arrival {
        ticket: Revision,
        request: Option<(RequestNumber, CallScope)>,
    },
    /// A hand-over that names a token.
    HandOver(CallScope),
}

impl AnsweredCall {
    /// The number of the call, and what it names.
    fn request(self) -> Option<(RequestNumber, CallScope)> {
        match self {
            Self::Request(number, scope) => Some((number, scope)),
            Self::Arrival { request, .. } => request,
            Self::HandOver(_) => None,
        }
    }
}

/// The first answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct RememberedAnswer {
    pub(crate) call: AnsweredCall,
    pub(crate) outcome: Outcome,
    /// The revision in which it was given.
    pub(crate) revision: Revision,
}

impl RememberedAnswer {
    /// The outcome of a copy of the call.
    pub(crate) fn repeated(&self) -> Outcome {
        let revision = self.revision;
        self.outcome.clone().map(|reply| Reply::Repeated { revision, reply: Box::new(reply) })
    }
}

/// The remembered answers of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Memo {
    /// Oldest first.
    pub(crate) answers: VecDeque<RememberedAnswer>,
    /// The largest forgotten number: a call up to it may have been executed.
    floor: RequestNumber,
    /// Invariant: the sum of [`weight`] over all answers.
    #[serde(skip)]
    bytes: usize,
    /// Invariant: the sum of [`named`] over all answers.
    #[serde(skip)]
    named: usize,
}

/// The number of bytes in an answer that the client has chosen: the created paths, or the slots and the value of a hold.
fn named(outcome: &Outcome) -> usize {
    let result = |result: &OpReply| match result {
        OpReply::Created { path, .. } => path.as_str().len(),
        OpReply::Deleted { .. }
        | OpReply::DataSet { .. }
        | OpReply::AclSet { .. }
        | OpReply::Checked => 0,
    };
    match outcome {
        Ok(Reply::Multi(MultiReply { results, .. })) => results.iter().map(result).sum(),
        Ok(Reply::HandedOver(Grant { slots, value, .. })) => {
            SLOT_BYTES * slots.len() + value.as_ref().map_or(0, |value| value.len())
        }
        Ok(_) | Err(_) => 0,
    }
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
        Ok(_) | Err(_) => 256 + ZnodePath::MAX_LEN + named(outcome),
    }
}

/// A fingerprint of the parts of a call: two 64-bit hashes.
pub(crate) fn scope_of(parts: &[&str]) -> CallScope {
    let half = |seed| {
        let mut fold = DigestHasher::from(seed);
        for part in parts {
            fold.write_usize(part.len());
            fold.write(part.as_bytes());
        }
        u128::from(fold.finish())
    };
    CallScope((half(1) << 64) | half(2))
}

impl Memo {
    /// The largest number of answers under any limit. A lookup reads all of them.
    pub(crate) const MAX: usize = 1024;

    /// The largest total size in bytes, approximately. The last answer is kept regardless of its size.
    pub(crate) const BYTES_MAX: usize = 256 * 1024;

    /// Creates an empty memo, with the floor of an ended session of the same name.
    pub(crate) fn after(floor: RequestNumber) -> Self {
        Self { floor, ..Self::default() }
    }

    /// The first answer to a call; `None` if the call is new or forgotten.
    fn recall(&self, call: AnsweredCall) -> Option<&RememberedAnswer> {
        self.answers.iter().find(|answer| answer.call == call)
    }

    /// The answer to the arrival with a ticket; `None` if it has none, or if it is forgotten.
    pub(crate) fn recall_arrival(&self, ticket: Revision) -> Option<&RememberedAnswer> {
        let is_same =
            |call| matches!(call, AnsweredCall::Arrival { ticket: of, .. } if of == ticket);
        self.answers.iter().find(|answer| is_same(answer.call))
    }

    /// The first answer to a numbered call; `None` if the call is new.
    ///
    /// # Errors
    /// The number belongs to another call, or may belong to a forgotten one.
    fn recall_request(
        &self,
        request: RequestNumber,
        scope: CallScope,
    ) -> Result<Option<&RememberedAnswer>, SessionRejection> {
        for answer in &self.answers {
            if let Some((number, of)) = answer.call.request()
                && number == request
            {
                let revision = answer.revision;
                let is_same = of == scope;
                return if is_same {
                    Ok(Some(answer))
                } else {
                    Err(SessionRejection::RequestMismatch { revision })
                };
            }
        }
        if request <= self.floor {
            return Err(SessionRejection::RequestOver { newest: self.newest() });
        }
        Ok(None)
    }

    fn is_answered(&self, request: RequestNumber) -> bool {
        self.answers.iter().any(|answer| number(answer) == request)
    }

    /// Remembers an answer, unless its number has one. Forgets the oldest answers beyond the bounds.
    pub(crate) fn remember(&mut self, mut answer: RememberedAnswer, count_max: u32) {
        let request = number(&answer);
        let is_used = request == RequestNumber(0) || self.is_answered(request);
        match answer.call {
            AnsweredCall::Request(..) if is_used => return,
            AnsweredCall::Arrival { ticket, .. } if is_used => {
                answer.call = AnsweredCall::Arrival { ticket, request: None };
            }
            AnsweredCall::Request(..)
            | AnsweredCall::Arrival { .. }
            | AnsweredCall::HandOver(_) => {}
        }
        let count_max = usize::try_from(count_max).unwrap_or(Self::MAX).min(Self::MAX);
        self.bytes += weight(&answer.outcome);
        self.named += named(&answer.outcome);
        self.answers.push_back(answer);
        let exceeds_bounds = |memo: &Self| {
            memo.answers.len() > count_max
                || (memo.bytes > Self::BYTES_MAX && memo.answers.len() > 1)
        };
        while exceeds_bounds(self)
            && let Some(oldest) = self.answers.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(weight(&oldest.outcome));
            self.named = self.named.saturating_sub(named(&oldest.outcome));
            self.floor = self.floor.max(number(&oldest));
        }
    }

    /// The largest number of any call, remembered or forgotten.
    pub(crate) fn newest(&self) -> RequestNumber {
        self.answers.iter().map(number).fold(self.floor, RequestNumber::max)
    }

    /// The number of bytes in the answers that the client has chosen.
    pub(crate) fn bytes_named(&self) -> usize {
        self.named
    }

    /// The approximate size of the answers in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.bytes
    }

    /// Computes the sums after a snapshot was read. Returns false if there are too many answers, or a call repeats.
    pub(crate) fn rebuild(&mut self) -> bool {
        let answers = &self.answers;
        let is_twice = |(at, answer): (usize, &RememberedAnswer)| {
            let number = number(answer);
            answers.iter().take(at).any(|before| {
                before.call == answer.call
                    || (number > RequestNumber(0) && self::number(before) == number)
            })
        };
        let twice = answers.iter().enumerate().any(is_twice);
        let sound = answers.len() <= Self::MAX && !twice;
        self.bytes = answers.iter().map(|answer| weight(&answer.outcome)).sum();
        self.named = answers.iter().map(|answer| named(&answer.outcome)).sum();
        sound
    }
}

/// The number of a call; 0 if it has none.
fn number(answer: &RememberedAnswer) -> RequestNumber {
    answer.call.request().map_or(RequestNumber(0), |(number, _)| number)
}

impl Machine {
    /// Runs a command, once if the call has a number. The session of the call must be open.
    pub(crate) fn once(
        &mut self,
        call: Option<NumberedCall>,
        growth: Growth,
        ctx: &mut ApplyContext<'_>,
        run: impl FnOnce(&mut Self, &mut ApplyContext<'_>) -> Outcome,
    ) -> Outcome {
        let Some(NumberedCall { session, request, scope }) = call else { return run(self, ctx) };
        let session = self.open_session_named(&session)?;
        if let Some(first) = self.recalled_request(session, request, scope)? {
            return first;
        }
        if growth != Growth::Nothing {
            self.check_room_for_reply(session)?;
        }
        let outcome = run(self, ctx);
        self.remember(session, AnsweredCall::Request(request, scope), outcome.clone());
        outcome
    }

    /// The outcome of a copy of a numbered call; `None` if the call is new.
    pub(crate) fn recalled_request(
        &self,
        session: SessionId,
        request: RequestNumber,
        scope: CallScope,
    ) -> Result<Option<Outcome>, Rejection> {
        let Some(session) = self.sessions.get(session) else { return Ok(None) };
        Ok(session.memo.recall_request(request, scope)?.map(RememberedAnswer::repeated))
    }

    /// The outcome of a copy of a call; `None` if the call is new or forgotten.
    pub(crate) fn recalled(&self, session: SessionId, call: AnsweredCall) -> Option<Outcome> {
        self.sessions.get(session)?.memo.recall(call).map(RememberedAnswer::repeated)
    }

    /// Remembers the answer of this command to a call.
    pub(crate) fn remember(&mut self, session: SessionId, call: AnsweredCall, outcome: Outcome) {
        let answer = RememberedAnswer { call, outcome, revision: self.revision };
        self.sessions.remember(session, answer, self.limits.memo_per_session_max);
    }
}
