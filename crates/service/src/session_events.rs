//! Events of sessions whose clients listen with their keepalives: grants, losses and release requests since a revision.
//!
//! Each session that listens on this node has a buffer. If an event may be missing, the reply reports the gap.
//!
//! Bounds: `sessions_max` listening sessions; a new session replaces sessions without a call for [`IDLE_MAX`]. A
//! session keeps at most [`KEPT_MAX`] events, all sessions together `events_max`; a further event discards the
//! session's oldest.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holdfast_types::{Applied, Event, Revision, SessionEvent, SessionName};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::history::hold_notice::{BreakReasons, HoldNotice};

const KEPT_MAX: usize = 256;
/// A session without a call for this time can be replaced by another session.
const IDLE_MAX: Duration = Duration::from_mins(2);

/// The events of a session since a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventsSince {
    /// Oldest first.
    pub(crate) events: Vec<HoldNotice>,
    /// All events up to this revision are included: the next `since`.
    pub(crate) cursor: Revision,
    /// Events after `since` and up to this revision may be missing.
    pub(crate) gap: Option<Revision>,
}

#[derive(Debug)]
struct ListeningSession {
    kept: VecDeque<HoldNotice>,
    /// All events after this revision are kept.
    complete_after: Revision,
    woken: Arc<Notify>,
    last_call: Instant,
}

#[derive(Debug, Default)]
struct Sessions {
    by_session: HashMap<SessionName, ListeningSession>,
    kept: usize,
    head: Revision,
}

#[derive(Debug)]
pub(crate) struct SessionEvents {
    inner: Mutex<Sessions>,
    /// The number of listening sessions: `apply` skips the events while it is zero.
    count: AtomicUsize,
    sessions_max: usize,
    events_max: usize,
}

/// A call that listens for events of a session.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Notified when there may be an event.
    pub(crate) woken: Arc<Notify>,
    /// All events after this revision are kept.
    pub(crate) begins: Revision,
}

impl SessionEvents {
    pub(crate) fn new(sessions_max: usize, events_max: usize) -> Self {
        let (inner, count) = (Mutex::default(), AtomicUsize::new(0));
        Self { inner, count, sessions_max, events_max }
    }

    /// Runs inside the apply step, after the change log has the entry.
    pub(crate) fn on_applied(&self, applied: &Applied) {
        let mut inner = self.inner.lock();
        inner.head = applied.revision;
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let reasons = BreakReasons::of(&applied.events);
        for (revision, event) in &applied.events {
            if let Event::Session(SessionEvent::Ended { session, .. }) = event {
                inner.remove(session);
                self.count.store(inner.by_session.len(), Ordering::Relaxed);
            } else if let Some(notice) = HoldNotice::of(*revision, event, &reasons)
                && notice.is_session_event()
            {
                inner.keep(notice, self.events_max);
            }
        }
    }

    /// Entries were skipped: discards all events.
    pub(crate) fn restart(&self, revision: Revision) {
        let mut inner = self.inner.lock();
        (inner.head, inner.kept) = (revision, 0);
        #[expect(clippy::iter_over_hash_type, reason = "the order has no effect")]
        for listener in inner.by_session.values_mut() {
            listener.kept.clear();
            listener.complete_after = revision;
            listener.woken.notify_waiters();
        }
    }

    /// Starts or continues to listen.
    ///
    /// # Errors
    /// The bound, if too many sessions listen.
    pub(crate) fn listen(&self, session: &SessionName, now: Instant) -> Result<Listening, usize> {
        let mut inner = self.inner.lock();
        if let Some(listener) = inner.by_session.get_mut(session) {
            listener.last_call = now;
            return Ok(Listening {
                woken: listener.woken.clone(),
                begins: listener.complete_after,
            });
        }
        if inner.by_session.len() >= self.sessions_max {
            inner.make_room(now);
        }
        if inner.by_session.len() >= self.sessions_max {
            return Err(self.sessions_max);
        }
        let (woken, complete_after) = (Arc::new(Notify::new()), inner.head);
        let kept = VecDeque::new();
        let listener =
            ListeningSession { kept, complete_after, woken: woken.clone(), last_call: now };
        inner.by_session.insert(session.clone(), listener);
        self.count.store(inner.by_session.len(), Ordering::Relaxed);
        Ok(Listening { woken, begins: complete_after })
    }

    /// Adds events from the change log: those after `since` that precede the buffered ones. `before` is where these began
    /// when the change log was read.
    pub(crate) fn recall(
        &self,
        session: &SessionName,
        (since, before): (Revision, Revision),
        events: Vec<HoldNotice>,
    ) {
        let mut inner = self.inner.lock();
        let has_room = inner.kept + events.len() <= self.events_max;
        let Some(listener) = inner.by_session.get_mut(session) else { return };
        // An event that was discarded since then is a gap.
        let is_gapless = since < before && listener.complete_after == before;
        if !is_gapless || !has_room || events.len() + listener.kept.len() > KEPT_MAX {
            return;
        }
        let earlier = events.into_iter().filter(|e| e.revision > since && e.revision <= before);
        let earlier: Vec<_> = earlier.collect();
        let count = earlier.len();
        earlier.into_iter().rev().for_each(|event| listener.kept.push_front(event));
        listener.complete_after = since;
        inner.kept += count;
    }

    /// Returns the events after a revision; `None` if the session does not listen.
    pub(crate) fn since(&self, session: &SessionName, since: Revision) -> Option<EventsSince> {
        let inner = self.inner.lock();
        let listener = inner.by_session.get(session)?;
        let gap = (since < listener.complete_after).then_some(listener.complete_after);
        let later = listener.kept.iter().filter(|event| event.revision > since);
        Some(EventsSince { events: later.cloned().collect(), cursor: inner.head.max(since), gap })
    }

    /// Discards the events that the client has seen.
    pub(crate) fn seen(&self, session: &SessionName, until: Revision) {
        let mut inner = self.inner.lock();
        let until = until.min(inner.head);
        let Some(listener) = inner.by_session.get_mut(session) else { return };
        let before = listener.kept.len();
        while listener.kept.front().is_some_and(|event| event.revision <= until) {
            listener.kept.pop_front();
        }
        let discarded = before - listener.kept.len();
        listener.complete_after = listener.complete_after.max(until);
        inner.kept -= discarded;
    }
}

impl Sessions {
    fn keep(&mut self, event: HoldNotice, events_max: usize) {
        let Some(listener) = self.by_session.get_mut(&event.session) else { return };
        let full = listener.kept.len() >= KEPT_MAX || self.kept >= events_max;
        listener.kept.push_back(event);
        self.kept += 1;
        if full && let Some(oldest) = listener.kept.pop_front() {
            self.kept -= 1;
            listener.complete_after = listener.complete_after.max(oldest.revision);
        }
        listener.woken.notify_waiters();
    }

    fn remove(&mut self, session: &SessionName) {
        if let Some(listener) = self.by_session.remove(session) {
            self.kept -= listener.kept.len();
            listener.woken.notify_waiters();
        }
    }

    fn make_room(&mut self, now: Instant) {
        let mut freed = 0;
        self.by_session.retain(|_, listener| {
            // A second handle means that a call is waiting.
            let stays = Arc::strong_count(&listener.woken) > 1
                || now.saturating_duration_since(listener.last_call) < IDLE_MAX;
            freed += if stays { 0 } else { listener.kept.len() };
            stays
        });
        self.kept -= freed;
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{
        FencingToken, Grant, LockEvent, LockName, LossCause, Mode, Owner, Reason, SessionEnd,
        SessionId, Stamp, Ticket, Ttl,
    };

    use super::*;
    use crate::history::hold_notice::HoldChange;

    fn me() -> SessionName {
        SessionName::new("me").unwrap()
    }

    fn granted(revision: u64) -> (Revision, Event) {
        let grant = Grant {
            lock: LockName::new("a").unwrap(),
            session: me(),
            owner: Owner::unnamed(),
            ticket: Ticket(revision),
            token: FencingToken(revision),
            mode: Mode::Exclusive,
            permits: 1,
            slots: Vec::new(),
            floor: FencingToken(revision),
            ends_at: None,
            ttl: Ttl::DEFAULT,
            hold_count: 1,
            renewed: false,
            waiters: 0,
            granted_at: Stamp(0),
            granted_in: Revision(revision),
            value: None,
        };
        (Revision(revision), Event::Lock(LockEvent::Granted(grant)))
    }

    fn apply(session_events: &SessionEvents, events: Vec<(Revision, Event)>) {
        let revision = events.last().map(|(revision, _)| *revision).unwrap();
        session_events.on_applied(&Applied { revision, outcomes: Vec::new(), events });
    }

    fn found(session_events: &SessionEvents, since: u64) -> (Vec<u64>, Option<u64>) {
        let found = session_events.since(&me(), Revision(since)).unwrap();
        let events = found.events.iter().map(|event| event.revision.0).collect();
        (events, found.gap.map(|gap| gap.0))
    }

    #[test]
    fn events_between_two_calls_are_kept_until_the_client_has_seen_them() {
        let session_events = SessionEvents::new(10, 1_000);
        apply(&session_events, vec![granted(1)]);
        session_events.listen(&me(), Instant::now()).unwrap();
        assert_eq!(found(&session_events, 1), (vec![], None));
        apply(&session_events, vec![granted(2), granted(3)]);
        assert_eq!(found(&session_events, 1), (vec![2, 3], None));
        // If the reply was lost, the repeated call returns the same events.
        assert_eq!(found(&session_events, 1), (vec![2, 3], None));
        session_events.seen(&me(), Revision(2));
        assert_eq!(found(&session_events, 2), (vec![3], None));
        assert_eq!(found(&session_events, 1), (vec![3], Some(2)));
    }

    #[test]
    fn a_loss_by_an_operator_has_the_operators_reason() {
        let session_events = SessionEvents::new(10, 1_000);
        session_events.listen(&me(), Instant::now()).unwrap();
        let (lock, owner) = (LockName::new("a").unwrap(), Owner::unnamed());
        let (ticket, token) = (Ticket(7), FencingToken(7));
        let broken = Event::Lock(LockEvent::BrokenByOperator {
            lock: lock.clone(),
            session: me(),
            owner: owner.clone(),
            ticket,
            token: Some(token),
            reason: Reason::new("stuck").unwrap(),
        });
        let lost = |cause| {
            Event::Lock(LockEvent::HoldEnded {
                lock: lock.clone(),
                session: me(),
                owner: owner.clone(),
                ticket,
                token,
                granted_at: Stamp(0),
                granted_in: Revision(7),
                cause,
            })
        };
        apply(
            &session_events,
            vec![(Revision(8), broken), (Revision(8), lost(LossCause::ForceReleased))],
        );
        apply(&session_events, vec![(Revision(9), lost(LossCause::Revoked))]);
        let found = session_events.since(&me(), Revision(0)).unwrap().events;
        let reasons = found.iter().map(|notice| {
            let HoldChange::Lost { broken, .. } = &notice.change else { panic!("{notice:?}") };
            broken.as_ref().map(Reason::as_str)
        });
        assert_eq!(reasons.collect::<Vec<_>>(), [Some("stuck"), None]);
    }

    #[test]
    fn discarded_events_are_reported_as_a_gap() {
        let session_events = SessionEvents::new(10, 1_000);
        apply(&session_events, vec![granted(7)]);
        session_events.listen(&me(), Instant::now()).unwrap();
        assert_eq!(found(&session_events, 3), (vec![], Some(7)));
        for revision in 8..=300 {
            apply(&session_events, vec![granted(revision)]);
        }
        let (events, gap) = found(&session_events, 7);
        assert_eq!((events.len(), gap), (KEPT_MAX, Some(300 - KEPT_MAX as u64)));
        session_events.restart(Revision(500));
        assert_eq!(found(&session_events, 300), (vec![], Some(500)));
    }

    #[test]
    fn all_sessions_together_keep_no_more_than_the_bound() {
        let session_events = SessionEvents::new(10, 3);
        session_events.listen(&me(), Instant::now()).unwrap();
        apply(&session_events, (1..=9).map(granted).collect());
        assert_eq!(found(&session_events, 0), (vec![7, 8, 9], Some(6)));
    }

    #[test]
    fn events_from_the_change_log_close_a_gap() {
        let session_events = SessionEvents::new(10, 1_000);
        apply(&session_events, vec![granted(1), granted(2), granted(3)]);
        let listening = session_events.listen(&me(), Instant::now()).unwrap();
        assert_eq!(listening.begins, Revision(3));
        let earlier = [granted(2), granted(3)];
        let events = earlier
            .iter()
            .map(|(at, event)| HoldNotice::of(*at, event, &BreakReasons::default()).unwrap());
        session_events.recall(&me(), (Revision(1), listening.begins), events.collect());
        assert_eq!(found(&session_events, 1), (vec![2, 3], None));
    }

    #[test]
    fn an_event_that_was_discarded_during_a_recall_stays_a_gap() {
        let session_events = SessionEvents::new(10, 0);
        apply(&session_events, vec![granted(100)]);
        let listening = session_events.listen(&me(), Instant::now()).unwrap();
        apply(&session_events, vec![granted(101)]);
        session_events.recall(&me(), (Revision(50), listening.begins), Vec::new());
        assert_eq!(found(&session_events, 50), (vec![], Some(101)));
    }

    #[test]
    fn an_ended_session_is_removed_and_an_idle_session_is_replaced() {
        let session_events = SessionEvents::new(1, 1_000);
        let now = Instant::now();
        drop(session_events.listen(&me(), now).unwrap());
        let you = SessionName::new("you").unwrap();
        assert_eq!(session_events.listen(&you, now).unwrap_err(), 1);
        session_events.listen(&you, now + IDLE_MAX).unwrap();
        assert!(session_events.since(&me(), Revision(0)).is_none());
        let (id, session, end) = (SessionId(1), you.clone(), SessionEnd::Closed);
        apply(
            &session_events,
            vec![(Revision(9), Event::Session(SessionEvent::Ended { id, session, end }))],
        );
        assert!(session_events.since(&you, Revision(0)).is_none());
    }
}
