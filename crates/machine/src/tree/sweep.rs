//! Sweeps containers that have been empty long enough, and znodes whose TTL has expired.
//!
//! The node index finds them without a scan. A container that never had a child stays longer, because its creator may
//! be about to use it. A znode with a TTL is swept when it has no children and its data has not changed for that time.
//! Bound: [`SWEEP_MAX`] znodes in one command.

use holdfast_types::{Stamp, ZnodePath};

use crate::Machine;
use crate::context::ApplyContext;
use crate::tree::znode::NodeIndexKey;

/// The largest number of znodes that one command removes, regardless of its `count_max`.
const SWEEP_MAX: u32 = 10_000;

/// The factor by which a container that never had a child stays longer.
const UNUSED_WAITS: u64 = 5;

impl Machine {
    /// Removes expired znodes: first containers that had children, then containers that never had any, then znodes with
    /// a TTL; the longest expired first. Returns their number. A directory that a sweep empties is idle from now.
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

    /// True if a sweep at `now` of containers empty since before `empty_before` would remove a znode.
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
            .filter_map(|order| self.tree.node_indexes.first_from(order))
            .find(|(order, _)| is_due(order))
            .map(|(_, path)| path)
    }
}
