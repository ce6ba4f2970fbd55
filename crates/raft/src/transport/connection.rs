//! One open connection, seen from the node that asks.
//!
//! Owns the requests that wait for a reply, by number, and the task that reads replies. Whoever asks writes the frame
//! itself. A connection that broke, or went silent while somebody waited, answers everybody and takes no more; a new
//! one is the lane's business. Bounds: [`IN_FLIGHT_MAX`] requests, one frame being written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use holdfast_codec::Kind;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::IN_FLIGHT_MAX;
use super::frame::read_frame;
use crate::config::SNAPSHOT_BOUND;
use crate::error::CallError;
use crate::wire::{Outgoing, Purpose, Reply, ReplyBody, RequestBody};

/// An idle connection is tried this often, well below the server's patience.
const PING_IDLE: Duration = Duration::from_secs(5);
/// So is one on which calls wait: they may take long, but the peer must show that it lives.
const PING_WAITING: Duration = Duration::from_secs(1);

/// A connection on which nothing came for so long, while a reply was due, is given up.
fn silence_max(purpose: Purpose) -> Duration {
    match purpose {
        Purpose::Control | Purpose::Founding => Duration::from_secs(2),
        Purpose::Calls => Duration::from_secs(3),
        Purpose::Replication => Duration::from_secs(5),
        // Installing takes as long as it takes; the one caller has a deadline.
        Purpose::Snapshot => SNAPSHOT_BOUND,
    }
}

/// See the module.
pub(crate) struct Connection {
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    shared: Arc<Shared>,
    purpose: Purpose,
    next_id: AtomicU64,
    tasks: [AbortHandle; 2],
}

struct Shared {
    waiting: Mutex<Waiting>,
    closed: AtomicBool,
}

struct Waiting {
    replies: BTreeMap<u64, oneshot::Sender<ReplyBody>>,
    /// Since when a reply is due and nothing came; requests whose caller gave up count.
    silent_since: Option<Instant>,
}

impl Connection {
    /// Takes over a stream whose handshake is done.
    pub(crate) fn new(stream: TcpStream, purpose: Purpose) -> Arc<Self> {
        let (read, write) = stream.into_split();
        let waiting = Waiting { replies: BTreeMap::new(), silent_since: None };
        let shared =
            Arc::new(Shared { waiting: Mutex::new(waiting), closed: AtomicBool::new(false) });
        let read = BufReader::with_capacity(32 << 10, read);
        let reader = tokio::spawn(read_replies(read, shared.clone()));
        Arc::new_cyclic(|connection: &Weak<Self>| {
            let pinger = tokio::spawn(ping(connection.clone()));
            Self {
                writer: tokio::sync::Mutex::new(write),
                shared,
                purpose,
                next_id: AtomicU64::new(1),
                tasks: [reader.abort_handle(), pinger.abort_handle()],
            }
        })
    }

    /// Whether it takes requests.
    pub(crate) fn is_open(&self) -> bool {
        !self.shared.closed.load(Ordering::Acquire)
    }

    /// Asks, and waits for the answer until `deadline`.
    pub(crate) async fn call(
        &self,
        body: &RequestBody,
        deadline: Instant,
    ) -> Result<ReplyBody, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let remaining = deadline.saturating_duration_since(Instant::now()).as_millis();
        let remaining_ms = u32::try_from(remaining).unwrap_or(u32::MAX);
        let frame = holdfast_codec::encode(Kind::PeerRequest, &Outgoing { id, remaining_ms, body })
            .map_err(|error| CallError::NotSent(error.to_string()))?;
        let reply = self.expect(id)?;
        let _forget = Forget { shared: &self.shared, id };
        self.send(&frame, deadline).await?;
        match timeout_at(deadline, reply).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(_)) => Err(CallError::Unknown("the connection broke".into())),
            Err(_) => Err(CallError::Unknown("no reply in time".into())),
        }
    }

    fn expect(&self, id: u64) -> Result<oneshot::Receiver<ReplyBody>, CallError> {
        let mut waiting = self.shared.waiting.lock();
        let now = Instant::now();
        if waiting.silent_since.is_some_and(|since| now - since > silence_max(self.purpose)) {
            drop(waiting);
            self.shared.close();
            return Err(CallError::NotSent("the peer is silent".into()));
        }
        if !self.is_open() {
            return Err(CallError::NotSent("the connection broke".into()));
        }
        if waiting.replies.len() >= IN_FLIGHT_MAX {
            return Err(CallError::NotSent("too many requests wait for this peer".into()));
        }
        waiting.silent_since.get_or_insert(now);
        let (sender, receiver) = oneshot::channel();
        waiting.replies.insert(id, sender);
        Ok(receiver)
    }

    async fn send(&self, frame: &[u8], deadline: Instant) -> Result<(), CallError> {
        let Ok(mut writer) = timeout_at(deadline, self.writer.lock()).await else {
            return Err(CallError::NotSent("no turn to write in time".into()));
        };
        // Half a frame spoils the stream: unless the whole is written, the connection ends, even if the caller
        // goes away in the middle.
        let mut spoil = Spoil { shared: &self.shared, armed: true };
        match timeout_at(deadline, writer.write_all(frame)).await {
            Ok(Ok(())) => {
                spoil.armed = false;
                Ok(())
            }
            Ok(Err(error)) => Err(CallError::Unknown(error.to_string())),
            Err(_) => Err(CallError::Unknown("not written in time".into())),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.close();
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Shared {
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.waiting.lock().replies.clear();
    }
}

struct Forget<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.shared.waiting.lock().replies.remove(&self.id);
    }
}

struct Spoil<'a> {
    shared: &'a Shared,
    armed: bool,
}

impl Drop for Spoil<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.shared.close();
        }
    }
}

async fn read_replies<R: AsyncRead + Unpin>(mut stream: R, shared: Arc<Shared>) {
    while let Ok(Some(frame)) = read_frame(&mut stream).await {
        let Ok(reply) = holdfast_codec::decode::<Reply>(Kind::PeerReply, &frame) else { break };
        let mut waiting = shared.waiting.lock();
        waiting.silent_since = None;
        let sender = waiting.replies.remove(&reply.id);
        if !waiting.replies.is_empty() {
            waiting.silent_since = Some(Instant::now());
        }
        drop(waiting);
        if let Some(sender) = sender {
            // The caller may have gone.
            sender.send(reply.body).ok();
        }
    }
    shared.close();
}

async fn ping(connection: Weak<Connection>) {
    let mut idle = Duration::ZERO;
    loop {
        tokio::time::sleep(PING_WAITING).await;
        let Some(connection) = connection.upgrade() else { return };
        let waiting = !connection.shared.waiting.lock().replies.is_empty();
        idle = if waiting { Duration::ZERO } else { idle + PING_WAITING };
        // The other lanes answer in turn: a ping would wait behind what it asks about.
        let due = if waiting { connection.purpose == Purpose::Calls } else { idle >= PING_IDLE };
        if !due {
            continue;
        }
        idle = Duration::ZERO;
        if connection.call(&RequestBody::Ping, Instant::now() + PING_IDLE).await.is_err() {
            connection.shared.close();
            return;
        }
    }
}
