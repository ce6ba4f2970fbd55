//! Skips a test on a machine without PostgreSQL, or fails it if a variable requires the server.

use crate::scratch::{MISSING, Postgres, bin_dir};

/// If this variable is set, a missing PostgreSQL fails the tests instead of skipping them.
const REQUIRE: &str = "HOLDFAST_REQUIRE_POSTGRES";

/// Starts a server, or prints to stderr that the test is skipped and which package to install.
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
