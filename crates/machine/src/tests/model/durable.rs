//! The model's durable holds: which calls may name their sessions.

use holdfast_types::*;

use super::Model;

impl Model {
    /// Rejects all calls that name a session of durable holds, but two.
    pub(super) fn check_durable(
        call: Option<&NumberedCall>,
        command: &Command,
    ) -> Result<(), Rejection> {
        let numbered = call.iter().any(|call| call.session.is_durable());
        let named = names_of(command).into_iter().any(SessionName::is_durable);
        let fine = match command {
            Command::Acquire(acquire) if acquire.options.durable.is_some() => {
                named && has_only_options_of_durable_holds(acquire)
            }
            Command::Release(release) if matches!(release.target, ReleaseTarget::Hold(_)) => true,
            _ => !named,
        };
        if fine && !numbered {
            return Ok(());
        }
        Err(Rejection::OutOfBounds { what: OutOfBounds::Durable })
    }

    /// Closes the sessions of durable holds without an entry.
    pub(super) fn close_idle_durable(&mut self) {
        let durable = self.sessions.iter().filter(|session| session.name.is_durable());
        let ids: Vec<u64> = durable.map(|session| session.id).collect();
        ids.into_iter().for_each(|id| self.close_if_anonymous_and_idle(id));
    }
}

fn has_only_options_of_durable_holds(acquire: &Acquire) -> bool {
    let wrong = [
        acquire.attempt.is_none(),
        acquire.locks.is_multi_lock(),
        acquire.open.ttl.is_some(),
        acquire.open.password.is_some(),
        acquire.change.is_some(),
        acquire.mode == Some(Mode::Upgradable),
        acquire.shards.is_some(),
        acquire.options.max_hold_ms.is_some(),
        acquire.wait && acquire.wait_ms.is_none(),
    ];
    !wrong.contains(&true)
}

fn names_of(command: &Command) -> Vec<&SessionName> {
    match command {
        Command::OpenSession { open, .. } | Command::Acquire(Acquire { open, .. }) => {
            vec![&open.session]
        }
        Command::RenewSession { session }
        | Command::CloseSession { session, .. }
        | Command::EndSession { session, .. }
        | Command::Release(Release { session, .. }) => vec![session],
        Command::EndSessions { sessions, .. } => sessions.iter().map(|(name, _)| name).collect(),
        Command::HandOver(HandOver { from, to, .. }) => vec![&from.0, &to.0],
        Command::Multi(Multi { caller: Caller { session, attachment: None, .. }, .. }) => {
            session.iter().collect()
        }
        Command::Recipe(recipe) => match recipe {
            Recipe::Arrive(Arrive { open, .. }) => vec![&open.session],
            Recipe::Promise { session, .. }
            | Recipe::LeaveBarrier(LeaveBarrier { session, .. }) => vec![session],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}
