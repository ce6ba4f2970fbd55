//! Guards for the place where a lock holder's write lands.
//!
//! Owns the check that a holder's fencing token is not older than the newest one the protected resource has
//! seen: as text to paste ([`recipes`]), and behind a feature each as a transaction that raises the mark before
//! anything is read: `postgres::begin`, `mysql::begin`, `sqlite::begin`, `redis::begin`, `files::begin`, and for HTTP
//! services `http::FenceLayer`. Refuses to know locks, sessions and the cluster: a token is a number, and the resource
//! decides alone.
//!
//! There are no queues and no state here but the layer's calls in flight; the only memory is the resource's own.
//! `docs/fencing.md` explains the rules and the recipes for other stores.

mod claim;
mod error;
#[cfg(feature = "files")]
pub mod files;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod recipes;
#[cfg(feature = "redis")]
pub mod redis;
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use claim::Claim;
pub use error::FenceError;
pub use holdfast_types::FencingToken;
pub use sql::{
    CONDITIONAL_UPDATE_SQL, IdentifierError, guard_table_for_sql, guard_table_sql, schema_sql,
    try_table_sql,
};

/// The guide's Rust examples, compiled with the documentation tests.
#[cfg(all(doctest, feature = "postgres"))]
#[doc = include_str!("../../../docs/fencing.md")]
mod guide {}
