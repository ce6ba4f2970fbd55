//! What this node answers its peers.
//!
//! Owns the table from request to answer. A node that failed answers nothing but that; one whose disk is below its
//! reserve refuses what would make its log grow, and goes on with heartbeats, votes and reads.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use holdfast_types::{Command, NodeId};
use openraft::raft::AppendEntriesRequest;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::barrier::Barrier;
use crate::contact::Contact;
use crate::disk::DiskGauge;
use crate::error::ProposeError;
use crate::failure::Failure;
use crate::founding::Founding;
use crate::log_store::LogStore;
use crate::proposer::{Committed, Proposer};
use crate::snapshot::{Arrival, SnapshotStore};
use crate::state_machine::LocalMachine;
use crate::transport::handshake::Visitor;
use crate::type_config::{Payload, Raft, RaftEntry};
use crate::wire::{
    AppendDto, AppendReplyDto, ProposeRefusal, Purpose, ReplyBody, RequestBody, SnapshotMetaDto,
    StatusDto, VoteDto, decode_record,
};

/// What a connection has begun and not yet finished.
pub(crate) struct Visit {
    visitor: Visitor,
    arrival: Option<Arrival>,
}

impl Visit {
    pub(crate) fn new(visitor: Visitor) -> Self {
        Self { visitor, arrival: None }
    }
}

/// See the module.
pub(crate) struct Dispatch {
    pub(crate) raft: Raft,
    pub(crate) local: Arc<LocalMachine>,
    pub(crate) log: LogStore,
    pub(crate) snapshots: SnapshotStore,
    pub(crate) proposer: Proposer,
    pub(crate) barrier: Barrier,
    pub(crate) founding: Arc<Founding>,
    pub(crate) disk: Arc<DiskGauge>,
    pub(crate) contact: Arc<Contact>,
    pub(crate) failure: Failure,
    /// Who hung up, for those who wait for it; a full queue has enough to do already.
    pub(crate) hung_up: mpsc::Sender<NodeId>,
}

impl Dispatch {
    /// A peer's connection has ended.
    pub(crate) fn hung_up(&self, visitor: Visitor) {
        if visitor.purpose != Purpose::Founding {
            self.hung_up.try_send(visitor.node).ok();
        }
    }

    /// Answers one request. Whoever came to ask about founding may be anybody, and gets an answer about nothing else.
    pub(crate) async fn answer(
        &self,
        visit: &mut Visit,
        body: RequestBody,
        deadline: Instant,
    ) -> ReplyBody {
        if self.failure.is_set() {
            return ReplyBody::Refused("this node has failed".into());
        }
        let stranger = visit.visitor.purpose == Purpose::Founding;
        match body {
            RequestBody::Ping => ReplyBody::Pong,
            RequestBody::Survey if stranger => self.founding.survey(visit.visitor).await,
            RequestBody::Found(roster) if stranger => {
                self.founding.agree(visit.visitor, roster).await
            }
            _ if stranger => ReplyBody::Refused("this connection is for founding alone".into()),
            RequestBody::Survey | RequestBody::Found(_) => {
                ReplyBody::Refused("this connection is not for founding".into())
            }
            RequestBody::Append(append) => self.append(append).await,
            RequestBody::Vote(request) => {
                reply(self.raft.vote(request.into()).await, |vote| ReplyBody::Vote(vote.into()))
            }
            RequestBody::PreVote(request) => {
                reply(self.raft.pre_vote(request.into()).await, |vote| ReplyBody::Vote(vote.into()))
            }
            RequestBody::Transfer(request) => {
                let answer = self.raft.handle_transfer_leader(request.into()).await;
                reply(answer, |answer| ReplyBody::Transfer(answer.into()))
            }
            RequestBody::SnapshotBegin { vote, meta } => self.snapshot_begin(visit, vote, meta),
            RequestBody::SnapshotPiece(bytes) => self.snapshot_piece(visit, bytes).await,
            RequestBody::SnapshotEnd => self.snapshot_end(visit).await,
            RequestBody::Propose(commands) => self.propose(commands, deadline).await,
            RequestBody::ProposeRuns(runs) => self.propose_runs(runs, deadline).await,
            RequestBody::ReadIndex => ReplyBody::ReadIndex(self.barrier.index(deadline).await.ok()),
            RequestBody::Status => ReplyBody::Status(self.status()),
            RequestBody::Service(request) => {
                self.service(visit.visitor.node, request, deadline).await
            }
        }
    }

    async fn append(&self, append: AppendDto) -> ReplyBody {
        let leader = NodeId(append.vote.node);
        let entries: Result<Vec<_>, _> =
            append.records.iter().map(|record| decode_record(record)).collect();
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return ReplyBody::Refused(format!("not a log record: {error}")),
        };
        let cut = self.disk.is_low() && cut_at_new_commands(&mut entries, self.log.last_index());
        if cut && entries.is_empty() {
            return ReplyBody::DiskFull;
        }
        let last = entries.last().map(|entry| entry.log_id.into());
        let request = AppendEntriesRequest {
            vote: append.vote.into(),
            prev_log_id: append.previous.map(Into::into),
            entries,
            leader_commit: append.commit.map(Into::into),
        };
        match self.raft.append_entries(request).await.map(Into::into) {
            Ok(AppendReplyDto::HigherVote(vote)) => {
                ReplyBody::Append(AppendReplyDto::HigherVote(vote))
            }
            Ok(dto) => {
                self.contact.heard(leader);
                let partial = cut && dto == AppendReplyDto::Success;
                ReplyBody::Append(if partial { AppendReplyDto::Partial(last) } else { dto })
            }
            Err(error) => ReplyBody::Refused(error.to_string()),
        }
    }

    fn snapshot_begin(&self, visit: &mut Visit, vote: VoteDto, meta: SnapshotMetaDto) -> ReplyBody {
        visit.arrival = None;
        if self.disk.is_low() {
            return ReplyBody::DiskFull;
        }
        match self.snapshots.receive(vote.into(), meta) {
            Ok(arrival) => {
                visit.arrival = Some(arrival);
                ReplyBody::SnapshotNext
            }
            Err(error) => ReplyBody::Refused(error.to_string()),
        }
    }

    async fn snapshot_piece(&self, visit: &mut Visit, bytes: Bytes) -> ReplyBody {
        let Some(arrival) = visit.arrival.take() else {
            return ReplyBody::Refused("no snapshot was begun".into());
        };
        if self.disk.is_low() {
            return ReplyBody::DiskFull;
        }
        match arrival.add(bytes).await {
            Ok(arrival) => {
                visit.arrival = Some(arrival);
                ReplyBody::SnapshotNext
            }
            Err(error) => ReplyBody::Refused(error.to_string()),
        }
    }

    async fn snapshot_end(&self, visit: &mut Visit) -> ReplyBody {
        let Some(arrival) = visit.arrival.take() else {
            return ReplyBody::Refused("no snapshot was begun".into());
        };
        let (vote, snapshot) = match arrival.finish().await {
            Ok(whole) => whole,
            Err(error) => {
                self.local.refused_snapshot();
                tracing::error!(from = %visit.visitor.node, %error, "refused a snapshot of a peer");
                return ReplyBody::Refused(format!("the snapshot cannot be used: {error}"));
            }
        };
        let installed = self.raft.install_full_snapshot(vote, snapshot).await;
        reply(installed, |response| ReplyBody::SnapshotInstalled(response.vote.into()))
    }

    async fn propose(&self, commands: Vec<Command>, deadline: Instant) -> ReplyBody {
        let proposals = commands.into_iter().map(|command| async {
            let proposed = self.proposer.propose(command, deadline, true).await;
            proposed.map(|done| (done.outcome, done.revision)).map_err(|error| refusal(&error))
        });
        ReplyBody::Propose(join_all(proposals).await)
    }

    async fn propose_runs(&self, runs: Vec<Vec<Command>>, deadline: Instant) -> ReplyBody {
        let proposals = runs.into_iter().map(|run| async {
            let proposed = self.proposer.propose_run(run, deadline, true).await;
            let pair = |done: Committed| (done.outcome, done.revision);
            proposed
                .map(|done| done.into_iter().map(pair).collect())
                .map_err(|error| refusal(&error))
        });
        ReplyBody::ProposeRuns(join_all(proposals).await)
    }

    fn status(&self) -> StatusDto {
        StatusDto {
            disk_free_bytes: self.disk.free_bytes(),
            disk_low: self.disk.is_low(),
            applied: self.local.applied().borrow().map(Into::into),
        }
    }

    async fn service(&self, from: NodeId, request: Bytes, deadline: Instant) -> ReplyBody {
        let Some(observer) = self.local.observer() else {
            return ReplyBody::Refused("this node is not ready".into());
        };
        match timeout_at(deadline, observer.called(from, request)).await {
            Ok(answer) => ReplyBody::Service(answer),
            Err(_) => ReplyBody::Refused("no answer in time".into()),
        }
    }
}

/// Leaves what a full disk still takes: entries it has, which a new leader sends again until it knows, and the blank
/// one of that leader, without which nobody could even read. True if anything was cut off.
fn cut_at_new_commands(entries: &mut Vec<RaftEntry>, last: Option<u64>) -> bool {
    let grows = |entry: &RaftEntry| {
        matches!(entry.payload, Payload::Normal(_)) && Some(entry.log_id.index) > last
    };
    let commands = entries.iter().position(grows);
    if let Some(at) = commands {
        entries.truncate(at);
    }
    commands.is_some()
}

fn reply<T, E: ToString>(result: Result<T, E>, ok: impl FnOnce(T) -> ReplyBody) -> ReplyBody {
    match result {
        Ok(value) => ok(value),
        Err(error) => ReplyBody::Refused(error.to_string()),
    }
}

fn refusal(error: &ProposeError) -> ProposeRefusal {
    match error {
        // Not appended, and another node may well lead by now.
        ProposeError::NoLeader | ProposeError::ShuttingDown | ProposeError::Failed => {
            ProposeRefusal::NotLeader
        }
        ProposeError::Overloaded => ProposeRefusal::Overloaded,
        ProposeError::DiskFull => ProposeRefusal::DiskFull,
        ProposeError::TooLarge => ProposeRefusal::TooLarge,
        ProposeError::Unknown => ProposeRefusal::Unknown,
    }
}
