//! The seal: commands of clients change nothing, and a renewal that keeps the TTL works.

use holdfast_types::*;

use super::Model;

impl Model {
    pub(super) fn seal(&mut self, reason: Reason) -> Reply {
        let (revision, since) = (Revision(self.revision), Stamp(self.now));
        let seal = Seal { revision, since, by: None, reason };
        Reply::Sealed(self.seal.get_or_insert(seal).clone())
    }

    pub(super) fn unseal(&mut self, revision: Revision) -> Outcome {
        if let Some(other) = self.seal.as_ref().filter(|seal| seal.revision != revision) {
            return Err(Rejection::OtherSeal { present: other.revision });
        }
        self.seal = None;
        let closed = std::mem::take(&mut self.closed_under_seal);
        let ended = self.sessions.iter().filter(|live| closed.contains(&live.id));
        let names: Vec<_> = ended.map(|live| live.name.clone()).collect();
        for name in &names {
            self.end_without_grants(name, LossCause::SessionClosed);
        }
        for session in closed {
            self.acknowledge_losses(session);
        }
        self.grant_all_waiters();
        Ok(Reply::Unsealed)
    }

    /// The session ends with the seal.
    pub(super) fn close_under_seal(
        &mut self,
        session: &SessionName,
        attachment: Option<Revision>,
        incarnation: Option<SessionId>,
    ) -> Outcome {
        let Some(live) = self.live(session) else {
            return Err(Rejection::Sealed(Box::new(self.seal.clone().unwrap())));
        };
        let id = live.id;
        if incarnation.is_none_or(|meant| meant.0 == id) {
            self.check_attachment(session, attachment)?;
            self.closed_under_seal.insert(id);
        }
        Ok(Reply::SessionEnded)
    }

    /// The model has no members and no backups.
    pub(super) fn check_seal(&self, command: &Command) -> Result<(), Rejection> {
        let Some(seal) = &self.seal else { return Ok(()) };
        match command {
            Command::RenewSession { .. }
            | Command::CloseSession { .. }
            | Command::SetLimits(_)
            | Command::Bootstrap { .. }
            | Command::Seal { .. }
            | Command::Unseal { .. } => Ok(()),
            _ => Err(Rejection::Sealed(Box::new(seal.clone()))),
        }
    }
}
