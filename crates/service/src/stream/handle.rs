//! The requests of one connection; the outbox carries the replies.
//!
//! A front-end awaits each call before the next, so replies have the order of the requests; pings may overtake. Every call
//! counts as client activity, waits for room in the outbox, and replies only while the session is certainly alive
//! (`liveness.rs`). After the stream has ended a call does nothing. Dropping the stream ends it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use holdfast_raft::Committed;
use holdfast_types::{
    Caller, Command, Identity, Multi, MultiReply, Reply, Revision, SessionId, SessionName,
    ZnodePath,
};
use parking_lot::Mutex;

use super::liveness::Liveness;
use super::message::{
    StreamAnswer, StreamEnd, StreamRead, StreamReply, WatchKind, WatchMode, WatchSet,
};
use super::order::{Attached, LockedStream, StreamEntry, Streams};
use super::watch_table::WatchFlags;
use crate::failure::Failure;
use crate::service::Service;

/// See the module.
pub struct SessionStream {
    service: Service,
    entry: StreamEntry,
    liveness: Arc<Liveness>,
    attachment: Revision,
    identities: Mutex<Arc<[Identity]>>,
}

impl SessionStream {
    pub(crate) fn new(
        service: Service,
        attached: &Attached,
        entry: StreamEntry,
        liveness: Arc<Liveness>,
    ) -> Self {
        let attachment = attached.attachment;
        Self { service, entry, liveness, attachment, identities: Mutex::default() }
    }

    /// The session's number.
    pub fn session_id(&self) -> SessionId {
        self.liveness.id
    }

    /// The session's name.
    pub fn session(&self) -> &SessionName {
        &self.liveness.session
    }

    /// Whom the client has proved to be, from now on. `world:anyone` need not be named.
    pub fn identify(&self, identities: Vec<Identity>) {
        let identities: Arc<[Identity]> = identities.into();
        *self.identities.lock() = identities.clone();
        self.service.observer().streams.identify(self.entry.number, identities);
    }

    /// Whom the client has proved to be.
    pub fn identities(&self) -> Arc<[Identity]> {
        self.identities.lock().clone()
    }

    /// Reads from this node, never behind what the stream has been answered before. With `watch`, arms one as the read
    /// says.
    pub async fn read(&self, tag: i64, read: StreamRead, watch: bool) {
        let identities = self.identities();
        self.look(tag, |locked| locked.read(&read, watch, &identities)).await;
    }

    /// Several reads at one revision, each answered for itself. Arms no watches.
    pub async fn read_many(&self, tag: i64, reads: Vec<StreamRead>) {
        let identities = self.identities();
        self.look(tag, |locked| {
            let answer = |read| locked.evaluate(read, &identities);
            Ok(StreamAnswer::Many(reads.iter().map(answer).collect()))
        })
        .await;
    }

    /// A watch that stays. There need be no such node.
    pub async fn add_watch(&self, tag: i64, path: ZnodePath, mode: WatchMode) {
        self.look(tag, |locked| {
            locked.arm(&path, WatchFlags::of_mode(mode))?;
            Ok(StreamAnswer::Done)
        })
        .await;
    }

    /// Whether the stream has a watch of that kind there: [`StreamAnswer::Watched`].
    pub async fn check_watches(&self, tag: i64, path: ZnodePath, kind: WatchKind) {
        self.look(tag, |locked| Ok(StreamAnswer::Watched(locked.has(&path, kind)))).await;
    }

    /// Removes the stream's watches of that kind, and says whether there was one: [`StreamAnswer::Watched`].
    pub async fn remove_watches(&self, tag: i64, path: ZnodePath, kind: WatchKind) {
        self.look(tag, |locked| Ok(StreamAnswer::Watched(locked.remove(&path, kind)))).await;
    }

    /// Sets the watches of a client that comes back: what it missed since `relative`, the newest revision it has seen,
    /// is told before the reply, and those watches are spent; the others are armed. Persistent ones are armed, and not
    /// told what they missed, as `ZooKeeper` does it.
    ///
    /// If there is no room for all of them the stream ends: clients take it for granted that they are set.
    pub async fn set_watches(&self, tag: i64, relative: Revision, set: WatchSet) {
        self.look(tag, |locked| {
            let armed = locked.arm_again(relative, &set);
            if armed.is_err() {
                locked.overflow();
            }
            armed.map(|()| StreamAnswer::Done)
        })
        .await;
    }

    /// Client activity, answered when the session is renewed. May be awaited beside other calls.
    pub async fn ping(&self, tag: i64) {
        self.look(tag, |_| Ok(StreamAnswer::Done)).await;
    }

    /// Answered when this node has applied everything that was acknowledged anywhere before the call.
    pub async fn sync(&self, tag: i64) {
        if self.ready().await.is_err() {
            return;
        }
        match self.service.read_barrier().await {
            Ok(()) => self.look(tag, |_| Ok(StreamAnswer::Done)).await,
            Err(error) => {
                tracing::debug!(%error, session = %self.liveness.session, "a sync failed");
                self.end(StreamEnd::CutOff);
            }
        }
    }

    /// Changes the tree, for this stream's session and identities; whatever the multi says of its caller but a request
    /// id is replaced. Answered when this node has applied it. If nobody can tell what became of it, the stream ends.
    pub async fn write(&self, tag: i64, multi: Multi) {
        self.write_run(vec![(tag, multi)]).await;
    }

    /// Consecutive writes of a pipelining client: in this order, each answered for itself, and if it is not certain that
    /// one was done or refused, none after it is done. They share entries of the log.
    pub async fn write_run(&self, run: Vec<(i64, Multi)>) {
        if self.heard().await.is_err() {
            return;
        }
        let (tags, multis): (Vec<_>, Vec<_>) = run.into_iter().unzip();
        let commands = multis.into_iter().map(|multi| self.command(multi)).collect();
        self.propose(&tags, commands).await;
    }

    fn command(&self, multi: Multi) -> Command {
        let caller = Caller {
            session: Some(self.liveness.session.clone()),
            attachment: Some(self.attachment),
            request: multi.caller.request,
            identities: self.identities().to_vec(),
        };
        Command::Multi(Multi { caller, ..multi })
    }

    /// Ends the session: whatever it owns goes. The stream ends after the reply. As on `ZooKeeper`, a connection that no
    /// longer speaks for the session can end it: its client has asked for the end, and never asks for anything else. A
    /// stream that has ended with [`StreamEnd::Moved`] closes the session without a reply.
    pub async fn close(&self, tag: i64) {
        match self.heard().await {
            Ok(()) | Err(StreamEnd::Moved) => {}
            Err(_) => return,
        }
        self.service.observer().streams.closes(self.entry.number);
        let (session, incarnation) = (self.liveness.session.clone(), Some(self.liveness.id));
        let close = Command::CloseSession { session, attachment: None, incarnation };
        let (mut done, failure) = self.service.propose_in_order(vec![close]).await;
        if let Some(committed) = done.pop() {
            // Whether the session still lives is no question any more, so this reply needs no renewal.
            self.conclude(tag, committed).await;
        }
        self.end(failure.as_ref().and_then(fatal).unwrap_or(StreamEnd::Closed));
    }

    /// Proposes commands in order, and replies to each when this node has applied it. A change of the tree is no renewal:
    /// its reply, which the client takes for a sign that its session lives, waits like every other until that is certain.
    async fn propose(&self, tags: &[i64], commands: Vec<Command>) {
        let (done, failure) = self.service.propose_in_order(commands).await;
        let mut left = tags.iter();
        for (committed, tag) in done.into_iter().zip(left.by_ref()) {
            if self.ready().await.is_err() || !self.conclude(*tag, committed).await {
                return;
            }
        }
        let Some(failure) = failure else { return };
        if let Some(reason) = fatal(&failure) {
            return self.end(reason);
        }
        for tag in left {
            if self.ready().await.is_err() {
                return;
            }
            let (tag, revision, result) = (*tag, Revision(0), Err(failure.clone()));
            Streams::reply(&self.entry, StreamReply { tag, revision, result });
        }
    }

    /// Replies to a command that is committed, when it is applied here. False if the stream ended over that.
    async fn conclude(&self, tag: i64, committed: Committed) -> bool {
        let Committed { outcome, revision } = committed;
        let result = outcome.map_err(Failure::Rejected).and_then(answer);
        if self.service.catch_up(revision).await.is_err() {
            self.end(StreamEnd::CutOff);
            return false;
        }
        Streams::reply(&self.entry, StreamReply { tag, revision, result });
        true
    }

    /// Client activity that asks for nothing: the session is renewed in the background. Costs nothing if it was
    /// renewed a moment ago.
    pub fn renew(&self) {
        if self.liveness.heard(Instant::now()) {
            self.service.0.stream_renewals.add(self.liveness.clone());
        }
    }

    /// Resolves when the client was heard, but its session could not be renewed in time: the outbox then ends with
    /// [`StreamEnd::CutOff`] by itself.
    pub async fn lost(&self) {
        self.liveness.lost().await;
    }

    /// Looks at the machine and replies, within one read lock.
    async fn look(
        &self,
        tag: i64,
        look: impl FnOnce(&mut LockedStream<'_>) -> Result<StreamAnswer, Failure> + Send,
    ) {
        if self.ready().await.is_ok() {
            let streams = &self.service.observer().streams;
            self.service.raft().read(|machine| streams.answer(machine, &self.entry, tag, look));
        }
    }

    /// Client activity, and room for a reply.
    async fn heard(&self) -> Result<(), StreamEnd> {
        self.renew();
        self.entry.queue.room().await
    }

    /// Client activity, room for a reply, and the certainty that the session lives.
    async fn ready(&self) -> Result<(), StreamEnd> {
        loop {
            self.heard().await?;
            let changed = self.liveness.changed();
            if self.liveness.is_fresh(Instant::now()) {
                return Ok(());
            }
            tokio::select! {
                () = changed => {}
                () = self.entry.queue.over() => {}
                () = self.liveness.lost() => self.end(StreamEnd::CutOff),
            }
        }
    }

    fn end(&self, reason: StreamEnd) {
        self.entry.queue.end(reason);
        self.service.observer().streams.leave(self.entry.number, reason);
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        self.liveness.over();
        self.end(StreamEnd::Closed);
    }
}

impl fmt::Debug for SessionStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStream")
            .field("session", &self.liveness.session)
            .finish_non_exhaustive()
    }
}

fn answer(reply: Reply) -> Result<StreamAnswer, Failure> {
    if let Reply::SessionEnded = reply {
        return Ok(StreamAnswer::Done);
    }
    let MultiReply { succeeded, results } = reply.into_multi().ok_or(Failure::UnexpectedReply)?;
    Ok(StreamAnswer::Multi { succeeded, results })
}

/// Failures after which a stream cannot go on: a later write must not be done when this one may not have been. The
/// others say for certain that nothing was done, and that only this write is concerned.
fn fatal(failure: &Failure) -> Option<StreamEnd> {
    match failure {
        Failure::OutcomeUnknown | Failure::UnexpectedReply => Some(StreamEnd::Unknown),
        Failure::NoLeader | Failure::Starting(_) | Failure::Lagging | Failure::Behind { .. } => {
            Some(StreamEnd::CutOff)
        }
        Failure::ShuttingDown | Failure::Failed(_) => Some(StreamEnd::ShuttingDown),
        Failure::Rejected(_)
        | Failure::Overloaded { .. }
        | Failure::DiskFull
        | Failure::TooLarge
        | Failure::WaitTimeout { .. }
        | Failure::NotYet { .. }
        | Failure::WaitTooLong { .. }
        | Failure::TooManyWaiters { .. }
        | Failure::TooManyStreams { .. }
        | Failure::TooManyWatches { .. }
        | Failure::Compacted { .. } => None,
    }
}
