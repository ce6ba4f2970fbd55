//! Multis: conditions and changes of znodes, all applied or none.
//!
//! A single operation checks everything before its first change. Multiple operations, or one that could exceed
//! `tree_bytes_max` (`stored_bytes.rs`), run with [`Machine::undo_if_rejected`]. Deletes grant after the last operation:
//! none ends a hold of others that did not exist when the rights of the multi were checked. A multi does not renew the lease
//! of its session. Bounds: [`Multi::OPS_MAX`] operations and conditions, and [`Multi::BYTES_MAX`] added bytes; missing
//! directories, recursive deletes and new quotas have a bound for the whole multi.

use holdfast_types::{
    Actor, AuthMode, Bound, Caller, Condition, Identity, LockRejection, Multi, MultiReply, Op,
    OpReply, Outcome, Perms, Rejection, Reply, SessionId, SessionName, TreeRejection,
};

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::session::store::KnownSession;
use crate::stored_bytes::stored_by;
use crate::tree::acl;

/// The caller of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester<'a> {
    /// The live session of the caller.
    pub(crate) session: Option<SessionId>,
    /// The identities of the caller.
    pub(crate) identities: &'a [Identity],
}

impl Requester<'_> {
    /// The HTTP API. It shows no identities, so it may only do what access lists allow every client.
    pub(crate) const ANYBODY: Self = Self { session: None, identities: &[] };
}

impl Machine {
    /// Executes all operations of a multi or none.
    pub(crate) fn multi(&mut self, multi: Multi, ctx: &mut ApplyContext<'_>) -> Outcome {
        let Multi {
            caller: Caller { session, attachment, identities },
            conditions,
            then,
            otherwise,
        } = multi;
        let session = session.map(|session| self.open_session_named(&session)).transpose()?;
        if let Some(session) = session {
            self.check_attachment(session, attachment)?;
        }
        let by = Requester { session, identities: &identities };
        if conditions.len() + then.len() + otherwise.len() > Multi::OPS_MAX {
            return Err(limit_reached(Bound::OpsOfMulti, Multi::OPS_MAX as u64));
        }
        let succeeded = self.all_hold(&conditions, by, &ctx.actor)?;
        let results = self.all_or_none(if succeeded { then } else { otherwise }, by, ctx)?;
        self.grant_stale(ctx);
        Ok(Reply::Multi(MultiReply { succeeded, results }))
    }

    fn all_or_none(
        &mut self,
        ops: Vec<Op>,
        by: Requester<'_>,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<Vec<OpReply>, Rejection> {
        if ops.len() > 1 || self.is_nearly_full(stored_by(&ops, by.identities)) {
            self.undo_if_rejected(ctx, |machine, ctx| machine.each(ops, by, ctx))
        } else {
            self.each(ops, by, ctx)
        }
    }

    fn each(
        &mut self,
        ops: Vec<Op>,
        by: Requester<'_>,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<Vec<OpReply>, Rejection> {
        let mut results = Vec::with_capacity(ops.len());
        let before = self.stored_bytes();
        for (at, op) in (0_u32..).zip(ops) {
            let bytes = self.stored_bytes();
            let done = self.op(op, by, ctx).and_then(|result| {
                self.check_growth(bytes)?;
                if self.stored_bytes() > before + Multi::BYTES_MAX {
                    return Err(limit_reached(Bound::BytesOfMulti, Multi::BYTES_MAX));
                }
                Ok(result)
            });
            results.push(done.map_err(|why| {
                Rejection::Tree(TreeRejection::OfOperation { at, why: Box::new(why) })
            })?);
        }
        Ok(results)
    }

    fn op(
        &mut self,
        op: Op,
        by: Requester<'_>,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<OpReply, Rejection> {
        match op {
            Op::Create(create) => self.create(create, by, ctx),
            Op::Delete { path, version, recursive: false } => self.delete(&path, version, by, ctx),
            Op::Delete { path, version, recursive: true } => {
                self.delete_all(&path, version, by, ctx)
            }
            Op::SetData { path, data, version } => self.set_data(path, data, version, by, ctx),
            Op::SetAcl { path, acl, version } => self.set_acl(&path, acl, version, by),
            Op::Check { path, version } => self.check(&path, version, by),
        }
    }

    /// Whether all conditions hold. A condition on the version or the data of a node needs the right to read it.
    pub(crate) fn all_hold(
        &self,
        conditions: &[Condition],
        by: Requester<'_>,
        actor: &Actor,
    ) -> Result<bool, Rejection> {
        for condition in conditions {
            if let Condition::SessionOpen { session } = condition
                && !self.may_read_session(actor, session)
            {
                return Ok(false);
            }
            if !self.holds(condition, by)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the actor may know whether a session is open.
    fn may_read_session(&self, actor: &Actor, session: &SessionName) -> bool {
        let rights = self.rights_of(actor, self.now);
        self.auth_mode() != AuthMode::On
            || rights.is_ok_and(|rights| rights.check_session_read(session).is_ok())
    }

    fn holds(&self, condition: &Condition, by: Requester<'_>) -> Result<bool, Rejection> {
        match condition {
            Condition::Exists { path, exists } => Ok(self.tree.contains(path) == *exists),
            Condition::Version { path, version } => {
                let Some(node) = self.tree.get(path) else { return Ok(false) };
                acl::require(path, node, Perms::READ, by.identities)?;
                Ok(node.version == *version)
            }
            Condition::Data { path, data } => {
                let Some(node) = self.tree.get(path) else { return Ok(false) };
                acl::require(path, node, Perms::READ, by.identities)?;
                Ok(*node.data == **data)
            }
            Condition::Holds { lock, token } => {
                self.check_not_sharded(lock).map_err(|why| LockRejection::OfMultiLock {
                    lock: lock.clone(),
                    why: Box::new(why),
                })?;
                Ok(self.is_held_with(lock, *token))
            }
            Condition::SessionOpen { session } => {
                Ok(matches!(self.sessions.named(session), Some(KnownSession::Open(_))))
            }
        }
    }
}
