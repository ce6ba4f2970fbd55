//! What a test does on a machine without `PostgreSQL`: it says so, and passes; or fails where one is demanded.

use crate::scratch::{MISSING, Postgres, bin_dir};

/// Set (to anything) where a missing `PostgreSQL` shall fail the tests instead of skipping them.
const REQUIRE: &str = "HOLDFAST_REQUIRE_POSTGRES";

/// Starts a server, or says on stderr that the caller is skipped, and what to install.
pub(crate) async fn postgres_or_skip() -> Option<Postgres> {
    let Some(bin) = bin_dir() else {
        assert!(std::env::var_os(REQUIRE).is_none(), "{MISSING}");
        eprintln!("SKIPPED: {MISSING}");
        return None;
    };
    match Postgres::start(&bin).await {
        Ok(postgres) => Some(postgres),
        Err(why) => panic!("PostgreSQL of {} did not start: {why}", bin.display()),
    }
}
