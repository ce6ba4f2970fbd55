//! README.md and docs/quick-start.md, followed as a new user does: every command of the pages, in their order.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "test code throughout")]

mod desk;
mod page;
#[path = "../../../../crates/fence/tests/scratch/mod.rs"]
mod scratch;
#[path = "../../../../crates/fence/tests/skip/mod.rs"]
mod skip;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use desk::Desk;
use holdfast_lab::eventually;
use page::Page;
use scratch::{Postgres, bin_dir};
use skip::postgres_or_skip;

/// Shell A holds the lock, shell B is refused, waits, and gets the lock with a larger token.
fn two_shells(desk: &Desk, page: &mut Page, look: Option<&str>) {
    let mut first = desk.start(&page.next("holdfast lock orders"));
    let token: u64 = first.next_stdout_line().parse().unwrap();
    let refused = desk.run(&page.next("curl --fail-with-body -X PUT"));
    assert_eq!(refused.code, Some(22), "{refused:?}");
    assert!(refused.stdout.contains(r#""status":423"#), "{refused:?}");
    assert!(
        refused.stdout.contains(&format!(r#""token":{token}"#)),
        "it names the holder: {refused:?}"
    );
    if let Some(look) = look {
        let shown = desk.run(&page.next(look));
        assert!(shown.stdout.starts_with("orders is held by "), "{shown:?}");
    }
    let mut second = desk.start(&page.next("curl --fail-with-body -X PUT"));
    eventually("the second shell waits", || {
        desk.run("holdfast who orders -o json").stdout.contains(r#""waiters":1"#)
    });
    first.interrupt();
    assert_eq!(first.wait().code, Some(0));
    let granted = second.wait();
    let larger = granted.stdout.split(r#""token":"#).nth(1).unwrap();
    let larger: u64 = larger.split(',').next().unwrap().parse().unwrap();
    assert!(granted.code == Some(0) && larger > token, "{granted:?}");
}

#[test]
fn the_readme_shows_exclusion_in_two_shells_and_a_cron_job() {
    let (desk, mut page) = (Desk::new(), Page::open("README.md"));
    two_shells(&desk, &mut page, None);
    let [start, cron] = page.blocks("sh").try_into().unwrap();
    assert!(start.lines().any(|line| line.starts_with("./scripts/dev")), "{start}");
    let script = desk.directory().join("backup.sh");
    std::fs::write(&script, "#!/bin/sh\necho \"backup with token $HOLDFAST_TOKEN\"\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ran = desk.run(&cron);
    assert!(ran.code == Some(0) && ran.stdout.starts_with("backup with token "), "{ran:?}");
    page.finish();
}

#[test]
fn the_quick_start_leads_to_a_lock_a_refusal_and_the_verdict_about_a_dead_node() {
    let (desk, mut page) = (Desk::new(), Page::open("docs/quick-start.md"));
    two_shells(&desk, &mut page, Some("holdfast who orders"));
    let ran = desk.run(&page.next("holdfast run nightly --try"));
    assert!(ran.code == Some(0) && ran.stdout.starts_with("token "), "{ran:?}");
    let history = desk.run(&page.next("holdfast history nightly"));
    assert!(history.stdout.contains("released"), "{history:?}");
    desk.kill_node(2);
    // The leader may be the node that was killed.
    let status = page.next("holdfast status");
    eventually("two nodes with a leader", || desk.run(&status).code == Some(0));
    let doctor = desk.run(&page.next("holdfast doctor"));
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    let dead = desk.address(2);
    let verdict =
        doctor.stdout.lines().find(|line| line.starts_with("fail") && line.contains(&dead));
    assert!(verdict.is_some(), "{}", doctor.stdout);
    page.finish();
}

/// Runs statements as one psql session. Returns the rows.
fn psql(postgres: &Postgres, settings: &[&str], sql: &str) -> String {
    let psql = bin_dir().unwrap().join("psql");
    let psql = if psql.is_file() { psql } else { "psql".into() };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), sql).unwrap();
    let mut command = Command::new(psql);
    command.args([
        "--no-psqlrc",
        "--quiet",
        "--tuples-only",
        "--no-align",
        "--set",
        "ON_ERROR_STOP=1",
    ]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    command.args(["--dbname", &postgres.url()]).arg("--file").arg(file.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn three_lines_of_sql_make_a_table_that_rejects_an_older_holder() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let [quick] = Page::open("docs/quick-start.md").blocks("sql").try_into().unwrap();
    assert_eq!(psql(&postgres, &[], &quick), "100\n99\n", "the last update changes no row");

    psql(&postgres, &[], "DROP TABLE goods");
    let table = quick.lines().take(2).collect::<Vec<_>>().join("\n");
    psql(&postgres, &[], &table);
    let [readme] = Page::open("README.md").blocks("sql").try_into().unwrap();
    assert_eq!(psql(&postgres, &["token=34", "stock=99"], &readme), "100\n99\n");
    let late = readme.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(psql(&postgres, &["token=33", "stock=98"], &late), "", "an older holder");
}
