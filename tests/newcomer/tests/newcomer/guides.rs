//! Every other page with commands, each run alone: in a new shell, a new directory and a new cluster.
//!
//! One shell runs all commands of a page from top to bottom, and each must print exactly what the page shows. `HOLDFAST_ADDR`
//! is a list of addresses, as on the page about cron jobs; no other variable exists unless the page sets it. A block whose first line
//! is `# NAME` with a dot in the name is a file of that name. An `sql` block is one session of psql; if it must fail, its last
//! line is `-- ERROR <SQLSTATE>: <message>`.

use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

use crate::desk::Desk;
use crate::page::{self, Block, Step};
use crate::scratch::bin_dir;
use crate::shell::Shell;
use crate::skip::postgres_or_skip;
use crate::{QUICK, README};

const EXPECTED_ERROR: &str = "-- ERROR ";
const POSTGRESQL: &str = "docs/fencing/postgresql.md";
/// Pages whose commands another test runs: they need a server with certificates or stores.
const OTHER_TESTS: [&str; 3] = [QUICK, "docs/security.md", "docs/fencing"];

macro_rules! pages {
    ($($name:ident $path:literal,)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(#[test] fn $name() { follow($path); })*
    };
}

pages! {
    the_page_of_the_command_line_runs_alone "docs/cli.md",
    the_page_of_operations_runs_alone "docs/operations.md",
    the_page_of_every_kind_of_lock_runs_alone "docs/semantics.md",
    the_page_of_cron_jobs_runs_alone "docs/how-to/cron-job.md",
    the_page_of_leader_election_runs_alone "docs/how-to/leader-election.md",
    the_page_of_limits_runs_alone "docs/how-to/limit-concurrency.md",
    the_page_of_long_work_runs_alone "docs/how-to/hold-a-lock.md",
    the_page_of_terraform_runs_alone "docs/how-to/terraform.md",
    the_page_for_users_of_zookeeper_runs_alone "docs/how-to/from-zookeeper.md",
    the_page_for_users_of_redis_runs_alone "docs/how-to/from-redis.md",
    the_page_for_users_of_consul_runs_alone "docs/how-to/from-consul.md",
}

/// A shell in a new directory, beside a new cluster.
fn new_shell(desk: &Desk, variables: &[(&str, &str)]) -> Shell {
    let command = "export PATH=$PWD/target/release:$PATH".to_owned();
    desk.shell(&Step { shell: None, command, shown: String::new() }, variables)
}

/// Runs the commands of a page without a database.
fn follow(path: &str) {
    let desk = Desk::with_one_node();
    let mut shell = new_shell(&desk, &[]);
    for block in desk.localized_blocks(path) {
        run(&desk, &mut shell, &block);
    }
}

#[track_caller]
fn run(desk: &Desk, shell: &mut Shell, block: &Block) {
    if let Some(name) = block.file_name() {
        std::fs::write(desk.directory().join(name), &block.text).unwrap();
    }
    for step in block.console() {
        let shown = step.shown.clone();
        let ran = shell.run(step);
        assert!(!shown.is_empty() || ran.stdout.is_empty(), "the page shows no output: {ran:?}");
    }
}

/// Runs a block as one session of psql.
fn psql(url: &str, sql: &str) -> Result<(), String> {
    let program = bin_dir().map(|bin| bin.join("psql")).filter(|psql| psql.is_file());
    let mut child = Command::new(program.unwrap_or_else(|| "psql".into()))
        .args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--set", "VERBOSITY=verbose"])
        .args(["--dbname", url])
        .env("PGCLIENTENCODING", "UTF8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), sql.as_bytes()).unwrap();
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    let error = text.lines().find_map(|line| line.split_once("ERROR:  ")).map(|(_, rest)| rest);
    if status.success() { Ok(()) } else { Err(error.map_or(text.clone(), str::to_owned)) }
}

/// The difference between the outcome of an `sql` block and its documented outcome, if there is one.
fn mismatch(sql: &str, outcome: &Result<(), String>) -> Option<String> {
    let expected = sql.lines().last().and_then(|line| line.strip_prefix(EXPECTED_ERROR));
    match (expected, outcome) {
        (None, Ok(())) => None,
        (Some(expected), Err(error)) if expected == error => None,
        (_, Err(error)) => Some(format!("failed: {error}, expected {expected:?}")),
        (_, Ok(())) => Some(format!("succeeded, expected {expected:?}")),
    }
}

#[tokio::test]
async fn the_page_of_postgresql_runs_alone_in_a_new_database() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let (desk, url) = (Desk::with_one_node(), postgres.url());
    if let Some(psql) = bin_dir().map(|bin| bin.join("psql")).filter(|psql| psql.is_file()) {
        symlink(psql, desk.directory().join("target/release/psql")).unwrap();
    }
    let mut shell = new_shell(&desk, &[("DATABASE_URL", &url)]);
    for block in desk.localized_blocks(POSTGRESQL) {
        if block.language == "sql" {
            let mismatch = mismatch(&block.text, &psql(&url, &block.text));
            assert_eq!(mismatch, None, "{}", block.text);
        }
        run(&desk, &mut shell, &block);
    }
    let client = postgres.connect("reader").await.unwrap();
    let last = "SELECT pieces::bigint, orders.fence, token, holder FROM orders, fence WHERE resource = 'orders'";
    let row = client.query_one(last, &[]).await.unwrap();
    let [pieces, row_mark, mark] = [0, 1, 2].map(|column| row.get::<_, i64>(column));
    assert_eq!(pieces, 97, "100, one sale by each of three accepted transactions");
    assert_eq!((row_mark, mark, row.get(3)), (34, 35, "web3"), "the late writes raised no mark");
}

#[test]
fn a_test_runs_each_page_that_has_commands() {
    let is_run = |path: &str| {
        let other_test = OTHER_TESTS.iter().any(|prefix| path.starts_with(prefix));
        PAGES.contains(&path) || path == README || path == POSTGRESQL || other_test
    };
    for path in page::paths() {
        let blocks = page::blocks(&path);
        let commands = blocks.iter().any(|block| block.language == "console");
        assert!(is_run(&path) || !commands, "no test runs the commands of {path}");
        let sql = blocks.iter().any(|block| block.language == "sql");
        let sample =
            path == README || path.ends_with("concepts.md") || path.ends_with("from-redis.md");
        assert!(path == POSTGRESQL || sample || !sql, "no test runs the SQL of {path}");
    }
}

#[test]
fn a_block_with_another_outcome_is_a_mismatch() {
    let (fine, failed) = (Ok(()), Err("FN001: stale".to_owned()));
    assert_eq!(mismatch("SELECT 1;", &fine), None);
    assert_eq!(mismatch("SELECT 1;\n-- ERROR FN001: stale", &failed), None);
    for (sql, outcome) in [
        ("SELECT 1;", &failed),
        ("SELECT 1;\n-- ERROR FN001: stale", &fine),
        ("SELECT 1;\n-- ERROR FN002: stale", &failed),
    ] {
        assert!(mismatch(sql, outcome).is_some(), "{sql}");
    }
}
