//! The sweep: containers that have been empty long enough go, through the log.
//!
//! Owns which containers those are. Found through the tree's order of idle containers, never by a scan.
//! Bound: [`SWEEP_MAX`] containers a command.

use holdfast_types::Stamp;

use crate::Machine;
use crate::apply::Step;

/// The most containers that one command removes, whatever it asks for.
const SWEEP_MAX: u32 = 10_000;

impl Machine {
    /// Removes containers that have been empty since before a stamp, longest empty first, and answers how many.
    /// A directory that becomes empty by this begins to be idle now.
    pub(crate) fn sweep(
        &mut self,
        empty_before: Stamp,
        count_max: u32,
        step: &mut Step<'_>,
    ) -> u32 {
        for swept in 0..count_max.min(SWEEP_MAX) {
            match self.tree.idlest() {
                Some((since, path)) if since < empty_before => {
                    let Some(directory) = path.parent() else { return swept };
                    self.remove_node(&directory, &path, step);
                }
                Some(_) | None => return swept,
            }
        }
        count_max.min(SWEEP_MAX)
    }
}
