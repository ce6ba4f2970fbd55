//! The seal of the cluster. While the cluster is sealed, commands change neither sessions nor locks nor the tree, and no
//! timer runs. A backup then has everything that clients have (`docs/contributing/adr/0020`).

use holdfast_types::{AuthChange, Command, Event, Reason, Rejection, Reply, Seal};

use crate::Machine;
use crate::context::ApplyContext;

impl Machine {
    /// The seal, if the cluster is sealed.
    pub fn sealed(&self) -> Option<&Seal> {
        self.seal.as_ref()
    }

    /// Seals the cluster. A second seal changes nothing, so a caller may retry.
    pub(crate) fn seal(&mut self, reason: Reason, ctx: &mut ApplyContext<'_>) -> Reply {
        if let Some(first) = &self.seal {
            return Reply::Sealed(first.clone());
        }
        let rights = self.rights_of(&ctx.actor, self.now).ok();
        let by = rights.and_then(|rights| rights.subject()).cloned();
        let seal = Seal { since: self.now, by, reason };
        self.seal = Some(seal.clone());
        ctx.emit(Event::SealChanged);
        Reply::Sealed(seal)
    }

    pub(crate) fn unseal(&mut self, ctx: &mut ApplyContext<'_>) -> Reply {
        if self.seal.take().is_some() {
            ctx.emit(Event::SealChanged);
        }
        Reply::Unsealed
    }

    /// Rejects a command that would change what clients have.
    pub(crate) fn check_seal(&self, command: &Command) -> Result<(), Rejection> {
        match &self.seal {
            Some(seal) if !is_allowed_while_sealed(command) => {
                Err(Rejection::Sealed(Box::new(seal.clone())))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// True for the commands that run the cluster itself, and for a renewal, which only starts the next lease of a session.
fn is_allowed_while_sealed(command: &Command) -> bool {
    match command {
        // After the loss of all access tokens, only a new administrator can end the seal.
        Command::Auth(change) => matches!(change, AuthChange::AddAdministrator { .. }),
        Command::RenewSession { .. }
        | Command::SetLimits(_)
        | Command::RegisterNode { .. }
        | Command::Bootstrap { .. }
        | Command::Membership(_)
        | Command::RecordBackup { .. }
        | Command::VerifyState
        | Command::RecordClocks { .. }
        | Command::Seal { .. }
        | Command::Unseal => true,
        Command::As { command, .. } | Command::Once { command, .. } => {
            is_allowed_while_sealed(command)
        }
        Command::OpenSession { .. }
        | Command::CloseSession { .. }
        | Command::ExpireSession { .. }
        | Command::Acquire(_)
        | Command::Release(_)
        | Command::Cancel(_)
        | Command::Multi(_)
        | Command::Sweep { .. }
        | Command::AttachSession { .. }
        | Command::Recipe(_)
        | Command::SetPolicy { .. }
        | Command::RunTimers { .. }
        | Command::Break(_)
        | Command::RequestRelease(_)
        | Command::HandOver(_)
        | Command::EndSession { .. }
        | Command::SetLevel(_)
        | Command::ClaimSession { .. } => false,
    }
}
