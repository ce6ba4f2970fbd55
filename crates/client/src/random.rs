//! Random numbers, from the operating system.

use crate::Error;

/// 64 random bits.
///
/// # Errors
/// [`Error::InvalidArgument`] if the operating system has none: no unique name can be generated.
pub(crate) fn bits() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| {
        Error::InvalidArgument(format!("no randomness for a unique name: {error}"))
    })
}

/// A number from 0 to 255; 0 if the operating system has no randomness.
pub(crate) fn jitter() -> u8 {
    bits().map_or(0, |bits| bits.to_le_bytes()[0])
}
