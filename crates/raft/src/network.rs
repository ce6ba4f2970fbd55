//! openraft's way to its peers.
//!
//! Owns the translation of its requests and replies, and how long each may take: appends with entries have a bound of
//! seconds, whatever the heartbeat interval is, since a disk may stall that long.

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
use tokio::time::Instant;

use crate::config::SNAPSHOT_BOUND;
use crate::error::CallError;
use crate::peers::Peers;
use crate::snapshot::SnapshotFile;
use crate::type_config::TypeConfig;
use crate::wire::{AppendDto, Purpose, ReplyBody, RequestBody, SnapshotMetaDto, encode_record};

/// An append with entries takes at most this long.
const APPEND_BOUND: Duration = Duration::from_secs(5);
/// A piece of a snapshot takes at most this long.
const PIECE_BOUND: Duration = Duration::from_secs(10);
/// Bytes of a snapshot sent at once.
const PIECE_BYTES: usize = 1 << 20;

type RpcResult<T> = Result<T, RPCError<TypeConfig>>;

/// Makes a [`Network`] for each peer and purpose.
pub(crate) struct NetworkFactory {
    pub(crate) peers: Arc<Peers>,
}

impl NetworkFactory {
    fn network(&self, target: u64, append: Purpose) -> Network {
        Network { peers: self.peers.clone(), target: NodeId(target), append }
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

/// One peer.
pub(crate) struct Network {
    peers: Arc<Peers>,
    target: NodeId,
    /// Which lane appends take.
    append: Purpose,
}

impl Network {
    async fn call(
        &self,
        purpose: Purpose,
        body: &RequestBody,
        bound: Duration,
    ) -> RpcResult<ReplyBody> {
        let deadline = Instant::now() + bound;
        match self.peers.call(self.target, purpose, body, deadline).await {
            // Unreachable makes openraft pause before it asks again.
            Ok(ReplyBody::DiskFull) => Err(unreachable("the peer's disk is below its reserve")),
            Ok(ReplyBody::Refused(reason)) | Err(CallError::NotSent(reason)) => {
                Err(unreachable(&reason))
            }
            Ok(reply) => Ok(reply),
            Err(CallError::Unknown(reason)) => Err(network(&reason)),
        }
    }

    async fn vote_call(
        &self,
        body: RequestBody,
        option: &RPCOption,
    ) -> RpcResult<VoteResponse<TypeConfig>> {
        let reply = self.call(Purpose::Control, &body, option.hard_ttl()).await?;
        let ReplyBody::Vote(dto) = reply else {
            return Err(network("the reply is not one to a vote"));
        };
        Ok(dto.into())
    }

    async fn send_snapshot(
        &self,
        vote: VoteOf<TypeConfig>,
        snapshot: SnapshotOf<TypeConfig, SnapshotFile>,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let meta = SnapshotMetaDto::from(&snapshot.meta);
        let begin = RequestBody::SnapshotBegin { vote: vote.into(), meta };
        self.send_piece(&begin).await?;
        let mut pieces =
            snapshot.snapshot.into_pieces(PIECE_BYTES).map_err(|error| network_io(&error))?;
        while let Some(piece) = pieces.next().await.map_err(|error| network_io(&error))? {
            self.send_piece(&RequestBody::SnapshotPiece(piece)).await?;
        }
        let end = RequestBody::SnapshotEnd;
        let reply = self.call(Purpose::Snapshot, &end, SNAPSHOT_BOUND).await?;
        let ReplyBody::SnapshotInstalled(vote) = reply else {
            return Err(network("the reply is not one to a snapshot").into());
        };
        Ok(SnapshotResponse::new(vote.into()))
    }

    async fn send_piece(&self, body: &RequestBody) -> RpcResult<()> {
        let ReplyBody::SnapshotNext = self.call(Purpose::Snapshot, body, PIECE_BOUND).await? else {
            return Err(network("the reply is not one to a snapshot"));
        };
        Ok(())
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
        let body = RequestBody::Append(AppendDto {
            vote: rpc.vote.into(),
            previous: rpc.prev_log_id.map(Into::into),
            commit: rpc.leader_commit.map(Into::into),
            records: records.map_err(|error| network(&error.to_string()))?,
        });
        let ReplyBody::Append(dto) = self.call(self.append, &body, bound).await? else {
            return Err(network("the reply is not one to an append"));
        };
        Ok(dto.into())
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<VoteResponse<TypeConfig>> {
        self.vote_call(RequestBody::Vote(rpc.into()), &option).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<VoteResponse<TypeConfig>> {
        self.vote_call(RequestBody::PreVote(rpc.into()), &option).await
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
            // The peer forgets the half it got when the connection ends.
            self.peers.close(self.target, Purpose::Snapshot);
        }
        result
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<TransferLeaderResponse<TypeConfig>> {
        let body = RequestBody::Transfer(request.into());
        let reply = self.call(Purpose::Control, &body, option.hard_ttl()).await?;
        let ReplyBody::Transfer(dto) = reply else {
            return Err(network("the reply is not one to a transfer"));
        };
        Ok(dto.into())
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
