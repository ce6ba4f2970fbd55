//! Where chance comes from: the operating system, and nowhere else in this crate.

use crate::Error;

/// 64 random bits.
///
/// # Errors
/// [`Error::Argument`] if the operating system has none: no name that nobody else has could be made.
pub(crate) fn bits() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| {
        Error::Argument(format!("no randomness for a name that nobody else has: {error}"))
    })
}

/// Chance for a jitter, where any number will do.
pub(crate) fn chance() -> u8 {
    bits().map_or(0, |bits| bits.to_le_bytes()[0])
}
