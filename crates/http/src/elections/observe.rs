//! The stream of an election: the leader, then every change of it.
//!
//! Each revision is one event, so that the replacement of a leader within one revision causes no vacancy event. A
//! resumed stream has only later changes; if some of them are compacted, a `gap` and the current leader come first.
//! Bound: one event in memory.

use tokio::sync::watch as signal;

use holdfast_api::{GapBody, LeaderBody, LeadershipBody};
use holdfast_service::{
    Failure, HoldChange, HoldNotice, ReadMode, Response, Service, WatchFilter, WatchItem,
    WatchRequest, WatchStream, WatchedItem,
};
use holdfast_types::{LockName, LockView, Revision, ZnodePath};

use crate::call::{CallContext, HandlerResult};
use crate::reply::{
    EventSource, event_stream, event_text, last_event_id, numbered_event, problem_event,
};
use crate::state::{ShutdownPhase, begun};
use crate::status::{ErrorContext, HttpError, denied, of_failure, shutting_down};

pub(super) async fn observe(
    call: &CallContext<'_>,
    (election, lock): (LockName, LockName),
    read: ReadMode,
) -> HandlerResult {
    let since = last_event_id(&call.parts.headers)?;
    let (watch, gap) = match watch(call, &lock, since) {
        Err(Failure::Compacted { .. }) => (watch(call, &lock, None), true),
        watch => (watch, false),
    };
    let place = call.stream_place()?;
    let mut stream = ElectionStream {
        service: call.service().clone(),
        watch: watch.map_err(|failure| call.error(failure))?,
        shutdown: call.state.shutdown.clone(),
        election,
        lock,
        seen: since.unwrap_or_default(),
        leader: None,
        changed: None,
        gap,
        first: None,
        ended: false,
    };
    // The watch starts before the read: a change in between is in both, and is reported once.
    let mode = since.map_or(read, |_| ReadMode::Stale);
    let Response { value: view, revision, .. } =
        call.run(call.service().unsharded_lock(&stream.lock, mode)).await?;
    if since.is_none() {
        stream.first = Some(stream.begin(view, revision));
    }
    Ok(event_stream("leaders follow", call.state.config.stream_comment, place, stream))
}

fn watch(
    call: &CallContext<'_>,
    lock: &LockName,
    since: Option<Revision>,
) -> Result<WatchStream, Failure> {
    let filter = WatchFilter::Node(ZnodePath::of_lock(lock));
    call.service().watch(WatchRequest { filter, since })
}

struct ElectionStream {
    service: Service,
    watch: WatchStream,
    shutdown: signal::Receiver<ShutdownPhase>,
    election: LockName,
    lock: LockName,
    /// The client has all changes up to this revision.
    seen: Revision,
    /// `None` also if the leader is unknown: a resumed stream reads only changes.
    leader: Option<LeaderBody>,
    /// A revision that is not reported yet, because more of its changes may arrive.
    changed: Option<Revision>,
    /// Changes are missing: a `gap` and the current leader come next.
    gap: bool,
    first: Option<String>,
    ended: bool,
}

impl EventSource for ElectionStream {
    async fn next_event(&mut self) -> Option<String> {
        if self.ended {
            return None;
        }
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            if self.gap {
                return Some(self.report_gap().await);
            }
            let watched = tokio::select! {
                watched = self.watch.next() => watched,
                () = begun(&mut self.shutdown) => return Some(self.end(shutting_down())),
            };
            if let Some(text) = self.receive(watched) {
                return Some(text);
            }
        }
    }
}

impl ElectionStream {
    /// Reports the leader at a revision; the stream continues with later changes.
    fn begin(&mut self, view: LockView, at: Revision) -> String {
        let leader = view.holders.into_iter().next();
        self.leader = leader.map(|holder| {
            LeaderBody::new((holder.session, holder.owner), holder.token, holder.value.as_ref())
        });
        (self.seen, self.changed, self.gap) = (at, None, false);
        self.event(at)
    }

    /// The gap and the current leader in one chunk, so that no client resumes between the two.
    async fn report_gap(&mut self) -> String {
        // This node's state is never older than its reported changes.
        match self.service.unsharded_lock(&self.lock, ReadMode::Stale).await {
            Ok(Response { value: view, revision, .. }) => {
                let gap = event_text("gap", &GapBody { until: revision });
                format!("{gap}{}", self.begin(view, revision))
            }
            Err(failure) => {
                let (lock, session, now) = (Some(&self.lock), None, self.service.log_time());
                let problem = of_failure(failure, &ErrorContext { lock, session, now });
                self.end(problem)
            }
        }
    }

    fn receive_hold(&mut self, notice: HoldNotice) {
        let HoldNotice { revision, session, owner, token, change, .. } = notice;
        if revision <= self.seen {
            return;
        }
        match change {
            HoldChange::Granted { value } | HoldChange::ValueChanged { value } => {
                self.leader = Some(LeaderBody::new((session, owner), token, value.as_ref()));
                self.changed = Some(revision);
            }
            HoldChange::Lost { .. } => {
                if self.leader.as_ref().is_none_or(|leader| leader.token == token) {
                    (self.leader, self.changed) = (None, Some(revision));
                }
            }
            HoldChange::ReleaseRequested(_) => {}
        }
    }

    /// Returns the event of a revision once its last item has arrived.
    fn receive(&mut self, WatchedItem { resume, item }: WatchedItem) -> Option<String> {
        match item {
            WatchItem::Hold(notice) => self.receive_hold(notice),
            // After a bookmark no client resumes before it: a change that waits for its revision is reported first.
            WatchItem::Bookmark { revision } if self.changed.is_none() => {
                self.seen = self.seen.max(revision);
                let body = serde_json::json!({ "revision": self.seen });
                return Some(numbered_event(self.seen, "bookmark", &body));
            }
            WatchItem::Compacted { .. } => self.gap = true,
            WatchItem::Denied(rejection) => {
                return Some(self.end(denied(rejection)));
            }
            WatchItem::ShuttingDown => return Some(self.end(shutting_down())),
            WatchItem::Change { .. } | WatchItem::Bookmark { .. } => {}
        }
        let changed = self.changed.filter(|changed| resume >= *changed && !self.gap)?;
        (self.seen, self.changed) = (changed, None);
        Some(self.event(changed))
    }

    fn event(&self, revision: Revision) -> String {
        let (election, leader) = (self.election.clone(), self.leader.clone());
        let name = if leader.is_some() { "leader" } else { "vacant" };
        numbered_event(revision, name, &LeadershipBody { election, leader, revision })
    }

    /// The last event: a problem without an id, so that the client resumes from its last id.
    fn end(&mut self, problem: HttpError) -> String {
        self.ended = true;
        problem_event("reconnect", problem)
    }
}
