//! Jute, the encoding of ZooKeeper: big-endian integers, strings and buffers with a length, vectors with a count.

mod read;
mod write;

pub(crate) use read::Reader;
pub(crate) use write::{Count, Record, Sink};
