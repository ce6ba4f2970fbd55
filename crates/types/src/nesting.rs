//! Values in values of the same type: a command in a command, a reply in a reply, a rejection in a rejection.

use std::cell::Cell;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// The most values in one another. The commands, replies and rejections that a thread decodes share the count. A written
/// command or outcome has at most two in an outer one.
const NESTED_MAX: u32 = 4;

thread_local! {
    /// The values that this thread is decoding the contents of.
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// Decodes a value in a value of the same type, at most [`NESTED_MAX`] deep: bytes of a damaged or hostile peer must not
/// exhaust the stack.
pub(crate) fn nested<'de, D, T>(deserializer: D) -> Result<Box<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let outer = NESTED.get();
    if outer >= NESTED_MAX {
        return Err(D::Error::custom("too many nested values"));
    }
    NESTED.set(outer + 1);
    let value = T::deserialize(deserializer);
    NESTED.set(outer);
    value.map(Box::new)
}
