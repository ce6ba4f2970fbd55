//! The error of all decoders. It names the field at which decoding stopped.
//!
//! The caller replies with [`crate::ErrorCode::MarshallingError`] if the header was decoded, else it closes the connection.

use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The frame ends within a field.
    #[error("the frame ends within `{field}`: {have} bytes where {need} are needed")]
    Short { field: &'static str, have: usize, need: usize },
    /// Null in a field that must have a value.
    #[error("`{field}` is null")]
    Null { field: &'static str },
    /// A length or a count below −1.
    #[error("`{field}` says a length of {len}")]
    Length { field: &'static str, len: i32 },
    /// More items than the rest of the frame can hold.
    #[error("`{field}` says {count} items, and {have} bytes are left")]
    Count { field: &'static str, count: usize, have: usize },
    /// An operation that is unknown or cannot be part of a multi.
    #[error("operation {op} cannot be part of `{field}`")]
    Operation { field: &'static str, op: i32 },
    /// An unknown error.
    #[error("no error has the number {code}")]
    ErrorCode { code: i32 },
    /// A reply with an invalid request number.
    #[error("a reply to request {xid} where an event was expected")]
    NotAnEvent { xid: i32 },
}
