//! The statements of `conditional_update.sql` in psql.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "test code throughout")]

mod scratch;
mod skip;

use std::io::Write;
use std::process::{Command, Stdio};

use scratch::{Postgres, bin_dir};
use skip::postgres_or_skip;

/// Runs statements as one psql session. Returns stdout.
fn paste(postgres: &Postgres, sql: &str) -> String {
    let psql = bin_dir().unwrap().join("psql");
    let psql = if psql.is_file() { psql } else { "psql".into() };
    let mut child = Command::new(psql)
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
        .args(["--set", "ON_ERROR_STOP=1", "--dbname", &postgres.url()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{sql}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_conditional_update_rejects_a_stale_token() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let pattern = holdfast_fence::CONDITIONAL_UPDATE_SQL;
    let calls = "INSERT INTO account VALUES (1, 100);
        EXECUTE account_claim (1, 70);
        EXECUTE account_claim (1, 71);
        EXECUTE account_write (1, 70, 999);
        EXECUTE account_claim (1, 70);
        EXECUTE account_write (1, 71, 99);
        EXECUTE account_write (1, 71, 98);
        SELECT 'left', balance, fence FROM account;";
    let printed = paste(&postgres, &format!("{pattern}\n{calls}"));
    assert_eq!(printed, "100\n100\n1\n1\nleft|98|71\n");
}
