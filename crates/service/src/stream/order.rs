//! The order of the items that a client receives (guarantee 9). Only this file enqueues items into an outbox.
//!
//! A notice always precedes the reply that would reveal its change:
//!
//! - [`Streams::on_event`] enqueues notices inside the apply step, while the machine is locked for writing;
//! - [`Streams::answer`] reads the machine, arms the watch and enqueues the reply within one read lock: the notices of
//!   earlier changes are already in the queue, and those of later changes follow the reply;
//! - [`Streams::reply`] enqueues the reply to a write after this node has applied its revision, and so after the
//!   notices of all revisions up to it.
//!
//! Lock order: machine, registry, outbox queue. Bounds: `max` streams, `watches_max` watches.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use holdfast_machine::Machine;
use holdfast_types::{
    AccessList, Event, Password, Rejection, Revision, SessionEnd, SessionEvent, SessionId,
    SessionName, SessionRejection, TreeEvent, Ttl, ZnodePath,
};
use parking_lot::Mutex;

use super::message::{Notice, NoticeKind, StreamAnswer, StreamEnd, StreamReply, WatchKind};
use super::outbox::{OutboxQueue, StreamLimits};
use super::watch_table::{FiredChange, FiredWatch, StreamNumber, WatchFlags, WatchTable};
use crate::request::{Failure, session_ended};

/// The number of paths of ended streams that one call sweeps, because `apply` waits meanwhile.
const SWEPT_PATHS: usize = 64;

/// A session, and this connection's attachment to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub id: SessionId,
    pub session: SessionName,
    /// Another connection needs the password to attach.
    pub password: Password,
    /// The client's TTL. The session's own TTL is longer by the slack of renewals.
    pub ttl: Ttl,
    /// The revision of the attachment.
    pub attachment: Revision,
    /// When the attachment was requested: the session lives at least its TTL from then on.
    pub(crate) since: Instant,
}

/// Whether the caller of a stream may see a change. Called while the machine is locked.
pub(crate) struct SeesChange(pub(crate) Box<ChangeCheck>);

type ChangeCheck = dyn Fn(&Machine, FiredChange<'_>) -> bool + Send + Sync;

impl fmt::Debug for SeesChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeesChange(..)")
    }
}

#[derive(Debug)]
pub(crate) struct RegisteredStream {
    pub(crate) session: SessionId,
    pub(crate) attachment: Revision,
    pub(crate) since: Instant,
    pub(crate) queue: Arc<OutboxQueue>,
    /// The stream closes its own session, and ends the queue after the reply.
    closing: bool,
    /// `None` for a caller without a credential and an identity.
    sees: Option<SeesChange>,
}

#[derive(Clone, Debug)]
pub(crate) struct StreamEntry {
    pub(crate) number: StreamNumber,
    session: SessionId,
    pub(crate) queue: Arc<OutboxQueue>,
    pub(crate) limits: StreamLimits,
}

#[derive(Debug, Default)]
pub(crate) struct StreamRegistry {
    pub(crate) streams: BTreeMap<StreamNumber, RegisteredStream>,
    pub(crate) table: WatchTable,
    by_session: BTreeSet<(SessionId, StreamNumber)>,
    last: u64,
}

#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) registry: Mutex<StreamRegistry>,
    /// The number of paths with watches: `apply` skips the registry while it is zero. It grows only while the machine is
    /// locked.
    armed: AtomicUsize,
    /// The number of streams: `apply` skips ended sessions while it is zero. It grows only while the machine is
    /// locked.
    live: AtomicUsize,
    /// Bytes of notices in all outbox queues.
    queued: Arc<AtomicUsize>,
    max: usize,
    watches_max: usize,
}

impl Streams {
    pub(crate) fn new(max: usize, watches_max: usize) -> Self {
        Self {
            registry: Mutex::default(),
            armed: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            queued: Arc::default(),
            max,
            watches_max,
        }
    }

    /// Registers a stream, and ends the older streams of its session on this node. Older streams on other nodes
    /// continue, as in ZooKeeper: they read, the log rejects their writes, and either client can close the session.
    /// The caller has locked the machine.
    pub(crate) fn enter(
        &self,
        machine: &Machine,
        attached: &Attachment,
        limits: StreamLimits,
    ) -> Result<StreamEntry, Failure> {
        still_open(machine, attached)?;
        let mut registry = self.registry.lock();
        registry.supersede(attached)?;
        if registry.streams.len() >= self.max {
            return Err(Failure::TooManyStreams { limit: self.max });
        }
        registry.last += 1;
        let number = StreamNumber(registry.last);
        let queue = OutboxQueue::new(limits, self.queued.clone());
        let stream = RegisteredStream {
            session: attached.id,
            attachment: attached.attachment,
            since: Instant::now(),
            queue: queue.clone(),
            closing: false,
            sees: None,
        };
        registry.streams.insert(number, stream);
        registry.by_session.insert((attached.id, number));
        self.count(&registry);
        Ok(StreamEntry { number, session: attached.id, queue, limits })
    }

    pub(crate) fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Ends a stream and removes its watches.
    pub(crate) fn leave(&self, number: StreamNumber, reason: StreamEnd) {
        let mut registry = self.registry.lock();
        registry.end(number, reason);
        self.count(&registry);
    }

    pub(crate) fn end_all(&self, reason: StreamEnd) {
        let mut registry = self.registry.lock();
        let all: Vec<_> = registry.streams.keys().copied().collect();
        for number in all {
            registry.end(number, reason);
        }
        self.count(&registry);
    }

    /// Marks that the stream ends its own queue when its session closes.
    pub(crate) fn closes(&self, number: StreamNumber) {
        if let Some(stream) = self.registry.lock().streams.get_mut(&number) {
            stream.closing = true;
        }
    }

    pub(crate) fn identify(&self, number: StreamNumber, sees: SeesChange) {
        if let Some(stream) = self.registry.lock().streams.get_mut(&number) {
            stream.sees = Some(sees);
        }
    }

    /// Runs inside the apply step.
    pub(crate) fn on_event(&self, machine: &Machine, revision: Revision, event: &Event) {
        match event {
            Event::Tree(TreeEvent::Created { path }) => {
                self.fire_watches(machine, revision, (NoticeKind::Created, path), None);
            }
            Event::Tree(TreeEvent::Deleted { path, acl }) => {
                self.fire_watches(machine, revision, (NoticeKind::Deleted, path), acl.as_deref());
            }
            Event::Tree(TreeEvent::DataChanged { path }) => {
                self.fire_watches(machine, revision, (NoticeKind::Changed, path), None);
            }
            Event::MemberChanged { .. } => {
                let Ok(config) = ZnodePath::new(ZnodePath::CONFIG) else { return };
                self.fire_watches(machine, revision, (NoticeKind::Changed, &config), None);
            }
            Event::Session(SessionEvent::Ended { id, end, .. }) => {
                let reason = match end {
                    SessionEnd::Closed => StreamEnd::Closed,
                    SessionEnd::Expired => StreamEnd::Expired,
                };
                self.end_session(*id, reason);
            }
            Event::Lock(_)
            | Event::Session(SessionEvent::LeaseStarted { .. } | SessionEvent::Attached { .. })
            | Event::Tree(TreeEvent::SoftQuotaExceeded { .. })
            | Event::Recipe(_)
            | Event::LevelChanged { .. }
            | Event::Audited { .. }
            | Event::VerifyState
            | Event::SealChanged
            | Event::AuthChanged => {}
        }
    }

    fn fire_watches(
        &self,
        machine: &Machine,
        revision: Revision,
        (kind, path): (NoticeKind, &ZnodePath),
        deleted_acl: Option<&AccessList>,
    ) {
        if self.armed.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut registry = self.registry.lock();
        for fired in registry.table.fire(kind, path) {
            registry.notify(machine, revision, fired, deleted_acl);
        }
        registry.table.sweep(SWEPT_PATHS);
        self.count(&registry);
    }

    fn end_session(&self, session: SessionId, reason: StreamEnd) {
        if self.live.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut registry = self.registry.lock();
        for number in registry.streams_of(session) {
            registry.end(number, reason);
        }
        self.count(&registry);
    }

    /// Reads the machine, arms watches and replies. The caller has locked the machine for reading.
    pub(crate) fn answer(
        &self,
        machine: &Machine,
        entry: &StreamEntry,
        tag: i64,
        look: impl FnOnce(&mut LockedStream<'_>) -> Result<StreamAnswer, Failure>,
    ) {
        let mut locked = LockedStream { machine, streams: self, entry };
        let result = look(&mut locked);
        entry.queue.reply(StreamReply { tag, revision: machine.revision(), result });
    }

    /// Enqueues a reply about a revision that this node has applied.
    pub(crate) fn reply(entry: &StreamEntry, reply: StreamReply) {
        entry.queue.reply(reply);
    }

    fn count(&self, registry: &StreamRegistry) {
        self.armed.store(registry.table.paths(), Ordering::Relaxed);
        self.live.store(registry.streams.len(), Ordering::Relaxed);
    }
}

/// A stream during one read lock of the machine.
pub(crate) struct LockedStream<'a> {
    pub(crate) machine: &'a Machine,
    streams: &'a Streams,
    entry: &'a StreamEntry,
}

impl LockedStream<'_> {
    pub(crate) fn session(&self) -> SessionId {
        self.entry.session
    }

    pub(crate) fn arm(&mut self, path: &ZnodePath, arms: WatchFlags) -> Result<(), Failure> {
        let (number, limit) = (self.entry.number, self.entry.limits.watches_max);
        let mut registry = self.streams.registry.lock();
        // A stream that has ended meanwhile has no watches.
        if registry.streams.contains_key(&number) {
            let added = registry.table.added(number, path, arms);
            if registry.table.len_of(number) + added > limit
                || registry.table.len() + added > self.streams.watches_max
            {
                return Err(Failure::TooManyWatches { limit });
            }
            registry.table.arm(number, path, arms);
            self.streams.count(&registry);
        }
        Ok(())
    }

    /// Enqueues a notice of a change that the client missed.
    pub(crate) fn missed(&mut self, kind: NoticeKind, path: ZnodePath) {
        let revision = self.machine.revision();
        if !self.entry.queue.missed(Notice { revision, kind, path }) {
            self.overflow();
        }
    }

    /// Ends the stream, because a notice or a watch has no room.
    pub(crate) fn overflow(&mut self) {
        self.entry.queue.end(StreamEnd::Overflow);
        self.streams.leave(self.entry.number, StreamEnd::Overflow);
    }

    pub(crate) fn has(&self, path: &ZnodePath, kind: WatchKind) -> bool {
        self.streams.registry.lock().table.has(self.entry.number, path, kind)
    }

    /// Removes the watches of that kind. Returns false if there is none.
    pub(crate) fn remove(&mut self, path: &ZnodePath, kind: WatchKind) -> bool {
        let mut registry = self.streams.registry.lock();
        let removed = registry.table.remove(self.entry.number, path, kind);
        self.streams.count(&registry);
        removed
    }
}

impl StreamRegistry {
    fn streams_of(&self, session: SessionId) -> Vec<StreamNumber> {
        let range = (session, StreamNumber(0))..=(session, StreamNumber(u64::MAX));
        self.by_session.range(range).map(|(_, number)| *number).collect()
    }

    /// Ends the streams that the new one replaces. A stream that closes its session stays.
    fn supersede(&mut self, attached: &Attachment) -> Result<(), Failure> {
        for number in self.streams_of(attached.id) {
            let Some(stream) = self.streams.get(&number) else { continue };
            if stream.attachment > attached.attachment {
                let session = attached.session.clone();
                return Err(Failure::Rejected(Rejection::Session(SessionRejection::Moved {
                    session,
                })));
            }
            if !stream.closing {
                self.end(number, StreamEnd::Moved);
            }
        }
        Ok(())
    }

    fn notify(
        &mut self,
        machine: &Machine,
        revision: Revision,
        fired: FiredWatch,
        deleted_acl: Option<&AccessList>,
    ) {
        let FiredWatch { stream: number, kind, path, unread } = fired;
        let Some(stream) = self.streams.get(&number) else { return };
        let change = FiredChange { kind, path: &path, deleted_acl, unread };
        let is_shown = match &stream.sees {
            None => change.is_shown(machine, &[]),
            Some(SeesChange(sees)) => sees(machine, change),
        };
        if !is_shown {
            return;
        }
        if !stream.queue.notice(Notice { revision, kind, path }) {
            self.end(number, StreamEnd::Overflow);
        }
    }

    /// Removes a stream with its watches, and ends its queue. A stream that closes its own session ends its queue
    /// itself.
    fn end(&mut self, number: StreamNumber, reason: StreamEnd) {
        self.table.forget(number);
        self.table.sweep(SWEPT_PATHS);
        if let Some(stream) = self.streams.remove(&number) {
            self.by_session.remove(&(stream.session, number));
            if !(stream.closing && reason == StreamEnd::Closed) {
                stream.queue.end(reason);
            }
        }
    }
}

/// Rejects a stream whose session has ended.
fn still_open(machine: &Machine, attached: &Attachment) -> Result<(), Failure> {
    match machine.attached(attached.id) {
        Some(_) => Ok(()),
        None => Err(Failure::Rejected(session_ended(machine, &attached.session))),
    }
}

#[cfg(test)]
mod tests;
