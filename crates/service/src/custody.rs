//! A hold that ends or changes hands otherwise than by being given back: broken, asked for, handed over.
//!
//! Owns the calls and their lines in the audit trail; the machine does the rest, and each node's `hub.rs` notes who lost
//! what. Refuses to know who may do it.

use holdfast_types::{AskRelease, Break, Broken, Command, HandOver, LockName, Reason, Reply};

use crate::answer::{Answer, Failure, Response};
use crate::request::{Call, CustodyRequest};
use crate::service::{Service, respond};
use crate::session::known_as;

impl Service {
    pub(crate) async fn custody(
        &self,
        call: Call,
        request: CustodyRequest,
    ) -> Result<Response, Failure> {
        match request {
            CustodyRequest::Break { lock, reason } => self.break_lock(call, lock, reason).await,
            CustodyRequest::AskRelease(ask) => self.ask_release(ask).await,
            CustodyRequest::HandOver(change) => self.hand_over(change).await,
        }
    }

    async fn break_lock(
        &self,
        call: Call,
        lock: LockName,
        reason: Reason,
    ) -> Result<Response, Failure> {
        let breaking = Break { lock: lock.clone(), what: Broken::Holders, reason: reason.clone() };
        let proposed = self.propose(Command::Break(breaking)).await;
        let done = match &proposed {
            Ok(_) => "yes",
            Err(Failure::OutcomeUnknown) => "unknown",
            Err(_) => "no",
        };
        let by: Vec<_> = call.principal.identities().iter().map(known_as).collect();
        tracing::info!(target: "audit", action = "break-lock", %lock, %reason, by = by.join(" "), done,
            request = call.request_id, node = self.node().0, "an operator took a lock from its holders");
        match proposed? {
            (Ok(Reply::Broken { places }), revision) => {
                Ok(respond(Answer::Broken { places }, revision))
            }
            (Ok(_), _) => Err(Failure::OutcomeUnknown),
            (Err(rejection), _) => Err(Failure::Rejected(rejection)),
        }
    }

    async fn ask_release(&self, ask: AskRelease) -> Result<Response, Failure> {
        match self.propose(Command::AskRelease(ask)).await? {
            (Ok(Reply::ReleaseAsked { holders }), revision) => {
                Ok(respond(Answer::ReleaseAsked { holders }, revision))
            }
            (Ok(_), _) => Err(Failure::OutcomeUnknown),
            (Err(rejection), _) => Err(Failure::Rejected(rejection)),
        }
    }

    async fn hand_over(&self, change: HandOver) -> Result<Response, Failure> {
        match self.propose(Command::HandOver(change)).await? {
            (Ok(Reply::HandedOver(grant)), revision) => {
                Ok(respond(Answer::HandedOver(grant), revision))
            }
            (Ok(_), _) => Err(Failure::OutcomeUnknown),
            (Err(rejection), _) => Err(Failure::Rejected(rejection)),
        }
    }
}
