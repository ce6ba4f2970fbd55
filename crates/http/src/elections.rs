//! Elections: standing, looking, observing, resigning.
//!
//! Owns the words. An election is the lock `elections/<name>`, whose holder leads and whose waiters stand: every call here
//! is a call about that lock. What is observed is what happens to that lock, each revision as a whole, so that a leader
//! who is followed in the step in which it goes is not told as a vacancy. Bounds: an observer holds one event.

use axum::http::{HeaderName, StatusCode};
use tokio::sync::watch as signal;

use holdfast_api::{
    CampaignParams, ElectedBody, ElectionBody, ErrorCode, FENCING_TOKEN, GapBody, LeaderBody,
    LeadershipBody, ReadParams, Refusal, ResignParams, election_lock,
};
use holdfast_service::{
    Failure, Granted, ReadMode, Response, Service, WatchFilter, WatchItem, WatchRequest,
    WatchStream, Watched, session_or_anonymous,
};
use holdfast_types::{Acquire, Data, LockName, LockView, Owner, Release, Revision, ZnodePath};

use crate::call::{CallContext, read_mode};
use crate::connection::Closing;
use crate::reply::Reply;
use crate::sse::{self, EventSource, accepts_events, closed, last_event_id};
use crate::status::{ErrorContext, HttpError, of_failure, of_refusal, shutting_down};

const ELECTIONS: &str = "/v1/elections/";

/// The election that the path names, and its lock.
fn named(call: &mut CallContext<'_>) -> Result<(LockName, LockName), HttpError> {
    let election = call.lock(ELECTIONS)?;
    let lock = election_lock(&election)
        .map_err(|error| of_refusal(Refusal::new(ErrorCode::BadName, error.to_string())))?;
    call.log_fields.lock = Some(lock.clone());
    Ok((election, lock))
}

/// `PUT /v1/elections/{name}`
pub(crate) async fn campaign(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let (election, lock) = named(call)?;
    let fields = call.query(&CampaignParams::KEYS)?;
    let params = CampaignParams::parse(&fields, &call.body).map_err(of_refusal)?;
    call.log_fields.session.clone_from(&params.session);
    call.log_fields.wait = params.wait;
    let CampaignParams { session, owner, attempt, ttl, wait, value, labels, redirect: _ } = params;
    let open = session_or_anonymous(session, ttl, labels).map_err(|f| call.error(f))?;
    let acquire = Acquire::new(lock, open, owner.unwrap_or_else(Owner::unnamed)).waiting(wait);
    let value = value.map(|value| Data::from(value.into_bytes()));
    let acquire = Acquire { attempt, value, ..acquire };
    let granted = call.run(call.service().acquire(&call.context, acquire)).await?;
    let Response { value: Granted { grant, waited, expires_in }, revision, .. } = granted;
    let token = grant.token;
    let reply = if call.wants_text() {
        Reply::text(StatusCode::OK, format!("{token}\n"))
    } else {
        let body = ElectedBody::new(election, grant, (waited, expires_in), revision);
        Reply::json(StatusCode::OK, &body)
    };
    Ok(reply.with_header(HeaderName::from_static(FENCING_TOKEN), token.0.into()).at(revision))
}

/// `DELETE /v1/elections/{name}`
pub(crate) async fn resign(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let (_, lock) = named(call)?;
    let fields = call.fields(&ResignParams::KEYS)?;
    let params = ResignParams::parse(&fields).map_err(of_refusal)?;
    call.log_fields.session = Some(params.session.clone());
    let ResignParams { session, owner, target, redirect: _ } = params;
    let release = Release { lock, session, owner: owner.unwrap_or_else(Owner::unnamed), target };
    let released = call.run(call.service().release(release)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(released.revision))
}

/// `GET /v1/elections/{name}`
pub(crate) async fn read(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let (election, lock) = named(call)?;
    let params = ReadParams::parse(&call.fields(&ReadParams::KEYS)?);
    if accepts_events(&call.parts.headers) {
        return observe(call, (election, lock), read_mode(params.stale)).await;
    }
    let read = call.service().lock(&lock, read_mode(params.stale));
    let Response { value: view, revision, leader_contact } = call.run(read).await?;
    let reply = if call.wants_text() {
        let value = view.holder().and_then(|holder| holder.value.clone());
        let value = value.map(|value| format!("{}\n", String::from_utf8_lossy(&value)));
        Reply::text(StatusCode::OK, value.unwrap_or_default())
    } else {
        let body = ElectionBody::new(election, view, call.now(), revision);
        Reply::json(StatusCode::OK, &body)
    };
    Ok(reply.at(revision).stale(leader_contact))
}

/// `GET` of it as a stream: who leads, then each change. Taken up again, only what has changed since.
async fn observe(
    call: &CallContext<'_>,
    (election, lock): (LockName, LockName),
    read: ReadMode,
) -> Result<Reply, HttpError> {
    let since = last_event_id(&call.parts.headers)?;
    let (watch, gap) = match follow(call, &lock, since) {
        Err(Failure::Compacted { .. }) => (follow(call, &lock, None), true),
        followed => (followed, false),
    };
    let mut stream = Stream {
        service: call.front.service().clone(),
        watch: watch.map_err(|failure| call.error(failure))?,
        closing: call.front.closing(),
        election,
        lock,
        seen: since.unwrap_or_default(),
        leader: None,
        changed: None,
        gap,
        first: None,
        ended: false,
    };
    if since.is_none() {
        // The watch has begun before: what happens in between is in both, and told once.
        let response = call.run(call.service().lock(&stream.lock, read)).await?;
        let Response { value: view, revision, .. } = response;
        stream.first = Some(stream.begin(view, revision));
    }
    Ok(sse::stream("leaders follow", call.front.config().stream_comment, stream))
}

fn follow(
    call: &CallContext<'_>,
    lock: &LockName,
    since: Option<Revision>,
) -> Result<WatchStream, Failure> {
    let filter = WatchFilter::Node(ZnodePath::of_lock(lock));
    let request = WatchRequest { filter, since, identities: call.identities() };
    call.front.service().watch(request)
}

/// A stream under way.
struct Stream {
    service: Service,
    watch: WatchStream,
    closing: signal::Receiver<Closing>,
    election: LockName,
    lock: LockName,
    /// Everything up to here is told, or was known to the caller.
    seen: Revision,
    /// Who leads; none also if that is not known, because only changes are told to whoever goes on.
    leader: Option<LeaderBody>,
    /// Something of this revision is not told yet: more of it is to come.
    changed: Option<Revision>,
    /// Something was missed: it is said, with who leads now.
    gap: bool,
    first: Option<String>,
    ended: bool,
}

impl EventSource for Stream {
    async fn next_event(&mut self) -> Option<String> {
        if self.ended {
            return None;
        }
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            if self.gap {
                return Some(self.look_again().await);
            }
            let watched = tokio::select! {
                watched = self.watch.next() => watched,
                () = closed(&mut self.closing) => return Some(self.end(&shutting_down())),
            };
            if let Some(text) = self.hear(watched) {
                return Some(text);
            }
        }
    }
}

impl Stream {
    /// Who leads at a revision, from which on changes are told.
    fn begin(&mut self, view: LockView, at: Revision) -> String {
        let leader = view.holders.into_iter().next();
        self.leader = leader.map(|holder| {
            LeaderBody::new((holder.session, holder.owner), holder.token, holder.value.as_ref())
        });
        (self.seen, self.changed, self.gap) = (at, None, false);
        self.event(at)
    }

    /// Says that something was missed, and who leads now: in one piece, so that nobody goes on between the two.
    async fn look_again(&mut self) -> String {
        // What this node has, which is never older than what it has told.
        match self.service.lock(&self.lock, ReadMode::Stale).await {
            Ok(Response { value: view, revision, .. }) => {
                let gap = sse::event("gap", &GapBody { until: revision });
                format!("{gap}{}", self.begin(view, revision))
            }
            Err(failure) => {
                let (lock, session, now) = (Some(&self.lock), None, self.service.log_time());
                let problem = of_failure(failure, &ErrorContext { lock, session, now });
                self.end(&problem)
            }
        }
    }

    /// What an item is to an observer, once the last one of its revision has come.
    fn hear(&mut self, Watched { resume, item }: Watched) -> Option<String> {
        match item {
            WatchItem::Granted { revision, token, session, owner, value, .. }
            | WatchItem::ValueSet { revision, token, session, owner, value, .. } => {
                if revision > self.seen {
                    self.leader = Some(LeaderBody::new((session, owner), token, value.as_ref()));
                    self.changed = Some(revision);
                }
            }
            WatchItem::Lost { revision, token, .. } => {
                let leads = self.leader.as_ref().is_none_or(|leader| leader.token == token);
                if revision > self.seen && leads {
                    (self.leader, self.changed) = (None, Some(revision));
                }
            }
            WatchItem::Bookmark { revision } => {
                self.seen = self.seen.max(revision);
                let body = serde_json::json!({ "revision": self.seen });
                return Some(sse::numbered(self.seen, "bookmark", &body));
            }
            WatchItem::Compacted { .. } => self.gap = true,
            WatchItem::ShuttingDown => return Some(self.end(&shutting_down())),
            WatchItem::Change { .. } | WatchItem::ReleaseRequested { .. } => {}
        }
        let changed = self.changed.filter(|changed| resume >= *changed && !self.gap)?;
        (self.seen, self.changed) = (changed, None);
        Some(self.event(changed))
    }

    fn event(&self, revision: Revision) -> String {
        let (election, leader) = (self.election.clone(), self.leader.clone());
        let name = if leader.is_some() { "leader" } else { "vacant" };
        sse::numbered(revision, name, &LeadershipBody { election, leader, revision })
    }

    /// The last event: a problem, without an id, so that the client goes on from what it has seen.
    fn end(&mut self, problem: &HttpError) -> String {
        self.ended = true;
        sse::event("reconnect", problem)
    }
}
