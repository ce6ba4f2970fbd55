//! ZooKeeper's rules for reads: the reply, the watch that a read arms, and the changes that a returning client
//! missed.
//!
//! Each read runs within one read lock of the machine.

use holdfast_types::{Identity, Rejection, Revision, Stat, TreeRejection, ZnodePath};

use super::message::{NoticeKind, StreamAnswer, StreamRead, WatchMode, WatchSet};
use super::order::LockedStream;
use super::watch_table::WatchFlags;
use crate::failure::Failure;

impl LockedStream<'_> {
    /// Reads this node's state. With `watch`, arms the watch of the read.
    pub(crate) fn read(
        &mut self,
        read: &StreamRead,
        watch: bool,
        identities: &[Identity],
    ) -> Result<StreamAnswer, Failure> {
        let answer = self.evaluate(read, identities);
        if watch {
            self.arm_for(read, &answer)?;
        }
        answer.map_err(Failure::Rejected)
    }

    pub(crate) fn evaluate(
        &self,
        read: &StreamRead,
        identities: &[Identity],
    ) -> Result<StreamAnswer, Rejection> {
        let machine = self.machine;
        Ok(match read {
            StreamRead::Exists(path) => StreamAnswer::Exists(machine.exists(path, identities)?),
            StreamRead::Data(path) => {
                let (stat, data) = machine.get(path, identities)?;
                StreamAnswer::Data { data, stat }
            }
            StreamRead::Children(path) => {
                let (stat, names) = machine.list(path, identities)?;
                StreamAnswer::Children { names, stat }
            }
            StreamRead::Acl(path) => {
                let (acl, stat) = machine.acl(path, identities)?;
                StreamAnswer::Acl { acl, stat }
            }
            StreamRead::Ephemerals(prefix) => {
                StreamAnswer::Ephemerals(machine.ephemerals(self.session(), prefix))
            }
            StreamRead::Descendants(path) => {
                StreamAnswer::Descendants(machine.descendants(path, identities)?)
            }
        })
    }

    /// Arms the watch of a read. `Exists` also arms it for a missing node; a rejected read arms none.
    fn arm_for(
        &mut self,
        read: &StreamRead,
        answer: &Result<StreamAnswer, Rejection>,
    ) -> Result<(), Failure> {
        let answered = answer.is_ok();
        let is_missing = matches!(answer, Err(Rejection::Tree(TreeRejection::NoZnode { .. })));
        match read {
            StreamRead::Exists(path) if answered || is_missing => self.arm(path, WatchFlags::DATA),
            StreamRead::Data(path) if answered => self.arm(path, WatchFlags::DATA),
            StreamRead::Children(path) if answered => self.arm(path, WatchFlags::CHILD),
            StreamRead::Exists(_)
            | StreamRead::Data(_)
            | StreamRead::Children(_)
            | StreamRead::Acl(_)
            | StreamRead::Ephemerals(_)
            | StreamRead::Descendants(_) => Ok(()),
        }
    }

    /// Arms the watches of a client that has seen everything up to `relative`, or enqueues the notices that they
    /// missed.
    pub(crate) fn arm_again(&mut self, relative: Revision, set: &WatchSet) -> Result<(), Failure> {
        let data = |stat: Option<Stat>| match stat {
            None => Some(NoticeKind::Deleted),
            Some(stat) => (stat.mzxid > relative).then_some(NoticeKind::Changed),
        };
        let exist = |stat: Option<Stat>| stat.map(|_| NoticeKind::Created);
        let child = |stat: Option<Stat>| match stat {
            None => Some(NoticeKind::Deleted),
            Some(stat) => (stat.pzxid > relative).then_some(NoticeKind::ChildrenChanged),
        };
        self.arm_each(&set.data, WatchFlags::DATA, data)?;
        self.arm_each(&set.exist, WatchFlags::DATA, exist)?;
        self.arm_each(&set.child, WatchFlags::CHILD, child)?;
        let stays = |_| None;
        self.arm_each(&set.persistent, WatchFlags::of_mode(WatchMode::Persistent), stays)?;
        let recursive = WatchFlags::of_mode(WatchMode::PersistentRecursive);
        self.arm_each(&set.persistent_recursive, recursive, stays)
    }

    fn arm_each(
        &mut self,
        paths: &[ZnodePath],
        arms: WatchFlags,
        missed: impl Fn(Option<Stat>) -> Option<NoticeKind>,
    ) -> Result<(), Failure> {
        for path in paths {
            match missed(self.machine.stat(path)) {
                Some(kind) => self.missed(kind, path.clone()),
                None => self.arm(path, arms)?,
            }
        }
        Ok(())
    }
}
