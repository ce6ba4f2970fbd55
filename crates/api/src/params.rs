//! What each call asks for, with its bounds checked; read by the server, written by clients.
//!
//! One struct a call: `parse` reads [`Fields`] into the nouns of `holdfast-types`, `to_query` writes them back, and
//! a property test holds the two together.

mod fence;
mod lock;
mod query;
mod read;
mod session;
#[cfg(test)]
mod tests;

use std::time::Duration;

use holdfast_types::{Labels, NameError, Ttl};

use crate::duration::check_bounds;
use crate::{Fields, Refusal, parse_duration};

pub use fence::{FenceModeParam, FenceParams};
pub use lock::{AcquireParams, ReleaseParams};
pub use read::{ListParams, ReadParams, ReadyParams};
pub use session::{KeepAliveParams, OpenParams};

/// The longest that one call waits.
pub const WAIT_MAX: Duration = Duration::from_mins(5);
/// Items of one page, unless the caller says otherwise.
pub const LIST_LIMIT_DEFAULT: usize = 100;
/// The most items of one page.
pub const LIST_LIMIT_MAX: usize = 1_000;

/// Asks for a 307 to the leader instead of the work being done here.
const REDIRECT: &str = "redirect";

fn name<'f, T>(
    fields: &'f Fields<'_>,
    key: &str,
    new: impl FnOnce(&'f str) -> Result<T, NameError>,
) -> Result<Option<T>, Refusal> {
    fields.value(key).map(new).transpose().map_err(|error| Refusal::bad_name(key, &error))
}

fn labels(fields: Fields<'_>) -> Result<Labels, Refusal> {
    Labels::new(fields.into_labels()).map_err(|error| Refusal::bad_name("label", &error))
}

fn ttl(fields: &Fields<'_>) -> Result<Option<Ttl>, Refusal> {
    const ADVICE: &str =
        "a longer lock is kept by renewing it: send the call again before the ttl ends";
    let Some(text) = fields.value("ttl") else { return Ok(None) };
    let bounds = (Ttl::MIN.as_duration(), Ttl::MAX.as_duration());
    let checked = parse_duration(text).and_then(|d| check_bounds(text, d, "a ttl", bounds, ADVICE));
    let ms = checked.map_err(|error| Refusal::bad_duration("ttl", &error))?.as_millis();
    let ttl = u64::try_from(ms).ok().and_then(|ms| Ttl::from_millis(ms).ok());
    Ok(Some(ttl.unwrap_or(Ttl::MAX)))
}
