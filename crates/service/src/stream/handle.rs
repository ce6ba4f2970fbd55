//! The requests of one connection; the outbox carries the replies.
//!
//! A front-end awaits each call before the next, so replies have the order of the requests; pings may overtake others.
//! Every call counts as client activity, waits for room in the outbox, and replies only while the session is certainly
//! alive (`liveness.rs`). After the stream has ended a call does nothing. Dropping the stream ends it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use holdfast_machine::Machine;
use holdfast_raft::Committed;
use holdfast_types::{
    Bound, Caller, Command, Identity, Multi, MultiReply, Rejection, Reply, Revision, Right,
    SessionId, SessionName, ZnodePath,
};
use tokio::sync::watch;

use super::liveness::Liveness;
use super::message::{
    StreamAnswer, StreamEnd, StreamRead, StreamReply, WatchKind, WatchMode, WatchSet,
};
use super::order::{Attachment, LockedStream, SeesChange, StreamEntry, Streams};
use super::watch_table::WatchFlags;
use crate::auth::authorization::{allows, credential_ended};
use crate::request::{Failure, Principal};
use crate::service::Service;
use crate::waiting::close_session_within;

pub struct SessionStream {
    service: Service,
    entry: StreamEntry,
    liveness: Arc<Liveness>,
    attachment: Revision,
    /// The service for the stream's caller.
    caller: watch::Sender<Service>,
}

impl SessionStream {
    pub(crate) fn new(
        service: Service,
        attached: &Attachment,
        entry: StreamEntry,
        liveness: Arc<Liveness>,
    ) -> Self {
        let attachment = attached.attachment;
        let caller = watch::Sender::new(service.clone());
        Self { service, entry, liveness, attachment, caller }
    }

    pub fn session_id(&self) -> SessionId {
        self.liveness.id
    }

    pub fn session(&self) -> &SessionName {
        &self.liveness.session
    }

    /// Sets who the client is.
    pub fn identify(&self, principal: Principal) {
        let caller = self.service.for_principal(principal);
        self.caller.send_replace(caller.clone());
        let sees = SeesChange(Box::new(move |machine, change| {
            // A hidden event is no refused call, so nothing records it.
            change.is_shown(machine, &caller.identities_on(machine, change.path))
                && caller
                    .enforced_rights(machine)
                    .is_ok_and(|rights| allows(rights, Right::TreeRead, change.path.as_str()))
        }));
        self.service.observer().streams.identify(self.entry.number, sees);
    }

    fn caller(&self) -> Service {
        self.caller.borrow().clone()
    }

    /// Reads this node's state, which is never older than in earlier replies. With `watch`, arms the watch of the read.
    pub async fn read(&self, tag: i64, read: StreamRead, watch: bool) {
        let caller = self.caller();
        self.serve(tag, |locked| {
            caller.check_stream_read(locked.machine, &read).map_err(Failure::Rejected)?;
            let identities = caller.identities_for(locked.machine, &read);
            let answer = locked.read(&read, watch, &identities)?;
            Ok(caller.with_members(locked.machine, &read, answer))
        })
        .await;
    }

    /// Performs several reads at one revision, each with its own result. Arms no watches. The reads after the first
    /// [`Multi::BYTES_MAX`] bytes are rejected.
    pub async fn read_many(&self, tag: i64, reads: Vec<StreamRead>) {
        let caller = self.caller();
        self.serve(tag, |locked| {
            let mut bytes = 0;
            let answer = |read| {
                if bytes > Multi::BYTES_MAX {
                    let (bound, limit) = (Bound::BytesOfMulti, Multi::BYTES_MAX);
                    return Err(Rejection::LimitReached { bound, limit });
                }
                caller.check_stream_read(locked.machine, read)?;
                let identities = caller.identities_for(locked.machine, read);
                let answer = locked.evaluate(read, &identities)?;
                let answer = caller.with_members(locked.machine, read, answer);
                bytes += answer.bytes();
                Ok(answer)
            };
            Ok(StreamAnswer::Many(reads.iter().map(answer).collect()))
        })
        .await;
    }

    /// Arms a persistent watch, also for a missing node.
    pub async fn add_watch(&self, tag: i64, path: ZnodePath, mode: WatchMode) {
        let caller = self.caller();
        self.serve(tag, |locked| {
            let checked = caller.check(locked.machine, Right::TreeRead, path.as_str());
            checked.map_err(Failure::Rejected)?;
            locked.arm(&path, WatchFlags::of_mode(mode))?;
            Ok(StreamAnswer::Done)
        })
        .await;
    }

    /// Replies [`StreamAnswer::Watched`]: whether there is such a watch.
    pub async fn check_watches(&self, tag: i64, path: ZnodePath, kind: WatchKind) {
        self.serve(tag, |locked| Ok(StreamAnswer::Watched(locked.has(&path, kind)))).await;
    }

    /// Removes the watches of that kind. Replies [`StreamAnswer::Watched`]: whether there was such a watch.
    pub async fn remove_watches(&self, tag: i64, path: ZnodePath, kind: WatchKind) {
        self.serve(tag, |locked| Ok(StreamAnswer::Watched(locked.remove(&path, kind)))).await;
    }

    /// Sets the watches of a returning client. A watch that missed a change since `relative`, the newest revision that
    /// the client has seen, fires before the reply; the others are armed, and those of znodes that the client may not
    /// read. Persistent watches are armed without notices of missed changes, as in ZooKeeper.
    ///
    /// If there is no room for all watches, the stream ends, because clients assume that all watches are set.
    pub async fn set_watches(&self, tag: i64, relative: Revision, set: WatchSet) {
        let caller = self.caller();
        self.serve(tag, |locked| {
            let armed = locked.arm_again(relative, &set, |machine, path| {
                caller.check(machine, Right::TreeRead, path.as_str())?;
                machine.exists(path, &caller.identities_on(machine, path))
            });
            if armed.is_err() {
                locked.overflow();
            }
            armed.map(|()| StreamAnswer::Done)
        })
        .await;
    }

    /// Replies when the session is renewed. May be awaited concurrently with other calls.
    pub async fn ping(&self, tag: i64) {
        self.serve(tag, |_| Ok(StreamAnswer::Done)).await;
    }

    /// Replies when this node has applied everything that the cluster acknowledged before the call.
    pub async fn sync(&self, tag: i64) {
        if self.ready().await.is_err() {
            return;
        }
        match self.service.read_barrier().await {
            Ok(()) => self.serve(tag, |_| Ok(StreamAnswer::Done)).await,
            Err(error) => {
                tracing::debug!(%error, session = %self.liveness.session, "a sync failed; the stream ends");
                self.end(StreamEnd::CutOff);
            }
        }
    }

    /// Changes the tree with this stream's session and identities; only the request id of the multi's caller is kept.
    /// Replies when this node has applied the change. If the outcome is unknown, the stream ends.
    pub async fn write(&self, tag: i64, multi: Multi) {
        self.write_run(vec![(tag, multi)]).await;
    }

    /// Proposes consecutive writes of a pipelining client in their order. Each write has its own reply. After a write
    /// with an unknown outcome, no later write is done. The writes share log entries.
    pub async fn write_run(&self, run: Vec<(i64, Multi)>) {
        if self.wait_for_room().await.is_err() {
            return;
        }
        let caller = self.caller();
        let (mut tags, mut commands) =
            (Vec::with_capacity(run.len()), Vec::with_capacity(run.len()));
        for (tag, multi) in run {
            let command = self.command(multi, &caller);
            if let Err(denied) = caller.authorize(&command).await {
                // The replies have the order of the requests. Nothing follows a write with an unknown outcome.
                if !self.propose(&caller, &tags, std::mem::take(&mut commands)).await {
                    return;
                }
                tags.clear();
                // A reply would let the writes behind this one be done.
                if let Some(reason) = end_after(&denied) {
                    self.end(reason);
                    return;
                }
                self.reply_failure(tag, denied).await;
            } else {
                tags.push(tag);
                commands.push(command);
            }
        }
        self.propose(&caller, &tags, commands).await;
    }

    /// Replies to a request that failed before the stream got it.
    async fn reply_failure(&self, tag: i64, failure: Failure) {
        if self.ready().await.is_ok() {
            let (revision, result) = (Revision(0), Err(failure));
            Streams::reply(&self.entry, StreamReply { tag, revision, result });
        }
    }

    fn command(&self, multi: Multi, by: &Service) -> Command {
        let caller = Caller {
            session: Some(self.liveness.session.clone()),
            attachment: Some(self.attachment),
            identities: Vec::new(),
        };
        by.identified(Multi { caller, ..multi })
    }

    /// Closes the session; the stream ends after the reply. As in ZooKeeper, a connection that is no longer attached
    /// can also close it. A stream that has ended closes the session without a reply.
    pub async fn close(&self, tag: i64) {
        if self.wait_for_room().await.is_err() {
            return self.close_in_background();
        }
        self.service.observer().streams.closes(self.entry.number);
        let (session, incarnation) = (self.liveness.session.clone(), Some(self.liveness.id));
        let close = Command::CloseSession { session, attachment: None, incarnation };
        // The connection has proved that the session is its own.
        let node = self.service.as_node();
        let (mut done, failure) = node.propose_in_order(vec![close]).await;
        if let Some(committed) = done.pop() {
            // The session has ended, so this reply needs no renewal.
            self.conclude(tag, committed).await;
        } else {
            // The client gets no reply, and counts the session as closed.
            self.close_in_background();
        }
        self.end(failure.as_ref().and_then(end_after).unwrap_or(StreamEnd::Closed));
    }

    /// Closes the session in a task of its own: its client has requested that, and its connection has ended.
    pub fn close_in_background(&self) {
        self.service.observer().streams.closes(self.entry.number);
        let (node, session) = (self.service.as_node(), self.liveness.session.clone());
        tokio::spawn(close_session_within(node, session, None));
    }

    /// Proposes commands in order, and replies to each when this node has applied it. A change of the tree does not
    /// renew the session, so its reply waits for a fresh renewal like every reply. Returns false if the stream ended.
    async fn propose(&self, caller: &Service, tags: &[i64], commands: Vec<Command>) -> bool {
        if commands.is_empty() {
            return true;
        }
        let (done, failure) = caller.propose_in_order(commands).await;
        let mut left = tags.iter();
        for (committed, tag) in done.into_iter().zip(left.by_ref()) {
            if self.ready().await.is_err() || !self.conclude(*tag, committed).await {
                return false;
            }
        }
        let Some(failure) = failure else { return true };
        if let Some(reason) = end_after(&failure) {
            self.end(reason);
            return false;
        }
        for tag in left {
            self.reply_failure(*tag, failure.clone()).await;
        }
        true
    }

    /// Replies to a committed command when this node has applied it. Returns false if the stream ended instead.
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

    /// Records client activity without a reply: renews the session in the background unless a renewal is fresh.
    pub fn renew(&self) {
        if self.liveness.record_activity(Instant::now()) {
            self.service.parts.stream_renewals.add(self.liveness.clone());
        }
    }

    /// Resolves when the session of an active client could not be renewed in time, or the client's access token was deleted
    /// or has expired. The outbox then ends with [`StreamEnd::CutOff`].
    pub async fn lost(&self) {
        let mut callers = self.caller.subscribe();
        loop {
            let mut credential = callers.borrow_and_update().watch_credential();
            tokio::select! {
                () = self.liveness.lost() => return,
                _ = credential_ended(&mut credential) => return self.end(StreamEnd::CutOff),
                // The stream itself has the sender, so this never fails.
                _ = callers.changed() => {}
            }
        }
    }

    /// Reads the machine and replies within one read lock.
    async fn serve(
        &self,
        tag: i64,
        look: impl FnOnce(&mut LockedStream<'_>) -> Result<StreamAnswer, Failure> + Send,
    ) {
        if self.ready().await.is_ok() {
            let streams = &self.service.observer().streams;
            self.service.raft().read(|machine| streams.answer(machine, &self.entry, tag, look));
        }
    }

    /// Records client activity, and waits for room for a reply.
    async fn wait_for_room(&self) -> Result<(), StreamEnd> {
        self.renew();
        self.entry.queue.room().await
    }

    /// Records client activity, and waits for room for a reply and for a fresh renewal.
    async fn ready(&self) -> Result<(), StreamEnd> {
        loop {
            self.wait_for_room().await?;
            let changed = self.liveness.changed();
            if self.liveness.is_fresh(Instant::now()) {
                return Ok(());
            }
            // The wait for room may have outlasted the renewal that it began with.
            self.renew();
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

impl Service {
    /// The identities for the access list that a read is about.
    fn identities_for(&self, machine: &Machine, read: &StreamRead) -> Cow<'_, [Identity]> {
        match read {
            StreamRead::Exists(path)
            | StreamRead::Data(path)
            | StreamRead::Children(path)
            | StreamRead::Acl(path)
            | StreamRead::Descendants(path) => self.identities_on(machine, path),
            StreamRead::Ephemerals(_) => Cow::Borrowed(self.identities()),
        }
    }

    /// Checks the permission for a read of a stream.
    fn check_stream_read(&self, machine: &Machine, read: &StreamRead) -> Result<(), Rejection> {
        match read {
            StreamRead::Exists(path)
            | StreamRead::Data(path)
            | StreamRead::Children(path)
            | StreamRead::Acl(path) => self.check(machine, Right::TreeRead, path.as_str()),
            StreamRead::Descendants(path) => self.check_subtree(machine, path),
            StreamRead::Ephemerals(_) => Ok(()),
        }
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        self.liveness.stop();
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

impl Service {
    /// Adds the members to the answer of a read of their znode. They are those of the revision of the answer.
    fn with_members(
        &self,
        machine: &Machine,
        read: &StreamRead,
        answer: StreamAnswer,
    ) -> StreamAnswer {
        match read {
            StreamRead::Exists(path)
            | StreamRead::Data(path)
            | StreamRead::Children(path)
            | StreamRead::Acl(path)
                if path.as_str() == ZnodePath::CONFIG =>
            {
                let members = machine.members().map(|(node, member)| (node, member.clone()));
                let members = self.raft().addresses_of(members.collect());
                StreamAnswer::OfMembers { answer: answer.into(), members }
            }
            StreamRead::Exists(_)
            | StreamRead::Data(_)
            | StreamRead::Children(_)
            | StreamRead::Acl(_)
            | StreamRead::Ephemerals(_)
            | StreamRead::Descendants(_) => answer,
        }
    }
}

/// Returns the end that a failed write causes: no later write may follow a write with an unknown outcome. If it returns
/// `None`, certainly nothing was done.
fn end_after(failure: &Failure) -> Option<StreamEnd> {
    match failure {
        Failure::OutcomeUnknown | Failure::UnexpectedReply => Some(StreamEnd::Unknown),
        Failure::NoLeader | Failure::Starting(_) | Failure::Lagging | Failure::Behind { .. } => {
            Some(StreamEnd::CutOff)
        }
        Failure::ShuttingDown | Failure::Failed(_) => Some(StreamEnd::ShuttingDown),
        Failure::Rejected(_)
        | Failure::Overloaded { .. }
        | Failure::DiskFull(_)
        | Failure::UnsafeChange { .. }
        | Failure::LevelNotReady(_)
        | Failure::TooLarge
        | Failure::WaitTimeout { .. }
        | Failure::NotYet { .. }
        | Failure::WaitTooLong { .. }
        | Failure::RateLimited { .. }
        | Failure::CallerLimited(_)
        | Failure::TooManyWaiters { .. }
        | Failure::TooManyStreams { .. }
        | Failure::TooManyWatches { .. }
        | Failure::BackupInProgress
        | Failure::Compacted { .. } => None,
    }
}
