//! Watching a part of the tree.

use std::time::Duration;

use holdfast_types::{FencingToken, Revision, ZnodePath};

use super::query::Query;
use super::{WAIT_MAX, name, revision, wait};
use crate::{Absent, ErrorCode, Fields, Param, ParamList, Refusal};

/// How long a long poll waits, unless the caller says otherwise.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// Revisions stay below this, as tokens do: a larger one was never given out, and a watch from there would miss everything.
const REVISION_END: u64 = FencingToken::END;

/// `GET /v1/watch`: what has changed since, and what changes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchParams {
    /// The beginning of the paths, or the one path if `exact`. Begins with `/`.
    pub place: String,
    /// That node alone.
    pub exact: bool,
    /// Changes after this revision; none means from now on.
    pub since: Option<Revision>,
    /// How long a long poll waits for the first change, up to [`crate::WAIT_MAX`].
    pub wait: Duration,
}

impl WatchParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        Param::text(
            "prefix",
            "Paths that begin so: /cfg/ for what lies below, / for everything. A lock is its directory, \
                 /locks/NAME. This or path is needed",
        ),
        Param::path(
            "path",
            ZnodePath::MAX_LEN - 1,
            "This node alone; the first '/' may be missing, and counts",
        ),
        Param::number(
            "since",
            (0, REVISION_END - 1),
            "Only what changed after this revision, the revision of any answer; without it, from now on",
        ),
        Param::duration(
            "wait",
            (Duration::ZERO, WAIT_MAX),
            "Of a long poll: how long to wait for the first change",
        )
        .absent(Absent::Duration(WAIT_DEFAULT)),
    ]);

    /// Checks every parameter. `resume` is the id of the last event that the client saw, from a header: it wins over
    /// `since`, because a client that reconnects repeats its first URL.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead; `prefix` or `path` is needed.
    pub fn parse(fields: &Fields<'_>, resume: Option<&str>) -> Result<Self, Refusal> {
        let (place, exact) = match (fields.value("prefix"), fields.value("path")) {
            (Some(prefix), None) => (rooted(prefix), false),
            (None, Some(_)) => {
                let path = name(fields, "path", |path| ZnodePath::new(rooted(path)))?;
                (path.unwrap_or_else(ZnodePath::root).as_str().to_owned(), true)
            }
            (Some(_), Some(_)) => {
                let detail = "'prefix' and 'path' exclude each other";
                return Err(Refusal::of("path", ErrorCode::InvalidArgument, detail)
                    .hint("leave one of them out"));
            }
            (None, None) => {
                let detail = "what to watch is missing";
                return Err(Refusal::of("prefix", ErrorCode::InvalidArgument, detail).hint(
                    "add ?prefix=/cfg/ for what lies below, ?path=/cfg/x for one node, or ?prefix=/ for everything",
                ));
            }
        };
        let since = match (resume, fields.value("since")) {
            (Some(id), _) => Some(last_event_id(id)?),
            (None, Some(since)) => Some(revision("since", since)?),
            (None, None) => None,
        };
        Ok(Self { place, exact, since, wait: wait(fields)?.unwrap_or(WAIT_DEFAULT) })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text(if self.exact { "path" } else { "prefix" }, Some(&self.place));
        query.text("since", self.since.map(|since| since.to_string()).as_deref());
        query.duration("wait", Some(self.wait).filter(|wait| *wait != WAIT_DEFAULT));
        query.0
    }
}

/// The revision that a stream is taken up again after, from the header that says so.
///
/// # Errors
/// [`Refusal`] if it is no revision.
pub fn last_event_id(text: &str) -> Result<Revision, Refusal> {
    revision("Last-Event-ID", text)
}

/// `locks/` means `/locks/`.
fn rooted(place: &str) -> String {
    if place.starts_with('/') { place.to_owned() } else { format!("/{place}") }
}
