//! Changing the rules of a lock.

use std::time::Duration;

use holdfast_types::{LockPolicy, QueueOrder};

use super::query::Query;
use super::terms::{count, pieces};
use super::{REDIRECT, about};
use crate::duration::check_bounds;
use crate::{Absent, ErrorCode, Fields, Form, Param, ParamList, Refusal, parse_duration};

const LOCK_DELAY_MAX: Duration = Duration::from_millis(LockPolicy::LOCK_DELAY_MAX_MS);
const COOLDOWN_MAX: Duration = Duration::from_millis(LockPolicy::COOLDOWN_MAX_MS);
const AGEING_MAX: Duration = Duration::from_millis(LockPolicy::AGEING_MAX_MS);
/// The limit of a lock that is no semaphore.
const NONE: &str = "none";

/// `PATCH /v1/locks/{name}`: what is none stays as it is, and something must change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyParams {
    /// Permits of a semaphore; `Some(None)` makes it a lock again.
    pub limit: Option<Option<u32>>,
    /// Who goes before whom.
    pub order: Option<QueueOrder>,
    /// How much waiting one level of priority is worth.
    pub ageing: Option<Duration>,
    /// How long the lock stays closed after an unclean loss.
    pub lock_delay: Option<Duration>,
    /// How long after a grant there is no other one.
    pub cooldown: Option<Duration>,
    /// Whether a request that would close a cycle of waiters is refused.
    pub detect_deadlocks: Option<bool>,
    /// Into how many segments the resource is cut; `Some(None)` makes it one lock again.
    pub segments: Option<Option<u32>>,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl PolicyParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList { what: "PUT acquires a lock, PATCH changes its rules; PATCH", params: &[
            Param::of(
                "limit",
                Form::Limit { max: LockPolicy::LIMIT_MAX as u64 },
                "Permits of a semaphore, or none for a lock. Fewer than are held take nothing from anybody; between lock and \
                 semaphore nobody may hold or wait",
            )
            .absent(Absent::Unchanged),
            Param::word(
                "order",
                &["fifo", "writer-first", "reader-first"],
                "Who goes before whom, for those who come from now on: whoever came first, those who want to hold alone, \
                 or those who share",
            )
            .absent(Absent::Unchanged),
            Param::duration(
                "ageing",
                (Duration::ZERO, AGEING_MAX),
                "How much waiting one level of priority is worth, for those who come from now on",
            )
            .absent(Absent::Unchanged),
            Param::duration(
                "lock_delay",
                (Duration::ZERO, LOCK_DELAY_MAX),
                "How long nobody gets the lock after a holder was lost that may not know it; it ends at once when that \
                 session takes note by closing",
            )
            .absent(Absent::Unchanged),
            Param::duration(
                "cooldown",
                (Duration::ZERO, COOLDOWN_MAX),
                "How long after a grant there is no other one: at most once per period",
            )
            .absent(Absent::Unchanged),
            Param::flag(
                "detect_deadlocks",
                "Whether a request that would close a cycle of waiters is refused",
            )
            .absent(Absent::Unchanged),
            Param::of(
                "segments",
                Form::Limit { max: LockPolicy::SEGMENTS_MAX as u64 },
                "Into how many locks the resource is cut, or none for one lock. Nobody may hold or wait for any of them",
            )
            .absent(Absent::Unchanged),
            about::REDIRECT,
        ] };

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead. A call that changes nothing is refused.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let params = Self {
            limit: match fields.value("limit") {
                Some(NONE) => Some(None),
                Some(_) | None => count(fields, "limit")?.map(Some),
            },
            segments: match fields.value("segments") {
                Some(NONE) => Some(None),
                Some(_) | None => pieces(fields)?.map(Some),
            },
            order: order(fields)?,
            ageing: time(fields, "ageing", AGEING_MAX)?,
            lock_delay: time(fields, "lock_delay", LOCK_DELAY_MAX)?,
            cooldown: time(fields, "cooldown", COOLDOWN_MAX)?,
            detect_deadlocks: fields.value("detect_deadlocks").map(|value| value == "true"),
            redirect: fields.flag(REDIRECT),
        };
        if params == (Self { redirect: params.redirect, ..Self::default() }) {
            return Err(changes_nothing());
        }
        Ok(params)
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        let or_none = |number: Option<u32>| number.map_or(NONE.to_owned(), |n| n.to_string());
        query.text("limit", self.limit.map(or_none).as_deref());
        query.text("order", self.order.map(QueueOrder::as_str));
        query.duration("ageing", self.ageing);
        query.duration("lock_delay", self.lock_delay);
        query.duration("cooldown", self.cooldown);
        let detect = self.detect_deadlocks.map(|detect| if detect { "true" } else { "false" });
        query.text("detect_deadlocks", detect);
        query.text("segments", self.segments.map(or_none).as_deref());
        query.flag(REDIRECT, self.redirect);
        query.0
    }
}

fn changes_nothing() -> Refusal {
    let detail = "PATCH changes the rules of a lock, and this call names no rule: nothing was done";
    Refusal::new(ErrorCode::InvalidArgument, detail).hint(
        "name a rule, such as ?cooldown=1h; GET shows the rules of a lock, and PUT acquires it",
    )
}

fn order(fields: &Fields<'_>) -> Result<Option<QueueOrder>, Refusal> {
    let Some(text) = fields.value("order") else { return Ok(None) };
    let order = QueueOrder::ALL.into_iter().find(|order| order.as_str() == text);
    order.map(Some).ok_or_else(|| {
        let detail = "'order' is none of 'fifo', 'writer-first' and 'reader-first'".to_owned();
        Refusal::of("order", ErrorCode::InvalidArgument, detail)
            .hint("fifo is the order of those that nobody set")
    })
}

fn time(fields: &Fields<'_>, key: &str, max: Duration) -> Result<Option<Duration>, Refusal> {
    const ADVICE: &str = "0s switches it off";
    let Some(text) = fields.value(key) else { return Ok(None) };
    parse_duration(text)
        .and_then(|d| check_bounds(text, d, "it", (Duration::ZERO, max), ADVICE))
        .map(Some)
        .map_err(|error| Refusal::bad_duration(key, &error))
}
