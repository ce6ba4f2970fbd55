//! openraft's network: translates its requests and replies into calls to peers, each with a time limit.
//!
//! An append with entries may take seconds regardless of the heartbeat interval, because a disk may stall that long.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use holdfast_types::NodeId;
use openraft::alias::{SnapshotOf, VoteOf};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, OptionalSend};
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use crate::config::SNAPSHOT_BOUND;
use crate::error::CallError;
use crate::failure::Failure;
use crate::metrics::RaftMetrics;
use crate::peers::Peers;
use crate::store::snapshot::SnapshotFile;
use crate::type_config::TypeConfig;
use crate::wire::{
    Append, AppendReply, DISK_LOW, PeerCall, Purpose, RequestPreVote, RequestVote, SnapshotBegin,
    SnapshotEnd, SnapshotMetaDto, SnapshotPiece, TransferLeader, encode_record,
};

/// The timeout of an append with entries.
const APPEND_BOUND: Duration = Duration::from_secs(5);
/// The timeout of one piece of a snapshot.
const PIECE_BOUND: Duration = Duration::from_secs(10);
/// After this many conflicts in a row, openraft pauses before each further append. The search for the last common entry of two
/// logs needs at most 64.
const CONFLICTS_MAX: u32 = 64;
/// The size of one piece of a snapshot.
const PIECE_BYTES: usize = 1 << 20;

type RpcResult<T> = Result<T, RPCError<TypeConfig>>;

/// Makes a [`Network`] for each peer and purpose.
pub(crate) struct NetworkFactory {
    pub(crate) peers: Arc<Peers>,
    pub(crate) metrics: Arc<RaftMetrics>,
    pub(crate) failure: Failure,
}

impl NetworkFactory {
    fn network(&self, target: u64, append: Purpose) -> Network {
        let (peers, target) = (self.peers.clone(), NodeId(target));
        let round_trip_seconds = self.metrics.peer_round_trip_seconds(target);
        let failure = self.failure.clone();
        Network { peers, target, append, conflicts: 0, round_trip_seconds, failure }
    }
}

impl RaftNetworkFactory<TypeConfig> for NetworkFactory {
    type Network = Network;

    async fn new_client(&mut self, target: u64, _node: &EmptyNode) -> Network {
        self.network(target, Purpose::Replication)
    }

    async fn new_heartbeat_client(&mut self, target: u64, _node: &EmptyNode) -> Network {
        self.network(target, Purpose::Control)
    }

    async fn new_snapshot_client(&mut self, target: u64, _node: &EmptyNode) -> Network {
        self.network(target, Purpose::Snapshot)
    }
}

/// Calls one peer.
pub(crate) struct Network {
    peers: Arc<Peers>,
    target: NodeId,
    /// The purpose of the channel for appends.
    append: Purpose,
    /// The conflicts since the last success.
    conflicts: u32,
    round_trip_seconds: Histogram,
    failure: Failure,
}

impl Network {
    async fn call<C: PeerCall>(
        &self,
        purpose: Purpose,
        call: C,
        bound: Duration,
    ) -> RpcResult<C::Reply> {
        let deadline = Instant::now() + bound;
        self.peers.call(self.target, purpose, call, deadline).await.map_err(|error| match error {
            // After `Unreachable` openraft pauses before the next call.
            CallError::Refused(reason) | CallError::NotSent(reason) => {
                if reason == DISK_LOW {
                    self.peers.record_disk(self.target, true);
                }
                unreachable(&reason)
            }
            CallError::Unknown(reason) => network(&reason),
        })
    }

    async fn send_snapshot(
        &self,
        vote: VoteOf<TypeConfig>,
        snapshot: SnapshotOf<TypeConfig, SnapshotFile>,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let meta = SnapshotMetaDto::from(&snapshot.meta);
        let begin = SnapshotBegin { vote: vote.into(), meta };
        self.call(Purpose::Snapshot, begin, PIECE_BOUND).await?;
        let pieces = snapshot.snapshot.into_pieces(PIECE_BYTES, self.failure.clone());
        let mut pieces = pieces.map_err(|error| network_io(&error))?;
        while let Some(piece) = pieces.next().await.map_err(|error| network_io(&error))? {
            self.call(Purpose::Snapshot, SnapshotPiece(piece), PIECE_BOUND).await?;
        }
        let vote = self.call(Purpose::Snapshot, SnapshotEnd, SNAPSHOT_BOUND).await?;
        self.peers.record_disk(self.target, false);
        Ok(SnapshotResponse::new(vote.into()))
    }
}

impl RaftNetworkV2<TypeConfig> for Network {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<AppendEntriesResponse<TypeConfig>> {
        let records: Result<Vec<_>, _> = rpc.entries.iter().map(encode_record).collect();
        let bound = if rpc.entries.is_empty() { option.hard_ttl() } else { APPEND_BOUND };
        let is_heartbeat = rpc.entries.is_empty();
        let append = Append {
            vote: rpc.vote.into(),
            previous: rpc.prev_log_id.map(Into::into),
            commit: rpc.leader_commit.map(Into::into),
            records: records.map_err(|error| network(&error.to_string()))?,
        };
        let began = Instant::now();
        let reply = self.call(self.append, append, bound).await?;
        if is_heartbeat {
            self.round_trip_seconds.observe(began.elapsed().as_secs_f64());
        } else if reply == AppendReply::Success {
            self.peers.record_disk(self.target, false);
        }
        let reply = reply.into();
        let is_conflict = matches!(reply, AppendEntriesResponse::Conflict);
        self.conflicts = if is_conflict { self.conflicts.saturating_add(1) } else { 0 };
        if self.conflicts > CONFLICTS_MAX {
            return Err(unreachable("the log of the peer has no entry in common"));
        }
        Ok(reply)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<VoteResponse<TypeConfig>> {
        Ok(self.call(Purpose::Control, RequestVote(rpc.into()), option.hard_ttl()).await?.into())
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<VoteResponse<TypeConfig>> {
        Ok(self.call(Purpose::Control, RequestPreVote(rpc.into()), option.hard_ttl()).await?.into())
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<TypeConfig>,
        snapshot: SnapshotOf<TypeConfig, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let result = {
            let sending = std::pin::pin!(self.send_snapshot(vote, snapshot));
            match select(sending, std::pin::pin!(cancel)).await {
                Either::Left((result, _)) => result,
                Either::Right((closed, _)) => Err(closed.into()),
            }
        };
        if result.is_err() {
            // The peer drops the partial snapshot when the connection closes.
            self.peers.close(self.target, Purpose::Snapshot);
        }
        result
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<TransferLeaderResponse<TypeConfig>> {
        let call = TransferLeader(request.into());
        Ok(self.call(Purpose::Control, call, option.hard_ttl()).await?.into())
    }
}

fn unreachable(reason: &str) -> RPCError<TypeConfig> {
    RPCError::Unreachable(Unreachable::from_string(reason))
}

fn network(reason: &str) -> RPCError<TypeConfig> {
    RPCError::Network(NetworkError::from_string(reason))
}

fn network_io(error: &std::io::Error) -> StreamingError<TypeConfig> {
    StreamingError::Network(NetworkError::new(error))
}
