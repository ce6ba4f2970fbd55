//! Sweeps containers that have been empty long enough, and znodes whose time-to-live is over.
//!
//! They are found through the node index, never by a scan. A container that never had a child waits longer, because its
//! creator may be about to use it. A znode with a time-to-live is swept when it has no children and its data was not
//! changed for that long. Bound: [`SWEEP_MAX`] znodes in one command.

use holdfast_types::{Stamp, ZnodePath};

use crate::Machine;
use crate::context::ApplyContext;
use crate::tree::znode::NodeIndexKey;

/// The most znodes that one command removes, whatever it asks for.
const SWEEP_MAX: u32 = 10_000;

/// A container that never had a child waits so many times as long as one that had.
const UNUSED_WAITS: u64 = 5;

impl Machine {
    /// Removes what is due, containers that were used first, then those that never were, then what has a time-to-live;
    /// of each the longest due first. Answers how many. A directory that becomes empty by this begins to be idle now.
    pub(crate) fn sweep(
        &mut self,
        empty_before: Stamp,
        count_max: u32,
        ctx: &mut ApplyContext<'_>,
    ) -> u32 {
        for swept in 0..count_max.min(SWEEP_MAX) {
            let Some(path) = self.due(empty_before, ctx.now).cloned() else { return swept };
            let Some(directory) = path.parent() else { return swept };
            self.remove_node(&directory, &path, ctx);
        }
        count_max.min(SWEEP_MAX)
    }

    /// Whether a sweep at `now` of containers empty since before `empty_before` would remove anything.
    pub fn anything_to_sweep(&self, empty_before: Stamp, now: Stamp) -> bool {
        self.due(empty_before, now).is_some()
    }

    fn due(&self, empty_before: Stamp, now: Stamp) -> Option<&ZnodePath> {
        let idle = now.0.saturating_sub(empty_before.0);
        let unused_before = empty_before.0.saturating_sub((UNUSED_WAITS - 1).saturating_mul(idle));
        let is_due = |order: &NodeIndexKey| match *order {
            NodeIndexKey::Idle(since) => since < empty_before,
            NodeIndexKey::Unused(since) => since.0 < unused_before,
            NodeIndexKey::Due(end) => end <= now,
            NodeIndexKey::OfSession(_) => false,
        };
        [NodeIndexKey::Idle(Stamp(0)), NodeIndexKey::Unused(Stamp(0)), NodeIndexKey::Due(Stamp(0))]
            .into_iter()
            .filter_map(|order| self.tree.orders.first_from(order))
            .find(|(order, _)| is_due(order))
            .map(|(_, path)| path)
    }
}
