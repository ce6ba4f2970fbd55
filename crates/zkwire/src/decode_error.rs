//! What is wrong with bytes that are not a frame's body.
//!
//! Owns one error for all decoders: each names the field at which reading stopped, for the log line. The caller's choice is the
//! same for all: answer [`crate::ErrorCode::MarshallingError`] if a header could be read, else close the connection.

use thiserror::Error;

/// Bytes that cannot be read as what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The frame ends within a field.
    #[error("the frame ends within `{field}`: {have} bytes where {need} are needed")]
    Short {
        /// Where.
        field: &'static str,
        /// Bytes left.
        have: usize,
        /// Bytes the field takes.
        need: usize,
    },
    /// Null, where the field must have a value.
    #[error("`{field}` is null")]
    Null {
        /// Where.
        field: &'static str,
    },
    /// A length or a count below −1.
    #[error("`{field}` says a length of {len}")]
    Length {
        /// Where.
        field: &'static str,
        /// What it says.
        len: i32,
    },
    /// More items than the rest of the frame can hold.
    #[error("`{field}` says {count} items, and {have} bytes are left")]
    Count {
        /// Where.
        field: &'static str,
        /// What it says.
        count: usize,
        /// Bytes left.
        have: usize,
    },
    /// An operation that cannot be part of a multi, or is none.
    #[error("operation {op} cannot be part of `{field}`")]
    Operation {
        /// Which list.
        field: &'static str,
        /// The operation's number.
        op: i32,
    },
    /// An error that this crate does not know.
    #[error("no error has the number {code}")]
    ErrorCode {
        /// The number.
        code: i32,
    },
    /// A reply under a number that it cannot have.
    #[error("a reply to request {xid} where an event was expected")]
    NotAnEvent {
        /// The number.
        xid: i32,
    },
}
