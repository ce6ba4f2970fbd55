//! Handles the requests of peers.
//!
//! A failed node rejects every request. A node whose disk is below its reserve rejects requests that grow its log; it
//! still handles heartbeats, votes and reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use holdfast_codec::Kind;
use holdfast_trace::{TraceContext, entry_span};
use holdfast_types::NodeId;
use openraft::raft::AppendEntriesRequest;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument as _, Span};

use crate::barrier::Barrier;
use crate::error::ProposeError;
use crate::failure::Failure;
use crate::leadership::LeaderContact;
use crate::leadership::fast_election::LeaderLoss;
use crate::members::{MemberTable, Registration};
use crate::peers::{IncomingConnections, Peers};
use crate::proposer::Proposer;
use crate::start::bootstrap::Bootstrap;
use crate::state_machine::{LocalMachine, Raft};
use crate::store::disk::DiskGauge;
use crate::store::log_store::LogStore;
use crate::store::snapshot::{IncomingSnapshot, SnapshotStore};
use crate::transport::handshake::ConnectedPeer;
use crate::type_config::{Committed, Payload, RaftEntry};
use crate::wire::{
    AcceptMembers, Append, AppendReply, CheckPeer, CommandRun, ConfirmLoss, DISK_LOW, PeerCall,
    Ping, Propose, ProposeRefusal, Purpose, ReadBootstrapState, ReadIndex, ReadStatus, Reply,
    Request, RequestBody, RequestPreVote, RequestVote, ServiceRequest, SnapshotBegin, SnapshotEnd,
    SnapshotPiece, StatusDto, TransferLeader, VoteDto, decode_record,
};

/// The reply to one call, or the reason of its rejection. A rejected call has no effect.
type CallResult<T> = Result<T, String>;

/// The state of one connection from a peer.
pub(crate) struct PeerSession {
    peer: ConnectedPeer,
    /// The snapshot that the peer is sending.
    incoming: Option<IncomingSnapshot>,
}

impl PeerSession {
    pub(crate) fn new(peer: ConnectedPeer) -> Self {
        Self { peer, incoming: None }
    }
}

pub(crate) struct Dispatch {
    pub(crate) raft: Raft,
    pub(crate) local: Arc<LocalMachine>,
    pub(crate) log: LogStore,
    pub(crate) snapshots: SnapshotStore,
    pub(crate) proposer: Proposer,
    pub(crate) barrier: Barrier,
    pub(crate) bootstrap: Arc<Bootstrap>,
    pub(crate) members: Arc<MemberTable>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) disk: Arc<DiskGauge>,
    pub(crate) contact: Arc<LeaderContact>,
    pub(crate) failure: Failure,
    pub(crate) refuses_forwarded: Arc<AtomicBool>,
    pub(crate) incoming: Arc<IncomingConnections>,
    pub(crate) loss: Arc<LeaderLoss>,
}

impl Dispatch {
    /// Returns the frame of the reply; `None` if the connection closes: the reply cannot be encoded, or the peer is a former
    /// member.
    pub(crate) async fn answer(
        &self,
        session: &mut PeerSession,
        request: Request,
    ) -> Option<Vec<u8>> {
        let deadline = Instant::now() + Duration::from_millis(request.remaining_ms.into());
        let id = request.id;
        if self.failure.is_set() {
            return encode_refusal(id, "the peer has failed");
        }
        if session.peer.purpose == Purpose::Bootstrap {
            return self.answer_bootstrap(session.peer, id, request.body).await;
        }
        // A former member learns with its next connection that it has left. Raft checks the sender of entries itself.
        let is_append = matches!(request.body, RequestBody::Append(_));
        if !is_append && self.is_retired(session.peer.node) {
            return None;
        }
        match request.body {
            RequestBody::Append(call) => encode::<Append>(id, self.append(call).await),
            RequestBody::Ping(_) => encode::<Ping>(id, Ok(())),
            RequestBody::RequestVote(RequestVote(dto)) => {
                let answer = refuse_error(self.raft.vote(dto.into()).await);
                encode::<RequestVote>(id, answer.map(Into::into))
            }
            RequestBody::RequestPreVote(RequestPreVote(dto)) => {
                let answer = refuse_error(self.raft.pre_vote(dto.into()).await);
                encode::<RequestPreVote>(id, answer.map(Into::into))
            }
            RequestBody::TransferLeader(TransferLeader(dto)) => {
                let answer = refuse_error(self.raft.handle_transfer_leader(dto.into()).await);
                encode::<TransferLeader>(id, answer.map(Into::into))
            }
            RequestBody::SnapshotBegin(call) => {
                encode::<SnapshotBegin>(id, self.snapshot_begin(session, call))
            }
            RequestBody::SnapshotPiece(SnapshotPiece(bytes)) => {
                encode::<SnapshotPiece>(id, self.snapshot_piece(session, bytes).await)
            }
            RequestBody::SnapshotEnd(_) => {
                encode::<SnapshotEnd>(id, self.snapshot_end(session).await)
            }
            RequestBody::Propose(Propose { runs, traces }) => {
                encode::<Propose>(id, Ok(self.propose(runs, traces, deadline).await))
            }
            RequestBody::ReadIndex(_) => {
                encode::<ReadIndex>(id, refuse_error(self.barrier.index(deadline).await))
            }
            RequestBody::ReadStatus(_) => encode::<ReadStatus>(id, Ok(self.status())),
            RequestBody::ServiceRequest(ServiceRequest(bytes)) => {
                let answer = self.call_service(session.peer.node, bytes, deadline).await;
                encode::<ServiceRequest>(id, answer)
            }
            RequestBody::CheckPeer(CheckPeer(node)) => {
                let called = self.peers.call(node, Purpose::Control, Ping, deadline).await;
                encode::<CheckPeer>(id, refuse_error(called))
            }
            RequestBody::ConfirmLoss(call) => {
                encode::<ConfirmLoss>(id, Ok(self.loss.judge(&call).await))
            }
            RequestBody::ReadBootstrapState(_) | RequestBody::AcceptMembers(_) => {
                encode_refusal(id, "the connection is not for the bootstrap")
            }
        }
    }

    /// The caller may have an unregistered data directory, so it gets only these replies.
    async fn answer_bootstrap(
        &self,
        peer: ConnectedPeer,
        id: u64,
        body: RequestBody,
    ) -> Option<Vec<u8>> {
        match body {
            RequestBody::Ping(_) => encode::<Ping>(id, Ok(())),
            RequestBody::ReadBootstrapState(_) => {
                encode::<ReadBootstrapState>(id, Ok(self.bootstrap.state(peer).await))
            }
            RequestBody::AcceptMembers(AcceptMembers(members)) => {
                encode::<AcceptMembers>(id, self.bootstrap.accept_members(peer, members).await)
            }
            RequestBody::Append(_)
            | RequestBody::RequestVote(_)
            | RequestBody::RequestPreVote(_)
            | RequestBody::TransferLeader(_)
            | RequestBody::SnapshotBegin(_)
            | RequestBody::SnapshotPiece(_)
            | RequestBody::SnapshotEnd(_)
            | RequestBody::Propose(_)
            | RequestBody::ReadIndex(_)
            | RequestBody::ReadStatus(_)
            | RequestBody::CheckPeer(_)
            | RequestBody::ConfirmLoss(_)
            | RequestBody::ServiceRequest(_) => {
                encode_refusal(id, "the connection is for the bootstrap only")
            }
        }
    }

    fn is_retired(&self, node: NodeId) -> bool {
        matches!(self.members.registration(node), Registration::Retired(_))
    }

    async fn append(&self, append: Append) -> CallResult<AppendReply> {
        let leader = NodeId(append.vote.node);
        let entries: Result<Vec<_>, _> =
            append.records.iter().map(|record| decode_record(record)).collect();
        let mut entries = entries.map_err(|error| format!("not a log record: {error}"))?;
        let last_index = self.log.last_index();
        let truncated = self.disk.is_low() && truncate_at_new_commands(&mut entries, last_index);
        if truncated && entries.is_empty() {
            return disk_full();
        }
        let previous = append.previous.map(Into::into);
        refuse_error(self.log.check_leader(append.vote.into(), previous, &entries).await)?;
        let last = entries.last().map(|entry| entry.log_id.into());
        let kept = append.records.iter().zip(&entries);
        let new = kept.filter(|(_, entry)| Some(entry.log_id.index) > last_index);
        self.disk.count(new.map(|(record, _)| record.len()).sum());
        let committed = append.commit.map(|position| position.index);
        let request = AppendEntriesRequest {
            vote: append.vote.into(),
            prev_log_id: previous,
            entries,
            leader_commit: append.commit.map(Into::into),
        };
        let reply: AppendReply = refuse_error(self.raft.append_entries(request).await)?.into();
        if matches!(reply, AppendReply::HigherVote(_)) {
            return Ok(reply);
        }
        self.contact.record_contact(leader);
        self.contact.record_commit(committed, self.local.applied_index());
        let partial = truncated && reply == AppendReply::Success;
        Ok(if partial { AppendReply::Partial(last) } else { reply })
    }

    fn snapshot_begin(&self, session: &mut PeerSession, call: SnapshotBegin) -> CallResult<()> {
        session.incoming = None;
        if self.disk.is_low() {
            return disk_full();
        }
        session.incoming = Some(refuse_error(self.snapshots.receive(call.vote.into(), call.meta))?);
        Ok(())
    }

    async fn snapshot_piece(&self, session: &mut PeerSession, bytes: Bytes) -> CallResult<()> {
        let incoming = session.incoming.take().ok_or("no snapshot was begun")?;
        if self.disk.is_low() {
            return disk_full();
        }
        self.disk.count(bytes.len());
        session.incoming = Some(refuse_error(incoming.add(bytes).await)?);
        Ok(())
    }

    async fn snapshot_end(&self, session: &mut PeerSession) -> CallResult<VoteDto> {
        let incoming = session.incoming.take().ok_or("no snapshot was begun")?;
        let (vote, snapshot) = incoming.finish().await.map_err(|error| {
            self.local.metrics().snapshots_refused.inc();
            tracing::error!(from = %session.peer.node, %error, "refused a snapshot of a peer");
            format!("the snapshot cannot be used: {error}")
        })?;
        let installed = refuse_error(self.raft.install_full_snapshot(vote, snapshot).await)?;
        Ok(installed.vote.into())
    }

    async fn propose(
        &self,
        runs: Vec<CommandRun>,
        traces: Vec<Option<TraceContext>>,
        deadline: Instant,
    ) -> Vec<Result<Vec<Committed>, ProposeRefusal>> {
        if self.refuses_forwarded.load(Ordering::Relaxed) {
            return runs.iter().map(|_| Err(ProposeRefusal::NotLeader)).collect();
        }
        let traces = traces.into_iter().chain(std::iter::repeat(None));
        let proposals = runs.into_iter().zip(traces).map(|(run, trace)| {
            let proposing = async move {
                let CommandRun { commands, urgency } = run;
                let proposed = self.proposer.propose(commands, urgency, deadline, true).await;
                proposed.map_err(propose_refusal)
            };
            proposing.instrument(forwarded_span(trace))
        });
        join_all(proposals).await
    }

    fn status(&self) -> StatusDto {
        StatusDto {
            disk_free_bytes: self.disk.free_bytes(),
            disk_low: self.disk.is_low(),
            applied: self.local.applied().borrow().map(Into::into),
        }
    }

    async fn call_service(
        &self,
        from: NodeId,
        request: Bytes,
        deadline: Instant,
    ) -> CallResult<Bytes> {
        let observer = self.local.observer().ok_or("the peer is still starting")?;
        let answer = observer.called(from, request, deadline.into());
        timeout_at(deadline, answer).await.map_err(|_| "no reply in time".into())
    }
}

/// The span of a run that a peer forwarded; disabled if the run is not traced.
fn forwarded_span(trace: Option<TraceContext>) -> Span {
    let Some(parent) = trace else { return Span::none() };
    let span = entry_span!("forwarded", otel.kind = "server");
    holdfast_trace::set_parent(&span, parent);
    span
}

fn encode<C: PeerCall>(id: u64, result: CallResult<C::Reply>) -> Option<Vec<u8>> {
    holdfast_codec::encode(Kind::PeerReply, &Reply { id, result }).ok()
}

fn encode_refusal(id: u64, reason: &str) -> Option<Vec<u8>> {
    encode::<Ping>(id, Err(reason.to_owned()))
}

fn refuse_error<T, E: ToString>(result: Result<T, E>) -> CallResult<T> {
    result.map_err(|error| error.to_string())
}

fn disk_full<T>() -> CallResult<T> {
    Err(DISK_LOW.into())
}

/// Keeps the entries that a full disk still accepts: existing entries, which a new leader sends again, and the new
/// leader's blank entry, which reads require. Returns `true` if it removed an entry.
fn truncate_at_new_commands(entries: &mut Vec<RaftEntry>, last: Option<u64>) -> bool {
    let grows = |entry: &RaftEntry| {
        matches!(entry.payload, Payload::Normal(_)) && Some(entry.log_id.index) > last
    };
    let commands = entries.iter().position(grows);
    if let Some(at) = commands {
        entries.truncate(at);
    }
    commands.is_some()
}

fn propose_refusal(error: ProposeError) -> ProposeRefusal {
    match error {
        // Not appended; another node may lead in the meantime.
        ProposeError::NoLeader | ProposeError::ShuttingDown | ProposeError::Failed => {
            ProposeRefusal::NotLeader
        }
        ProposeError::Overloaded => ProposeRefusal::Overloaded,
        ProposeError::DiskFull { members } => ProposeRefusal::DisksFull(members),
        ProposeError::TooLarge => ProposeRefusal::TooLarge,
        ProposeError::Unknown => ProposeRefusal::Unknown,
    }
}
