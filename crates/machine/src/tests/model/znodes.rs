//! The model's tree: create, delete, set, sweep.

use holdfast_types::*;

use super::{Model, Node, full, parent, znode};

impl Model {
    pub(super) fn create(&mut self, create: Create) -> Outcome {
        let path = create.path.as_str();
        let above = parent(path);
        let Some(directory) = self.find(&above) else {
            return Err(Rejection::NoNode { path: znode(&above) });
        };
        if directory.stat.ephemeral_owner > 0 {
            return Err(Rejection::NoChildrenForEphemerals { path: znode(&above) });
        }
        let sequence = directory.created;
        let suffix = if create.sequential { format!("{sequence:010}") } else { String::new() };
        let path = format!("{path}{suffix}");
        if self.find(&path).is_some() {
            return Err(Rejection::NodeExists { path: znode(&path) });
        }
        if create.data.len() > self.limits.data_bytes_max as usize {
            return full(Bound::DataBytes, self.limits.data_bytes_max);
        }
        if self.nodes.len() as u32 >= self.limits.znodes_max {
            return full(Bound::Znodes, self.limits.znodes_max);
        }
        let ephemeral = create.kind == CreateKind::Ephemeral;
        let caller = create.session.filter(|_| ephemeral);
        let lock = znode(&above).as_lock().filter(|_| ephemeral && create.sequential);
        match (caller, lock) {
            (Some(name), Some(lock)) => {
                let id = self.live(&name).unwrap().id;
                if let Some(refused) = self.no_room(id, &lock) {
                    return Err(refused);
                }
                let owner = Owner::unnamed();
                self.contend(&path, sequence, &name, owner, EntryId::unnamed(), &create.data);
            }
            (caller, _) => {
                let id = caller.map_or(0, |name| self.live(&name).unwrap().id as i64);
                let container = create.kind == CreateKind::Container;
                let owner = if container { CONTAINER_OWNER } else { id };
                self.add(&path, owner, &create.data, None);
            }
        }
        Ok(Reply::Created { path: znode(&path), stat: self.find(&path).unwrap().stat })
    }

    pub(super) fn delete(&mut self, delete: &Delete) -> Outcome {
        let path = delete.path.clone();
        let Some(node) = self.find(path.as_str()) else {
            return Err(Rejection::NoNode { path });
        };
        let actual = node.stat.version;
        if delete.version.is_some_and(|version| version != actual) {
            return Err(Rejection::BadVersion { path, actual });
        }
        if ["/", "/locks"].contains(&path.as_str()) || path.as_str().starts_with("/zookeeper") {
            return Err(Rejection::Reserved { path });
        }
        if node.stat.num_children > 0 {
            return Err(Rejection::NotEmpty { path });
        }
        self.remove(path.as_str());
        self.settle();
        Ok(Reply::Deleted)
    }

    pub(super) fn set(&mut self, set: &SetData) -> Outcome {
        let path = set.path.clone();
        let Some(node) = self.find(path.as_str()) else {
            return Err(Rejection::NoNode { path });
        };
        let actual = node.stat.version;
        if set.version.is_some_and(|version| version != actual) {
            return Err(Rejection::BadVersion { path, actual });
        }
        if path.as_str() == "/zookeeper/config" {
            return Err(Rejection::Reserved { path });
        }
        if set.data.len() > self.limits.data_bytes_max as usize {
            return full(Bound::DataBytes, self.limits.data_bytes_max);
        }
        let (revision, now) = (Revision(self.revision), Stamp(self.now));
        let node = self.find_mut(path.as_str());
        node.data.clone_from(&set.data);
        node.stat.data_length = set.data.len() as i32;
        node.stat.version += 1;
        node.stat.mzxid = revision;
        node.stat.mtime = now;
        Ok(Reply::DataSet { stat: node.stat })
    }

    pub(super) fn sweep(&mut self, empty_before: u64, count_max: u32) -> Reply {
        for count in 0..count_max {
            let empty = |node: &&Node| {
                node.stat.ephemeral_owner == CONTAINER_OWNER
                    && node.stat.num_children == 0
                    && node.emptied_at < empty_before
            };
            let idle = self.nodes.iter().filter(empty);
            let idlest = idle.min_by_key(|node| (node.emptied_at, node.path.clone()));
            match idlest.map(|node| node.path.clone()) {
                Some(path) => self.remove(&path),
                None => return Reply::Swept { count },
            }
        }
        Reply::Swept { count: count_max }
    }
}
