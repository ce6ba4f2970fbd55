//! `measure writers` on real servers: rows, the printed section, and the page.

use std::process::Command;

use holdfast_measure::Records;
use holdfast_measure::record::{Row, Writers};
use holdfast_measure::servers::ServerKind;

use crate::skip::is_here;

const PAGE: &str = "# T\n\n## Speed\n\nkept\n\n## How to repeat it\n\nkept, too\n";

#[test]
fn optimistic_writers_fail_and_repeat_and_writers_in_a_queue_do_not() {
    let kinds = [ServerKind::Redis, ServerKind::Postgres];
    if !kinds.into_iter().all(is_here) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let docs = place.path().join("docs");
    std::fs::create_dir(&docs).unwrap();
    std::fs::write(docs.join("comparison.md"), PAGE).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_measure"));
    command.args(["writers", "--clients", "1,16", "--seconds", "1"]);
    command.args(["--systems", "postgres-for-update,postgres-optimistic,redis-watch,redis-list"]);
    command.arg("--out").arg(place.path().join("rows")).arg("--docs").arg(&docs);
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));

    let rows = Records::read(&place.path().join("rows")).unwrap();
    let rows: Vec<&Writers> = rows
        .iter()
        .filter_map(|row| match row {
            Row::Writers(row) => Some(row),
            Row::Run(_)
            | Row::System(_)
            | Row::WarmUp(_)
            | Row::ClientLibrary(_)
            | Row::Speed(_)
            | Row::Fairness(_)
            | Row::Safety(_)
            | Row::Failover(_)
            | Row::Nodes(_) => None,
        })
        .collect();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let is_alone = row.writers == 1;
        let is_queue = ["postgres-for-update", "redis-list"].contains(&row.system.as_str());
        assert!(row.failure.is_none() && row.changes > 0, "{row:?}");
        assert_eq!(row.in_vain == 0, is_alone || is_queue, "{row:?}");
    }
    let section = String::from_utf8(ended.stdout).unwrap();
    assert!(section.contains("## Writers of one value"), "{section}");
    let page = std::fs::read_to_string(docs.join("comparison.md")).unwrap();
    for kept in ["kept\n\n## Writers of one value\n", "\n\n## How to repeat it\n\nkept, too\n"] {
        assert!(page.contains(kept), "{page}");
    }
    let picture = std::fs::read_to_string(docs.join("images/writers.svg")).unwrap();
    assert_eq!(picture.matches("<circle").count(), 8, "two points of each system");
}

#[test]
fn a_cluster_of_each_size_is_measured() {
    if !is_here(ServerKind::Holdfast) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_measure"));
    command.args(["nodes", "--tiny", "--out"]).arg(place.path());
    let ended = command.output().unwrap();
    let section = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    for row in ["| 1 | 1 | ", "| 1 | 3 | ", "| 1 | 5 | "] {
        let line = section.lines().find(|line| line.starts_with(row));
        assert!(line.is_some_and(|line| !line.contains('–')), "{row}: {section}");
    }
}
