//! Guards that make a store reject the writes of former lock holders.
//!
//! A guard compares the fencing token of a holder with the mark of the resource, which is the newest token seen. It
//! raises the mark before the holder reads. The guards exist as text ([`recipes`]) and, each behind a feature, as
//! transactions: `postgres::begin`, `mysql::begin`, `sqlite::begin`, `redis::begin`, `files::begin`, and
//! `http::FenceLayer` for HTTP services. No guard calls the cluster. The only state of this crate is the set of calls
//! in flight of the HTTP layer. `docs/fencing.md` explains the rules; `docs/fencing/` has a page for each store.

mod claim;
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
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use claim::{Claim, FenceError};
pub use holdfast_types::FencingToken;
pub use recipes::{
    CONDITIONAL_UPDATE_SQL, IdentifierError, guard_table_for_sql, guard_table_sql, schema_sql,
    try_table_sql,
};

/// The Rust examples of the pages.
#[cfg(all(
    doctest,
    feature = "postgres",
    feature = "mysql",
    feature = "sqlite",
    feature = "redis",
    feature = "http"
))]
mod guide {
    #[doc = include_str!("../../../docs/fencing/files.md")]
    mod files {}
    #[doc = include_str!("../../../docs/fencing/http.md")]
    mod http {}
    #[doc = include_str!("../../../docs/fencing/mysql.md")]
    mod mysql {}
    #[doc = include_str!("../../../docs/fencing/postgresql.md")]
    mod postgresql {}
    #[doc = include_str!("../../../docs/fencing/redis.md")]
    mod redis {}
    #[doc = include_str!("../../../docs/fencing/sqlite.md")]
    mod sqlite {}
}
