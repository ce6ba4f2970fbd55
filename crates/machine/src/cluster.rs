//! The cluster itself: its id and its feature level.

use std::collections::BTreeSet;

use holdfast_types::{
    ClusterId, Event, FeatureLevel, Incarnation, NodeId, Outcome, Rejection, Reply, Revision, Stamp,
};
use serde::{Deserialize, Serialize};

use crate::Machine;
use crate::context::ApplyContext;
use crate::members::Members;

/// The newest backup that a node has sent completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LastBackup {
    /// When it was complete.
    pub at: Stamp,
    /// The revision of its state.
    pub revision: Revision,
    pub bytes: u64,
}

impl Machine {
    /// Records a backup, unless a newer one is recorded.
    pub(crate) fn record_backup(&mut self, backup: LastBackup) {
        if self.last_backup.is_none_or(|last| last.revision <= backup.revision) {
            self.last_backup = Some(backup);
        }
    }

    /// The id of the cluster; `None` until its first command.
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.cluster_id
    }

    pub fn level(&self) -> FeatureLevel {
        self.level
    }

    /// The newest complete backup.
    pub fn last_backup(&self) -> Option<LastBackup> {
        self.last_backup
    }

    pub(crate) fn check_level(&self, needed: FeatureLevel) -> Result<(), Rejection> {
        if needed > self.level { Err(Rejection::LevelTooLow { needed }) } else { Ok(()) }
    }

    /// Raises or lowers the level by one.
    pub(crate) fn set_level(&mut self, level: FeatureLevel, ctx: &mut ApplyContext<'_>) -> Outcome {
        if level < FeatureLevel::FIRST || level.0.abs_diff(self.level.0) > 1 {
            return Err(Rejection::LevelStep { level: self.level });
        }
        if level != self.level {
            self.level = level;
            ctx.emit(Event::LevelChanged { level });
        }
        Ok(Reply::LevelSet)
    }

    /// The first bootstrap decides. A copy of it changes nothing.
    pub(crate) fn bootstrap(
        &mut self,
        cluster_id: ClusterId,
        level: FeatureLevel,
        members: BTreeSet<NodeId>,
    ) -> Outcome {
        match self.cluster_id {
            Some(id) if id != cluster_id => return Err(Rejection::OtherCluster),
            Some(_) => {}
            None => {
                self.cluster_id = Some(cluster_id);
                self.level = level;
                self.members = Members::initial(members);
            }
        }
        Ok(Reply::Bootstrapped)
    }

    /// Gives the state to a new cluster with one member. Only a restore does so.
    pub(crate) fn become_new_cluster(
        &mut self,
        cluster_id: ClusterId,
        node: NodeId,
        incarnation: Incarnation,
    ) {
        self.cluster_id = Some(cluster_id);
        self.members = Members::restored(node, incarnation);
        self.last_backup = None;
        self.seal = None;
        // Other machines have other clocks.
        self.clocks = None;
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Command, Entry, Limits};

    use super::*;

    fn apply(machine: &mut Machine, command: Command) -> Outcome {
        let entry = Entry { stamped_at: Stamp(1), commands: vec![command] };
        machine.apply(entry).outcomes.remove(0)
    }

    #[test]
    fn a_command_above_the_level_of_the_cluster_is_rejected_and_changes_nothing() {
        let mut machine = Machine::new();
        machine.level = FeatureLevel(0);
        let limits = Limits { tree_bytes_max: 1, ..Limits::default() };
        let outcome = apply(&mut machine, Command::SetLimits(limits));
        assert_eq!(outcome, Err(Rejection::LevelTooLow { needed: FeatureLevel::FIRST }));
        assert_eq!(machine.limits, Limits::default());
        machine.level = FeatureLevel::FIRST;
        assert_eq!(apply(&mut machine, Command::SetLimits(limits)), Ok(Reply::LimitsSet));
    }

    #[test]
    fn the_first_bootstrap_decides() {
        let mut machine = Machine::new();
        assert_eq!(machine.cluster_id(), None);
        let bootstrap = |id| Command::Bootstrap {
            cluster_id: ClusterId(id),
            level: FeatureLevel(1),
            members: BTreeSet::new(),
        };
        assert_eq!(apply(&mut machine, bootstrap(7)), Ok(Reply::Bootstrapped));
        assert_eq!(apply(&mut machine, bootstrap(7)), Ok(Reply::Bootstrapped));
        assert_eq!(apply(&mut machine, bootstrap(8)), Err(Rejection::OtherCluster));
        assert_eq!(machine.cluster_id(), Some(ClusterId(7)));
    }
}
