//! Changing and reading znodes, for callers without a stream, and the quotas of subtrees.
//!
//! A quota is a few znodes below `/zookeeper/quota`, which clients of ZooKeeper write too: the calls on quotas read and change the
//! same znodes, with the rights that a direct call on them needs.

use holdfast_machine::Machine;
use holdfast_types::{
    AclEntry, Bound, Caller, Condition, Create, CreateKind, Data, Multi, MultiReply, NodeView, Op,
    OpReply, Page, QuotaZnodes, Rejection, Reply, Right, Stat, SubtreeLimits, SubtreeQuotaView,
    TreeRejection, ZnodePath,
};

use crate::request::{Failure, ReadMode, Response};
use crate::service::Service;

#[derive(Clone, Debug)]
pub struct ZnodeContents {
    pub stat: Stat,
    pub data: Data,
}

#[derive(Clone, Debug)]
pub struct ZnodeAcl {
    /// Hashes are masked for callers that may not change the list.
    pub entries: Vec<AclEntry>,
    pub stat: Stat,
}

impl Service {
    /// Changes znodes, all or nothing, with the identities of the caller.
    ///
    /// # Errors
    /// `TreeRejection::OfOperation` has the index of the operation; otherwise the errors of any write.
    pub async fn multi(&self, multi: Multi) -> Result<Response<MultiReply>, Failure> {
        self.check_size(&multi)?;
        self.propose(self.identified(multi), Reply::into_multi).await
    }

    /// Changes one znode, with the identities of the caller.
    ///
    /// # Errors
    /// The rejection of the operation itself; otherwise the errors of any write.
    pub async fn change(&self, caller: Caller, op: Op) -> Result<Response<OpReply>, Failure> {
        let multi = Multi { caller, then: vec![op], ..Multi::default() };
        let changed = self.multi(multi).await.map_err(Failure::without_op_index)?;
        let mut results = changed.value.results;
        let reply = results.pop().ok_or(Failure::UnexpectedReply)?;
        Ok(Response::new(reply, changed.revision))
    }

    /// Rejects data above the machine's bound before it is proposed.
    pub(crate) fn check_size(&self, multi: &Multi) -> Result<(), Failure> {
        let limit = self.raft().read(|machine| machine.limits().data_bytes_max);
        let ops = [&multi.then, &multi.otherwise];
        for (at, op) in ops.into_iter().flat_map(|ops| (0..).zip(ops)) {
            if u32::try_from(data_len(op)).is_ok_and(|len| len <= limit) {
                continue;
            }
            let why = Rejection::LimitReached { bound: Bound::DataBytes, limit: limit.into() };
            return Err(Failure::Rejected(Rejection::Tree(TreeRejection::OfOperation {
                at,
                why: Box::new(why),
            })));
        }
        Ok(())
    }

    pub async fn znode(
        &self,
        path: &ZnodePath,
        mode: ReadMode,
    ) -> Result<Response<ZnodeContents>, Failure> {
        let found = self
            .read(mode, |machine| {
                self.check(machine, Right::TreeRead, path.as_str())?;
                machine.get(path, &self.identities_on(machine, path))
            })
            .await?;
        Ok(found.map(|(stat, data)| ZnodeContents { stat, data }))
    }

    /// Returns at most `limit` children in name order, starting after `after`.
    ///
    /// # Errors
    /// A rejection if the znode does not exist, or its access list does not allow the read; otherwise the errors of any
    /// read.
    pub async fn children(
        &self,
        path: &ZnodePath,
        after: Option<&str>,
        limit: usize,
        mode: ReadMode,
    ) -> Result<Response<Page<NodeView>>, Failure> {
        self.read(mode, |machine| {
            self.check(machine, Right::TreeRead, path.as_str())?;
            machine.children_page(path, &self.identities_on(machine, path), after, limit)
        })
        .await
    }

    /// Returns a znode and its descendants: at most `limit` by directory and name, starting after `after`.
    ///
    /// # Errors
    /// The errors of [`Service::children`].
    pub async fn subtree(
        &self,
        path: &ZnodePath,
        after: Option<ZnodePath>,
        limit: usize,
        mode: ReadMode,
    ) -> Result<Response<Page<NodeView>>, Failure> {
        let key = |next: &str| ZnodePath::new(next).ok();
        self.read_page((mode, after, limit), key, |machine, after, limit| {
            self.check_subtree(machine, path)?;
            machine.subtree(path, after, limit, &self.identities_on(machine, path))
        })
        .await
    }

    /// Checks the right to read a znode and everything below it.
    pub(crate) fn check_subtree(
        &self,
        machine: &Machine,
        path: &ZnodePath,
    ) -> Result<(), Rejection> {
        self.check(machine, Right::TreeRead, path.as_str())?;
        let below = format!("{}/", path.as_str().trim_end_matches('/'));
        self.check_below(machine, Right::TreeRead, &below)
    }

    pub async fn acl(
        &self,
        path: &ZnodePath,
        mode: ReadMode,
    ) -> Result<Response<ZnodeAcl>, Failure> {
        let found = self
            .read(mode, |machine| {
                self.check(machine, Right::TreeRead, path.as_str())?;
                machine.acl(path, &self.identities_on(machine, path))
            })
            .await?;
        Ok(found.map(|(entries, stat)| ZnodeAcl { entries, stat }))
    }
}

fn data_len(op: &Op) -> usize {
    match op {
        Op::Create(create) => create.data.len(),
        Op::SetData { data, .. } => data.len(),
        Op::Delete { .. } | Op::SetAcl { .. } | Op::Check { .. } => 0,
    }
}

/// The prefix of the paths of all quotas.
const BELOW_TOP: &str = "/zookeeper/quota/";

impl Service {
    /// A page of the quotas, by path, after one. It omits those that an access list hides from the caller.
    ///
    /// # Errors
    /// As [`Service::subtree`] of all quotas.
    pub async fn subtree_quotas(
        &self,
        after: Option<ZnodePath>,
        limit: usize,
        mode: ReadMode,
    ) -> Result<Response<Page<SubtreeQuotaView>>, Failure> {
        let key = |next: &str| ZnodePath::new(next).ok();
        self.read_page((mode, after, limit), key, |machine, after, limit| {
            self.check_below(machine, Right::TreeRead, BELOW_TOP)?;
            let is_visible = |path: &ZnodePath| {
                let limits = QuotaZnodes::of(path).map(|znodes| znodes.limits);
                limits.is_ok_and(|limits| {
                    machine.exists(&limits, &self.identities_on(machine, &limits)).is_ok()
                })
            };
            Ok(machine.subtree_quotas(after, limit, is_visible))
        })
        .await
    }

    /// The quota of a subtree.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`] with the path of the limits if there is none; otherwise as [`Service::znode`].
    pub async fn subtree_quota(
        &self,
        path: &ZnodePath,
        znodes: QuotaZnodes,
        mode: ReadMode,
    ) -> Result<Response<SubtreeQuotaView>, Failure> {
        self.read(mode, |machine| {
            self.check(machine, Right::TreeRead, znodes.limits.as_str())?;
            machine.exists(&znodes.limits, &self.identities_on(machine, &znodes.limits))?;
            let none = TreeRejection::NoZnode { path: znodes.limits };
            machine.subtree_quota(path).ok_or(Rejection::Tree(none))
        })
        .await
    }

    /// Sets a quota, or replaces its limits.
    ///
    /// # Errors
    /// As [`Service::multi`].
    pub async fn set_subtree_quota(
        &self,
        znodes: QuotaZnodes,
        limits: SubtreeLimits,
    ) -> Result<Response<MultiReply>, Failure> {
        self.change_quota(&znodes, |machine| setting(machine, &znodes, limits)).await
    }

    /// Deletes a quota, and the directories in `/zookeeper/quota` that are empty without it.
    ///
    /// # Errors
    /// [`TreeRejection::NoZnode`] with the path of the limits if there is none; otherwise as [`Service::multi`].
    pub async fn delete_subtree_quota(
        &self,
        znodes: QuotaZnodes,
    ) -> Result<Response<MultiReply>, Failure> {
        let deleted = self.change_quota(&znodes, |machine| deletion(machine, &znodes)).await?;
        self.delete_empty_directories(&znodes).await;
        Ok(deleted)
    }

    /// Plans a change on the present state, and applies it.
    async fn change_quota(
        &self,
        znodes: &QuotaZnodes,
        plan: impl FnOnce(&Machine) -> Multi + Send,
    ) -> Result<Response<MultiReply>, Failure> {
        let planned = self.read(ReadMode::Linearizable, |machine| {
            // A condition of the plan needs a lesser right, which the rejection would name.
            self.check(machine, Right::TreeWrite, znodes.limits.as_str())?;
            Ok(plan(machine))
        });
        let planned = planned.await?.value;
        self.multi(planned).await.map_err(Failure::without_op_index)
    }

    /// Deletes the directories of a quota that are empty. Another client may use one again, or the caller may lack the right
    /// on it: then it stays, which changes no quota.
    async fn delete_empty_directories(&self, QuotaZnodes { directory, .. }: &QuotaZnodes) {
        let plan = self.raft().read(|machine| deletion_of_directories(machine, directory));
        if !plan.then.is_empty()
            && let Err(failure) = self.without_number().multi(plan).await
        {
            tracing::debug!(%directory, %failure, "empty directories of a deleted quota stay");
        }
    }
}

/// What `setquota` of ZooKeeper's client does, in one step. If another client sets the same quota at the same time, it also
/// creates the znode of the statistics.
fn setting(machine: &Machine, znodes: &QuotaZnodes, limits: SubtreeLimits) -> Multi {
    let QuotaZnodes { directory, limits: at, stats } = znodes;
    let create = |path: &ZnodePath, data| {
        let (directory, name) = (directory.clone(), path.file_name().to_owned());
        let (kind, sequential, acl, parents) = (CreateKind::Persistent, false, None, true);
        Op::Create(Create { directory, name, data, kind, sequential, acl, parents })
    };
    let create_stats = || create(stats, SubtreeLimits::NEW_STATS.into());
    let (has_limits, has_stats) = (machine.stat(at).is_some(), machine.stat(stats).is_some());
    let data = limits.to_data();
    let replaced = Op::SetData { path: at.clone(), data: data.clone(), version: None };
    let then = (has_limits && !has_stats).then(create_stats);
    let otherwise = (!has_stats).then(create_stats);
    Multi {
        caller: Caller::default(),
        conditions: vec![Condition::Exists { path: at.clone(), exists: true }],
        then: std::iter::once(replaced).chain(then).collect(),
        otherwise: std::iter::once(create(at, data)).chain(otherwise).collect(),
    }
}

/// What `delquota` of ZooKeeper's client does first.
fn deletion(machine: &Machine, znodes: &QuotaZnodes) -> Multi {
    let stats = machine.stat(&znodes.stats).map(|_| znodes.stats.clone());
    deletion_of(std::iter::once(znodes.limits.clone()).chain(stats))
}

/// What `delquota` of ZooKeeper's client does then.
fn deletion_of_directories(machine: &Machine, directory: &ZnodePath) -> Multi {
    let (mut empty, mut at) = (Vec::new(), directory.clone());
    while at.as_str() != QuotaZnodes::TOP
        && let Some(stat) = machine.stat(&at)
        && usize::try_from(stat.num_children) == Ok(empty.len().min(1))
        && let Some(parent) = at.parent()
    {
        empty.push(std::mem::replace(&mut at, parent));
    }
    deletion_of(empty.into_iter())
}

fn deletion_of(paths: impl Iterator<Item = ZnodePath>) -> Multi {
    let delete = |path| Op::Delete { path, version: None, recursive: false };
    Multi { then: paths.map(delete).collect(), ..Multi::default() }
}
