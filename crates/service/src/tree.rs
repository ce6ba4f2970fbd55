//! Changing and reading znodes, for callers without a stream.

use holdfast_machine::Machine;
use holdfast_types::{
    AclEntry, Bound, Caller, Data, Multi, MultiReply, NodeView, Op, OpReply, Page, Rejection,
    Reply, Right, Stat, TreeRejection, ZnodePath,
};

use crate::context::{ReadMode, Response};
use crate::failure::Failure;
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
        after: Option<&ZnodePath>,
        limit: usize,
        mode: ReadMode,
    ) -> Result<Response<Page<NodeView>>, Failure> {
        self.read(mode, |machine| {
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
