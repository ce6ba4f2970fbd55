//! The model's answers to copies of calls.

use holdfast_types::*;

use super::{Model, Participant, scope};

/// A call whose answer a session remembers.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tests) enum Called {
    /// A number, and what the call does.
    Number(u64, String),
    /// The ticket of an arrival, and its number with what the call does.
    Arrival(u64, Option<(u64, String)>),
    HandOver(String),
}

impl Called {
    fn number(&self) -> Option<(u64, &str)> {
        match self {
            Self::Number(number, scope) | Self::Arrival(_, Some((number, scope))) => {
                Some((*number, scope))
            }
            Self::Arrival(_, None) | Self::HandOver(_) => None,
        }
    }
}

/// The answer to a copy of a call.
pub(in crate::tests) fn repeated((outcome, revision): (Outcome, u64)) -> Outcome {
    outcome.map(|reply| Reply::Repeated { revision: Revision(revision), reply: Box::new(reply) })
}

impl Model {
    /// Executes a command once, if the call has a number.
    pub(in crate::tests::recipe) fn apply_once(
        &mut self,
        call: Option<NumberedCall>,
        recipe: Recipe,
    ) -> Outcome {
        let Some(NumberedCall { session, request, scope }) = call else {
            return self.apply(recipe);
        };
        let scope = scope.0.to_string();
        let known = match self.live(&session) {
            Some(id) => self.recall_number(id, (request.0, &scope)).map(|first| (id, first)),
            None => self.gone(session).map(|_| unreachable!()),
        };
        match known {
            Ok((id, None)) => {
                let outcome = self.apply(recipe);
                let call = Called::Number(request.0, scope);
                self.remember(id, call, (&outcome, self.revision));
                outcome
            }
            Ok((_, Some(first))) => {
                self.tick();
                first
            }
            Err(rejection) => {
                self.tick();
                Err(rejection)
            }
        }
    }

    pub(in crate::tests) fn recall(&self, id: SessionId, call: &Called) -> Option<(Outcome, u64)> {
        let session = self.sessions.iter().find(|session| session.id == id)?;
        let known = session.memo.iter().find(|(known, ..)| known == call);
        known.map(|(_, first, revision)| (first.clone(), *revision))
    }

    pub(super) fn recall_arrival(&self, id: SessionId, ticket: u64) -> Option<Outcome> {
        let session = self.sessions.iter().find(|session| session.id == id)?;
        let is_same = |called: &Called| matches!(called, Called::Arrival(of, _) if *of == ticket);
        let known = session.memo.iter().find(|(called, ..)| is_same(called));
        known.map(|(_, first, _)| first.clone())
    }

    /// The first answer to a numbered call. A number that is forgotten, or belongs to another call, is rejected.
    pub(in crate::tests) fn recall_number(
        &self,
        id: SessionId,
        (number, scope): (u64, &str),
    ) -> Result<Option<Outcome>, Rejection> {
        let session = self.sessions.iter().find(|session| session.id == id).unwrap();
        for (called, outcome, revision) in &session.memo {
            match called.number() {
                Some(known) if known == (number, scope) => {
                    return Ok(Some(repeated((outcome.clone(), *revision))));
                }
                Some((known, _)) if known == number => {
                    let revision = Revision(*revision);
                    return Err(SessionRejection::RequestMismatch { revision }.into());
                }
                _ => {}
            }
        }
        if number <= session.floor {
            let newest = RequestNumber(self.newest(id));
            return Err(SessionRejection::RequestOver { newest }.into());
        }
        Ok(None)
    }

    pub(in crate::tests) fn remember(
        &mut self,
        id: SessionId,
        mut call: Called,
        (outcome, revision): (&Outcome, u64),
    ) {
        if self.sessions.iter().all(|session| session.id != id) {
            return;
        }
        let memo_max = self.limits.memo_per_session_max as usize;
        let session = self.sessions.iter_mut().find(|session| session.id == id).unwrap();
        let number = call.number().map(|(number, _)| number);
        let is_known = |(called, ..): &(Called, Outcome, u64)| {
            called.number().map(|(number, _)| number) == number
        };
        if number == Some(0) || number.is_some() && session.memo.iter().any(is_known) {
            let Called::Arrival(ticket, _) = call else { return };
            call = Called::Arrival(ticket, None);
        }
        session.memo.push((call, outcome.clone(), revision));
        let over = session.memo.len().saturating_sub(memo_max);
        for (called, ..) in session.memo.drain(..over) {
            session.floor = session.floor.max(called.number().map_or(0, |(number, _)| number));
        }
    }

    /// Remembers the final answer to an arrival.
    pub(super) fn answer(&mut self, party: &Participant, outcome: &Outcome) {
        let scope = scope(party.barrier_kind, &party.name, &party.owner);
        let call = Called::Arrival(party.ticket, party.request.map(|request| (request, scope)));
        self.remember(party.session, call, (outcome, self.revision));
    }

    /// The bytes of the memo that count: the paths that were created, and the slots and values of handed-over holds.
    pub(in crate::tests) fn bytes_remembered(&self) -> usize {
        let created_in = |result: &OpReply| match result {
            OpReply::Created { path, .. } => path.as_str().len(),
            _ => 0,
        };
        let answers = self.sessions.iter().flat_map(|session| &session.memo);
        let bytes = answers.map(|(_, outcome, _)| match outcome {
            Ok(Reply::Multi(MultiReply { results, .. })) => results.iter().map(created_in).sum(),
            Ok(Reply::HandedOver(grant)) => {
                4 * grant.slots.len() + grant.value.as_ref().map_or(0, |value| value.len())
            }
            _ => 0,
        });
        bytes.sum()
    }

    pub(super) fn over(&self, name: &SessionName) -> u64 {
        let ended = self.over.iter().filter(|(ended, _)| ended == name);
        ended.map(|(_, over)| *over).max().unwrap_or(0)
    }

    /// The largest number that a session has seen or forgotten.
    pub(super) fn newest(&self, id: SessionId) -> u64 {
        let session = self.sessions.iter().find(|session| session.id == id).unwrap();
        let number =
            |(called, ..): &(Called, Outcome, u64)| called.number().map_or(0, |(number, _)| number);
        session.memo.iter().map(number).max().unwrap_or(0).max(session.floor)
    }
}
