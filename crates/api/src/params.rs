//! What each call asks for, with its bounds checked; read by the server, written by clients.
//!
//! One struct a call: `parse` reads [`Fields`] into the nouns of `holdfast-types`, `to_query` writes them back, and
//! a property test holds the two together.

pub(crate) use crate::parameters as about;
mod custody;
mod election;
mod fence;
mod lock;
mod policy;
mod query;
mod read;
mod several;
mod terms;
#[cfg(test)]
mod tests;

use std::time::Duration;

use holdfast_types::{Attempt, Labels, NameError, ReleaseTarget, SessionName, Ttl};

use crate::duration::check_bounds;
use crate::{ErrorCode, Fields, Refusal, parse_duration};

pub use query::Query;

pub use custody::{AskParams, BreakParams};
pub use election::{CampaignParams, ResignParams};
pub use fence::{FenceModeParam, FenceParams};
pub use lock::{AcquireParams, ReleaseParams};
pub use policy::PolicyParams;
pub use read::{HistoryParams, ListParams, Moment, ReadParams, Sort};
pub use several::{AcquireAllParams, ReleaseAllParams};
pub use terms::TermsParams;

/// The longest that one call waits.
pub const WAIT_MAX: Duration = Duration::from_mins(5);
/// Items of one page, unless the caller says otherwise.
pub const LIST_LIMIT_DEFAULT: usize = 100;
/// Sessions renewed by one call at most.
pub const KEPT_ALIVE_MAX: usize = 1_000;
/// The most items of one page.
pub const LIST_LIMIT_MAX: usize = 1_000;

/// Asks for a 307 to the leader instead of the work being done here.
pub(crate) const REDIRECT: &str = "redirect";

pub(crate) fn name<'f, T>(
    fields: &'f Fields<'_>,
    key: &str,
    new: impl FnOnce(&'f str) -> Result<T, NameError>,
) -> Result<Option<T>, Refusal> {
    fields.value(key).map(new).transpose().map_err(|error| Refusal::bad_name(key, &error))
}

pub(crate) fn labels(fields: &Fields<'_>) -> Result<Labels, Refusal> {
    Labels::new(fields.labels().clone()).map_err(|error| Refusal::bad_name("label", &error))
}

pub(crate) fn ttl(fields: &Fields<'_>) -> Result<Option<Ttl>, Refusal> {
    const ADVICE: &str =
        "a longer lock is kept by renewing it: send the call again before the ttl ends";
    let Some(text) = fields.value("ttl") else { return Ok(None) };
    let bounds = (Ttl::MIN.as_duration(), Ttl::MAX.as_duration());
    let checked = parse_duration(text).and_then(|d| check_bounds(text, d, "a ttl", bounds, ADVICE));
    let ms = checked.map_err(|error| Refusal::bad_duration("ttl", &error))?.as_millis();
    let ttl = u64::try_from(ms).ok().and_then(|ms| Ttl::from_millis(ms).ok());
    Ok(Some(ttl.unwrap_or(Ttl::MAX)))
}

/// How long to wait, if the caller says so; up to [`WAIT_MAX`].
pub(crate) fn wait(fields: &Fields<'_>) -> Result<Option<Duration>, Refusal> {
    const ADVICE: &str = "to wait longer, send the call again when the wait has passed";
    let Some(text) = fields.value("wait") else { return Ok(None) };
    let bounds = (Duration::ZERO, WAIT_MAX);
    parse_duration(text)
        .and_then(|d| check_bounds(text, d, "one wait", bounds, ADVICE))
        .map(Some)
        .map_err(|error| Refusal::bad_duration("wait", &error))
}

fn limit(fields: &Fields<'_>) -> Result<usize, Refusal> {
    let Some(text) = fields.value("limit") else { return Ok(LIST_LIMIT_DEFAULT) };
    let parsed = text.parse().ok().filter(|limit| (1..=LIST_LIMIT_MAX).contains(limit));
    parsed.ok_or_else(|| {
        let detail = format!("'limit' is not a number from 1 to {LIST_LIMIT_MAX}");
        Refusal::of("limit", ErrorCode::InvalidArgument, detail)
            .hint("ask for the rest with page_token")
    })
}

/// A whole number within bounds, if it is given.
fn number(fields: &Fields<'_>, key: &str, (min, max): (u64, u64)) -> Result<Option<u64>, Refusal> {
    let Some(text) = fields.value(key) else { return Ok(None) };
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let within = |number: &u64| digits && (min..=max).contains(number);
    text.parse().ok().filter(within).map(Some).ok_or_else(|| {
        let detail = format!("'{key}' is not a number from {min} to {max}");
        Refusal::of(key, ErrorCode::InvalidArgument, detail)
            .hint("write it in digits, or leave it out")
    })
}

/// The number of an attempt, which the session counts.
fn attempt(fields: &Fields<'_>) -> Result<Option<Attempt>, Refusal> {
    Ok(number(fields, "attempt", (1, Attempt::MAX.0))?.map(Attempt))
}

/// The number of an attempt to take a lock. A server-made session has no earlier attempts, so a copy would be a new one.
fn attempt_of_session(
    fields: &Fields<'_>,
    session: Option<&SessionName>,
) -> Result<Option<Attempt>, Refusal> {
    let attempt = attempt(fields)?;
    if attempt.is_some() && session.is_none() {
        let detail = "'attempt' needs 'session'";
        return Err(Refusal::of("attempt", ErrorCode::InvalidArgument, detail)
            .hint("add &session=ID: the session remembers which of its attempts are over"));
    }
    Ok(attempt)
}

/// What a release gives up: the attempt or the hold that it names.
fn target(fields: &Fields<'_>) -> Result<ReleaseTarget, Refusal> {
    let attempt = attempt(fields)?.map(ReleaseTarget::Attempt);
    let hold = custody::token(fields)?.map(ReleaseTarget::Hold);
    if attempt.is_some() && hold.is_some() {
        let detail = "'attempt' and 'token' exclude each other";
        return Err(Refusal::of("token", ErrorCode::InvalidArgument, detail)
            .hint("name the token to give up a hold, or the attempt while there is no token yet"));
    }
    Ok(attempt.or(hold).unwrap_or_default())
}
