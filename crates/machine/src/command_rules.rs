//! What the state machine knows of each command before it executes it: its level, what the caller needs, whether a seal refuses it,
//! what it may add, the locks whose timers run first, and its record in the audit trail. The match is exhaustive: a new
//! command does not compile without its row here.

use holdfast_types::{
    AuthChange, Cancel, Command, FeatureLevel, ForceRelease, HandOver, LockName, LockSet,
    MembershipChange, Multi, OpenSession, Release, RequestRelease, Right,
};

use crate::audit::describe::{self, Described};
use crate::auth::needed::{CommandNeeds, Needed, on_all_names, on_lock};

/// The rules of one command.
#[derive(Debug)]
pub(crate) struct CommandRules<'a> {
    /// The feature level from which on the log may have the command. A command that an older program does not know has a
    /// new level.
    pub(crate) level: FeatureLevel,
    pub(crate) needs: CommandNeeds<'a>,
    /// Whether it runs while the cluster is sealed. The others would change what clients have.
    pub(crate) runs_sealed: bool,
    pub(crate) growth: Growth,
    pub(crate) locks: NamedLocks<'a>,
    /// `None` for most commands. A multi that bypasses the queues of locks has a record too.
    pub(crate) audit: Option<Described>,
}

/// What a command may add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    Nothing,
    /// Items that a quota counts. A multi checks the bytes of each of its operations.
    Items,
    /// Stored bytes, and items that a quota counts.
    Bytes,
}

/// The locks that a command names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NamedLocks<'a> {
    None,
    One(&'a LockName),
    All(&'a LockSet),
    /// Those of its conditions, and those whose queues its operations change.
    OfMulti(&'a Multi),
}

impl<'a> CommandRules<'a> {
    pub(crate) fn of(command: &'a Command) -> Self {
        match command {
            Command::OpenSession { open: OpenSession { session, .. }, .. } => {
                Self::by(CommandNeeds::OpeningSession(session)).adding(Growth::Bytes)
            }
            // It only starts the next lease of a session.
            Command::RenewSession { session } => Self::by(Needed::OwnSession(session)).sealed(true),
            // The seal remembers it (`Machine::close_or_remember`).
            Command::CloseSession { session, .. } => {
                Self::by(Needed::OwnSessionToClose(session)).sealed(true)
            }
            Command::EndSession { session, reason, .. } => {
                let record = describe::end_of_session(session, reason);
                Self::by(Needed::ClosableSession(session)).recorded(record)
            }
            Command::EndSessions { subject, sessions, reason, total } => {
                let record = describe::end_of_sessions(subject, sessions, reason, *total);
                Self::by(CommandNeeds::EndingSessions(sessions)).recorded(record)
            }
            Command::AttachSession { session, .. } => Self::by(Needed::OwnSessionId(*session)),
            Command::ClaimSession { .. } => Self::by(Needed::OPEN_SESSION).adding(Growth::Items),
            Command::Acquire(acquire) => Self::by(CommandNeeds::Acquiring(acquire))
                .adding(Growth::Bytes)
                .naming(NamedLocks::All(&acquire.locks))
                .recorded(describe::durable_hold(acquire)),
            // A subject without the permission to acquire may still release what it holds.
            Command::Release(Release { locks, session, .. }) => {
                Self::by(Needed::OwnSession(session)).naming(NamedLocks::All(locks))
            }
            Command::HandOver(hand_over @ HandOver { lock, .. }) => {
                Self::by(CommandNeeds::HandingOver(hand_over))
                    .adding(Growth::Bytes)
                    .naming(NamedLocks::One(lock))
            }
            Command::RequestRelease(request @ RequestRelease { lock, .. }) => {
                Self::on(Right::LockRequestRelease, lock).recorded(describe::revocation(request))
            }
            Command::ForceRelease(release @ ForceRelease { lock, .. }) => {
                Self::on(Right::LockForceRelease, lock).recorded(describe::force_release(release))
            }
            Command::SetPolicy { lock, change } => Self::on(Right::LockPolicy, lock)
                .adding(Growth::Bytes)
                .recorded(describe::policy(lock, change)),
            Command::Multi(multi) => Self::by(CommandNeeds::Changing(multi))
                .adding(Growth::Items)
                .naming(NamedLocks::OfMulti(multi)),
            Command::Recipe(recipe) => Self::by(CommandNeeds::Using(recipe)).adding(Growth::Bytes),
            // After the loss of all access tokens, only a new administrator can end the seal.
            Command::Auth(change) => Self::by(on_all_names(Right::AuthManage))
                .sealed(matches!(change, AuthChange::AddAdministrator { .. }))
                .recorded(describe::auth_change(change)),
            Command::SetLevel(level) => Self::of_operators(false, describe::level(*level)),
            Command::Seal { reason } => Self::of_operators(true, describe::seal(reason)),
            Command::Unseal { .. } => Self::of_operators(true, describe::unseal()),
            Command::RecordOperation(operation) => Self::by(on_all_names(operation.right()))
                .sealed(true)
                .recorded(describe::operation(operation)),
            // Nodes propose these, when a wait ends, a stamp passes, or a node starts.
            Command::Cancel(Cancel { lock, .. }) => {
                Self::by(Needed::Node).naming(NamedLocks::One(lock))
            }
            Command::ExpireSession { .. }
            | Command::Sweep { .. }
            | Command::RunTimers { .. }
            | Command::RecordLeases { .. } => Self::by(Needed::Node),
            Command::Membership(MembershipChange::Finish { .. })
            | Command::SetLimits(_)
            | Command::RegisterNode { .. }
            | Command::Bootstrap { .. }
            | Command::RecordBackup { .. }
            | Command::VerifyState
            | Command::RecordClocks { .. } => Self::by(Needed::Node).sealed(true),
            Command::Membership(change) => Self::of_operators(true, describe::membership(change)),
            Command::As { command, .. } | Command::Once { command, .. } => Self::of(command),
        }
    }

    /// A command that adds nothing, names no lock, leaves no record, and does not run while the cluster is sealed.
    fn by(needs: impl Into<CommandNeeds<'a>>) -> Self {
        let (growth, locks) = (Growth::Nothing, NamedLocks::None);
        let (level, needs) = (FeatureLevel::FIRST, needs.into());
        Self { level, needs, runs_sealed: false, growth, locks, audit: None }
    }

    /// A command on one lock.
    fn on(right: Right, lock: &'a LockName) -> Self {
        Self::by(on_lock(right, lock)).naming(NamedLocks::One(lock))
    }

    fn of_operators(runs_sealed: bool, record: impl Into<Option<Described>>) -> Self {
        Self::by(on_all_names(Right::ClusterManage)).sealed(runs_sealed).recorded(record)
    }

    fn sealed(self, runs_sealed: bool) -> Self {
        Self { runs_sealed, ..self }
    }

    fn adding(self, growth: Growth) -> Self {
        Self { growth, ..self }
    }

    fn naming(self, locks: NamedLocks<'a>) -> Self {
        Self { locks, ..self }
    }

    fn recorded(self, audit: impl Into<Option<Described>>) -> Self {
        Self { audit: audit.into(), ..self }
    }
}
