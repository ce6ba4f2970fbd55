//! The commands of the tree: create, delete, set data.
//!
//! Owns `ZooKeeper`'s checks and their order, and the recognition of contenders that come through the tree: an
//! ephemeral sequential child of a lock's directory is one. Refuses to know how a contender is granted.

use std::sync::Arc;

use holdfast_types::{
    Bound, Create, CreateKind, Delete, EntryId, Event, LockName, LossCause, Outcome, Owner,
    Rejection, Reply, SessionId, SetData, ZnodePath,
};

use crate::Machine;
use crate::apply::{Step, limit_reached};
use crate::contender::{Contender, Entries};
use crate::locks::Claim;
use crate::plant::Plant;
use crate::tree::{BUILT_IN, CONFIG, ZOOKEEPER};
use crate::znode::{Kind, Znode};

/// The end of every counter that the machine moves by one: far enough that no cluster lives to see it.
pub(crate) const COUNTER_END: u64 = 1 << 62;

/// A znode that may be created: all checks are done.
#[derive(Debug)]
struct Plan {
    directory: ZnodePath,
    path: ZnodePath,
    kind: Kind,
    sequence: u64,
    /// The lock whose queue it joins.
    contends: Option<(LockName, SessionId)>,
}

impl Machine {
    /// Creates a znode; one that contends for a lock joins its queue.
    pub(crate) fn create(
        &mut self,
        create: Create,
        caller: Option<SessionId>,
        step: &mut Step<'_>,
    ) -> Outcome {
        let plan = self.plan(&create, caller)?;
        let data: Arc<[u8]> = create.data.into();
        let path = plan.path.clone();
        if let Some((lock, session)) = plan.contends {
            let name = self.session_name(session);
            let Some(name) = name else { return Err(Rejection::Reserved { path }) };
            let entries = Entries::of(EntryId::unnamed());
            let owner = Owner::unnamed();
            let contender = Contender {
                path: plan.path,
                ..Contender::new(plan.sequence, session, name, owner, entries, step)
            };
            let contender = self.enqueue(&lock, &plan.directory, data, contender, step);
            if let Some(grant) = self.grant_of(&lock, &contender, false) {
                step.emit(Event::Granted(grant));
            }
        } else {
            let node = Znode::new(plan.kind, data, step.revision, step.now);
            self.tree.insert(&plan.directory, plan.path, node);
            step.emit(Event::NodeCreated { path: path.clone() });
        }
        let stat = self.tree.get(&path).map(Znode::stat).unwrap_or_default();
        Ok(Reply::Created { path, stat })
    }

    /// Deletes a znode without children; a contender's leaves the queue.
    pub(crate) fn delete(&mut self, delete: &Delete, step: &mut Step<'_>) -> Outcome {
        let path = &delete.path;
        let node = self.checked(path, delete.version)?;
        let Some(directory) = path.parent() else {
            return Err(Rejection::Reserved { path: path.clone() });
        };
        if BUILT_IN.contains(&path.as_str()) {
            return Err(Rejection::Reserved { path: path.clone() });
        }
        if node.children > 0 {
            return Err(Rejection::NotEmpty { path: path.clone() });
        }
        match (node.contender.clone(), directory.as_lock()) {
            (Some(contender), Some(lock)) => {
                self.leave(&Claim::of(&lock, &contender), LossCause::Deleted, step);
                self.grant_next(&lock, step);
            }
            (Some(_) | None, _) => self.remove_node(&directory, path, step),
        }
        Ok(Reply::Deleted)
    }

    /// Replaces a znode's data.
    pub(crate) fn set_data(&mut self, set: SetData, step: &mut Step<'_>) -> Outcome {
        let SetData { path, data, version, .. } = set;
        self.checked(&path, version)?;
        if path.as_str() == CONFIG {
            return Err(Rejection::Reserved { path });
        }
        self.room_for_data(&data)?;
        let Some(node) = self.tree.get_mut(&path) else { return Err(Rejection::NoNode { path }) };
        node.set_data(data.into(), step.revision, step.now);
        let stat = node.stat();
        step.emit(Event::NodeChanged { path });
        Ok(Reply::DataSet { stat })
    }

    /// Removes a znode that contends for nothing and has no children; with a lock's directory goes the lock.
    pub(crate) fn remove_node(
        &mut self,
        directory: &ZnodePath,
        path: &ZnodePath,
        step: &mut Step<'_>,
    ) {
        let was_lock = self.tree.get(path).is_some_and(|node| node.last_token.is_some());
        if was_lock && let Some(lock) = path.as_lock() {
            self.locks.forget(&lock);
        }
        self.tree.remove(directory, path, step.revision, step.now);
        step.emit(Event::NodeDeleted { path: path.clone() });
    }

    /// A container on the way to a lock's directory, or the directory itself.
    pub(crate) fn make_container(&mut self, path: &ZnodePath, step: &mut Step<'_>) {
        if let Some(parent) = path.parent() {
            let node = Znode::new(Kind::Container, Arc::default(), step.revision, step.now);
            self.tree.insert(&parent, path.clone(), node);
            step.emit(Event::NodeCreated { path: path.clone() });
        }
    }

    fn plan(&self, create: &Create, caller: Option<SessionId>) -> Result<Plan, Rejection> {
        let (directory, prefix) = split(&create.path, create.sequential)?;
        let Some(parent) = self.tree.get(&directory) else {
            return Err(Rejection::NoNode { path: directory });
        };
        if parent.is_ephemeral() {
            return Err(Rejection::NoChildrenForEphemerals { path: directory });
        }
        if [ZOOKEEPER, CONFIG].contains(&directory.as_str()) {
            return Err(Rejection::Reserved { path: create.path.clone() });
        }
        let sequence = self.next_sequence(parent);
        room_in_counter(sequence)?;
        let path = if create.sequential {
            child_path(&directory, &format!("{prefix}{sequence:010}"))?
        } else {
            create.path.clone()
        };
        if self.tree.contains(&path) {
            return Err(Rejection::NodeExists { path });
        }
        let kind = match (&create.kind, caller) {
            (CreateKind::Persistent, _) => Kind::Persistent,
            (CreateKind::Container, _) => Kind::Container,
            (CreateKind::Ephemeral, Some(session)) => Kind::Ephemeral(session),
            // Without a session there is nobody whose end would end it. No door asks for this.
            (CreateKind::Ephemeral, None) => return Err(Rejection::Reserved { path }),
        };
        self.room_for_data(&create.data)?;
        self.room_for_znodes(1)?;
        let contends = match (kind, create.sequential) {
            (Kind::Ephemeral(session), true) => directory.as_lock().map(|lock| (lock, session)),
            (Kind::Ephemeral(_) | Kind::Persistent | Kind::Container, _) => None,
        };
        if let Some((lock, session)) = &contends {
            self.room_for_a_contender(Some(*session), lock)?;
        }
        Ok(Plan { directory, path, kind, sequence, contends })
    }

    /// The node at a path, if it has this version.
    fn checked(&self, path: &ZnodePath, version: Option<i32>) -> Result<&Znode, Rejection> {
        let Some(node) = self.tree.get(path) else {
            return Err(Rejection::NoNode { path: path.clone() });
        };
        match version {
            Some(version) if version != node.version => {
                Err(Rejection::BadVersion { path: path.clone(), actual: node.version })
            }
            Some(_) | None => Ok(node),
        }
    }

    /// The number of a directory's next child.
    pub(crate) fn next_sequence(&self, directory: &Znode) -> u64 {
        if self.planted(Plant::SequenceReused) {
            return directory.children.into();
        }
        directory.created
    }

    /// Refuses some znodes too many.
    pub(crate) fn room_for_znodes(&self, count: usize) -> Result<(), Rejection> {
        let max = self.limits.znodes_max;
        if (self.tree.len() + count) as u64 > u64::from(max) {
            return Err(limit_reached(Bound::Znodes, max));
        }
        Ok(())
    }

    fn room_for_data(&self, data: &[u8]) -> Result<(), Rejection> {
        let max = self.limits.data_bytes_max;
        if data.len() as u64 > u64::from(max) {
            return Err(limit_reached(Bound::DataBytes, max));
        }
        Ok(())
    }
}

/// Directory and last component. The root is the empty component of itself: only a sequential create can mean that.
fn split(path: &ZnodePath, sequential: bool) -> Result<(ZnodePath, &str), Rejection> {
    match path.parent() {
        Some(directory) => Ok((directory, path.file_name())),
        None if sequential => Ok((ZnodePath::root(), "")),
        None => Err(Rejection::NodeExists { path: path.clone() }),
    }
}

/// A child's path.
pub(crate) fn child_path(directory: &ZnodePath, name: &str) -> Result<ZnodePath, Rejection> {
    let too_long = |_| limit_reached(Bound::PathLength, ZnodePath::MAX_LEN as u64);
    directory.child(name).map_err(too_long)
}

/// Refuses a child whose number would be beyond the end.
pub(crate) fn room_in_counter(sequence: u64) -> Result<(), Rejection> {
    if sequence >= COUNTER_END {
        return Err(limit_reached(Bound::Counter, COUNTER_END));
    }
    Ok(())
}
