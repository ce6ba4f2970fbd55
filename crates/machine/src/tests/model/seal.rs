//! The seal: commands of clients change nothing, and a renewal that keeps the TTL works.

use holdfast_types::*;

use super::Model;

impl Model {
    pub(super) fn seal(&mut self, reason: Reason) -> Reply {
        let since = Stamp(self.now);
        Reply::Sealed(self.seal.get_or_insert(Seal { since, by: None, reason }).clone())
    }

    /// The model has no members and no backups.
    pub(super) fn check_seal(&self, command: &Command) -> Result<(), Rejection> {
        let Some(seal) = &self.seal else { return Ok(()) };
        match command {
            Command::RenewSession { .. }
            | Command::SetLimits(_)
            | Command::Bootstrap { .. }
            | Command::Seal { .. }
            | Command::Unseal => Ok(()),
            _ => Err(Rejection::Sealed(Box::new(seal.clone()))),
        }
    }
}
