//! The bound on the bytes that clients store (`tree_bytes_max`).
//!
//! The path, data, access list and queue entry of each znode count. Each permit of an entry but the first adds four bytes. The
//! name, labels and remembered answers of each live session count, too, and the keys of latches. The tree, the sessions and
//! the recipes update their sums with each change. A command, or an operation of a multi, is undone and rejected if it adds bytes and exceeds the bound. Item
//! counts, other parts of recipes and tombstones have bounds of their own and do not count here.

use holdfast_types::{AclEntry, Bound, Identity, Op, Outcome, Rejection, ZnodePath};

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};

/// An upper bound on the bytes that one command other than a multi adds: 16 queue entries with a value and slots, their
/// directories, and a session.
pub(crate) const COMMAND_BYTES_MAX: u64 = 4 << 20;
/// An upper bound on the bytes of the path and the queue entry of one new znode.
const ZNODE_BYTES_MAX: u64 = 4 << 10;

impl Machine {
    /// The number of bytes that clients have stored. O(1).
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.tree.totals().bytes + self.sessions.bytes() + self.recipes.bytes()
    }

    /// True if `more` bytes would exceed the bound.
    pub(crate) fn is_nearly_full(&self, more: u64) -> bool {
        self.stored_bytes().saturating_add(more) > self.limits.tree_bytes_max
    }

    /// Rejects growth beyond the bound. The caller undoes the change.
    pub(crate) fn check_growth(&self, before: u64) -> Result<(), Rejection> {
        let (max, now) = (self.limits.tree_bytes_max, self.stored_bytes());
        if now > max && now > before {
            return Err(limit_reached(Bound::TreeBytes, max));
        }
        Ok(())
    }

    /// Runs a command that may store bytes, and undoes it if it exceeds the bound.
    pub(crate) fn within_bytes(
        &mut self,
        ctx: &mut ApplyContext<'_>,
        run: impl FnOnce(&mut Self, &mut ApplyContext<'_>) -> Outcome,
    ) -> Outcome {
        if !self.is_nearly_full(COMMAND_BYTES_MAX) {
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

/// An upper bound on the bytes that these operations add.
pub(crate) fn stored_by(ops: &[Op], identities: &[Identity]) -> u64 {
    let identities: usize = identities.iter().map(bytes_of).sum();
    // The proved identities replace each entry with the scheme `auth`.
    let list = |acl: &[AclEntry]| acl.iter().map(|entry| bytes_of(&entry.who) + identities).sum();
    let of = |op: &Op| match op {
        Op::Create(create) => {
            let acl: usize = create.acl.as_deref().map_or(0, list);
            let directories = if create.parents { depth(&create.directory) } else { 0 };
            (directories + 1) * (ZNODE_BYTES_MAX + acl as u64) + create.data.len() as u64
        }
        Op::SetData { data, .. } => data.len() as u64,
        Op::SetAcl { acl, .. } => list(acl) as u64,
        Op::Delete { .. } | Op::Check { .. } => 0,
    };
    ops.iter().map(of).sum()
}

/// The largest number of directories that a path has, including itself.
fn depth(path: &ZnodePath) -> u64 {
    path.as_str().bytes().filter(|byte| *byte == b'/').count() as u64
}

/// The number of bytes of an identity.
pub(crate) fn bytes_of(who: &Identity) -> usize {
    who.scheme.len() + who.id.len()
}
