//! Changing znodes and reading them, for callers without a stream.

use holdfast_machine::Machine;
use holdfast_types::{
    Bound, Caller, Command, Identity, Multi, Op, OpReply, Rejection, Reply, RequestId, Revision,
    SessionName,
};

use crate::answer::{Answer, Failure, Response};
use crate::read::read_mode;
use crate::request::{Call, MultiRequest, ReadMode, Request};
use crate::service::{Service, respond};

impl Service {
    pub(crate) async fn multi(
        &self,
        call: Call,
        request: MultiRequest,
    ) -> Result<Response, Failure> {
        let MultiRequest { session, request, conditions, then, otherwise } = request;
        let caller = caller(&call, session, request);
        let multi = Multi { caller, conditions, then, otherwise };
        let (succeeded, results, revision) = self.propose_multi(multi).await?;
        Ok(respond(Answer::Multi { succeeded, results }, revision))
    }

    pub(crate) async fn change(
        &self,
        call: Call,
        session: Option<SessionName>,
        request: Option<RequestId>,
        op: Op,
    ) -> Result<Response, Failure> {
        let caller = caller(&call, session, request);
        let multi = Multi { caller, then: vec![op], ..Multi::default() };
        let proposed = self.propose_multi(multi).await.map_err(Failure::of_one_op);
        let (_, mut results, revision) = proposed?;
        let reply = results.pop().ok_or(Failure::OutcomeUnknown)?;
        Ok(respond(Answer::Changed(reply), revision))
    }

    async fn propose_multi(&self, multi: Multi) -> Result<(bool, Vec<OpReply>, Revision), Failure> {
        self.check_size(&multi)?;
        let (outcome, revision) = self.propose(Command::Multi(multi)).await?;
        match outcome {
            Ok(Reply::Multi { succeeded, results }) => Ok((succeeded, results, revision)),
            Ok(_) => Err(Failure::OutcomeUnknown),
            Err(rejection) => Err(Failure::Rejected(rejection)),
        }
    }

    /// Refuses data that the machine would refuse, before it travels through the log.
    pub(crate) fn check_size(&self, multi: &Multi) -> Result<(), Failure> {
        let limit = self.raft().read(|machine| machine.limits().data_bytes_max);
        let ops = [&multi.then, &multi.otherwise];
        for (at, op) in ops.into_iter().flat_map(|ops| (0..).zip(ops)) {
            if u32::try_from(data_len(op)).is_ok_and(|len| len <= limit) {
                continue;
            }
            let why = Rejection::LimitReached { bound: Bound::DataBytes, limit: limit.into() };
            return Err(Failure::Rejected(Rejection::OpRefused { at, why: Box::new(why) }));
        }
        Ok(())
    }

    pub(crate) async fn read_tree(
        &self,
        call: &Call,
        request: Request,
    ) -> Result<Response, Failure> {
        let (mode, shown) = (read_mode(&request), call.principal.identities());
        if mode == ReadMode::Linearizable {
            self.raft().read_barrier(self.deadline()).await?;
        }
        let look = |machine: &Machine| evaluate(machine, request, shown);
        let (answer, revision) = self.raft().read(|machine| (look(machine), machine.revision()));
        Ok(self.labelled(answer?, revision, mode))
    }
}

fn evaluate(machine: &Machine, request: Request, shown: &[Identity]) -> Result<Answer, Failure> {
    let answer = match request {
        Request::Node { path, .. } => {
            machine.get(&path, shown).map(|(stat, data)| Answer::Node { stat, data })
        }
        Request::Children { path, after, limit, .. } => {
            machine.children_page(&path, shown, after.as_deref(), limit).map(Answer::Children)
        }
        Request::Subtree { path, after, limit, .. } => {
            machine.subtree(&path, after.as_ref(), limit, shown).map(Answer::Subtree)
        }
        Request::Acl { path, .. } => {
            machine.acl(&path, shown).map(|(acl, stat)| Answer::Acl { acl, stat })
        }
        Request::Acquire(_)
        | Request::Recipe(_)
        | Request::Release { .. }
        | Request::SetPolicy { .. }
        | Request::AcquireAll(_)
        | Request::ReleaseAll { .. }
        | Request::Break(_)
        | Request::AskRelease(_)
        | Request::HandOver(_)
        | Request::Lock { .. }
        | Request::Locks { .. }
        | Request::OpenSession { .. }
        | Request::KeepAlive { .. }
        | Request::Listen(_)
        | Request::KeepManyAlive { .. }
        | Request::EndSession { .. }
        | Request::Explain { .. }
        | Request::History(_)
        | Request::Contention { .. }
        | Request::CloseSession { .. }
        | Request::Session { .. }
        | Request::Sessions { .. }
        | Request::Fence { .. }
        | Request::Multi(_)
        | Request::Change { .. } => return Err(Failure::OutcomeUnknown),
    };
    answer.map_err(Failure::Rejected)
}

fn caller(call: &Call, session: Option<SessionName>, request: Option<RequestId>) -> Caller {
    let identities = call.principal.identities().to_vec();
    Caller { session, attachment: None, request, identities }
}

fn data_len(op: &Op) -> usize {
    match op {
        Op::Create(create) => create.data.len(),
        Op::SetData { data, .. } => data.len(),
        Op::Delete { .. } | Op::SetAcl { .. } | Op::Check { .. } => 0,
    }
}
