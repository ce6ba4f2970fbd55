//! The client side of one open connection.
//!
//! Each caller writes its own frame and waits for the reply with its number; one task reads all replies. A broken
//! connection, or one with an overdue reply, fails all waiting calls and accepts no more. Bounds: [`IN_FLIGHT_MAX`]
//! requests, one frame being written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use holdfast_codec::Kind;
use holdfast_tls::MaybeTlsStream;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWriteExt, BufReader, WriteHalf};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::IN_FLIGHT_MAX;
use super::frame::read_frame;
use crate::config::SNAPSHOT_BOUND;
use crate::error::CallError;
use crate::wire::{PeerCall, Ping, Purpose, Reply, Request};

/// The ping interval of an idle connection, well below the server's idle limit.
const PING_IDLE: Duration = Duration::from_secs(5);
/// The ping interval of a connection with waiting calls: calls may take long, but the peer must be alive.
const PING_WAITING: Duration = Duration::from_millis(500);

/// The time limit without received data while a reply is due; after it the connection closes.
fn silence_max(purpose: Purpose) -> Duration {
    match purpose {
        Purpose::Control | Purpose::Bootstrap => Duration::from_secs(2),
        Purpose::Calls => Duration::from_millis(1_200),
        Purpose::Replication => Duration::from_secs(5),
        // The installation of a snapshot may take long; its only caller has a deadline.
        Purpose::Snapshot => SNAPSHOT_BOUND,
    }
}

pub(crate) struct Connection {
    writer: tokio::sync::Mutex<WriteHalf<MaybeTlsStream>>,
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
    /// The receiver of each reply frame, by the number of its request.
    replies: BTreeMap<u64, oneshot::Sender<Vec<u8>>>,
    /// The start of the current silence while a reply is due. Requests with a dropped caller count.
    silent_since: Option<Instant>,
}

impl Connection {
    /// Takes over a stream after its handshake.
    pub(crate) fn new(stream: MaybeTlsStream, purpose: Purpose) -> Arc<Self> {
        let expiry = stream.expiry();
        let (read, write) = tokio::io::split(stream);
        let waiting = Waiting { replies: BTreeMap::new(), silent_since: None };
        let shared =
            Arc::new(Shared { waiting: Mutex::new(waiting), closed: AtomicBool::new(false) });
        let read = BufReader::with_capacity(32 << 10, read);
        let read_until_expiry = {
            let shared = shared.clone();
            async move {
                tokio::select! {
                    () = read_replies(read, shared.clone()) => {}
                    () = expiry.passed() => shared.close(),
                }
            }
        };
        let reader = tokio::spawn(read_until_expiry);
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

    pub(crate) fn is_open(&self) -> bool {
        !self.shared.closed.load(Ordering::Acquire)
    }

    pub(crate) async fn call<C: PeerCall>(
        &self,
        call: C,
        deadline: Instant,
    ) -> Result<C::Reply, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let remaining = deadline.saturating_duration_since(Instant::now()).as_millis();
        let remaining_ms = u32::try_from(remaining).unwrap_or(u32::MAX);
        let request = Request { id, remaining_ms, body: call.into() };
        let frame = holdfast_codec::encode(Kind::PeerRequest, &request)
            .map_err(|error| CallError::NotSent(error.to_string()))?;
        let reply = self.expect_reply(id)?;
        let _forget = Forget { shared: &self.shared, id };
        self.send(&frame, deadline).await?;
        let frame = match timeout_at(deadline, reply).await {
            Ok(Ok(frame)) => frame,
            Ok(Err(_)) => return Err(CallError::Unknown("the connection broke".into())),
            Err(_) => return Err(CallError::Unknown("no reply in time".into())),
        };
        match holdfast_codec::decode::<Reply<C::Reply>>(Kind::PeerReply, &frame) {
            Ok(reply) => reply.result.map_err(CallError::Refused),
            Err(error) => {
                self.shared.close();
                Err(CallError::Unknown(format!("undecodable reply: {error}")))
            }
        }
    }

    fn expect_reply(&self, id: u64) -> Result<oneshot::Receiver<Vec<u8>>, CallError> {
        let mut waiting = self.shared.waiting.lock();
        let now = Instant::now();
        if waiting.silent_since.is_some_and(|since| now - since > silence_max(self.purpose)) {
            drop(waiting);
            self.shared.close();
            return Err(CallError::NotSent("the peer does not respond".into()));
        }
        if !self.is_open() {
            return Err(CallError::NotSent("the connection broke".into()));
        }
        if waiting.replies.len() >= IN_FLIGHT_MAX {
            return Err(CallError::NotSent("too many requests wait for the peer".into()));
        }
        waiting.silent_since.get_or_insert(now);
        let (sender, receiver) = oneshot::channel();
        waiting.replies.insert(id, sender);
        Ok(receiver)
    }

    async fn send(&self, frame: &[u8], deadline: Instant) -> Result<(), CallError> {
        let Ok(mut writer) = timeout_at(deadline, self.writer.lock()).await else {
            return Err(CallError::NotSent(
                "other requests were written until the deadline".into(),
            ));
        };
        // A partial frame makes the stream unusable: the connection closes unless the whole frame is written, even if
        // the caller is dropped during the write.
        let mut guard = CloseOnPartialWrite { shared: &self.shared, armed: true };
        let writing = async {
            writer.write_all(frame).await?;
            // TLS may hold back the end of the last record.
            writer.flush().await
        };
        match timeout_at(deadline, writing).await {
            Ok(Ok(())) => {
                guard.armed = false;
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

struct CloseOnPartialWrite<'a> {
    shared: &'a Shared,
    armed: bool,
}

impl Drop for CloseOnPartialWrite<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.shared.close();
        }
    }
}

async fn read_replies<R: AsyncRead + Unpin>(mut stream: R, shared: Arc<Shared>) {
    while let Ok(Some(frame)) = read_frame(&mut stream).await {
        let Ok(id) = holdfast_codec::decode_prefix::<u64>(Kind::PeerReply, &frame) else { break };
        let mut waiting = shared.waiting.lock();
        waiting.silent_since = None;
        let sender = waiting.replies.remove(&id);
        if !waiting.replies.is_empty() {
            waiting.silent_since = Some(Instant::now());
        }
        drop(waiting);
        if let Some(sender) = sender {
            // The caller may have been dropped.
            sender.send(frame).ok();
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
        // Connections for other purposes reply in order: a ping would wait behind the slow request.
        let due = if waiting { connection.purpose == Purpose::Calls } else { idle >= PING_IDLE };
        if !due {
            continue;
        }
        idle = Duration::ZERO;
        if connection.call(Ping, Instant::now() + PING_IDLE).await.is_err() {
            connection.shared.close();
            return;
        }
    }
}
