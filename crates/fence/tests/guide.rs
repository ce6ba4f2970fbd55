//! Runs every SQL block of `docs/fencing/postgresql.md` in psql, from top to bottom. No other page about fencing has SQL
//! blocks.
//!
//! A block must succeed, unless its last line is `-- ERROR <SQLSTATE>: <message>`. Then it must fail with exactly that
//! error.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "test code throughout")]

mod scratch;
mod skip;

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use scratch::{Postgres, bin_dir};
use skip::postgres_or_skip;

const GUIDE: &str = include_str!("../../../docs/fencing/postgresql.md");
const ENTRY: &str = include_str!("../../../docs/fencing.md");
/// The reader's table, which exists before the first block.
const TABLE: &str = "CREATE TABLE orders (id bigint PRIMARY KEY, pieces bigint NOT NULL);
    INSERT INTO orders VALUES (7, 100);";
const EXPECTED_ERROR: &str = "-- ERROR ";

fn sql_blocks(page: &str) -> Vec<&str> {
    let openings = page.split("\n```sql\n").skip(1);
    openings.map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// Runs a block as one psql session in the repository's root. Returns stdout, or the first error with its SQLSTATE.
fn paste(postgres: &Postgres, sql: &str) -> Result<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let psql = bin_dir().unwrap().join("psql");
    let psql = if psql.is_file() { psql } else { "psql".into() };
    let mut child = Command::new(psql)
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
        .args(["--set", "ON_ERROR_STOP=1", "--set", "VERBOSITY=verbose"])
        .args(["--dbname", &postgres.url()])
        .current_dir(root)
        .env("PGCLIENTENCODING", "UTF8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    if output.status.success() {
        return Ok(stdout);
    }
    let error = stderr.lines().find_map(|line| line.split_once("ERROR:  ")).map(|(_, rest)| rest);
    Err(error.map_or(stderr.clone(), str::to_owned))
}

/// The difference between the outcome of a block and its documented outcome, if there is one.
fn mismatch(sql: &str, outcome: &Result<String, String>) -> Option<String> {
    let expected_error = sql.lines().last().and_then(|line| line.strip_prefix(EXPECTED_ERROR));
    match (expected_error, outcome) {
        (None, Ok(_)) => None,
        (Some(expected_error), Err(error)) if expected_error == error => None,
        (None, Err(error)) => Some(format!("failed: {error}")),
        (Some(expected_error), Ok(_)) => Some(format!("succeeded, expected {expected_error}")),
        (Some(expected_error), Err(error)) => {
            Some(format!("expected {expected_error}\nfailed: {error}"))
        }
    }
}

#[tokio::test]
async fn every_sql_block_of_the_guide_has_its_documented_outcome() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let blocks = sql_blocks(GUIDE);
    assert!(blocks.len() > 10, "found only {} blocks", blocks.len());
    // The page installs the guard with `holdfast fence init`, which prints this migration step.
    let schema = holdfast_fence::schema_sql();
    paste(&postgres, &format!("{TABLE}\nBEGIN;\n{schema}\nCOMMIT;")).unwrap();
    let (mut mismatches, mut printed) = (String::new(), String::new());
    for sql in &blocks {
        let outcome = paste(&postgres, sql);
        if let Some(mismatch) = mismatch(sql, &outcome) {
            writeln!(mismatches, "{sql}\n=> {mismatch}\n").unwrap();
        }
        printed.push_str(&outcome.unwrap_or_default());
    }
    assert!(mismatches.is_empty(), "{mismatches}");
    assert!(printed.contains("orders|34|web2|"), "the marks were not printed: {printed}");
    let client = postgres.connect("reader").await.unwrap();
    let last =
        "SELECT pieces, orders.fence, token, holder FROM orders, fence WHERE resource = 'orders'";
    let row = client.query_one(last, &[]).await.unwrap();
    let [pieces, row_mark, mark] = [0, 1, 2].map(|column| row.get::<_, i64>(column));
    assert_eq!(pieces, 97, "100, one sale by each of three accepted transactions");
    assert_eq!((row_mark, mark, row.get(3)), (34, 35, "web3"), "the late writes raised no mark");
}

/// A block on another page would not be run.
#[test]
fn only_the_page_about_postgresql_has_sql_blocks() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fencing");
    for page in std::fs::read_dir(pages).unwrap() {
        let path = page.unwrap().path();
        if !path.ends_with("postgresql.md") {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(sql_blocks(&text).is_empty(), "{}", path.display());
        }
    }
    assert!(sql_blocks(ENTRY).is_empty());
}

/// The statements of `conditional_update.sql`, without changes.
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
    let printed = paste(&postgres, &format!("{pattern}\n{calls}")).unwrap();
    assert_eq!(printed, "100\n100\n1\n1\nleft|98|71\n");
}

#[test]
fn a_block_with_another_outcome_is_a_mismatch() {
    let (fine, failed) = (Ok(String::new()), Err("FN001: stale".to_owned()));
    assert_eq!(mismatch("SELECT 1;", &fine), None);
    assert_eq!(mismatch("SELECT 1;\n-- ERROR FN001: stale", &failed), None);
    for (sql, outcome) in [
        ("SELECT 1;", &failed),
        ("SELECT 1;\n-- ERROR FN001: stale", &fine),
        ("SELECT 1;\n-- ERROR FN002: stale", &failed),
    ] {
        assert!(mismatch(sql, outcome).is_some(), "{sql}");
    }
    let page = "a\n```sql\nSELECT 1;\n```\nb\n```text\nc\n```\n```sql\nSELECT 2;\n```\n";
    assert_eq!(sql_blocks(page), ["SELECT 1;", "SELECT 2;"]);
}
