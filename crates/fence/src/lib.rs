//! Guards for the place where a lock holder's write lands.
//!
//! Owns the check that a holder's fencing token is not older than the newest one the protected resource has
//! seen: for `PostgreSQL` as plain SQL (`sql/`, [`schema_sql`], [`guard_table_sql`]) and, with the feature
//! `postgres`, as a transaction that raises the mark before anything is read (`postgres::begin`). Refuses to
//! know locks, sessions and the cluster: a token is a number, and the resource decides alone.
//!
//! There are no queues and no state here; the only memory is the resource's own. `docs/fencing.md` explains the
//! rules and the recipes for other stores.

mod error;
#[cfg(feature = "postgres")]
pub mod postgres;
mod sql;

pub use error::FenceError;
pub use holdfast_types::FencingToken;
pub use sql::{
    CONDITIONAL_UPDATE_SQL, IdentifierError, guard_table_for_sql, guard_table_sql, schema_sql,
};

/// The guide's Rust examples, compiled with the documentation tests.
#[cfg(all(doctest, feature = "postgres"))]
#[doc = include_str!("../../../docs/fencing.md")]
mod guide {}
