//! The primitives that everything is made of: integers in big endian, strings and buffers with a length, vectors
//! with a count.
//!
//! Owns their reading, which never trusts a length, and their writing. Refuses to know records.

mod read;
mod write;

pub(crate) use read::Reader;
pub(crate) use write::{Count, Record, Sink};
