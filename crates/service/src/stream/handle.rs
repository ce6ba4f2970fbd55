//! One connection's stream: what it asks, in its order, and what it is answered through its outbox.
//!
//! A door looks at one request of a connection after the other: it awaits each call before it makes the next, so
//! replies leave in the order of the requests. Pings may be answered beside them. Every call is a sign of life, waits
//! for room in the outbox, and answers only while the session is certainly alive (`life.rs`). A call on a stream that
//! has ended does nothing: the outbox says why. Dropping the stream ends it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use holdfast_raft::Committed;
use holdfast_types::{
    Caller, Command, Identity, Multi, MultiReply, Reply, Revision, SessionId, SessionName,
    ZnodePath,
};
use parking_lot::Mutex;

use super::attach::Attached;
use super::life::Life;
use super::message::{
    Ended, StreamAnswer, StreamRead, StreamReply, WatchKind, WatchMode, WatchSet,
};
use super::order::{Place, Streams, Watching};
use super::table::Arms;
use crate::failure::Failure;
use crate::service::Service;

/// See the module.
pub struct Stream {
    service: Service,
    place: Place,
    life: Arc<Life>,
    attachment: Revision,
    identities: Mutex<Arc<[Identity]>>,
}

impl Stream {
    pub(crate) fn new(
        service: Service,
        attached: &Attached,
        place: Place,
        life: Arc<Life>,
    ) -> Self {
        let attachment = attached.attachment;
        Self { service, place, life, attachment, identities: Mutex::default() }
    }

    /// The session's number.
    pub fn session_id(&self) -> SessionId {
        self.life.id
    }

    /// The session's name.
    pub fn session(&self) -> &SessionName {
        &self.life.session
    }

    /// Whom the client has proved to be, from now on. `world:anyone` need not be named.
    pub fn identify(&self, identities: Vec<Identity>) {
        let identities: Arc<[Identity]> = identities.into();
        *self.identities.lock() = identities.clone();
        self.service.streams().identify(self.place.number, identities);
    }

    /// Whom the client has proved to be.
    pub fn identities(&self) -> Arc<[Identity]> {
        self.identities.lock().clone()
    }

    /// Reads from this node, never behind what the stream has been answered before. With `watch`, arms one as the read
    /// says.
    pub async fn read(&self, tag: i64, read: StreamRead, watch: bool) {
        let identities = self.identities();
        self.look(tag, |watching| watching.read(&read, watch, &identities)).await;
    }

    /// Several reads at one revision, each answered for itself. Arms no watches.
    pub async fn read_many(&self, tag: i64, reads: Vec<StreamRead>) {
        let identities = self.identities();
        self.look(tag, |watching| {
            let answer = |read| watching.evaluate(read, &identities);
            Ok(StreamAnswer::Many(reads.iter().map(answer).collect()))
        })
        .await;
    }

    /// A watch that stays. There need be no such node.
    pub async fn add_watch(&self, tag: i64, path: ZnodePath, mode: WatchMode) {
        self.look(tag, |watching| {
            watching.arm(&path, Arms::of_mode(mode))?;
            Ok(StreamAnswer::Done)
        })
        .await;
    }

    /// Whether the stream has a watch of that kind there: [`StreamAnswer::Watched`].
    pub async fn check_watches(&self, tag: i64, path: ZnodePath, kind: WatchKind) {
        self.look(tag, |watching| Ok(StreamAnswer::Watched(watching.has(&path, kind)))).await;
    }

    /// Removes the stream's watches of that kind, and says whether there was one: [`StreamAnswer::Watched`].
    pub async fn remove_watches(&self, tag: i64, path: ZnodePath, kind: WatchKind) {
        self.look(tag, |watching| Ok(StreamAnswer::Watched(watching.remove(&path, kind)))).await;
    }

    /// Sets the watches of a client that comes back: what it missed since `relative`, the newest revision it has seen,
    /// is told before the reply, and those watches are spent; the others are armed. Persistent ones are armed, and not
    /// told what they missed, as `ZooKeeper` does it.
    ///
    /// If there is no room for all of them the stream ends: clients take it for granted that they are set.
    pub async fn set_watches(&self, tag: i64, relative: Revision, set: WatchSet) {
        self.look(tag, |watching| {
            let armed = watching.arm_again(relative, &set);
            if armed.is_err() {
                watching.overflow();
            }
            armed.map(|()| StreamAnswer::Done)
        })
        .await;
    }

    /// A sign of life, answered when the session is renewed. May be awaited beside other calls.
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
                tracing::debug!(%error, session = %self.life.session, "a sync failed");
                self.end(Ended::CutOff);
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
            session: Some(self.life.session.clone()),
            attachment: Some(self.attachment),
            request: multi.caller.request,
            identities: self.identities().to_vec(),
        };
        Command::Multi(Multi { caller, ..multi })
    }

    /// Ends the session: whatever it owns goes. The stream ends after the reply. As on `ZooKeeper`, a connection that no
    /// longer speaks for the session can end it: its client has asked for the end, and never asks for anything else. A
    /// stream that has ended with [`Ended::Moved`] closes the session without a reply.
    pub async fn close(&self, tag: i64) {
        match self.heard().await {
            Ok(()) | Err(Ended::Moved) => {}
            Err(_) => return,
        }
        self.service.streams().closes(self.place.number);
        let (session, incarnation) = (self.life.session.clone(), Some(self.life.id));
        let close = Command::CloseSession { session, attachment: None, incarnation };
        let (mut done, failure) = self.service.propose_in_order(vec![close]).await;
        if let Some(committed) = done.pop() {
            // Whether the session still lives is no question any more, so this reply needs no renewal.
            self.conclude(tag, committed).await;
        }
        self.end(failure.as_ref().and_then(fatal).unwrap_or(Ended::Closed));
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
            Streams::reply(&self.place, StreamReply { tag, revision, result });
        }
    }

    /// Replies to a command that is committed, when it is applied here. False if the stream ended over that.
    async fn conclude(&self, tag: i64, committed: Committed) -> bool {
        let Committed { outcome, revision } = committed;
        let result = outcome.map_err(Failure::Rejected).and_then(answer);
        if self.service.catch_up(revision).await.is_err() {
            self.end(Ended::CutOff);
            return false;
        }
        Streams::reply(&self.place, StreamReply { tag, revision, result });
        true
    }

    /// A sign of life that asks for nothing: the session is renewed in the background. Costs nothing if it was
    /// renewed a moment ago.
    pub fn renew(&self) {
        if self.life.heard(Instant::now()) {
            self.service.renewals().want(self.life.clone());
        }
    }

    /// Resolves when the client was heard, but its session could not be renewed in time: the outbox then ends with
    /// [`Ended::CutOff`] by itself.
    pub async fn lost(&self) {
        self.life.lost().await;
    }

    /// Looks at the machine and replies, within one read lock.
    async fn look(
        &self,
        tag: i64,
        look: impl FnOnce(&mut Watching<'_>) -> Result<StreamAnswer, Failure> + Send,
    ) {
        if self.ready().await.is_ok() {
            let streams = self.service.streams();
            self.service.raft().read(|machine| streams.answer(machine, &self.place, tag, look));
        }
    }

    /// A sign of life, and room for a reply.
    async fn heard(&self) -> Result<(), Ended> {
        self.renew();
        self.place.queue.room().await
    }

    /// A sign of life, room for a reply, and the certainty that the session lives.
    async fn ready(&self) -> Result<(), Ended> {
        loop {
            self.heard().await?;
            let changed = self.life.changed();
            if self.life.is_fresh(Instant::now()) {
                return Ok(());
            }
            tokio::select! {
                () = changed => {}
                () = self.place.queue.over() => {}
                () = self.life.lost() => self.end(Ended::CutOff),
            }
        }
    }

    fn end(&self, reason: Ended) {
        self.place.queue.end(reason);
        self.service.streams().leave(self.place.number, reason);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.life.over();
        self.end(Ended::Closed);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("session", &self.life.session).finish_non_exhaustive()
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
fn fatal(failure: &Failure) -> Option<Ended> {
    match failure {
        Failure::OutcomeUnknown | Failure::UnexpectedReply => Some(Ended::Unknown),
        Failure::NoLeader | Failure::Starting(_) | Failure::Lagging | Failure::Behind { .. } => {
            Some(Ended::CutOff)
        }
        Failure::ShuttingDown | Failure::Failed(_) => Some(Ended::ShuttingDown),
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
