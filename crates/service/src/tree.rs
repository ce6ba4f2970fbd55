//! Changing and reading znodes, for callers without a stream.

use holdfast_types::{
    AclEntry, Bound, Caller, Command, Data, Multi, MultiReply, NodeView, Op, OpReply, Page,
    Rejection, Reply, Stat, TreeRejection, ZnodePath,
};

use crate::context::{ReadMode, RequestContext, Response};
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
    /// Changes znodes, all or nothing, with the identities of `context`.
    ///
    /// # Errors
    /// `TreeRejection::OfOperation` has the index of the operation; otherwise the errors of any write.
    pub async fn multi(
        &self,
        context: &RequestContext,
        mut multi: Multi,
    ) -> Result<Response<MultiReply>, Failure> {
        multi.caller.identities = context.principal.identities().to_vec();
        self.check_size(&multi)?;
        self.propose_for(Command::Multi(multi), Reply::into_multi).await
    }

    /// Changes one znode, with the identities of `context`.
    ///
    /// # Errors
    /// The rejection of the operation itself; otherwise the errors of any write.
    pub async fn change(
        &self,
        context: &RequestContext,
        caller: Caller,
        op: Op,
    ) -> Result<Response<OpReply>, Failure> {
        let multi = Multi { caller, then: vec![op], ..Multi::default() };
        let changed = self.multi(context, multi).await.map_err(Failure::without_op_index)?;
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
        context: &RequestContext,
        path: &ZnodePath,
        mode: ReadMode,
    ) -> Result<Response<ZnodeContents>, Failure> {
        let identities = context.principal.identities();
        let found = self.read(mode, |machine| machine.get(path, identities)).await?.accepted()?;
        Ok(found.map(|(stat, data)| ZnodeContents { stat, data }))
    }

    /// Returns at most `limit` children in name order, starting after `after`.
    ///
    /// # Errors
    /// A rejection if the znode does not exist, or its access list does not allow the read; otherwise the errors of any
    /// read.
    pub async fn children(
        &self,
        context: &RequestContext,
        path: &ZnodePath,
        after: Option<&str>,
        limit: usize,
        mode: ReadMode,
    ) -> Result<Response<Page<NodeView>>, Failure> {
        let identities = context.principal.identities();
        self.read(mode, |machine| machine.children_page(path, identities, after, limit))
            .await?
            .accepted()
    }

    /// Returns a znode and its descendants: at most `limit` by directory and name, starting after `after`.
    ///
    /// # Errors
    /// The errors of [`Service::children`].
    pub async fn subtree(
        &self,
        context: &RequestContext,
        path: &ZnodePath,
        after: Option<&ZnodePath>,
        limit: usize,
        mode: ReadMode,
    ) -> Result<Response<Page<NodeView>>, Failure> {
        let identities = context.principal.identities();
        self.read(mode, |machine| machine.subtree(path, after, limit, identities)).await?.accepted()
    }

    pub async fn acl(
        &self,
        context: &RequestContext,
        path: &ZnodePath,
        mode: ReadMode,
    ) -> Result<Response<ZnodeAcl>, Failure> {
        let identities = context.principal.identities();
        let found = self.read(mode, |machine| machine.acl(path, identities)).await?.accepted()?;
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
