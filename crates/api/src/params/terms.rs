//! What an acquire says beyond the plain thing: permits, priority, how long it holds.

use std::time::Duration;

use holdfast_types::{Acquire, LockPolicy, SegmentChoice, Segments};

use super::number;
use super::query::Query;
use crate::duration::check_bounds;
use crate::{Absent, ErrorCode, Fields, Form, Param, Refusal, parse_duration};

const PRIORITY_MAX: u64 = Acquire::PRIORITY_MAX as u64;
const LIMIT_MAX: u64 = LockPolicy::LIMIT_MAX as u64;
const SEGMENTS_MAX: u64 = LockPolicy::SEGMENTS_MAX as u64;
/// Of segments, whichever is best.
const ANY: &str = "any";
const HOLD_MIN: Duration = Duration::from_millis(1);
const HOLD_MAX: Duration = Duration::from_millis(Acquire::HOLD_MAX_MS);

pub(super) const PERMITS: Param = Param::number(
    "permits",
    (1, LIMIT_MAX),
    "How many permits of a semaphore; a renewal keeps what it has. Each gets a slot of its own",
);
pub(super) const LIMIT: Param = Param::number(
    "limit",
    (1, LIMIT_MAX),
    "Says that the lock is a semaphore of so many permits. The first call makes it one; where it is one, the numbers \
     must agree",
);
pub(super) const PRIORITY: Param = Param::number(
    "priority",
    (0, PRIORITY_MAX),
    "Who is more urgent goes before those who came a little earlier: a level is worth the lock's ageing, 10 seconds",
)
.absent(Absent::Number(0));
pub(super) const REENTRANT: Param = Param::flag(
    "reentrant",
    "Whether the owner may enter again with another entry; false refuses at once",
)
.absent(Absent::Set);
pub(super) const MAX_HOLD: Param = Param::duration(
    "max_hold",
    (HOLD_MIN, HOLD_MAX),
    "The longest the hold lasts, from its grant, however often it is renewed",
);
pub(super) const MIN_HOLD: Param = Param::duration(
    "min_hold",
    (HOLD_MIN, HOLD_MAX),
    "How long nobody else gets the lock after the grant, even if it is given back before",
);
pub(super) const VALUE: Param = Param::name(
    "value",
    Acquire::VALUE_MAX,
    "Shown beside the place to everybody who looks: an address, a job's number",
);
pub(super) const SEGMENTS: Param = Param::number(
    "segments",
    (1, SEGMENTS_MAX),
    "Says that the resource is cut into so many locks, NAME/0 and on, and takes one of them. The first call cuts it; where \
     it is cut, the numbers must agree",
);
pub(super) const SEGMENT: Param = Param::of(
    "segment",
    Form::Segment { max: SEGMENTS_MAX - 1 },
    "Which segment: its number, or the one that the caller has already, else one that can be had at once, else the \
     emptiest. Without segments: of as many as there are",
);

/// What an acquire may say beyond the plain thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermsParams {
    /// Permits of a semaphore, from 1.
    pub permits: Option<u32>,
    /// The semaphore's limit, from 1.
    pub limit: Option<u32>,
    /// From 0 to [`Acquire::PRIORITY_MAX`].
    pub priority: u8,
    /// Whether the owner may enter twice.
    pub reentrant: bool,
    /// The longest hold.
    pub max_hold: Option<Duration>,
    /// The shortest, as far as others are concerned.
    pub min_hold: Option<Duration>,
    /// Shown beside the place, at most [`Acquire::VALUE_MAX`] bytes.
    pub value: Option<String>,
    /// One segment of the lock, instead of the lock itself.
    pub segments: Option<Segments>,
}

impl Default for TermsParams {
    fn default() -> Self {
        Self {
            permits: None,
            limit: None,
            priority: 0,
            reentrant: true,
            max_hold: None,
            min_hold: None,
            value: None,
            segments: None,
        }
    }
}

impl TermsParams {
    pub(super) fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let priority = number(fields, "priority", (0, PRIORITY_MAX))?.unwrap_or_default();
        Ok(Self {
            permits: count(fields, "permits")?,
            limit: count(fields, "limit")?,
            priority: u8::try_from(priority).unwrap_or(Acquire::PRIORITY_MAX),
            reentrant: fields.value("reentrant") != Some("false"),
            max_hold: hold(fields, "max_hold")?,
            min_hold: hold(fields, "min_hold")?,
            value: value(fields)?,
            segments: segments(fields)?,
        })
    }

    pub(super) fn write(&self, query: &mut Query) {
        let counted = |count: Option<u32>| count.map(|count| count.to_string());
        query.text("permits", counted(self.permits).as_deref());
        query.text("limit", counted(self.limit).as_deref());
        let priority = (self.priority != 0).then(|| self.priority.to_string());
        query.text("priority", priority.as_deref());
        query.text("reentrant", (!self.reentrant).then_some("false"));
        query.duration("max_hold", self.max_hold);
        query.duration("min_hold", self.min_hold);
        query.text("value", self.value.as_deref());
        let segments = self.segments;
        query.text("segments", counted(segments.and_then(|cut| cut.count)).as_deref());
        query.text("segment", segments.and_then(choice).as_deref());
    }
}

/// From 1 to [`LockPolicy::LIMIT_MAX`].
pub(super) fn count(fields: &Fields<'_>, key: &str) -> Result<Option<u32>, Refusal> {
    let count = number(fields, key, (1, LIMIT_MAX))?;
    Ok(count.map(|count| u32::try_from(count).unwrap_or(LockPolicy::LIMIT_MAX)))
}

pub(super) fn hold(fields: &Fields<'_>, key: &str) -> Result<Option<Duration>, Refusal> {
    const ADVICE: &str = "leave it out for a hold that lasts as long as its session is renewed";
    let Some(text) = fields.value(key) else { return Ok(None) };
    parse_duration(text)
        .and_then(|d| check_bounds(text, d, "a hold", (HOLD_MIN, HOLD_MAX), ADVICE))
        .map(Some)
        .map_err(|error| Refusal::bad_duration(key, &error))
}

/// Into how many something is cut, from 1 to [`LockPolicy::SEGMENTS_MAX`].
pub(super) fn pieces(fields: &Fields<'_>) -> Result<Option<u32>, Refusal> {
    let count = number(fields, "segments", (1, SEGMENTS_MAX))?;
    Ok(count.map(|count| u32::try_from(count).unwrap_or(LockPolicy::SEGMENTS_MAX)))
}

/// How the query says which segment: `any` only where nothing else says that it is about segments.
fn choice(segments: Segments) -> Option<String> {
    match (segments.choice, segments.count) {
        (SegmentChoice::At(index), _) => Some(index.to_string()),
        (SegmentChoice::Any, None) => Some(ANY.to_owned()),
        (SegmentChoice::Any, Some(_)) => None,
    }
}

fn segments(fields: &Fields<'_>) -> Result<Option<Segments>, Refusal> {
    let count = pieces(fields)?;
    let choice = if fields.value("segment") == Some(ANY) {
        Some(SegmentChoice::Any)
    } else {
        let index = number(fields, "segment", (0, SEGMENTS_MAX - 1))?;
        index.map(|index| SegmentChoice::At(u32::try_from(index).unwrap_or(u32::MAX)))
    };
    if let (Some(count), Some(SegmentChoice::At(index))) = (count, choice)
        && index >= count
    {
        let detail = format!("there is no segment {index} of {count}");
        return Err(Refusal::of("segment", ErrorCode::InvalidArgument, detail)
            .hint(format!("segments are numbered from 0 to {}", count.saturating_sub(1))));
    }
    let said = count.is_some() || choice.is_some();
    Ok(said.then_some(Segments { count, choice: choice.unwrap_or_default() }))
}

pub(super) fn value(fields: &Fields<'_>) -> Result<Option<String>, Refusal> {
    let value = fields.value("value");
    if value.is_some_and(|value| value.len() > Acquire::VALUE_MAX) {
        let detail = format!("'value' is longer than {} bytes", Acquire::VALUE_MAX);
        return Err(Refusal::of("value", ErrorCode::InvalidArgument, detail)
            .hint("keep the text elsewhere, and say where"));
    }
    Ok(value.map(str::to_owned))
}
