//! Sends a batch: as one entry of this node's log, or as one call to the leader.
//!
//! The result of a batch is either final for each caller or "certainly not appended". A batch that may have been
//! appended is never returned (`docs/contributing/formats/peer-protocol.md`).

use holdfast_trace::{Spans, span};
use holdfast_types::{Command, Entry, NodeId};
use openraft::errors::ClientWriteError;
use openraft::raft::responder::ProgressResponder;
use tokio::time::Instant;
use tracing::Span;

use super::{NodeContext, Pending};
use crate::error::{CallError, ProposeError};
use crate::leadership;
use crate::type_config::{Batch, Committed, LeaderEpoch, TypeConfig};
use crate::wire::{CommandRun, Propose, ProposeRefusal, Purpose};

/// Where a batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// This node leads: into its log.
    Local,
    /// To the leader.
    Leader(NodeId),
}

/// Runs that were certainly not appended and may be sent again.
pub(super) type Returned = Vec<Pending>;

/// Appends a batch to the log of this node, and answers its callers.
pub(super) async fn append_batch(context: &NodeContext, batch: Vec<Pending>) -> Returned {
    let commands: Vec<_> =
        batch.iter().flat_map(|pending| pending.commands.iter().cloned()).collect();
    let entry = Entry { stamped_at: context.stamp(), commands };
    let spans = Spans::of(batch.iter().map(|pending| &pending.span)).children(|| span!("commit"));
    match write(context, entry, None, spans).await {
        Ok(committed) if committed.len() == commands_in(&batch) => {
            let mut committed = committed.into_iter();
            for pending in batch {
                let own = committed.by_ref().take(pending.commands.len()).collect();
                pending.answer(Ok(own));
            }
            Vec::new()
        }
        Ok(_) | Err(WriteFailure::Unknown) => answer_unknown(context, batch),
        Err(WriteFailure::Never(error)) => answer_all(batch, &error),
        Err(WriteFailure::NotNow) => batch,
    }
}

/// Sends a batch to the leader, and answers its callers.
pub(super) async fn forward_batch(
    context: &NodeContext,
    leader: NodeId,
    mut batch: Vec<Pending>,
) -> Returned {
    context.metrics.batches_forwarded.inc();
    context.metrics.commands_forwarded.inc_by(commands_in(&batch) as u64);
    let deadline = batch.iter().map(|pending| pending.deadline).max();
    let run = |Pending { commands, urgency, .. }: &Pending| CommandRun {
        commands: commands.clone(),
        urgency: *urgency,
    };
    let runs = batch.iter().map(run).collect();
    let spans = forward_spans(leader, &batch);
    let traces = spans.iter().map(holdfast_trace::context_of).collect();
    let call = Propose { runs, traces };
    let deadline = deadline.unwrap_or_else(Instant::now);
    let ended = leadership::ended(context.leadership.clone(), leader);
    let results = tokio::select! {
        results = context.peers.call(leader, Purpose::Calls, call, deadline) => results,
        () = ended => Err(CallError::Unknown("the leader changed".into())),
    };
    drop(spans);
    batch.shrink_to_fit();
    match results {
        Ok(results) if results.len() == batch.len() => {
            let pairs = batch.into_iter().zip(results);
            pairs
                .filter_map(|(pending, result)| finish_forwarded(context, leader, pending, result))
                .collect()
        }
        // The leader did nothing.
        Err(CallError::NotSent(_) | CallError::Refused(_)) => batch,
        Ok(_) | Err(CallError::Unknown(_)) => answer_unknown(context, batch),
    }
}

/// One span for each run; none at all if no run is traced.
fn forward_spans(leader: NodeId, batch: &[Pending]) -> Vec<Span> {
    if batch.iter().all(|pending| pending.span.is_disabled()) {
        return Vec::new();
    }
    let forward = || span!("forward", otel.kind = "client", leader = leader.0);
    batch.iter().map(|pending| pending.span.in_scope(forward)).collect()
}

fn finish_forwarded(
    context: &NodeContext,
    leader: NodeId,
    pending: Pending,
    result: Result<Vec<Committed>, ProposeRefusal>,
) -> Option<Pending> {
    let error = match result {
        Ok(done) if done.len() == pending.commands.len() => {
            pending.answer(Ok(done));
            return None;
        }
        Ok(_) => ProposeError::Unknown,
        Err(ProposeRefusal::NotLeader) => return Some(pending),
        Err(ProposeRefusal::Overloaded) => ProposeError::Overloaded,
        Err(ProposeRefusal::DiskFull) => ProposeError::DiskFull { members: [leader].into() },
        Err(ProposeRefusal::DisksFull(members)) => ProposeError::DiskFull { members },
        Err(ProposeRefusal::TooLarge) => ProposeError::TooLarge,
        Err(ProposeRefusal::Unknown) => {
            context.metrics.outcomes_unknown.inc();
            ProposeError::Unknown
        }
    };
    pending.answer(Err(error));
    None
}

/// Why a write has no reply.
enum WriteFailure {
    /// Certainly not appended; another leader, or this one later, may append it.
    NotNow,
    /// Certainly not appended; a retry would fail again.
    Never(ProposeError),
    /// The entry may or may not have been appended.
    Unknown,
}

/// Appends an entry, and waits until this node has applied it, or no longer leads with a quorum. `spans` are the spans
/// `commit` of the entry's traced runs.
async fn write(
    context: &NodeContext,
    entry: Entry,
    leader: Option<LeaderEpoch>,
    spans: Spans,
) -> Result<Vec<Committed>, WriteFailure> {
    let began = Instant::now();
    context.metrics.entries_proposed.inc();
    context.metrics.commands_proposed.inc_by(entry.commands.len() as u64);
    let batch = Batch::encode(entry).map_err(|_| WriteFailure::Never(ProposeError::TooLarge))?;
    context.disk.count(batch.bytes().len());
    batch.trace(spans.clone());
    let (responder, receiver) = ProgressResponder::<TypeConfig, _>::complete_only();
    let mut request = context.raft.write(batch).responder(responder);
    if let Some(leader) = leader {
        request = request.with_leader(leader.leader_id());
    }
    // An error means that openraft has stopped and did not accept the entry.
    request.await.map_err(|_| WriteFailure::Never(ProposeError::ShuttingDown))?;
    let written = tokio::select! {
        written = receiver => written,
        () = leadership::ended(context.leadership.clone(), context.node) => {
            return Err(WriteFailure::Unknown);
        }
    };
    match written {
        Ok(Ok(response)) => {
            context.metrics.commit_seconds.observe(began.elapsed().as_secs_f64());
            Ok(response.data)
        }
        Ok(Err(ClientWriteError::ForwardToLeader(_))) => Err(WriteFailure::NotNow),
        Ok(Err(
            ClientWriteError::LogEntryDiscarded(_)
            | ClientWriteError::ChangeMembershipError(_)
            | ClientWriteError::PreconditionFailed(_),
        ))
        | Err(_) => Err(WriteFailure::Unknown),
    }
}

/// Appends one entry, if this node still leads in `epoch`. Never forwards it.
pub(crate) async fn write_as_leader(
    context: &NodeContext,
    commands: Vec<Command>,
    epoch: LeaderEpoch,
) -> Result<Vec<Committed>, ProposeError> {
    if let Some(members) = context.full_disks() {
        return Err(ProposeError::DiskFull { members });
    }
    let entry = Entry { stamped_at: context.stamp(), commands };
    write(context, entry, Some(epoch), Spans::default()).await.map_err(|failure| match failure {
        WriteFailure::NotNow => ProposeError::NoLeader,
        WriteFailure::Never(error) => error,
        WriteFailure::Unknown => ProposeError::Unknown,
    })
}

fn commands_in(batch: &[Pending]) -> usize {
    batch.iter().map(|pending| pending.commands.len()).sum()
}

fn answer_unknown(context: &NodeContext, batch: Vec<Pending>) -> Returned {
    context.metrics.outcomes_unknown.inc_by(commands_in(&batch) as u64);
    answer_all(batch, &ProposeError::Unknown)
}

fn answer_all(batch: Vec<Pending>, error: &ProposeError) -> Returned {
    for pending in batch {
        pending.answer(Err(error.clone()));
    }
    Vec::new()
}
