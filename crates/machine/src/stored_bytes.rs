//! The bound on the bytes that clients store (`tree_bytes_max`).
//!
//! What counts: the path, data, access list and place of each znode; the name, labels and remembered answers of each
//! live session. The tree and the sessions keep their sums up with every change. A command (of a multi, an operation)
//! that leaves more bytes than the bound, and more than there were before, is undone and rejected; whatever stores
//! nothing passes. Numbers of items have bounds of their own, and so have recipes and tombstones, which do not count
//! here.

use holdfast_types::{AclEntry, Bound, Command, Identity, Op, Outcome, Rejection, ZnodePath};

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};

/// More than one command that is no multi can add: 16 places with a value, their directories, and a session.
pub(crate) const OF_A_COMMAND: u64 = 4 << 20;
/// More than the path and the place of one new znode.
const OF_A_ZNODE: u64 = 4 << 10;

impl Machine {
    /// Bytes that clients have stored. O(1).
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.tree.totals().bytes + self.sessions.bytes()
    }

    /// True if so many bytes more could be beyond the bound.
    pub(crate) fn is_nearly_full(&self, more: u64) -> bool {
        self.stored_bytes().saturating_add(more) > self.limits.tree_bytes_max
    }

    /// Rejects what has grown beyond the bound; the caller undoes it.
    pub(crate) fn check_growth(&self, before: u64) -> Result<(), Rejection> {
        let (max, now) = (self.limits.tree_bytes_max, self.stored_bytes());
        if now > max && now > before {
            return Err(limit_reached(Bound::TreeBytes, max));
        }
        Ok(())
    }

    /// Runs a command that may store something, and undoes it if that is too much.
    pub(crate) fn within_bytes(
        &mut self,
        ctx: &mut ApplyContext<'_>,
        run: impl FnOnce(&mut Self, &mut ApplyContext<'_>) -> Outcome,
    ) -> Outcome {
        if !self.is_nearly_full(OF_A_COMMAND) {
            return run(self, ctx);
        }
        let before = self.stored_bytes();
        self.undo_if_rejected(ctx, |machine, ctx| {
            let outcome = run(machine, ctx);
            machine.check_growth(before)?;
            Ok(outcome)
        })?
    }
}

/// True for the commands that may store something. A multi looks after each of its operations; a hand-over puts one place
/// where another was.
pub(crate) fn may_store(command: &Command) -> bool {
    match command {
        Command::OpenSession(_)
        | Command::Acquire(_)
        | Command::SetPolicy { .. }
        | Command::Recipe(_) => true,
        Command::RenewSession { .. }
        | Command::CloseSession { .. }
        | Command::ExpireSession { .. }
        | Command::Release(_)
        | Command::Cancel(_)
        | Command::Multi(_)
        | Command::Sweep { .. }
        | Command::SetLimits(_)
        | Command::RegisterNode { .. }
        | Command::AttachSession { .. }
        | Command::Due { .. }
        | Command::Break(_)
        | Command::HandOver(_)
        | Command::RequestRelease(_) => false,
    }
}

/// More than these operations can add.
pub(crate) fn stored_by(ops: &[Op], shown: &[Identity]) -> u64 {
    let shown: usize = shown.iter().map(bytes_of).sum();
    // What the caller has proved stands for each entry of the scheme `auth`.
    let list = |acl: &[AclEntry]| acl.iter().map(|entry| bytes_of(&entry.who) + shown).sum();
    let of = |op: &Op| match op {
        Op::Create(create) => {
            let acl: usize = create.acl.as_deref().map_or(0, list);
            let directories = if create.parents { depth(&create.directory) } else { 0 };
            (directories + 1) * (OF_A_ZNODE + acl as u64) + create.data.len() as u64
        }
        Op::SetData { data, .. } => data.len() as u64,
        Op::SetAcl { acl, .. } => list(acl) as u64,
        Op::Delete { .. } | Op::Check { .. } => 0,
    };
    ops.iter().map(of).sum()
}

/// How many directories a path has at most, itself included.
fn depth(path: &ZnodePath) -> u64 {
    path.as_str().bytes().filter(|byte| *byte == b'/').count() as u64
}

/// Bytes of an identity.
pub(crate) fn bytes_of(who: &Identity) -> usize {
    who.scheme.len() + who.id.len()
}
