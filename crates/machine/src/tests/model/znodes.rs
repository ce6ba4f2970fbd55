//! The model's tree: create, delete, set, sweep.

use holdfast_types::*;

use super::{Model, Node, full, znode};

impl Model {
    pub(super) fn multi(&mut self, multi: Multi) -> Outcome {
        let before = self.clone();
        let mut results = Vec::new();
        for (at, op) in multi.then.into_iter().enumerate() {
            let result = match op {
                Op::Create(create) => self.create(create, multi.caller.session.clone()),
                Op::Delete { path, version, .. } => self.delete(path, version),
                Op::SetData { path, data, version } => self.set(path, data, version),
                Op::SetAcl { .. } | Op::Check { .. } => unreachable!(),
            };
            match result {
                Ok(result) => results.push(result),
                Err(why) => {
                    *self = before;
                    return Err(Rejection::OpRefused { at: at as u32, why: Box::new(why) });
                }
            }
        }
        Ok(Reply::Multi { succeeded: true, results })
    }

    fn create(
        &mut self,
        create: Create,
        session: Option<SessionName>,
    ) -> Result<OpReply, Rejection> {
        let above = create.directory.to_string();
        let path = format!("{}/{}", above.trim_end_matches('/'), create.name);
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
            return Err(full(Bound::DataBytes, self.limits.data_bytes_max).unwrap_err());
        }
        if self.nodes.len() as u32 >= self.limits.znodes_max {
            return Err(full(Bound::Znodes, self.limits.znodes_max).unwrap_err());
        }
        let ephemeral = create.kind == CreateKind::Ephemeral;
        let caller = session.filter(|_| ephemeral);
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
        Ok(OpReply::Created { path: znode(&path), stat: self.find(&path).unwrap().stat })
    }

    fn delete(&mut self, path: ZnodePath, version: Option<i32>) -> Result<OpReply, Rejection> {
        let built_in = ["/", "/locks", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"];
        if built_in.contains(&path.as_str()) {
            return Err(Rejection::Reserved { path });
        }
        let Some(node) = self.find(path.as_str()) else {
            return Err(Rejection::NoNode { path });
        };
        let actual = node.stat.version;
        if version.is_some_and(|version| version != actual) {
            return Err(Rejection::BadVersion { path, actual });
        }
        if node.stat.num_children > 0 {
            return Err(Rejection::NotEmpty { path });
        }
        self.remove(path.as_str());
        self.settle();
        Ok(OpReply::Deleted { count: 1 })
    }

    fn set(
        &mut self,
        path: ZnodePath,
        data: Vec<u8>,
        version: Option<i32>,
    ) -> Result<OpReply, Rejection> {
        let Some(node) = self.find(path.as_str()) else {
            return Err(Rejection::NoNode { path });
        };
        if path.as_str() == "/zookeeper/config" {
            return Err(Rejection::NotAllowed { path, needed: Perms::WRITE });
        }
        if data.len() > self.limits.data_bytes_max as usize {
            return Err(full(Bound::DataBytes, self.limits.data_bytes_max).unwrap_err());
        }
        let actual = node.stat.version;
        if version.is_some_and(|version| version != actual) {
            return Err(Rejection::BadVersion { path, actual });
        }
        let (revision, now) = (Revision(self.revision), Stamp(self.now));
        let node = self.find_mut(path.as_str());
        node.stat.data_length = data.len() as i32;
        node.data = data;
        node.stat.version += 1;
        node.stat.mzxid = revision;
        node.stat.mtime = now;
        Ok(OpReply::DataSet { stat: node.stat })
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
