//! The model's tree: the operations of a multi.

use holdfast_types::TreeRejection;
use holdfast_types::*;

use super::foreign::is_foreign;
use super::locks::{LockRequest, entry};
use super::queue_entries::EntryOrigin;
use super::{Model, Node, limit_reached, parent, znode};

/// The caller of an operation.
struct By {
    session: Option<SessionName>,
    shown: Vec<Identity>,
}

type Result<T> = std::result::Result<T, Rejection>;

impl Model {
    pub(super) fn multi(&mut self, multi: Multi) -> Outcome {
        let by = By { session: multi.caller.session, shown: multi.caller.identities };
        let mut succeeded = true;
        for condition in &multi.conditions {
            if !self.holds(condition, &by)? {
                succeeded = false;
                break;
            }
        }
        let before = self.clone();
        let mut results = Vec::new();
        let ops = if succeeded { multi.then } else { multi.otherwise };
        for (at, op) in ops.into_iter().enumerate() {
            let stored = self.stored_bytes();
            let done = self.op(op, &by);
            match done.and_then(|result| self.check_stored_bytes(stored).map(|()| result)) {
                Ok(result) => results.push(result),
                Err(why) => {
                    *self = before;
                    return Err(
                        TreeRejection::OfOperation { at: at as u32, why: Box::new(why) }.into()
                    );
                }
            }
        }
        self.grant_all_waiters();
        Ok(Reply::Multi(MultiReply { succeeded, results }))
    }

    fn holds(&self, condition: &Condition, by: &By) -> Result<bool> {
        let readable = |path: &ZnodePath| match self.find(path.as_str()) {
            Some(node) => may(node, Perms::READ, by).map(|()| Some(node)),
            None => Ok(None),
        };
        Ok(match condition {
            Condition::Exists { path, exists } => self.find(path.as_str()).is_some() == *exists,
            Condition::Version { path, version } => {
                readable(path)?.is_some_and(|node| node.stat.version == *version)
            }
            Condition::Data { path, data } => {
                readable(path)?.is_some_and(|node| node.data == *data)
            }
            Condition::Holds { lock, token } => {
                self.holders(lock).into_iter().any(|node| entry(node).token() == Some(token.0))
            }
            Condition::SessionOpen { session } => self.live(session).is_some(),
        })
    }

    fn op(&mut self, op: Op, by: &By) -> Result<OpReply> {
        match op {
            Op::Create(create) => self.create(create, by),
            Op::Delete { path, version, recursive } => self.delete(path, version, recursive, by),
            Op::SetData { path, data, version } => self.set(path, data.to_vec(), version, by),
            Op::SetAcl { path, acl, version } => {
                let acl = resolve_acl(&path, acl, by)?;
                let node = self.demand(&path, Perms::ADMIN, by)?;
                versions_agree(&path, version, node.stat.aversion)?;
                let node = self.find_mut(path.as_str());
                node.acl = acl;
                node.stat.aversion += 1;
                Ok(OpReply::AclSet { stat: node.stat })
            }
            Op::Check { path, version } => {
                let node = self.demand(&path, Perms::READ, by)?;
                versions_agree(&path, version, node.stat.version)?;
                Ok(OpReply::Checked)
            }
        }
    }

    fn demand(&self, path: &ZnodePath, needed: Perms, by: &By) -> Result<&Node> {
        let Some(node) = self.find(path.as_str()) else {
            return Err(TreeRejection::NoZnode { path: path.clone() }.into());
        };
        may(node, needed, by)?;
        Ok(node)
    }

    fn create(&mut self, create: Create, by: &By) -> Result<OpReply> {
        let Create { directory, name, data, kind, sequential, acl, parents } = create;
        let acl = match acl {
            Some(acl) => {
                let at = directory.child(&name).unwrap_or_else(|_| directory.clone());
                resolve_acl(&at, acl, by)?
            }
            None => None,
        };
        let mut missing = Vec::new();
        let mut nearest = directory.to_string();
        while parents && self.find(&nearest).is_none() {
            missing.insert(0, nearest.clone());
            nearest = parent(&nearest);
        }
        let ephemeral =
            |model: &Self, path: &str| model.find(path).is_some_and(|n| n.stat.ephemeral_owner > 0);
        if parents && ephemeral(self, &nearest) {
            return Err(TreeRejection::NoChildrenForEphemerals { path: znode(&nearest) }.into());
        }
        let sets_quota =
            |at: &&String| at.starts_with("/zookeeper/quota/") && at.ends_with("/zookeeper_limits");
        if let Some(at) = missing.iter().find(sets_quota) {
            return Err(TreeRejection::Reserved { path: znode(at) }.into());
        }
        let above = self.demand(&znode(&nearest), Perms::CREATE, by)?;
        if nearest == "/zookeeper" {
            return Err(TreeRejection::Reserved { path: znode(&nearest) }.into());
        }
        let sequence = if missing.is_empty() { above.counter() } else { above.floor };
        let suffix = if sequential { format!("{sequence:010}") } else { String::new() };
        let path = format!("{}/{name}{suffix}", directory.as_str().trim_end_matches('/'));
        if self.find(&path).is_some() {
            return Err(TreeRejection::ZnodeExists { path: znode(&path) }.into());
        }
        if ephemeral(self, directory.as_str()) {
            return Err(TreeRejection::NoChildrenForEphemerals { path: directory }.into());
        }
        let owner = match kind {
            CreateKind::Persistent => 0,
            CreateKind::Container => CONTAINER_OWNER,
            CreateKind::Ttl { ms } => TTL_OWNER + ms as i64,
            CreateKind::Ephemeral => match &by.session {
                Some(name) => self.live(name).unwrap().id as i64,
                None => return Err(TreeRejection::Reserved { path: znode(&path) }.into()),
            },
        };
        self.room_for_data(&data)?;
        if self.nodes.len() + missing.len() + 1 > self.limits.znodes_max as usize {
            return Err(limit_reached(Bound::Znodes, self.limits.znodes_max));
        }
        let all = [missing.clone(), vec![path.clone()]].concat();
        self.room_in_quotas(&path, &all, data.len())?;
        let lock = directory.as_lock().filter(|_| owner > 0 && sequential);
        let limit = lock.as_ref().and_then(|lock| self.policy(lock).limit);
        self.room_for_owner(owner, lock.as_ref(), LockRequest::of_tree(&path, limit))?;
        self.check_foreign_create(&path, owner, lock.is_some())?;
        missing.iter().for_each(|path| self.add_directory(path, acl.clone()));
        match (lock, &by.session) {
            (Some(lock), Some(session)) => {
                let open = super::queue_entries::plain(session.clone());
                let plain = Acquire::new(lock, open, Owner::unnamed());
                self.add_entry(&path, sequence, plain, EntryOrigin::Tree, &data);
                if !parents && !name.starts_with("_c_") {
                    self.keep(directory.as_str());
                }
            }
            _ => self.add(&path, owner, &data, None),
        }
        self.find_mut(&path).acl = acl;
        Ok(OpReply::Created { path: znode(&path), stat: self.find(&path).unwrap().stat })
    }

    /// Makes the directory of a lock of kazoo persistent.
    fn keep(&mut self, directory: &str) {
        let stat = &mut self.find_mut(directory).stat;
        if stat.ephemeral_owner == CONTAINER_OWNER && !is_foreign(directory, 0, false) {
            stat.ephemeral_owner = 0;
        }
    }

    /// The nearest existing ancestor of a directory, and the missing directories below it, parents first.
    pub(super) fn missing(&self, directory: &str) -> Result<(String, Vec<String>)> {
        let (mut nearest, mut missing) = (directory.to_owned(), Vec::new());
        while self.find(&nearest).is_none() {
            missing.insert(0, nearest.clone());
            nearest = parent(&nearest);
        }
        if self.find(&nearest).unwrap().stat.ephemeral_owner > 0 {
            return Err(TreeRejection::NoChildrenForEphemerals { path: znode(&nearest) }.into());
        }
        Ok((nearest, missing))
    }

    /// Whether a caller without identities has this permission.
    pub(super) fn anyone_may(&self, path: &str, needed: Perms) -> Result<()> {
        may(self.find(path).unwrap(), needed, &By { session: None, shown: Vec::new() })
    }

    /// Checks the session's bound for entries, or for other ephemerals.
    fn room_for_owner(
        &self,
        owner: i64,
        lock: Option<&LockName>,
        request: LockRequest,
    ) -> Result<()> {
        let max = self.limits.ephemerals_per_session_max;
        match lock {
            Some(lock) => self.no_room(owner.cast_unsigned(), lock, request).map_or(Ok(()), Err),
            None if owner > 0 && self.owned(owner) >= max as usize => {
                Err(limit_reached(Bound::EphemeralsPerSession, max))
            }
            None => Ok(()),
        }
    }

    /// Creates a directory: a container if it is below `/locks`.
    pub(super) fn add_directory(&mut self, path: &str, acl: Option<Vec<AclEntry>>) {
        let owner = if path.starts_with("/locks/") { CONTAINER_OWNER } else { 0 };
        self.add(path, owner, &[], None);
        self.find_mut(path).acl = acl;
    }

    fn delete(
        &mut self,
        path: ZnodePath,
        version: Option<i32>,
        recursive: bool,
        by: &By,
    ) -> Result<OpReply> {
        let built_in = ["/", "/locks", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"];
        if built_in.contains(&path.as_str()) {
            return Err(TreeRejection::Reserved { path }.into());
        }
        let Some(above) = self.find(&parent(path.as_str())) else {
            return Err(TreeRejection::NoZnode { path }.into());
        };
        may(above, Perms::DELETE, by)?;
        let Some(node) = self.find(path.as_str()) else {
            return Err(TreeRejection::NoZnode { path }.into());
        };
        versions_agree(&path, version, node.stat.version)?;
        if node.stat.num_children > 0 && !recursive {
            return Err(TreeRejection::NotEmpty { path }.into());
        }
        let inside = format!("{path}/");
        let mut doomed: Vec<Node> = vec![node.clone()];
        let mut below: Vec<Node> =
            self.nodes.iter().filter(|node| node.path.starts_with(&inside)).cloned().collect();
        below.sort_by_key(|node| (parent(&node.path), node.path.clone()));
        doomed.extend(below);
        for node in doomed.iter().filter(|node| node.stat.num_children > 0) {
            may(node, Perms::DELETE, by)?;
        }
        doomed.iter().rev().for_each(|node| self.leave(&node.path, LossCause::Deleted));
        self.close_idle_durable();
        self.changed.extend(znode(&parent(path.as_str())).as_lock());
        Ok(OpReply::Deleted { count: doomed.len() as u32 })
    }

    fn set(
        &mut self,
        path: ZnodePath,
        data: Vec<u8>,
        version: Option<i32>,
        by: &By,
    ) -> Result<OpReply> {
        let node = self.demand(&path, Perms::WRITE, by)?;
        let (had, actual) = (node.data.len(), node.stat.version);
        self.room_for_data(&data)?;
        self.room_in_quotas(path.as_str(), &[], data.len().saturating_sub(had))?;
        versions_agree(&path, version, actual)?;
        let (revision, now) = (Revision(self.revision), Stamp(self.now));
        let node = self.find_mut(path.as_str());
        node.stat.data_length = data.len() as i32;
        node.data = data;
        node.stat.version += 1;
        node.stat.mzxid = revision;
        node.stat.mtime = now;
        Ok(OpReply::DataSet { stat: node.stat })
    }

    fn room_for_data(&self, data: &[u8]) -> Result<()> {
        if data.len() > self.limits.data_bytes_max as usize {
            return Err(limit_reached(Bound::DataBytes, self.limits.data_bytes_max));
        }
        Ok(())
    }
}

fn may(node: &Node, needed: Perms, by: &By) -> Result<()> {
    let anyone = Identity::anyone();
    let covers = |entry: &AclEntry| {
        entry.perms.intersects(needed) && (entry.who == anyone || by.shown.contains(&entry.who))
    };
    if node.acl.as_ref().is_none_or(|acl| acl.iter().any(covers)) {
        return Ok(());
    }
    Err(Rejection::Tree(TreeRejection::NotAllowed { path: znode(&node.path), needed }))
}

/// The list as it is stored; `None` grants all permissions to everyone.
fn resolve_acl(path: &ZnodePath, acl: Vec<AclEntry>, by: &By) -> Result<Option<Vec<AclEntry>>> {
    let mut kept = Vec::new();
    for entry in acl {
        let who = match (entry.who.scheme.as_str(), entry.who.id.as_str()) {
            ("world", "anyone") | ("digest" | "ip", _) => vec![entry.who],
            ("auth", _) => {
                by.shown.iter().filter(|shown| shown.scheme == "digest").cloned().collect()
            }
            _ => Vec::new(),
        };
        if who.is_empty() {
            return Err(TreeRejection::BadAcl { path: path.clone() }.into());
        }
        for who in who {
            let entry = AclEntry { perms: entry.perms, who };
            if !kept.contains(&entry) {
                kept.push(entry);
            }
        }
    }
    if kept.is_empty() {
        return Err(TreeRejection::BadAcl { path: path.clone() }.into());
    }
    Ok(Some(kept).filter(|kept| *kept != [AclEntry::open()]))
}

fn versions_agree(path: &ZnodePath, expected: Option<i32>, actual: i32) -> Result<()> {
    if expected.is_some_and(|expected| expected != actual) {
        return Err(TreeRejection::BadVersion { path: path.clone(), actual }.into());
    }
    Ok(())
}
