//! The report of recorded rows, including failures.

use super::*;
use crate::machine::MachineInfo;
use crate::record::{
    Failover, Fairness, LibrarySpeed, LoadLoop, LockLayout, Measured, RunInfo, RunSize, Safety,
    Speed, SystemInfo, WarmUp,
};

fn run(size: RunSize) -> Row {
    Row::Run(RunInfo {
        command: "measure all --quick".to_owned(),
        began: "2026-01-02 03:04 UTC".to_owned(),
        commit: "abc".to_owned(),
        size,
        settings: vec![("window".to_owned(), "2 s".to_owned())],
        machine: MachineInfo { cpu: "A <fast> one".to_owned(), cores: 2, ..MachineInfo::default() },
    })
}

fn system(system: &str) -> Row {
    Row::System(SystemInfo {
        system: system.to_owned(),
        servers: "redis".to_owned(),
        nodes: 1,
        version: "7".to_owned(),
        durability: "memory alone".to_owned(),
    })
}

fn speed(system: &str, repetition: u32, per_second: f64) -> Speed {
    let measured = Measured {
        seconds: 1.0,
        cycles: 100,
        per_second,
        p50_ms: 1000.0 / per_second,
        p99_ms: 2000.0 / per_second,
        p999_ms: 3000.0 / per_second,
        max_ms: 4000.0 / per_second,
        round_trips: Some(1.0),
        ..Measured::default()
    };
    Speed {
        system: system.to_owned(),
        locks: LockLayout::Spread,
        load: LoadLoop::Closed,
        clients: 16,
        repetition,
        measured: Some(measured),
        failure: None,
    }
}

fn rates(system: &str, rates: [f64; 3]) -> Vec<Row> {
    (1..).zip(rates).map(|(repetition, rate)| Row::Speed(speed(system, repetition, rate))).collect()
}

fn fairness(system: &str, order: [u32; 3], inversions: u64) -> Row {
    Row::Fairness(Fairness {
        system: system.to_owned(),
        waiters: 3,
        interval_ms: 50,
        orders: vec![order.to_vec()],
        inversions: vec![inversions],
        longest_wait_ms: vec![12.0],
        drained_ms: vec![9.0],
        errors: std::collections::BTreeMap::new(),
        failure: None,
    })
}

fn line<'a>(page: &'a str, beginning: &str) -> &'a str {
    let found = page.lines().find(|line| line.starts_with(beginning));
    found.unwrap_or_else(|| panic!("no line begins with {beginning:?} in:\n{page}"))
}

#[test]
fn a_case_is_its_median_with_both_ends_and_the_ratio_to_holdfast() {
    let mut rows = rates("redlock", [300.0, 500.0, 400.0]);
    rows.extend(rates("holdfast-http", [1000.0, 900.0, 1100.0]));
    let pages = Report::of(&rows);
    let baseline = line(&pages.markdown, "| holdfast-http | 1,000");
    assert_eq!(baseline, "| holdfast-http | 1,000 (900–1,100) |");
    assert_eq!(line(&pages.markdown, "| redlock | 400"), "| redlock | 400 (300–500) ×0.4 |");
    assert!(
        pages.markdown.find(baseline) < pages.markdown.find("| redlock | 400"),
        "baseline is first"
    );
}

#[test]
fn the_report_says_how_long_new_servers_were_warmed_up() {
    let mut rows = rates("zookeeper-curator", [400.0, 500.0, 600.0]);
    for (repetition, seconds, is_flat) in [(1, 60.0, true), (2, 90.0, true), (3, 180.0, false)] {
        rows.push(Row::WarmUp(WarmUp {
            servers: "zookeeper".to_owned(),
            system: "zookeeper-curator".to_owned(),
            repetition,
            clients: 256,
            seconds,
            rates: vec![1000.0, 2000.0, 4000.0],
            is_flat,
        }));
    }
    let markdown = Report::of(&rows).markdown;
    assert_eq!(
        line(&markdown, "| zookeeper |"),
        "| zookeeper | zookeeper-curator | 256 | 90 (60–180) | 1,000 (1,000–1,000) | 4,000 (4,000–4,000) | 2 of 3 |"
    );
}

#[test]
fn a_client_library_has_the_ratio_to_the_one_of_holdfast() {
    let mut rows = Vec::new();
    for (tasks, per_second, other_per_second) in
        [(64, 1000.0, 400.0), (64, 1100.0, 500.0), (64, 1200.0, 600.0), (256, 2000.0, 500.0)]
    {
        let (language, other) = ("java".to_owned(), "curator".to_owned());
        let row = LibrarySpeed { language, other, tasks, per_second, other_per_second };
        rows.push(Row::ClientLibrary(row));
    }
    let markdown = Report::of(&rows).markdown;
    assert!(markdown.contains("| language | client | 64 tasks | 256 tasks |"), "{markdown}");
    assert_eq!(
        line(&markdown, "| java | holdfast |"),
        "| java | holdfast | 1,100 (1,000–1,200) | 2,000 |"
    );
    assert_eq!(
        line(&markdown, "| java | Curator on ZooKeeper |"),
        "| java | Curator on ZooKeeper | 500 (400–600) ×0.45 | 500 ×0.25 |"
    );
}

#[test]
fn the_report_says_where_another_system_is_better_and_why() {
    let mut rows = rates("holdfast-http", [1000.0, 900.0, 1100.0]);
    rows.extend(rates("redis-set-nx-px", [9000.0, 9500.0, 9900.0]));
    rows.extend(rates("zookeeper-curator", [500.0, 400.0, 600.0]));
    // Better in the median, and contradicted by one repetition.
    rows.extend(rates("etcd-lock", [1090.0, 1500.0, 1600.0]));
    rows.push(Row::Failover(Failover { gaps_ms: vec![800.0], ..failover("holdfast-http") }));
    rows.push(Row::Failover(Failover { gaps_ms: vec![400.0], ..failover("zookeeper-curator") }));
    rows.push(fairness("holdfast-http", [1, 0, 2], 1));
    rows.push(fairness("redisson-fair", [0, 1, 2], 0));
    for (system, oversold) in [
        ("holdfast-http", 2),
        ("holdfast-http+fence", 0),
        ("no-lock", 0),
        ("postgres-advisory", 0),
        ("redlock", 5),
    ] {
        rows.push(Row::Safety(Safety { oversold, ..sale(system) }));
    }
    let markdown = Report::of(&rows).markdown;
    let (_, better) = markdown.split_once("## Where others are better").unwrap();
    let (better, _) = better.split_once("\n## ").unwrap();
    let redis = line(better, "| redis-set-nx-px |");
    assert!(
        redis.contains("| 9.5 times as many cycles a second (16 clients), because")
            && redis.contains("lost with the machine")
            && redis.contains("| time of a cycle |"),
        "{redis}"
    );
    let curator = line(better, "| zookeeper-curator |");
    assert!(curator.contains("| 2 times faster to the next grant after a loss"), "{better}");
    assert!(line(better, "| redisson-fair |").contains("order of grants"), "{better}");
    assert!(line(better, "| postgres-advisory |").contains("it has no time-out"), "{better}");
    for none in ["etcd-lock", "redlock", "no-lock", "+fence"] {
        assert!(!better.contains(none), "{none}: {better}");
    }
}

fn failover(system: &str) -> Failover {
    Failover {
        system: system.to_owned(),
        trials: 1,
        method: "kill".to_owned(),
        ..Failover::default()
    }
}

fn sale(system: &str) -> Safety {
    let fault = "holder-paused".to_owned();
    Safety { system: system.to_owned(), fault, workers: 4, sold: 100, ..Safety::default() }
}

#[test]
fn a_failure_is_reported_and_its_measurement_is_not_counted() {
    let mut rows = rates("holdfast-http", [1000.0, 900.0, 1100.0]);
    let mut failed = speed("redlock", 1, 7777.0);
    failed.failure = Some("redis-server ended during the run:\nlast `words`".to_owned());
    rows.push(Row::Speed(failed.clone()));
    rows.push(Row::Speed(Speed { repetition: 2, ..failed }));
    let missing = Some("etcd is not installed".to_owned());
    rows.push(Row::Failover(Failover { failure: missing.clone(), ..failover("etcd-lock") }));
    rows.push(Row::Safety(Safety { failure: missing, ..sale("etcd-lock") }));
    let none = "has no clock".to_owned();
    rows.push(Row::Safety(Safety { does_not_apply: Some(none), ..sale("redlock") }));
    let pages = Report::of(&rows);
    let markdown = &pages.markdown;
    assert!(!markdown.contains("7,777"), "{markdown}");
    assert_eq!(line(markdown, "| redlock | –"), "| redlock | – |");
    let failure_line = "- speed, redlock: redis-server ended during the run: last 'words'";
    assert_eq!(markdown.matches(failure_line).count(), 1, "once, in one line: {markdown}");
    assert!(markdown.contains("- failover, etcd-lock: etcd is not installed"));
    assert!(markdown.contains("| etcd-lock | failed |\n"), "{markdown}");
    assert!(markdown.contains("| redlock | not run |\n"), "{markdown}");
    assert!(markdown.contains("| holder-paused | has no clock | redlock |"), "{markdown}");
    for detail in ["failed, see below", "does not apply: has no clock"] {
        assert!(pages.html.contains(detail) && !markdown.contains(detail), "{detail}");
    }
    assert!(line(markdown, "| etcd-lock | 0 of 1 |").contains("| – | – | – |"));
}

#[test]
fn a_tiny_or_quick_run_has_a_warning() {
    let warned = |size| Report::of(&[run(size)]).markdown;
    assert!(warned(RunSize::Tiny).contains("**A trial of the tool"));
    assert!(warned(RunSize::Quick).contains("**A quick run"));
    assert!(!warned(RunSize::Full).contains("**A "));
    let both = Report::of(&[run(RunSize::Full), run(RunSize::Tiny)]).markdown;
    assert!(both.contains("**A trial of the tool"), "the weakest of them counts");
}

#[test]
fn two_holders_without_a_fault_make_the_figures_void() {
    let warned = |overlaps, locks| {
        let mut row = speed("redis-set-nx-px", 1, 9000.0);
        row.locks = locks;
        if let Some(measured) = &mut row.measured {
            measured.overlaps = overlaps;
        }
        Report::of(&[Row::Speed(row)]).markdown.contains("**Void are the figures")
    };
    assert!(warned(1, LockLayout::Hot));
    assert!(!warned(0, LockLayout::Hot) && !warned(0, LockLayout::Spread));
}

#[test]
fn a_file_system_in_memory_has_a_warning() {
    for (file_system, warned) in [("tmpfs", true), ("ext4", false)] {
        let Row::Run(mut row) = run(RunSize::Full) else { panic!("a run") };
        file_system.clone_into(&mut row.machine.file_system);
        let page = Report::of(&[Row::Run(row)]).markdown;
        assert_eq!(page.contains("reached no disk"), warned, "{file_system}");
    }
}

#[test]
fn machine_command_versions_and_caveats_are_on_both_pages() {
    let rows = [run(RunSize::Full), system("redlock"), system("holdfast-http")];
    let pages = Report::of(&rows);
    for words in
        ["measure all --quick", "2026-01-02 03:04 UTC", "memory alone", "waiters poll", "2 s"]
    {
        assert!(pages.markdown.contains(words) && pages.html.contains(words), "{words}");
    }
    assert!(pages.html.contains("A &lt;fast&gt; one") && !pages.html.contains("<fast>"));
}

#[test]
fn a_version_is_stated_once_with_its_systems() {
    let rows = [system("redlock"), system("holdfast-http")];
    let markdown = Report::of(&rows).markdown;
    assert!(markdown.contains("| 7 | 1 | memory alone | holdfast-http, redlock |"), "{markdown}");
}

#[test]
fn the_page_begins_with_the_result_and_the_setup_comes_later() {
    let mut rows = rates("holdfast-http", [1000.0, 900.0, 1100.0]);
    rows.extend([run(RunSize::Full), system("holdfast-http")]);
    rows.push(Row::Safety(sale("holdfast-http+fence")));
    rows.push(Row::Failover(Failover { gaps_ms: vec![800.0], ..failover("holdfast-http") }));
    let markdown = Report::of(&rows).markdown;
    let parts = [
        "**Failover:**",
        "| the holder is paused | **ok** |",
        "Consul was not measured",
        "Measured 2026-01-02 03:04 UTC at commit abc",
        "## Where others are better",
        "## Features",
        "## Speed",
        "## Machine",
        "## Versions",
    ];
    let places = parts.map(|part| markdown.find(part).unwrap_or_else(|| panic!("no {part}")));
    assert!(places.is_sorted(), "{markdown}");
}

#[test]
fn the_page_with_plots_stands_alone_and_shows_every_part() {
    let mut rows = rates("holdfast-http", [1000.0, 900.0, 1100.0]);
    let mut open = speed("holdfast-http", 1, 250.0);
    open.load = LoadLoop::Open(250);
    rows.push(Row::Speed(open));
    rows.push(fairness("holdfast-http", [0, 1, 2], 0));
    rows.push(Row::Failover(Failover { gaps_ms: vec![800.0, 900.0], ..failover("holdfast-http") }));
    let html = Report::of(&rows).html;
    // Rates, times, the open loop, the order of grants, failover.
    assert_eq!(html.matches("</figcaption><svg").count(), 5, "{html}");
    for bad in ["NaN", "inf\"", "src=", "href=", "<script", "url("] {
        assert!(!html.contains(bad), "{bad}");
    }
}

#[test]
fn the_open_loop_shows_what_was_not_served() {
    let mut open = speed("redlock", 1, 250.0);
    open.load = LoadLoop::Open(1000);
    if let Some(measured) = &mut open.measured {
        (measured.scheduled, measured.unserved) = (200, 50);
    }
    let markdown = Report::of(&[Row::Speed(open)]).markdown;
    assert!(line(&markdown, "| redlock | 4 / 8 / 12").contains("25% not served"), "{markdown}");
}

#[test]
fn no_rows_are_a_page_and_pages_are_written_where_they_are_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let pages = Report::of(&[]);
    let written = pages.write(&directory.path().join("docs")).unwrap();
    let read = written.map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(read, [pages.markdown, pages.html]);
}
