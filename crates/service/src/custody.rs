//! Holds that others end or move: broken by an operator, asked for, handed over.
//!
//! Owns the audit line of what an operator breaks: who, what, why, and whether it was done. Refuses to know who may.

use holdfast_types::{AskRelease, Break, Broken, Command, HandOver, Reply};

use crate::answer::{Answer, Failure, Response};
use crate::request::Call;
use crate::service::{Service, respond};
use crate::session::known_as;

impl Service {
    pub(crate) async fn break_places(
        &self,
        call: Call,
        breaking: Break,
    ) -> Result<Response, Failure> {
        let Break { lock, what, reason } = breaking.clone();
        let what = match what {
            Broken::Holders => "holders".to_owned(),
            Broken::Ticket(ticket) => format!("ticket {ticket}"),
            Broken::Sequence(sequence) => format!("number {sequence}"),
            Broken::Token(token) => format!("token {token}"),
        };
        let by: Vec<_> = call.principal.identities().iter().map(known_as).collect();
        let by = by.join(" ");
        let proposed = self.propose(Command::Break(breaking)).await;
        let done = match &proposed {
            Ok((Ok(Reply::Broken { .. }), _)) => "yes",
            Err(Failure::OutcomeUnknown) => "unknown",
            Ok(_) | Err(_) => "no",
        };
        let holds_ended = match &proposed {
            Ok((Ok(Reply::Broken { places }), _)) => Some(*places),
            Ok(_) | Err(_) => None,
        };
        let (lock, reason) = (lock.as_str(), reason.as_str());
        tracing::info!(target: "audit", action = "break", lock, what, reason, by, done, holds_ended,
            request = call.request_id, "an operator took a lock away");
        let (outcome, revision) = proposed?;
        match outcome {
            Ok(Reply::Broken { places }) => Ok(respond(Answer::Broken { places }, revision)),
            Ok(_) => Err(Failure::OutcomeUnknown),
            Err(rejection) => Err(Failure::Rejected(rejection)),
        }
    }

    pub(crate) async fn ask_release(&self, ask: AskRelease) -> Result<Response, Failure> {
        let (outcome, revision) = self.propose(Command::AskRelease(ask)).await?;
        match outcome {
            Ok(Reply::ReleaseAsked { holders }) => {
                Ok(respond(Answer::ReleaseAsked { holders }, revision))
            }
            Ok(_) => Err(Failure::OutcomeUnknown),
            Err(rejection) => Err(Failure::Rejected(rejection)),
        }
    }

    pub(crate) async fn hand_over(&self, hand_over: HandOver) -> Result<Response, Failure> {
        let (outcome, revision) = self.propose(Command::HandOver(hand_over)).await?;
        match outcome {
            Ok(Reply::HandedOver(grant)) => Ok(respond(Answer::HandedOver(grant), revision)),
            Ok(_) => Err(Failure::OutcomeUnknown),
            Err(rejection) => Err(Failure::Rejected(rejection)),
        }
    }
}
