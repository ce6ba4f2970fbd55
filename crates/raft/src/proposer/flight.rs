//! A pack in flight: one entry written by this node as leader, or one call to the leader.
//!
//! Owns the line between "certainly not appended" and "nobody can tell" (`docs/formats/peer-protocol.md`).

use holdfast_types::{Command, Entry, NodeId, Outcome, Revision};
use openraft::errors::ClientWriteError;
use openraft::raft::responder::ProgressResponder;
use tokio::time::Instant;

use super::pending::Pending;
use super::{Committed, Means};
use crate::error::{CallError, ProposeError};
use crate::type_config::{Batch, BatchReply, LeaderEpoch, Raft, TypeConfig};
use crate::wire::{ProposeRefusal, Purpose, ReplyBody, RequestBody};

/// Where a pack goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Into this node's log.
    Here,
    /// To the leader.
    To(NodeId),
}

/// What comes back: the commands that were certainly not appended and may be tried again.
pub(crate) type Landing = Vec<Pending>;

/// Flies a pack and answers its callers.
pub(crate) async fn fly(means: Means, route: Route, mut pack: Vec<Pending>) -> Landing {
    let runs = pack.iter().map(|item| item.commands.as_slice());
    let count = pack.iter().map(|item| item.commands.len()).sum();
    match route {
        Route::Here => {
            let commands = runs.flatten().cloned().collect();
            means.counters.proposed_entries.add(1);
            means.counters.proposed_commands.add(count);
            let entry = Entry { stamped_at: means.stamp(), commands };
            let written = write(&means.raft, entry, None).await;
            land_here(&means, pack, written)
        }
        Route::To(leader) => {
            means.counters.forwarded_batches.add(1);
            means.counters.forwarded_commands.add(count);
            let deadline = pack.iter().map(|item| item.deadline).max();
            let deadline = deadline.unwrap_or_else(Instant::now);
            let body = if count == pack.len() {
                RequestBody::Propose(runs.flatten().cloned().collect())
            } else {
                RequestBody::ProposeRuns(runs.map(<[_]>::to_vec).collect())
            };
            let reply = means.peers.call(leader, Purpose::Calls, &body, deadline).await;
            pack.shrink_to_fit();
            land_there(&means, pack, reply)
        }
    }
}

/// Why a write has no reply.
pub(crate) enum WriteFailure {
    /// Certainly not appended; another leader, or this one later, may take it.
    NotNow,
    /// Certainly not appended, and it never will be.
    Never(ProposeError),
    /// Nobody can tell.
    Unknown,
}

async fn write(
    raft: &Raft,
    entry: Entry,
    leader: Option<LeaderEpoch>,
) -> Result<BatchReply, WriteFailure> {
    let batch = Batch::encode(entry).map_err(|_| WriteFailure::Never(ProposeError::TooLarge))?;
    let (responder, receiver) = ProgressResponder::<TypeConfig, _>::complete_only();
    let mut request = raft.write(batch).responder(responder);
    if let Some(leader) = leader {
        request = request.with_leader(leader.leader_id());
    }
    // openraft has stopped and did not take it.
    request.await.map_err(|_| WriteFailure::Never(ProposeError::ShuttingDown))?;
    match receiver.await {
        Ok(Ok(response)) => Ok(response.data),
        Ok(Err(ClientWriteError::ForwardToLeader(_))) => Err(WriteFailure::NotNow),
        Ok(Err(
            ClientWriteError::LogEntryDiscarded(_)
            | ClientWriteError::ChangeMembershipError(_)
            | ClientWriteError::PreconditionFailed(_),
        ))
        | Err(_) => Err(WriteFailure::Unknown),
    }
}

/// Appends one entry, if this node still leads in `epoch`. Never forwarded.
pub(crate) async fn write_as_leader(
    means: &Means,
    commands: Vec<Command>,
    epoch: LeaderEpoch,
) -> Result<BatchReply, ProposeError> {
    if means.disk.is_low() {
        return Err(ProposeError::DiskFull);
    }
    means.counters.proposed_entries.add(1);
    means.counters.proposed_commands.add(commands.len());
    let entry = Entry { stamped_at: means.stamp(), commands };
    write(&means.raft, entry, Some(epoch)).await.map_err(|failure| match failure {
        WriteFailure::NotNow => ProposeError::NoLeader,
        WriteFailure::Never(error) => error,
        WriteFailure::Unknown => ProposeError::Unknown,
    })
}

fn land_here(
    means: &Means,
    pack: Vec<Pending>,
    written: Result<BatchReply, WriteFailure>,
) -> Landing {
    match written {
        Ok(reply) if reply.outcomes.len() == commands_in(&pack) => {
            let first = reply.revision.0 + 1 - reply.outcomes.len() as u64;
            let committed = |(outcome, revision)| Committed { outcome, revision };
            let mut done = reply.outcomes.into_iter().zip((first..).map(Revision)).map(committed);
            for item in pack {
                let own = done.by_ref().take(item.commands.len()).collect();
                item.answer(Ok(own));
            }
            Vec::new()
        }
        Ok(_) | Err(WriteFailure::Unknown) => answer_unknown(means, pack),
        Err(WriteFailure::Never(error)) => answer_all(pack, &error),
        Err(WriteFailure::NotNow) => pack,
    }
}

fn land_there(means: &Means, pack: Vec<Pending>, reply: Result<ReplyBody, CallError>) -> Landing {
    match reply {
        Ok(ReplyBody::Propose(results)) if results.len() == pack.len() => {
            let pairs = pack.into_iter().zip(results);
            let alone = |result: Result<_, _>| result.map(|done| vec![done]);
            pairs.filter_map(|(item, result)| land_one(means, item, alone(result))).collect()
        }
        Ok(ReplyBody::ProposeRuns(results)) if results.len() == pack.len() => {
            let pairs = pack.into_iter().zip(results);
            pairs.filter_map(|(item, result)| land_one(means, item, result)).collect()
        }
        // Refused as a whole, before anything was looked at.
        Ok(ReplyBody::Refused(_) | ReplyBody::DiskFull) | Err(CallError::NotSent(_)) => pack,
        Ok(_) | Err(CallError::Unknown(_)) => answer_unknown(means, pack),
    }
}

fn land_one(
    means: &Means,
    item: Pending,
    result: Result<Vec<(Outcome, Revision)>, ProposeRefusal>,
) -> Option<Pending> {
    let error = match result {
        Ok(done) if done.len() == item.commands.len() => {
            let committed = |(outcome, revision)| Committed { outcome, revision };
            item.answer(Ok(done.into_iter().map(committed).collect()));
            return None;
        }
        Ok(_) => ProposeError::Unknown,
        Err(ProposeRefusal::NotLeader) => return Some(item),
        Err(ProposeRefusal::Overloaded) => ProposeError::Overloaded,
        Err(ProposeRefusal::DiskFull) => ProposeError::DiskFull,
        Err(ProposeRefusal::TooLarge) => ProposeError::TooLarge,
        Err(ProposeRefusal::Unknown) => {
            means.counters.unknown_outcomes.add(1);
            ProposeError::Unknown
        }
    };
    item.answer(Err(error));
    None
}

fn commands_in(pack: &[Pending]) -> usize {
    pack.iter().map(|item| item.commands.len()).sum()
}

fn answer_unknown(means: &Means, pack: Vec<Pending>) -> Landing {
    means.counters.unknown_outcomes.add(commands_in(&pack));
    answer_all(pack, &ProposeError::Unknown)
}

fn answer_all(pack: Vec<Pending>, error: &ProposeError) -> Landing {
    for item in pack {
        item.answer(Err(error.clone()));
    }
    Vec::new()
}
