//! The commands: each file has the arguments, the help, the handlers and the output of one command, or of a few of one noun.
//!
//! They send HTTP requests through the client crate. Replies go to stdout, everything else to stderr.

mod acquire;
pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod barrier;
mod calls;
pub(crate) mod certs;
pub(crate) mod cluster;
pub(crate) mod elect;
pub(crate) mod fence;
pub(crate) mod group;
pub(crate) mod holders;
pub(crate) mod lock;
mod lock_details;
pub(crate) mod lock_text;
pub(crate) mod ls;
pub(crate) mod member;
pub(crate) mod namespace;
mod outer_locks;
pub(crate) mod policy;
pub(crate) mod recent;
pub(crate) mod recipes;
mod release_requests;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod tree;
pub(crate) mod unlock;
pub(crate) mod watch;
