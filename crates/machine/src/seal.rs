//! The seal of the cluster. While the cluster is sealed, commands change neither sessions nor locks nor the tree, and no
//! timer runs. A backup then has everything that clients have (`docs/contributing/adr/0020`).
//!
//! A client closes its session only once, so a close is accepted: the seal remembers it, and the session ends in the entry that
//! ends the seal. Bound: [`CLOSED_MAX`] sessions; a further close is rejected.

use holdfast_types::{
    Event, LossCause, Outcome, Reason, Rejection, Reply, Revision, Seal, SessionId, SessionName,
};
use imbl::OrdSet;

use crate::Machine;
use crate::command_rules::CommandRules;
use crate::context::ApplyContext;
use crate::session::store::KnownSession;

/// The sessions that one seal remembers as closed. The end of the seal ends them in one entry.
pub(crate) const CLOSED_MAX: usize = 10_000;

/// The seal in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ActiveSeal {
    pub(crate) seal: Seal,
    /// Open sessions that their clients have closed since.
    pub(crate) closed: OrdSet<SessionId>,
}

impl Machine {
    /// The seal, if the cluster is sealed.
    pub fn sealed(&self) -> Option<&Seal> {
        self.seal.as_ref().map(|active| &active.seal)
    }

    /// Seals the cluster. A second seal changes nothing, so a caller may retry.
    pub(crate) fn seal(&mut self, reason: Reason, ctx: &mut ApplyContext<'_>) -> Reply {
        if let Some(first) = self.sealed() {
            return Reply::Sealed(first.clone());
        }
        let rights = self.rights_of(&ctx.actor, self.now).ok();
        let by = rights.and_then(|rights| rights.subject()).cloned();
        let seal = Seal { revision: ctx.revision, since: self.now, by, reason };
        self.seal = Some(ActiveSeal { seal: seal.clone(), closed: OrdSet::new() });
        ctx.emit(Event::SealChanged);
        Reply::Sealed(seal)
    }

    /// Ends the seal of a revision. A late copy of the command finds a later seal, and changes nothing.
    pub(crate) fn unseal(&mut self, seal: Revision, ctx: &mut ApplyContext<'_>) -> Outcome {
        let present = self.sealed().map_or(seal, |present| present.revision);
        if present != seal {
            return Err(Rejection::OtherSeal { present });
        }
        self.end_seal(ctx);
        Ok(Reply::Unsealed)
    }

    /// Ends the seal, and the sessions that were closed under it.
    pub(crate) fn end_seal(&mut self, ctx: &mut ApplyContext<'_>) {
        if let Some(ActiveSeal { closed, .. }) = self.seal.take() {
            ctx.emit(Event::SealChanged);
            let named = |id: SessionId| Some((self.session_name(id)?, id));
            let sessions: Vec<_> = closed.iter().copied().filter_map(named).collect();
            // No lock is granted to a session that ends here.
            for session in closed {
                self.end_session_without_grants(session, LossCause::SessionClosed, ctx);
            }
            for (name, id) in sessions {
                self.acknowledge_losses(&name, id, ctx);
            }
            self.grant_stale(ctx);
        }
    }

    /// Whether the client of an open session has closed it under the seal.
    pub(crate) fn is_closed_under_seal(&self, session: SessionId) -> bool {
        self.seal.as_ref().is_some_and(|active| active.closed.contains(&session))
    }

    /// Closes a session; in a sealed cluster only remembers it.
    pub(crate) fn close_or_remember(
        &mut self,
        session: SessionName,
        attachment: Option<Revision>,
        incarnation: Option<SessionId>,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        match self.sealed() {
            None => self.close_session(session, attachment, incarnation, ctx),
            Some(seal) => {
                let sealed = Rejection::Sealed(Box::new(seal.clone()));
                self.close_under_seal(&session, attachment, incarnation, sealed)
            }
        }
    }

    /// Remembers the close of an open session. Rejects any other close, because it would change what clients have.
    fn close_under_seal(
        &mut self,
        session: &SessionName,
        attachment: Option<Revision>,
        incarnation: Option<SessionId>,
        sealed: Rejection,
    ) -> Outcome {
        let Some(KnownSession::Open(id)) = self.sessions.named(session) else { return Err(sealed) };
        if incarnation.is_some_and(|incarnation| incarnation != id) {
            return Ok(Reply::SessionEnded);
        }
        self.check_attachment(id, attachment)?;
        let Some(active) = &mut self.seal else { return Err(sealed) };
        if active.closed.len() >= CLOSED_MAX && !active.closed.contains(&id) {
            return Err(sealed);
        }
        active.closed.insert(id);
        Ok(Reply::SessionEnded)
    }

    /// Rejects a command that would change what clients have.
    pub(crate) fn check_seal(&self, rules: &CommandRules<'_>) -> Result<(), Rejection> {
        match self.sealed() {
            Some(seal) if !rules.runs_sealed => Err(Rejection::Sealed(Box::new(seal.clone()))),
            Some(_) | None => Ok(()),
        }
    }
}
