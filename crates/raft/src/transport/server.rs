//! The server side of connections from peers.
//!
//! A connection for calls handles up to [`IN_FLIGHT_MAX`] requests concurrently; every other connection handles one at
//! a time, in order. A connection without a request for [`IDLE_MAX`] closes. Bounds: [`CONNECTIONS_MAX`]
//! connections of peers. Connections without a complete handshake do not count; [`PendingConnections`] bounds them.

use std::sync::Arc;
use std::time::Duration;

use holdfast_codec::Kind;
use holdfast_tls::{
    CallerFailures, FailureReason, MaybeTlsStream, NodePort, PeerTls, PendingConnections,
};
use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::frame::Stranger;
use super::frame::read_frame;
use super::handshake::{ConnectedPeer, PeerHandshake};
use super::{CONNECTIONS_MAX, IN_FLIGHT_MAX};
use crate::dispatch::{Dispatch, PeerSession};
use crate::wire::{Purpose, Request};

/// The idle timeout; peers ping more often.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// The timeout of the write of a reply; after it the connection closes.
const WRITE_BOUND: Duration = Duration::from_secs(10);

/// Accepts connections until the drop of the future, which closes all of them.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<PeerTls>,
    handshake: Arc<PeerHandshake>,
    dispatch: Arc<Dispatch>,
    failures: CallerFailures,
    pending: PendingConnections,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        // A flood of connections is a task like any other: all that is ready runs before the next connection is accepted.
        tokio::task::yield_now().await;
        let (stream, source) = match listener.accept().await {
            Ok((stream, source)) => (stream, source.ip()),
            Err(error) => {
                // A likely cause is a lack of file descriptors: wait until some are closed.
                tracing::warn!(%error, "failed to accept a connection from a peer");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let (handshake, dispatch) = (handshake.clone(), dispatch.clone());
        let (tls, pending, permits) = (tls.clone(), pending.clone(), permits.clone());
        let failures = failures.clone();
        connections.spawn(async move {
            let identifying = async {
                // A stranger who shares the address of a member must not keep the member out.
                if !handshake.is_member_address(source) {
                    failures.wait(NodePort::Peer, source).await;
                }
                identify(stream, tls, &handshake).await
            };
            let identified = pending.run(source, identifying).await;
            let evicted =
                "too many connections have no complete handshake, and this was the oldest";
            let identified = identified.unwrap_or_else(|| {
                Err(Some(Stranger { reason: FailureReason::Evicted, detail: evicted.to_owned() }))
            });
            let (stream, peer) = match identified {
                Ok(identified) => identified,
                Err(None) => return,
                Err(Some(Stranger { reason, detail })) => {
                    failures.record(NodePort::Peer, source, reason, &detail);
                    return;
                }
            };
            failures.proved(NodePort::Peer, source);
            let Ok(_permit) = permits.try_acquire() else {
                tracing::warn!(peer = peer.node.0, "too many connections of peers: closing one");
                return;
            };
            serve_connection(stream, peer, dispatch).await;
        });
    }
}

/// Runs the handshakes. The error is `None` for a node that [`PeerHandshake`] has refused and logged, and for a connection
/// that closed.
async fn identify(
    stream: TcpStream,
    tls: Option<PeerTls>,
    handshake: &PeerHandshake,
) -> Result<(MaybeTlsStream, ConnectedPeer), Option<Stranger>> {
    stream.set_nodelay(true).map_err(|_| None::<Stranger>)?;
    let mut stream = match tls {
        None => MaybeTlsStream::Plain(stream),
        Some(tls) => tls.accept(stream).await.map_err(|error| {
            let detail = error.to_string();
            error.reason().map(|reason| Stranger { reason, detail })
        })?,
    };
    let peer = handshake.accept(&mut stream).await?;
    Ok((stream, peer))
}

async fn serve_connection(stream: MaybeTlsStream, peer: ConnectedPeer, dispatch: Arc<Dispatch>) {
    let expiry = stream.expiry();
    let _counted = match peer.purpose {
        Purpose::Replication | Purpose::Control | Purpose::Snapshot => {
            Some(dispatch.incoming.opened(peer.node))
        }
        Purpose::Calls | Purpose::Bootstrap => None,
    };
    let (read, write) = tokio::io::split(stream);
    let reader = BufReader::with_capacity(64 << 10, read);
    let answering = async {
        match peer.purpose {
            Purpose::Calls => answer_concurrently(reader, write, peer, dispatch.clone()).await,
            Purpose::Replication | Purpose::Control | Purpose::Snapshot | Purpose::Bootstrap => {
                answer_in_order(reader, write, peer, &dispatch).await;
            }
        }
    };
    tokio::select! {
        () = answering => {}
        () = expiry.passed() => {
            tracing::warn!(peer = peer.node.0, "the certificate of a peer has expired or is denied: closing its connection");
        }
    }
}

async fn answer_in_order(
    mut reader: BufReader<ReadHalf<MaybeTlsStream>>,
    mut writer: WriteHalf<MaybeTlsStream>,
    peer: ConnectedPeer,
    dispatch: &Dispatch,
) {
    let mut session = PeerSession::new(peer);
    while let Some(request) = next_request(&mut reader).await {
        let reply = dispatch.answer(&mut session, request).await;
        if write_reply(&mut writer, reply).await.is_none() {
            return;
        }
    }
}

async fn answer_concurrently(
    mut reader: BufReader<ReadHalf<MaybeTlsStream>>,
    writer: WriteHalf<MaybeTlsStream>,
    peer: ConnectedPeer,
    dispatch: Arc<Dispatch>,
) {
    let writer = Arc::new(Mutex::new(writer));
    let permits = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let closed = Arc::new(Notify::new());
    let mut answers = JoinSet::new();
    let answering = async {
        while let Some(request) = next_request(&mut reader).await {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            while answers.try_join_next().is_some() {}
            let (writer, dispatch, closed) = (writer.clone(), dispatch.clone(), closed.clone());
            answers.spawn(async move {
                let reply = dispatch.answer(&mut PeerSession::new(peer), request).await;
                // After a part of a reply, the peer cannot read the next one.
                if write_reply(&mut *writer.lock().await, reply).await.is_none() {
                    closed.notify_one();
                }
                drop(permit);
            });
        }
    };
    tokio::select! {
        () = answering => {}
        () = closed.notified() => {}
    }
}

async fn next_request(reader: &mut BufReader<ReadHalf<MaybeTlsStream>>) -> Option<Request> {
    let frame = timeout(IDLE_MAX, read_frame(reader)).await.ok()?.ok()??;
    match holdfast_codec::decode(Kind::PeerRequest, &frame) {
        Ok(request) => Some(request),
        Err(error) => {
            tracing::warn!(%error, "undecodable request: closing the connection");
            None
        }
    }
}

async fn write_reply(writer: &mut WriteHalf<MaybeTlsStream>, frame: Option<Vec<u8>>) -> Option<()> {
    let frame = frame?;
    let writing = async {
        writer.write_all(&frame).await?;
        // TLS may hold back the end of the last record.
        writer.flush().await
    };
    timeout(WRITE_BOUND, writing).await.ok()?.ok()
}
