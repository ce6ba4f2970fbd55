//! Connections from peers.
//!
//! Owns accepting, greeting and reading them. On the lanes of the consensus one request is worked on at a time, in
//! order; calls are worked on at once, up to [`IN_FLIGHT_MAX`] of them. A connection on which nothing came for
//! [`IDLE_MAX`] is closed. Bound: [`CONNECTIONS_MAX`] connections.

use std::sync::Arc;
use std::time::Duration;

use holdfast_codec::Kind;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::frame::read_frame;
use super::handshake::{Doorman, Visitor};
use super::{CONNECTIONS_MAX, IN_FLIGHT_MAX};
use crate::dispatch::{Dispatch, Visit};
use crate::wire::{Purpose, Reply, ReplyBody, Request};

/// Patience with a silent connection; peers ping more often.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// A reply that cannot be written within this is not wanted.
const WRITE_BOUND: Duration = Duration::from_secs(10);

/// Accepts connections until it is dropped; then they all end.
pub(crate) async fn serve(listener: TcpListener, doorman: Arc<Doorman>, dispatch: Arc<Dispatch>) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let Ok(seat) = seats.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Most likely out of file descriptors: wait for some to come back.
                tracing::warn!(%error, "failed to accept a peer");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let (doorman, dispatch) = (doorman.clone(), dispatch.clone());
        connections.spawn(async move {
            converse(stream, &doorman, dispatch).await;
            drop(seat);
        });
    }
}

async fn converse(mut stream: TcpStream, doorman: &Doorman, dispatch: Arc<Dispatch>) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Some(visitor) = doorman.receive(&mut stream).await else { return };
    let (read, write) = stream.into_split();
    let reader = BufReader::with_capacity(64 << 10, read);
    match visitor.purpose {
        Purpose::Calls => answer_many(reader, write, visitor, dispatch).await,
        Purpose::Replication | Purpose::Control | Purpose::Snapshot | Purpose::Founding => {
            answer_in_turn(reader, write, visitor, &dispatch).await;
            dispatch.hung_up(visitor);
        }
    }
}

async fn answer_in_turn(
    mut reader: BufReader<OwnedReadHalf>,
    mut writer: OwnedWriteHalf,
    visitor: Visitor,
    dispatch: &Dispatch,
) {
    let mut visit = Visit::new(visitor);
    while let Some(request) = next_request(&mut reader).await {
        let deadline = deadline_of(&request);
        let body = dispatch.answer(&mut visit, request.body, deadline).await;
        if write_reply(&mut writer, request.id, body).await.is_none() {
            return;
        }
    }
}

async fn answer_many(
    mut reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    visitor: Visitor,
    dispatch: Arc<Dispatch>,
) {
    let writer = Arc::new(Mutex::new(writer));
    let places = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let mut answers = JoinSet::new();
    while let Some(request) = next_request(&mut reader).await {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        while answers.try_join_next().is_some() {}
        let (writer, dispatch) = (writer.clone(), dispatch.clone());
        answers.spawn(async move {
            let deadline = deadline_of(&request);
            let body = dispatch.answer(&mut Visit::new(visitor), request.body, deadline).await;
            // A writer that failed fails for the next one too; the reader notices the end.
            write_reply(&mut *writer.lock().await, request.id, body).await;
            drop(place);
        });
    }
}

async fn next_request(reader: &mut BufReader<OwnedReadHalf>) -> Option<Request> {
    let frame = timeout(IDLE_MAX, read_frame(reader)).await.ok()?.ok()??;
    match holdfast_codec::decode(Kind::PeerRequest, &frame) {
        Ok(request) => Some(request),
        Err(error) => {
            tracing::warn!(%error, "closing a connection: not a request");
            None
        }
    }
}

fn deadline_of(request: &Request) -> Instant {
    Instant::now() + Duration::from_millis(request.remaining_ms.into())
}

async fn write_reply(writer: &mut OwnedWriteHalf, id: u64, body: ReplyBody) -> Option<()> {
    let frame = holdfast_codec::encode(Kind::PeerReply, &Reply { id, body }).ok()?;
    timeout(WRITE_BOUND, writer.write_all(&frame)).await.ok()?.ok()
}
