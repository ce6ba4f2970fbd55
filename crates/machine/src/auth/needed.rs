//! The permissions and the sessions that a command needs (`command_rules.rs` has those of each command).

use holdfast_types::{
    Acquire, Arrive, Caller, CancelArrival, ChangeCounter, Condition, CounterChange, Create,
    HandOver, LeaveBarrier, LockName, Multi, Op, Recipe, Right, SessionId, SessionName, ZnodePath,
};

/// What a command needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Needed<'a> {
    /// A permission on a name.
    Permission(Right, std::borrow::Cow<'a, str>),
    /// A permission on every name that begins with this prefix.
    Below(Right, String),
    /// The session belongs to the caller, has no subject, or does not exist. The command may open it.
    NewOrOwnSession(&'a SessionName),
    /// As [`Needed::NewOrOwnSession`], for a command that needs the session.
    OwnSession(&'a SessionName),
    /// As [`Needed::OwnSession`]; the command names the session by its number.
    OwnSessionId(SessionId),
    /// The subject of the receiving session may acquire the lock.
    Receiver(&'a HandOver),
    /// The caller's own session, or the permission `session close` on its name.
    ClosableSession(&'a SessionName),
    /// The caller's own session. An operator ends the session of another subject with a command that leaves a record.
    OwnSessionToClose(&'a SessionName),
    /// A credential, or a permission of the role `anonymous`.
    Caller,
    /// The actor [`holdfast_types::Actor::Node`].
    Node,
}

/// What a command needs, before its contents are listed ([`needed_by`]).
#[derive(Clone, Debug)]
pub(crate) enum CommandNeeds<'a> {
    One(Needed<'a>),
    OpeningSession(&'a SessionName),
    EndingSessions(&'a [(SessionName, SessionId)]),
    Acquiring(&'a Acquire),
    HandingOver(&'a HandOver),
    Changing(&'a Multi),
    Using(&'a Recipe),
}

impl<'a> From<Needed<'a>> for CommandNeeds<'a> {
    fn from(needed: Needed<'a>) -> Self {
        Self::One(needed)
    }
}

impl Needed<'_> {
    /// An acquire and an arrival may open a session too; their permissions include this one.
    pub(crate) const OPEN_SESSION: Self =
        Self::Permission(Right::SessionOpen, std::borrow::Cow::Borrowed(""));
}

/// The rights of a multi that no access list binds: for reads and for changes.
pub(crate) const AS_ADMINISTRATOR: (Right, Right) = (Right::TreeAdmin, Right::TreeAdmin);

/// Calls `need` with everything that a command needs, until it fails.
pub(crate) fn needed_by<'a, E>(
    needs: &CommandNeeds<'a>,
    need: &mut impl FnMut(Needed<'a>) -> Result<(), E>,
) -> Result<(), E> {
    match *needs {
        CommandNeeds::One(ref needed) => need(needed.clone()),
        CommandNeeds::OpeningSession(session) => {
            need(Needed::OPEN_SESSION)?;
            need(Needed::NewOrOwnSession(session))
        }
        CommandNeeds::EndingSessions(sessions) => {
            sessions.iter().try_for_each(|(session, _)| need(Needed::ClosableSession(session)))
        }
        CommandNeeds::Acquiring(Acquire { locks, open, options, .. }) => {
            let is_durable = options.durable.is_some();
            let right = if is_durable { Right::LockDurable } else { Right::LockAcquire };
            for lock in locks.iter() {
                need(on_lock(right, lock))?;
            }
            need(Needed::NewOrOwnSession(&open.session))
        }
        CommandNeeds::HandingOver(hand_over) => {
            need(on_lock(Right::LockAcquire, &hand_over.lock))?;
            need(Needed::OwnSession(&hand_over.from.0))?;
            need(Needed::Receiver(hand_over))
        }
        CommandNeeds::Changing(multi) if multi.caller.is_superuser() => {
            needed_by_multi(multi, AS_ADMINISTRATOR, need)
        }
        CommandNeeds::Changing(multi) => {
            needed_by_multi(multi, (Right::TreeRead, Right::TreeWrite), need)
        }
        CommandNeeds::Using(recipe) => needed_by_recipe(recipe, need),
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
            // The cluster chooses the end of the name.
            Op::Create(Create { directory, sequential: true, .. }) => {
                need(below(writes, directory))?;
            }
            Op::Create(Create { directory, name, .. }) => {
                let directory = directory.as_str().trim_end_matches('/');
                let path = format!("{directory}/{name}").into();
                need(Needed::Permission(writes, path))?;
            }
            Op::Delete { path, recursive: true, .. } => {
                need(on_path(writes, path))?;
                need(below(writes, path))?;
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

pub(crate) fn on_lock(right: Right, lock: &LockName) -> Needed<'_> {
    Needed::Permission(right, lock.as_str().into())
}

/// A right without names.
pub(crate) fn on_all_names(right: Right) -> Needed<'static> {
    Needed::Permission(right, "".into())
}

fn on_path(right: Right, path: &ZnodePath) -> Needed<'_> {
    Needed::Permission(right, path.as_str().into())
}

/// A right on everything below a path.
fn below(right: Right, path: &ZnodePath) -> Needed<'static> {
    Needed::Below(right, format!("{}/", path.as_str().trim_end_matches('/')))
}
