//! Live updates: server-sent events with the live region of the page that a tab shows.
//!
//! A stream renders the pages of locks again when the state has changed, at most once in [`PACE`], and every page once in
//! [`IDLE_PACE`]. It sends the region only if it differs. The streams of a node render one after the other, each in at most
//! [`TURN_MAX`], with pauses of [`PAUSES`] times the rendering, so that open pages leave the processor to other callers.
//! A node has at most [`STREAMS_MAX`] streams, and [`STREAMS_OF_READER_MAX`] of one reader. Each ends after [`STREAM_MAX`], and the
//! script then opens the next one.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{Extensions, HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use holdfast_api::{CallerBody, ClusterBody, ErrorCode, Problem};
use holdfast_types::SubjectName;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::call::{ApiResult, ClusterPlace, problem};
use crate::page::{ConsolePage, PageContent, PageRequest, is_of_credential};
use crate::text::without_counts;
use crate::{ConsoleState, layout, wall_clock};

/// The shortest time between two renderings.
const PACE: Duration = Duration::from_millis(200);
/// Pages that follow every change.
const FOLLOWING: [&str; 2] = ["lock", "locks"];
/// The pause after a rendering, as a multiple of its time.
const PAUSES: u32 = 4;
/// The longest turn of one rendering.
const TURN_MAX: Duration = Duration::from_millis(500);
/// Pages that a node renders without a leader.
const LEADERLESS: [&str; 3] = ["cluster", "events", "about"];
/// The longest time between two renderings, for what changes without a revision.
const IDLE_PACE: Duration = Duration::from_secs(2);
/// An event after this silence: the script sees a node that is frozen or cut off.
const ALIVE: Duration = Duration::from_secs(3);
/// The longest life of one stream.
const STREAM_MAX: Duration = Duration::from_mins(10);
/// Streams of one node.
const STREAMS_MAX: usize = 200;
/// Streams of one node that one reader has.
const STREAMS_OF_READER_MAX: usize = STREAMS_MAX / 4;

/// Answers `GET updates?page=PATH` with a stream. `extensions` are those of the request.
pub(crate) fn stream(
    console: &Arc<ConsoleState>,
    page: &'static ConsolePage,
    request: PageRequest,
    extensions: &Extensions,
) -> Response<Body> {
    let reader = request.caller.subject.clone().map_or_else(
        || LiveReader::Address((console.settings.address)(extensions)),
        LiveReader::Subject,
    );
    let place = match LivePlace::take(console, reader) {
        Ok(place) => place,
        Err(full) => return event_stream(Body::from(event("full", &full))),
    };
    let updates = LiveUpdates {
        page,
        place: ClusterPlace::default(),
        sent: String::new(),
        rendered_at: None,
        rendering: console.rendering.clone(),
        ends_at: Instant::now() + STREAM_MAX,
        is_first: true,
        failed: None,
        stopping: console.settings.stopping.clone(),
        request,
        _place: place,
    };
    let events = unfold(Some(updates), |updates| async {
        let mut updates = updates?;
        let (event, goes_on) = updates.next().await;
        Some((Ok::<Bytes, Infallible>(event.into()), goes_on.then_some(updates)))
    });
    // A stream that waits for its turn is alive, too.
    let events = unfold(Box::pin(events), |mut events| async {
        let next = timeout(ALIVE, events.next()).await;
        let next = next.unwrap_or_else(|_| Some(Ok(event("alive", &"").into())))?;
        Some((next, events))
    });
    event_stream(Body::from_stream(events))
}

/// The only event for a reader that must log in first.
pub(crate) fn login_needed() -> Response<Body> {
    event_stream(Body::from(event("login", &"")))
}

fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

struct LiveUpdates {
    page: &'static ConsolePage,
    request: PageRequest,
    /// Where the region that the reader sees came from.
    place: ClusterPlace,
    /// The latest region, without the texts of its times.
    sent: String,
    rendered_at: Option<Instant>,
    rendering: Arc<Semaphore>,
    ends_at: Instant,
    is_first: bool,
    /// The code of the failure that the reader knows.
    failed: Option<ErrorCode>,
    stopping: watch::Receiver<bool>,
    _place: LivePlace,
}

/// Who opened a live page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LiveReader {
    Subject(SubjectName),
    /// A caller without a subject; `None` if the address is unknown.
    Address(Option<IpAddr>),
}

/// The place of a live page among those of its node and of its reader.
struct LivePlace {
    console: Arc<ConsoleState>,
    reader: LiveReader,
}

impl LivePlace {
    /// # Errors
    /// What to tell the reader, if the reader or the node has too many live pages.
    fn take(console: &Arc<ConsoleState>, reader: LiveReader) -> Result<Self, String> {
        let mut open = console.live_readers.lock();
        let of_reader = open.iter().filter(|other| **other == reader).count();
        let limits = [
            (of_reader, STREAMS_OF_READER_MAX, "for each reader"),
            (open.len(), STREAMS_MAX, "in all"),
        ];
        let full = limits.into_iter().find(|(count, limit, _)| count >= limit);
        if let Some((_, limit, whose)) = full {
            let reason = format!("a node has at most {limit} live pages {whose}");
            return Err(format!("This page is not live: {reason}. Load it again to see changes."));
        }
        open.push(reader.clone());
        drop(open);
        Ok(Self { console: console.clone(), reader })
    }
}

impl Drop for LivePlace {
    fn drop(&mut self) {
        let mut open = self.console.live_readers.lock();
        if let Some(at) = open.iter().position(|other| *other == self.reader) {
            open.swap_remove(at);
        }
    }
}

impl LiveUpdates {
    /// The next event, and whether another one follows.
    async fn next(&mut self) -> (String, bool) {
        if std::mem::take(&mut self.is_first) {
            return (self.addresses().await, true);
        }
        loop {
            tokio::select! {
                () = sleep(PACE) => {}
                _ = self.stopping.wait_for(|stopping| *stopping) => {
                    return (event("reconnect", &"This node stops."), false);
                }
            }
            if Instant::now() >= self.ends_at {
                return (event("reconnect", &""), false);
            }
            self.request.now = wall_clock();
            if let Some(found) = self.look().await {
                return found;
            }
        }
    }

    /// An event, if there is something new.
    async fn look(&mut self) -> Option<(String, bool)> {
        let place = match self.place().await {
            Ok(place) => place,
            Err(event) => return event,
        };
        let rested = self.rendered_at.is_none_or(|at| at.elapsed() >= IDLE_PACE);
        let follows = FOLLOWING.contains(&self.page.path) || self.place.leader != place.leader;
        let is_old = (follows && place != self.place) || self.failed.is_some();
        if !rested && !is_old {
            return None;
        }
        let turn = self.rendering.clone().acquire_owned().await.ok()?;
        // The cluster may have lost its leader while other pages were rendered.
        let place = match self.place().await {
            Ok(place) => place,
            Err(event) => return event,
        };
        match self.render(turn).await {
            Ok(content) => {
                self.place = place;
                let recovered = self.failed.take();
                let recovered = recovered.map(|_| status("The page is up to date again.", "good"));
                let region = content.live_region().into_string();
                let mark = layout::place_mark(place).into_string();
                let text = without_counts(&region) + &mark;
                if text == self.sent && recovered.is_none() {
                    return None;
                }
                self.sent = text;
                // The region comes last: a new leader in it is what the reader hears.
                Some((recovered.unwrap_or_default() + &event("fragment", &(region + &mark)), true))
            }
            Err(problem) => self.failure(&problem),
        }
    }

    /// Where this node reads the page.
    ///
    /// # Errors
    /// The event for a reader whose page cannot be read, if there is something new.
    async fn place(&mut self) -> Result<ClusterPlace, Option<(String, bool)>> {
        let known = self.request.api.read::<CallerBody>("/v1/auth/me?stale").await;
        let place = self.request.api.place();
        match known {
            Err(problem) if is_of_credential(problem.code) => {
                Err(Some((event("login", &""), false)))
            }
            Err(problem) => Err(self.failure(&problem)),
            Ok(_) if place.leader.is_none() && !LEADERLESS.contains(&self.page.path) => {
                let code = (ErrorCode::NoLeader, StatusCode::SERVICE_UNAVAILABLE);
                Err(self.failure(&problem(code, "", "wait for the election")))
            }
            Ok(_) => Ok(place),
        }
    }

    /// Renders the page. The next stream gets its turn after the rendering, or after [`TURN_MAX`].
    async fn render(&mut self, turn: OwnedSemaphorePermit) -> ApiResult<PageContent> {
        let began = Instant::now();
        self.rendered_at = Some(began);
        let mut rendering = (self.page.render)(&self.request);
        let Ok(rendered) = timeout(TURN_MAX, &mut rendering).await else {
            // Most of this time is a wait for the leader, which is no work.
            drop(turn);
            return rendering.await;
        };
        let pause = (began.elapsed() * PAUSES).min(PACE);
        tokio::spawn(async move {
            sleep(pause).await;
            drop(turn);
        });
        rendered
    }

    /// Tells the reader once that the page cannot be read.
    fn failure(&mut self, problem: &Problem) -> Option<(String, bool)> {
        if self.failed.replace(problem.code) == Some(problem.code) {
            return None;
        }
        let text = format!("{}. The page tries again. ({})", problem.title, problem.code);
        Some((status(&text, "warning"), true))
    }

    /// The addresses of the other nodes, for a reader whose node stops.
    async fn addresses(&self) -> String {
        let cluster = self.request.api.read::<ClusterBody>("/v1/cluster").await;
        let nodes = cluster.map(|cluster| cluster.nodes).unwrap_or_default();
        let scheme = self.request.address.split("//").next().unwrap_or_default();
        let here = self.request.api.place().node;
        let others = nodes.into_iter().filter(|node| Some(node.id) != here);
        let others: Vec<_> = others.map(|node| format!("{scheme}//{}/ui/", node.http)).collect();
        event("addresses", &json!({ "node": here, "others": others }))
    }
}

fn status(text: &str, tone: &str) -> String {
    event("status", &json!({ "text": text, "tone": tone }))
}

/// An event. Its data is JSON, so it has one line.
fn event(name: &str, data: &impl Serialize) -> String {
    // Texts always have a JSON form.
    let json = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {json}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_lines_is_one_line_of_data() {
        let expected = "event: fragment\ndata: \"a\\nevent: b\"\n\n";
        assert_eq!(event("fragment", &"a\nevent: b"), expected);
    }
}
