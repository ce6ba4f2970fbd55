//! ZooKeeper's rules for reads: the reply, the watch that a read arms, and the changes that a returning client
//! missed.
//!
//! Each read runs within one read lock of the machine.

use holdfast_machine::Machine;
use holdfast_types::{Identity, Rejection, Revision, Stat, TreeRejection, ZnodePath};

use super::message::{NoticeKind, StreamAnswer, StreamRead, WatchMode, WatchSet};
use super::order::LockedStream;
use super::watch_table::WatchFlags;
use crate::request::Failure;

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
                StreamAnswer::Descendants(Box::new(machine.descendants(path, identities)?))
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
        let is_missing = answer.as_ref().is_err_and(is_missing);
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
    /// missed. A notice shows no more than `exists`: a watch on a znode that the client may not read is armed.
    pub(crate) fn arm_again(
        &mut self,
        relative: Revision,
        set: &WatchSet,
        exists: impl Fn(&Machine, &ZnodePath) -> Result<Stat, Rejection>,
    ) -> Result<(), Failure> {
        let machine = self.machine;
        let read = |path: &ZnodePath| match exists(machine, path) {
            Ok(stat) => Seen::Znode(stat),
            Err(rejection) if is_missing(&rejection) => Seen::Nothing,
            Err(_) => Seen::Hidden,
        };
        let data = |path: &ZnodePath| match read(path) {
            Seen::Nothing => Some(NoticeKind::Deleted),
            Seen::Znode(stat) => (stat.mzxid > relative).then_some(NoticeKind::Changed),
            Seen::Hidden => None,
        };
        let exist = |path: &ZnodePath| match read(path) {
            Seen::Znode(_) => Some(NoticeKind::Created),
            Seen::Nothing | Seen::Hidden => None,
        };
        let child = |path: &ZnodePath| match read(path) {
            Seen::Nothing => Some(NoticeKind::Deleted),
            Seen::Znode(stat) => (stat.pzxid > relative).then_some(NoticeKind::ChildrenChanged),
            Seen::Hidden => None,
        };
        self.arm_each(&set.data, WatchFlags::DATA, data)?;
        self.arm_each(&set.exist, WatchFlags::DATA, exist)?;
        self.arm_each(&set.child, WatchFlags::CHILD, child)?;
        let stays = |_: &ZnodePath| None;
        self.arm_each(&set.persistent, WatchFlags::of_mode(WatchMode::Persistent), stays)?;
        let recursive = WatchFlags::of_mode(WatchMode::PersistentRecursive);
        self.arm_each(&set.persistent_recursive, recursive, stays)
    }

    fn arm_each(
        &mut self,
        paths: &[ZnodePath],
        arms: WatchFlags,
        missed: impl Fn(&ZnodePath) -> Option<NoticeKind>,
    ) -> Result<(), Failure> {
        for path in paths {
            match missed(path) {
                Some(kind) => self.missed(kind, path.clone()),
                None => self.arm(path, arms)?,
            }
        }
        Ok(())
    }
}

/// A znode as its watcher sees it.
enum Seen {
    Znode(Stat),
    Nothing,
    /// The watcher may not read it.
    Hidden,
}

fn is_missing(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::Tree(TreeRejection::NoZnode { .. }))
}
