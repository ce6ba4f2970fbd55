//! The test client for ZooKeeper's protocol, over the frames of `zkwire`.
//!
//! [`ZkConnection`] is one connection, frame by frame. [`ZkClient`] is a session on it whose calls return results and panic
//! on anything unexpected. Golden bytes and unmodified ZooKeeper clients test the frames themselves.

#![expect(clippy::wildcard_enum_match_arm, reason = "an unexpected reply is shown as it is")]

mod client;
mod connection;
mod requests;

pub use client::{ZkClient, ZkReply, four_letter_word};
pub use connection::{SILENCE, ZkConnection, ZkIncoming};
pub use holdfast_zkwire::{WatchEventType, WatchedEvent};
pub use requests::{
    children, create, create_by, create_with, delete, exists, get, new_session, set,
};
