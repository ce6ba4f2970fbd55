//! What goes out to a client, and in which order (promise 9): the only place that puts anything into an outbox.
//!
//! Why a notice always precedes the reply that would reveal its change:
//!
//! - notices are put in by [`Streams::see`], inside the apply step, with the machine locked for writing;
//! - a read looks at the machine, arms its watch and puts its reply in within one read lock ([`Streams::answer`]), so
//!   no change comes between: what the reply shows was announced before, what comes later will be;
//! - a write's reply is put in ([`Streams::reply`]) when this node has applied its revision, and therefore after the
//!   notices of everything up to it.
//!
//! Locks are taken in one order: the machine, the roster, a queue. Refuses to know how requests are made and whether
//! the session is alive. Bounds: `streams_max` streams, `watches_max` watches; those of the queues are in `outbox.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use holdfast_machine::Machine;
use holdfast_types::{
    Event, Identity, Rejection, Revision, SessionEnd, SessionEvent, SessionId, SessionRejection,
    SessionStatus, TreeEvent, ZnodePath,
};
use parking_lot::Mutex;

use super::attach::Attached;
use super::message::{Ended, Notice, NoticeKind, StreamAnswer, StreamReply, WatchKind};
use super::outbox::{Queue, StreamLimits};
use super::table::{Arms, Fired, StreamNo, Table};
use crate::failure::Failure;
use crate::watch::is_visible;

/// What the roster knows of a stream.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) session: SessionId,
    pub(crate) attachment: Revision,
    pub(crate) since: Instant,
    pub(crate) queue: Arc<Queue>,
    /// Its own close is under way: whoever does that ends the queue, after the reply.
    closing: bool,
    identities: Arc<[Identity]>,
}

/// A stream's place among the others.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) number: StreamNo,
    session: SessionId,
    pub(crate) queue: Arc<Queue>,
    pub(crate) limits: StreamLimits,
}

/// The streams of this node and what they watch.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) members: BTreeMap<StreamNo, Member>,
    pub(crate) table: Table,
    by_session: BTreeSet<(SessionId, StreamNo)>,
    last: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) roster: Mutex<Roster>,
    /// Watches of all streams: with none, `apply` looks no further. Written with the machine locked.
    armed: AtomicUsize,
    /// Streams: the same.
    live: AtomicUsize,
    /// Bytes of notices in all queues.
    queued: Arc<AtomicUsize>,
    entered_max: usize,
    watches_max: usize,
}

impl Streams {
    pub(crate) fn new(entered_max: usize, watches_max: usize) -> Self {
        Self {
            roster: Mutex::default(),
            armed: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            queued: Arc::default(),
            entered_max,
            watches_max,
        }
    }

    /// Enters a stream and ends the older streams of its session on this node. Older streams on other nodes go on, as on
    /// `ZooKeeper`: they read, the log rejects their writes, and either client can close the session. With the
    /// machine locked.
    pub(crate) fn enter(
        &self,
        machine: &Machine,
        attached: &Attached,
        limits: StreamLimits,
    ) -> Result<Place, Failure> {
        still_open(machine, attached)?;
        let mut roster = self.roster.lock();
        roster.supersede(attached)?;
        if roster.members.len() >= self.entered_max {
            return Err(Failure::TooManyStreams { limit: self.entered_max });
        }
        roster.last += 1;
        let number = StreamNo(roster.last);
        let queue = Queue::new(limits, self.queued.clone());
        let member = Member {
            session: attached.id,
            attachment: attached.attachment,
            since: Instant::now(),
            queue: queue.clone(),
            closing: false,
            identities: Arc::default(),
        };
        roster.members.insert(number, member);
        roster.by_session.insert((attached.id, number));
        self.count(&roster);
        Ok(Place { number, session: attached.id, queue, limits })
    }

    /// Streams of this node.
    pub(crate) fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Ends a stream: none of its watches stays.
    pub(crate) fn leave(&self, number: StreamNo, reason: Ended) {
        let mut roster = self.roster.lock();
        roster.end(number, reason);
        self.count(&roster);
    }

    /// Ends every stream of the node.
    pub(crate) fn end_all(&self, reason: Ended) {
        let mut roster = self.roster.lock();
        let all: Vec<_> = roster.members.keys().copied().collect();
        for number in all {
            roster.end(number, reason);
        }
        self.count(&roster);
    }

    /// From now on the stream ends itself when its session is closed.
    pub(crate) fn closes(&self, number: StreamNo) {
        if let Some(member) = self.roster.lock().members.get_mut(&number) {
            member.closing = true;
        }
    }

    /// Whom the stream has proved to be.
    pub(crate) fn identify(&self, number: StreamNo, identities: Arc<[Identity]>) {
        if let Some(member) = self.roster.lock().members.get_mut(&number) {
            member.identities = identities;
        }
    }

    /// One change, inside the apply step.
    pub(crate) fn see(&self, machine: &Machine, revision: Revision, event: &Event) {
        match event {
            Event::Tree(TreeEvent::Created { path }) => {
                self.tell(machine, revision, NoticeKind::Created, path);
            }
            Event::Tree(TreeEvent::Deleted { path }) => {
                self.tell(machine, revision, NoticeKind::Deleted, path);
            }
            Event::Tree(TreeEvent::DataChanged { path }) => {
                self.tell(machine, revision, NoticeKind::Changed, path);
            }
            Event::Session(SessionEvent::Ended { id, end, .. }) => {
                let reason = match end {
                    SessionEnd::Closed => Ended::Closed,
                    SessionEnd::Expired => Ended::Expired,
                };
                self.end_session(*id, reason);
            }
            Event::Lock(_)
            | Event::Session(SessionEvent::LeaseStarted { .. } | SessionEvent::Attached { .. })
            | Event::Tree(TreeEvent::SoftQuotaExceeded { .. })
            | Event::Recipe(_)
            | Event::NodeRegistered { .. } => {}
        }
    }

    /// Entries were skipped, so nobody knows what the watches missed: clients that connect again and set their watches
    /// relative to what they have seen are told exactly that.
    pub(crate) fn diverged(&self) {
        self.end_all(Ended::Diverged);
    }

    fn tell(&self, machine: &Machine, revision: Revision, kind: NoticeKind, path: &ZnodePath) {
        if self.armed.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut roster = self.roster.lock();
        for fired in roster.table.fire(kind, path) {
            roster.notify(machine, revision, fired);
        }
        self.count(&roster);
    }

    /// Ends the streams of a session that is over.
    fn end_session(&self, session: SessionId, reason: Ended) {
        if self.live.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut roster = self.roster.lock();
        for number in roster.streams_of(session) {
            roster.end(number, reason);
        }
        self.count(&roster);
    }

    /// Looks at the machine, arms watches and replies, with the machine locked for reading by the caller.
    pub(crate) fn answer(
        &self,
        machine: &Machine,
        place: &Place,
        tag: i64,
        look: impl FnOnce(&mut Watching<'_>) -> Result<StreamAnswer, Failure>,
    ) {
        let mut watching = Watching { machine, streams: self, place };
        let result = look(&mut watching);
        place.queue.reply(StreamReply { tag, revision: machine.revision(), result });
    }

    /// Puts in a reply that shows nothing later than what this node has applied.
    pub(crate) fn reply(place: &Place, reply: StreamReply) {
        place.queue.reply(reply);
    }

    fn count(&self, roster: &Roster) {
        self.armed.store(roster.table.len(), Ordering::Relaxed);
        self.live.store(roster.members.len(), Ordering::Relaxed);
    }
}

/// What a read may do beside looking, within one lock of the machine.
pub(crate) struct Watching<'a> {
    pub(crate) machine: &'a Machine,
    streams: &'a Streams,
    place: &'a Place,
}

impl Watching<'_> {
    /// Whose stream it is.
    pub(crate) fn session(&self) -> SessionId {
        self.place.session
    }

    /// Arms a watch.
    pub(crate) fn arm(&mut self, path: &ZnodePath, arms: Arms) -> Result<(), Failure> {
        let (number, limit) = (self.place.number, self.place.limits.watches_max);
        let mut roster = self.streams.roster.lock();
        // A stream that has ended meanwhile has no watches any more.
        if roster.members.contains_key(&number) {
            let added = roster.table.added(number, path, arms);
            if roster.table.len_of(number) + added > limit
                || roster.table.len() + added > self.streams.watches_max
            {
                return Err(Failure::TooManyWatches { limit });
            }
            roster.table.arm(number, path, arms);
            self.streams.count(&roster);
        }
        Ok(())
    }

    /// Tells of a change that the client missed.
    pub(crate) fn missed(&mut self, kind: NoticeKind, path: ZnodePath) {
        let revision = self.machine.revision();
        if !self.place.queue.missed(Notice { revision, kind, path }) {
            self.overflow();
        }
    }

    /// Ends the stream: it cannot be told everything that it has to be told.
    pub(crate) fn overflow(&mut self) {
        self.place.queue.end(Ended::Overflow);
        self.streams.leave(self.place.number, Ended::Overflow);
    }

    /// Whether there is a watch of that kind.
    pub(crate) fn has(&self, path: &ZnodePath, kind: WatchKind) -> bool {
        self.streams.roster.lock().table.has(self.place.number, path, kind)
    }

    /// Removes the watches of that kind; false if there is none.
    pub(crate) fn remove(&mut self, path: &ZnodePath, kind: WatchKind) -> bool {
        let mut roster = self.streams.roster.lock();
        let removed = roster.table.remove(self.place.number, path, kind);
        self.streams.count(&roster);
        removed
    }
}

impl Roster {
    fn streams_of(&self, session: SessionId) -> Vec<StreamNo> {
        let range = (session, StreamNo(0))..=(session, StreamNo(u64::MAX));
        self.by_session.range(range).map(|(_, number)| *number).collect()
    }

    /// Ends the streams that the new one replaces. One whose close is under way stays: the close ends the session.
    fn supersede(&mut self, attached: &Attached) -> Result<(), Failure> {
        for number in self.streams_of(attached.id) {
            let Some(member) = self.members.get(&number) else { continue };
            if member.attachment > attached.attachment {
                let session = attached.session.clone();
                return Err(Failure::Rejected(Rejection::Session(SessionRejection::Moved {
                    session,
                })));
            }
            if !member.closing {
                self.end(number, Ended::Moved);
            }
        }
        Ok(())
    }

    fn notify(&mut self, machine: &Machine, revision: Revision, fired: Fired) {
        let Fired { stream, kind, path, below } = fired;
        let Some(member) = self.members.get(&stream) else { return };
        if below && !is_visible(machine, &path, &member.identities) {
            return;
        }
        if !member.queue.notice(Notice { revision, kind, path }) {
            self.end(stream, Ended::Overflow);
        }
    }

    /// Takes a stream out, with all its watches. One that closes its own session ends its queue itself.
    fn end(&mut self, number: StreamNo, reason: Ended) {
        self.table.forget(number);
        if let Some(member) = self.members.remove(&number) {
            self.by_session.remove(&(member.session, number));
            if !(member.closing && reason == Ended::Closed) {
                member.queue.end(reason);
            }
        }
    }
}

/// Rejects a stream whose session is over.
fn still_open(machine: &Machine, attached: &Attached) -> Result<(), Failure> {
    let session = attached.session.clone();
    match machine.attached(attached.id) {
        Some(_) => Ok(()),
        None if machine.session(&session) == SessionStatus::Expired => {
            Err(Failure::Rejected(Rejection::Session(SessionRejection::Expired { session })))
        }
        None => Err(Failure::Rejected(Rejection::Session(SessionRejection::Unknown { session }))),
    }
}

#[cfg(test)]
mod tests;
