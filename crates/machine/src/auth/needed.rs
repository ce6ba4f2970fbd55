//! The permissions and the sessions that a command needs. The match is exhaustive: a new command does not compile without
//! its line here.

use holdfast_types::{
    Acquire, Arrive, Break, Caller, CancelArrival, ChangeCounter, Command, Condition,
    CounterChange, Create, HandOver, LeaveBarrier, LockName, MembershipChange, Multi, Op,
    OpenSession, Recipe, Release, RequestRelease, Right, SessionId, SessionName, ZnodePath,
};

/// What a command needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Needed<'a> {
    /// A permission on a name.
    Permission(Right, std::borrow::Cow<'a, str>),
    /// The session belongs to the caller, has no subject, or does not exist. The command may open it.
    NewOrOwnSession(&'a SessionName),
    /// As [`Needed::NewOrOwnSession`], for a command that needs the session.
    OwnSession(&'a SessionName),
    /// As [`Needed::OwnSession`]; the command names the session by its number.
    OwnSessionId(SessionId),
    /// The subject of the session may acquire the lock, because the session receives it.
    Receiver(&'a SessionName, &'a LockName),
    /// The caller's own session, or the permission `session close` on its name.
    ClosableSession(&'a SessionName),
    /// A credential, or a permission of the role `anonymous`.
    Caller,
    /// The actor [`holdfast_types::Actor::Node`].
    Node,
}

/// An acquire and an arrival may open a session too; their permissions include this one.
const OPEN_SESSION: Needed<'_> =
    Needed::Permission(Right::SessionOpen, std::borrow::Cow::Borrowed(""));

/// The rights of a multi that no access list binds: for reads and for changes.
pub(crate) const AS_ADMINISTRATOR: (Right, Right) = (Right::TreeAdmin, Right::TreeAdmin);

/// Calls `need` with everything that the command needs, until it fails.
pub(crate) fn needed_by<'a, E>(
    command: &'a Command,
    need: &mut impl FnMut(Needed<'a>) -> Result<(), E>,
) -> Result<(), E> {
    match command {
        Command::OpenSession { open: OpenSession { session, .. }, .. } => {
            need(OPEN_SESSION)?;
            need(Needed::NewOrOwnSession(session))
        }
        // A subject without the permission may still release what it holds.
        Command::RenewSession { session, .. } | Command::Release(Release { session, .. }) => {
            need(Needed::OwnSession(session))
        }
        Command::CloseSession { session, .. } | Command::EndSession { session, .. } => {
            need(Needed::ClosableSession(session))
        }
        Command::EndSessions { sessions, .. } => {
            sessions.iter().try_for_each(|(session, _)| need(Needed::ClosableSession(session)))
        }
        Command::AttachSession { session, .. } => need(Needed::OwnSessionId(*session)),
        Command::Acquire(Acquire { locks, open, options, .. }) => {
            let is_durable = options.durable.is_some();
            let right = if is_durable { Right::LockDurable } else { Right::LockAcquire };
            for lock in locks.iter() {
                need(on_lock(right, lock))?;
            }
            need(Needed::NewOrOwnSession(&open.session))
        }
        Command::HandOver(HandOver { lock, from, to, .. }) => {
            need(on_lock(Right::LockAcquire, lock))?;
            need(Needed::OwnSession(&from.0))?;
            need(Needed::Receiver(&to.0, lock))
        }
        Command::RequestRelease(RequestRelease { lock, .. }) => {
            need(on_lock(Right::LockRequestRelease, lock))
        }
        Command::Break(Break { lock, .. }) => need(on_lock(Right::LockBreak, lock)),
        Command::SetPolicy { lock, .. } => need(on_lock(Right::LockPolicy, lock)),
        Command::Multi(multi) if multi.caller.is_superuser() => {
            needed_by_multi(multi, AS_ADMINISTRATOR, need)
        }
        Command::Multi(multi) => needed_by_multi(multi, (Right::TreeRead, Right::TreeWrite), need),
        Command::Recipe(recipe) => needed_by_recipe(recipe, need),
        Command::ClaimSession { .. } => need(OPEN_SESSION),
        Command::RecordOperation(operation) => {
            need(Needed::Permission(operation.right(), "".into()))
        }
        Command::Auth(_) => need(Needed::Permission(Right::AuthManage, "".into())),
        Command::SetLevel(_)
        | Command::Seal { .. }
        | Command::Unseal { .. }
        | Command::Membership(
            MembershipChange::Invite { .. }
            | MembershipChange::Update { .. }
            | MembershipChange::SetRole { .. }
            | MembershipChange::Replace { .. }
            | MembershipChange::Remove { .. },
        ) => need(Needed::Permission(Right::ClusterManage, "".into())),
        // Nodes propose them when a wait ends, a stamp passes, or a node starts.
        Command::Cancel(_)
        | Command::ExpireSession { .. }
        | Command::Sweep { .. }
        | Command::SetLimits(_)
        | Command::RegisterNode { .. }
        | Command::RunTimers { .. }
        | Command::Membership(MembershipChange::Finish { .. })
        | Command::RecordBackup { .. }
        | Command::VerifyState
        | Command::RecordClocks { .. }
        | Command::RecordLeases { .. }
        | Command::Bootstrap { .. } => need(Needed::Node),
        Command::As { command, .. } | Command::Once { command, .. } => needed_by(command, need),
    }
}

/// What a multi needs, with one right for the paths that it reads and one for those that it changes.
pub(crate) fn needed_by_multi<'a, E>(
    multi: &'a Multi,
    (reads, writes): (Right, Right),
    need: &mut impl FnMut(Needed<'a>) -> Result<(), E>,
) -> Result<(), E> {
    need(Needed::Caller)?;
    for condition in &multi.conditions {
        match condition {
            Condition::Exists { path, .. }
            | Condition::Version { path, .. }
            | Condition::Data { path, .. } => need(on_path(reads, path))?,
            Condition::Holds { lock, .. } => need(on_lock(Right::LockCheck, lock))?,
            // The condition does not hold for a session that the caller may not read.
            Condition::SessionOpen { .. } => {}
        }
    }
    for op in multi.then.iter().chain(&multi.otherwise) {
        match op {
            Op::Create(Create { directory, name, .. }) => {
                let directory = directory.as_str().trim_end_matches('/');
                let path = format!("{directory}/{name}").into();
                need(Needed::Permission(writes, path))?;
            }
            Op::Delete { path, .. } | Op::SetData { path, .. } | Op::SetAcl { path, .. } => {
                need(on_path(writes, path))?;
            }
            Op::Check { path, .. } => need(on_path(reads, path))?,
        }
    }
    // A connection proves that the session is its own with its attachment.
    match &multi.caller {
        Caller { session: Some(session), attachment: None, .. } => {
            need(Needed::OwnSession(session))
        }
        Caller { .. } => Ok(()),
    }
}

fn needed_by_recipe<'a, E>(
    recipe: &'a Recipe,
    need: &mut impl FnMut(Needed<'a>) -> Result<(), E>,
) -> Result<(), E> {
    if let Recipe::Arrive(Arrive { name, open, .. }) = recipe {
        need(Needed::Permission(Right::RecipeUse, name.as_str().into()))?;
        return need(Needed::NewOrOwnSession(&open.session));
    }
    let (right, name, session) = match recipe {
        Recipe::MakeLatch { latch, .. } | Recipe::CountDown { latch, .. } => {
            (Right::RecipeUse, latch, None)
        }
        Recipe::Promise { latch, session, .. } => (Right::RecipeUse, latch, Some(session)),
        Recipe::DeleteLatch { latch } => (Right::RecipeDelete, latch, None),
        Recipe::Arrive(Arrive { name, .. }) => (Right::RecipeUse, name, None),
        Recipe::LeaveBarrier(LeaveBarrier { name, session, .. }) => {
            (Right::RecipeUse, name, Some(session))
        }
        Recipe::CancelArrival(CancelArrival { .. }) => return need(Needed::Node),
        Recipe::ChangeCounter(ChangeCounter { counter, change }) => {
            let right = match change {
                CounterChange::Add { .. } | CounterChange::Set { .. } => Right::RecipeUse,
                CounterChange::Delete => Right::RecipeDelete,
            };
            (right, counter, None)
        }
    };
    need(Needed::Permission(right, name.as_str().into()))?;
    session.map_or(Ok(()), |session| need(Needed::OwnSession(session)))
}

fn on_lock(right: Right, lock: &LockName) -> Needed<'_> {
    Needed::Permission(right, lock.as_str().into())
}

fn on_path(right: Right, path: &ZnodePath) -> Needed<'_> {
    Needed::Permission(right, path.as_str().into())
}
