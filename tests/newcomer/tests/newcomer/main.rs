//! The pages with commands, followed as a new user does: every command of a page, in its order, without another page.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "test code throughout")]

mod desk;
mod guides;
mod kubernetes;
mod load_balancer;
mod mechanisms;
mod page;
#[path = "../../../../crates/fence/tests/scratch/mod.rs"]
mod scratch;
mod shell;
#[path = "../../../../crates/fence/tests/skip/mod.rs"]
mod skip;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use desk::Desk;
use holdfast_lab::eventually;
use page::{NOT_RUN, Section, section, sections};
use scratch::{Postgres, bin_dir};
use shell::Shell;
use skip::postgres_or_skip;

const README: &str = "README.md";
const README_START: &str = "Start";
const README_DEMO: &str = "Try it in two shells";
const README_SQL: &str = "Three lines of PostgreSQL";
const QUICK: &str = "docs/quick-start.md";
const START: &str = "1. Start a cluster";
const LOCK: &str = "2. Take a lock, and be refused";
const QUEUE: &str = "3. Wait in the queue";
const RUN: &str = "4. Run a command under a lock";
const FENCE: &str = "6. Fence a write";
const LOSE: &str = "7. Lose a node";
const CLEAN: &str = "8. Clean up";

/// Two shells, in which the start of the page has put `holdfast` on the path.
fn two_shells(desk: &Desk, mut start: Section) -> [Shell; 2] {
    let export = start.next("export PATH=");
    start.finish();
    [desk.shell(&export, &[]), desk.shell(&export, &[])]
}

/// The number after `"token":` in the body of a response.
fn token(body: &str) -> u64 {
    let number = body.split(r#""token":"#).nth(1).unwrap();
    number.split(|next: char| !next.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Shell A takes the lock and keeps it; shell B gets 423 with the holder. Returns the token.
fn hold_and_be_refused([a, b]: &mut [Shell; 2], page: &mut Section) -> u64 {
    a.begin(page.next("holdfast lock orders"));
    let held = a.next_line().parse().unwrap();
    let refused = b.run(page.next("curl --fail-with-body -X PUT"));
    assert_eq!(refused.code, 22, "{refused:?}");
    assert!(refused.stdout.contains(r#""status":423"#), "{refused:?}");
    assert!(refused.stdout.contains(r#""holder":{"session":"#), "{refused:?}");
    assert_eq!(token(&refused.stdout), held, "the holder's token");
    held
}

/// Shell B waits, shell A ends with Ctrl-C, and shell B gets the lock with a larger token.
fn wait_and_get_it(desk: &Desk, [a, b]: &mut [Shell; 2], page: &mut Section, held: u64) {
    b.begin(page.next("curl --fail-with-body -X PUT"));
    eventually("the second shell waits", || {
        desk.holdfast(&["who", "orders", "-o", "json"]).stdout.contains(r#""waiters":1"#)
    });
    a.interrupt();
    assert_eq!(a.end().code, 0);
    let granted = b.end();
    assert!(granted.code == 0 && token(&granted.stdout) > held, "{granted:?}");
    let ttl = r#""expires_in_ms":"#;
    let expires = granted.stdout.split(ttl).nth(1).unwrap().split(',').next().unwrap();
    assert!((1..=30_000).contains(&expires.parse::<u64>().unwrap()), "{granted:?}");
}

#[test]
fn the_readme_shows_exclusion_in_two_shells_and_a_cron_job() {
    let desk = Desk::new();
    let mut shells = two_shells(&desk, section(README, README_START));
    let mut demo = desk.localized(section(README, README_DEMO));
    let held = hold_and_be_refused(&mut shells, &mut demo);
    wait_and_get_it(&desk, &mut shells, &mut demo, held);

    let script = desk.directory().join("backup.sh");
    std::fs::write(&script, "#!/bin/sh\necho \"backup with token $HOLDFAST_TOKEN\"\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let cron = demo.next("holdfast run nightly --try");
    let [a, b] = &mut shells;
    let ran = a.run(cron.clone());
    assert!(ran.code == 0 && ran.stdout.starts_with("backup with token "), "{ran:?}");
    let refused = b.run(cron);
    assert!(refused.code == 75 && refused.stdout.is_empty(), "{refused:?}");
    demo.finish();
}

#[test]
fn the_quick_start_leads_to_a_held_lock_a_refused_shell_and_a_hand_over() {
    let desk = Desk::new();
    let mut shells = two_shells(&desk, section(QUICK, START));
    let mut lock = desk.localized(section(QUICK, LOCK));
    let held = hold_and_be_refused(&mut shells, &mut lock);
    assert_eq!(shells[1].run(lock.next("holdfast who orders")).code, 0);
    lock.finish();
    let mut queue = desk.localized(section(QUICK, QUEUE));
    wait_and_get_it(&desk, &mut shells, &mut queue, held);
    queue.finish();
    let mut run = desk.localized(section(QUICK, RUN));
    assert_eq!(shells[0].run(run.next("holdfast run nightly --try")).code, 0);
    let history = shells[0].run(run.next("holdfast history nightly"));
    assert!(history.code == 0 && history.stdout.contains("released"), "{history:?}");
    run.finish();
}

#[test]
fn the_quick_start_leads_from_a_dead_node_to_the_verdict_of_doctor_and_back() {
    let mut desk = Desk::new();
    let [mut a, mut b] = two_shells(&desk, section(QUICK, START));
    let mut lose = desk.localized(section(QUICK, LOSE));
    b.begin(section(QUICK, LOCK).next("holdfast lock orders"));
    assert_eq!(b.next_line(), "1");
    desk.kill(3);
    let (status, doctor) = (lose.next("holdfast status"), lose.next("holdfast doctor"));
    lose.finish();
    // The leader may be the node that was killed.
    eventually("two nodes with a leader", || {
        let status = desk.holdfast(&["status"]);
        status.code == Some(0) && status.stdout.contains("unreachable")
    });
    assert_eq!(a.run(status).code, 0);
    assert_eq!(a.run(doctor.clone()).code, 1, "one check fails");
    let who = desk.holdfast(&["who", "orders"]).stdout;
    assert!(who.starts_with("orders is held by ") && who.contains("token 1\n"), "{who}");
    b.interrupt();
    assert_eq!(b.end().code, 0);

    desk.restart(3);
    let addresses = doctor.command.split_whitespace().last().unwrap();
    eventually("three healthy nodes", || {
        desk.holdfast(&["doctor", "--look-only", "--addr", addresses]).code == Some(0)
    });
}

/// The path of this process, with `psql` of the server before it.
fn path_with_psql() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = bin_dir().into_iter().chain(std::env::split_paths(&path)).collect();
    std::env::join_paths(all).unwrap()
}

#[tokio::test]
async fn the_quick_start_leads_from_nothing_to_a_guarded_table() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let desk = Desk::new();
    let export = section(QUICK, START).next("export PATH=");
    let path = path_with_psql();
    let variables = [("DATABASE_URL", postgres.url()), ("PATH", path.into_string().unwrap())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut a = desk.shell(&export, &variables);
    // A former holder: the steps before this section.
    assert_eq!(desk.holdfast(&["run", "orders", "--", "true"]).code, Some(0));
    let (mut fence, mut clean) = (section(QUICK, FENCE), section(QUICK, CLEAN));
    for step in fence.steps.drain(..).chain(clean.steps.drain(..)) {
        let ran = a.run(step.clone());
        assert_eq!(ran.code, 0, "{step:?}: {ran:?}");
    }
}

/// Runs statements as one psql session. Returns the rows.
fn psql(postgres: &Postgres, settings: &[&str], sql: &str) -> String {
    let mut command = Command::new("psql");
    command.env("PATH", path_with_psql());
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
    for setting in [&["ON_ERROR_STOP=1"], settings].concat() {
        command.args(["--set", setting]);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), sql).unwrap();
    command.args(["--dbname", &postgres.url()]).arg("--file").arg(file.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn three_lines_of_sql_make_a_table_that_rejects_an_older_holder() {
    let Some(postgres) = postgres_or_skip().await else { return };
    psql(&postgres, &[], "CREATE TABLE goods AS SELECT 1 AS id, 100 AS stock");
    let [lines] = section(README, README_SQL).sql.try_into().unwrap();
    assert_eq!(psql(&postgres, &["token=34", "stock=99"], &lines), "100\n99\n");
    let late = lines.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(psql(&postgres, &["token=33", "stock=98"], &late), "", "an older holder");
}

#[test]
fn a_test_runs_each_section_and_each_other_command_has_a_reason() {
    let titles = |path| sections(path).into_iter().map(|section| section.title).collect::<Vec<_>>();
    assert_eq!(titles(README), [README_START, README_DEMO, README_SQL]);
    assert_eq!(titles(QUICK), [START, LOCK, QUEUE, RUN, FENCE, LOSE, CLEAN]);
    let pages = page::text(README) + &page::text(QUICK);
    for (command, reason) in NOT_RUN {
        assert!(pages.contains(&format!("\n{command}")), "no page has {command:?} ({reason})");
    }
}
