//! A session of this client: its lease, its queue entries, and the count of its users.
//!
//! Guards, acquires in progress and [`SessionHandle`]s are users. The session is renewed (`renewal.rs`) exactly while
//! it has users, so the client renews nothing for finished work.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdfast_types::{Attempt, Revision, SessionId, SessionName};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::calls::send::{Calls, SessionSettings, timer};
use crate::clock::Moment;
use crate::error::argument;
use crate::locks::queue_entry::{
    ClientQueueEntry, EntryStage, QueueEntries, lock_names, release_call,
};
use crate::numbers::NumberedCalls;
use crate::sessions::lease::{Acknowledged, Lease};
use crate::{Error, Loss, numbers};

/// The first keepalive is parked this long after the session got a user.
pub(crate) const PARK_AFTER: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionUsers {
    pub(crate) count: usize,
    /// The moment at which the first of them came.
    pub(crate) since: Moment,
    /// Whether the client may use the session again.
    pub(crate) client: bool,
    /// Whether the renewal waits for the first user.
    pub(crate) are_awaited: bool,
}

pub(crate) struct Session {
    pub(crate) calls: Calls,
    pub(crate) name: SessionName,
    pub(crate) incarnation: SessionId,
    /// Whether the client generated the name: no other client uses the session, and it ends with the client.
    pub(crate) is_own: bool,
    /// The revision of the answer that opened the session.
    pub(crate) opened_at: Option<Revision>,
    pub(crate) lease: watch::Sender<Lease>,
    pub(crate) entries: QueueEntries,
    /// Notified of a gap in the events.
    pub(crate) gap: Notify,
    pub(crate) users: watch::Sender<SessionUsers>,
    pub(crate) runtime: Handle,
    pub(crate) numbered_calls: NumberedCalls,
    /// Cancelled when the client closes. Every wait on the session then ends.
    pub(crate) closing: CancellationToken,
    /// Waits and releases in progress. The release of what a wait may have left begins before the wait ends.
    pub(crate) pending: TaskTracker,
}

/// The name and the incarnation.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" #{}", self.name, self.incarnation)
    }
}

impl Session {
    pub(crate) async fn open(
        calls: Calls,
        name: SessionName,
        is_own: bool,
        settings: &SessionSettings,
    ) -> Result<Arc<Self>, Error> {
        let runtime = Handle::try_current().map_err(|_| {
            argument("call this inside a tokio runtime, or use the blocking client")
        })?;
        let open = |attempt| calls.open(&name, attempt, settings);
        let answer = numbers::with_attempt(Attempt::UNNAMED, open).await?;
        let held = Duration::from_millis(answer.body.expires_in_ms.unwrap_or(0));
        let acknowledged = Acknowledged { counted_from: answer.sent, held };
        Ok(Arc::new(Self {
            calls,
            name,
            incarnation: answer.body.incarnation,
            is_own,
            opened_at: answer.body.revision,
            lease: watch::Sender::new(Lease::new(acknowledged, numbers::jitter())),
            entries: QueueEntries::default(),
            gap: Notify::new(),
            users: watch::Sender::new(SessionUsers {
                count: 0,
                since: Moment::now(),
                client: true,
                are_awaited: true,
            }),
            runtime,
            numbered_calls: NumberedCalls::new(),
            closing: CancellationToken::new(),
            pending: TaskTracker::new(),
        }))
    }

    /// The name and the incarnation, which together name this session alone.
    pub(crate) fn id(&self) -> (&SessionName, SessionId) {
        (&self.name, self.incarnation)
    }

    /// Returns the deadline while the session certainly lives, or the loss.
    pub(crate) fn deadline_or_loss(&self, now: Moment) -> Result<Moment, Loss> {
        self.lease.borrow().deadline_or_loss(now)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.deadline_or_loss(Moment::now()).is_ok()
    }

    pub(crate) fn acknowledge(&self, acknowledged: Acknowledged) -> Result<(), Loss> {
        let mut result = Ok(false);
        self.lease.send_if_modified(|lease| {
            result = lease.acknowledge(acknowledged, Moment::now());
            result == Ok(true)
        });
        result.map(drop)
    }

    pub(crate) fn end(&self, loss: Loss) {
        self.lease.send_modify(|lease| lease.end(loss, Moment::now()));
    }

    /// Resolves when the session is over.
    pub(crate) async fn lost(&self) -> Loss {
        let mut lease = self.lease.subscribe();
        loop {
            let deadline = match lease.borrow_and_update().deadline_or_loss(Moment::now()) {
                Ok(deadline) => deadline,
                Err(loss) => return loss,
            };
            tokio::select! {
                _changed = lease.changed() => {}
                () = timer(deadline) => {}
            }
        }
    }

    /// Records the session in the current span.
    pub(crate) fn record_in_span(&self) {
        tracing::Span::current().record("session", tracing::field::display(&self.name));
    }

    /// Resolves when a wait on the session must end: the session is over, or the client closes.
    pub(crate) async fn ending(&self) -> Loss {
        tokio::select! {
            loss = self.lost() => loss,
            () = self.closing.cancelled() => Loss::SessionEnded,
        }
    }

    /// Resolves when all waits and releases have ended, or the session is over.
    pub(crate) async fn settled(&self) {
        self.pending.close();
        tokio::select! {
            () = self.pending.wait() => {}
            _loss = self.lost() => {}
        }
    }

    /// Stops the use of a session that others may use. Its waits leave nothing in the cluster. Its holds stay there.
    pub(crate) async fn leave(&self) {
        self.closing.cancel();
        // If no node answers, the entries end with the session.
        drop(tokio::time::timeout(self.calls.request_timeout, self.settled()).await);
        self.end(Loss::SessionEnded);
    }

    /// Returns the users. If there are none, the first one notifies.
    pub(crate) fn await_users(&self) -> SessionUsers {
        let mut present = None;
        self.users.send_if_modified(|users| {
            users.are_awaited = users.count == 0;
            // A later copy could lack a user that left meanwhile, and no user would notify.
            present = Some(*users);
            false
        });
        present.unwrap_or_else(|| *self.users.borrow())
    }

    /// Records that the client will not use the session again.
    pub(crate) fn abandon(&self) {
        self.users.send_modify(|users| users.client = false);
    }

    /// Releases entries of one owner and one attempt. Entries with an uncertain outcome stay listed.
    pub(crate) async fn release(&self, entries: &[Arc<ClientQueueEntry>]) -> Result<(), Error> {
        enter_leaving(entries);
        if entries.is_empty() {
            return Ok(());
        }
        let _release = self.pending.token();
        let released = self.calls.send(&release_call(entries, &self.name)).await;
        if !released.as_ref().is_err_and(Error::is_unclear) {
            self.entries.remove_all(entries);
        }
        released
    }

    /// Releases entries in the background, until the outcome is certain, the session is over, or the client is gone. Another
    /// program may renew a session that the caller named, so its deadline here is not its end.
    pub(crate) fn release_in_background(self: &Arc<Self>, entries: Vec<Arc<ClientQueueEntry>>) {
        enter_leaving(&entries);
        self.pending.spawn_on(release_until_certain(self.clone(), entries), &self.runtime);
    }
}

#[tracing::instrument(
    level = "debug", name = "release", skip_all,
    fields(lock = %lock_names(&entries), session = %session.name, background = true)
)]
async fn release_until_certain(session: Arc<Session>, entries: Vec<Arc<ClientQueueEntry>>) {
    if session.is_alive() || !session.is_own {
        let is_needed = || session.is_alive() || (!session.is_own && session.users.borrow().client);
        session.calls.send_until_certain(&release_call(&entries, &session.name), is_needed).await;
    }
    session.entries.remove_all(&entries);
}

fn enter_leaving(entries: &[Arc<ClientQueueEntry>]) {
    for entry in entries {
        entry.enter(EntryStage::Leaving);
    }
}

/// A use of a session, which keeps it renewed.
#[derive(Debug)]
pub(crate) struct SessionUse(Arc<Session>);

impl SessionUse {
    pub(crate) fn of(session: &Arc<Session>) -> Self {
        session.users.send_if_modified(|users| {
            users.count += 1;
            if users.count == 1 {
                users.since = Moment::now();
            }
            std::mem::take(&mut users.are_awaited)
        });
        Self(session.clone())
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        self.0.users.send_if_modified(|users| {
            users.count -= 1;
            // The renewal does nothing for users of a moment, and looks again when it would begin.
            let is_expected = !users.client || !self.0.is_alive();
            users.count == 0 && (is_expected || Moment::now() >= users.since.plus(PARK_AFTER))
        });
    }
}

/// A session that is renewed while this value lives, with or without locks.
#[derive(Debug)]
#[must_use = "the session is renewed as long as this lives"]
pub struct SessionHandle(SessionUse);

impl SessionHandle {
    pub(crate) fn new(session: SessionUse) -> Self {
        Self(session)
    }

    pub(crate) fn session(&self) -> &Session {
        self.0.session()
    }

    /// The name, for calls outside this client (`?session=…`).
    pub fn name(&self) -> &SessionName {
        &self.0.session().name
    }

    /// The time that the session certainly lives without another renewal; zero once it is over.
    pub fn remaining(&self) -> Duration {
        let now = Moment::now();
        self.0.session().deadline_or_loss(now).map_or(Duration::ZERO, |deadline| deadline.left(now))
    }

    /// Resolves when the session is over.
    pub async fn lost(&self) -> Loss {
        self.0.session().lost().await
    }
}
