//! The report from recorded rows, those of trouble included.

use super::*;
use crate::machine::Machine;
use crate::record::{About, Failover, Fairness, Load, Locks, Measured, Run, Safety, Size, Speed};

fn run(size: Size) -> Row {
    Row::Run(Run {
        command: "compare all --quick".to_owned(),
        began: "2026-01-02 03:04 UTC".to_owned(),
        commit: "abc".to_owned(),
        size,
        settings: vec![("window".to_owned(), "2 s".to_owned())],
        machine: Machine { cpu: "A <fast> one".to_owned(), cores: 2, ..Machine::default() },
    })
}

fn about(system: &str) -> Row {
    Row::About(About {
        system: system.to_owned(),
        servers: "redis".to_owned(),
        nodes: 1,
        version: "7".to_owned(),
        durability: "memory alone".to_owned(),
        limitations: vec!["it forgets".to_owned()],
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
        locks: Locks::Spread,
        load: Load::Closed,
        clients: 16,
        repetition,
        measured: Some(measured),
        trouble: None,
    }
}

fn rates(system: &str, rates: [f64; 3]) -> Vec<Row> {
    (1..).zip(rates).map(|(repetition, rate)| Row::Speed(speed(system, repetition, rate))).collect()
}

fn fairness(system: &str, order: [u32; 3], inversions: u64) -> Row {
    Row::Fairness(Fairness {
        system: system.to_owned(),
        contenders: 3,
        apart_ms: 50,
        orders: vec![order.to_vec()],
        inversions: vec![inversions],
        longest_wait_ms: vec![12.0],
        drained_ms: vec![9.0],
        errors: std::collections::BTreeMap::new(),
        trouble: None,
    })
}

fn line<'a>(page: &'a str, beginning: &str) -> &'a str {
    let found = page.lines().find(|line| line.starts_with(beginning));
    found.unwrap_or_else(|| panic!("no line begins with {beginning:?} in:\n{page}"))
}

#[test]
fn a_case_is_its_median_with_both_ends_and_the_ratio_to_ours() {
    let mut rows = rates("redlock", [300.0, 500.0, 400.0]);
    rows.extend(rates("holdfast-http", [1000.0, 900.0, 1100.0]));
    let pages = Pages::of(&rows);
    let ours = line(&pages.markdown, "| holdfast-http | 1,000");
    assert_eq!(ours, "| holdfast-http | 1,000 (900–1,100) |");
    assert_eq!(line(&pages.markdown, "| redlock | 400"), "| redlock | 400 (300–500) ×0.4 |");
    assert!(pages.markdown.find(ours) < pages.markdown.find("| redlock | 400"), "ours is first");
}

#[test]
fn where_another_is_better_the_page_says_so_and_why() {
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
    let markdown = Pages::of(&rows).markdown;
    let (_, beaten) = markdown.split_once("## Where others are better").unwrap();
    let (beaten, _) = beaten.split_once("\n## ").unwrap();
    let redis = line(beaten, "| redis-set-nx-px |");
    assert!(
        redis.contains("9.5×, 16 clients") && redis.contains("lost with the machine"),
        "{redis}"
    );
    assert!(line(beaten, "| zookeeper-curator |").contains("after a loss: 2×"), "{beaten}");
    assert!(line(beaten, "| redisson-fair |").contains("order of grants"), "{beaten}");
    assert!(line(beaten, "| postgres-advisory |").contains("it has no time-out"), "{beaten}");
    for none in ["etcd-lock", "redlock", "no-lock", "+fence"] {
        assert!(!beaten.contains(none), "{none}: {beaten}");
    }
}

fn failover(system: &str) -> Failover {
    Failover { system: system.to_owned(), trials: 1, how: "kill".to_owned(), ..Failover::default() }
}

fn sale(system: &str) -> Safety {
    let fault = "holder paused".to_owned();
    Safety { system: system.to_owned(), fault, workers: 4, sold: 100, ..Safety::default() }
}

#[test]
fn trouble_is_told_and_what_was_measured_before_it_is_not_counted() {
    let mut rows = rates("holdfast-http", [1000.0, 900.0, 1100.0]);
    let mut fallen = speed("redlock", 1, 7777.0);
    fallen.trouble = Some("redis-server has ended in mid-run:\nlast `words`".to_owned());
    rows.push(Row::Speed(fallen.clone()));
    rows.push(Row::Speed(Speed { repetition: 2, ..fallen }));
    let missing = Some("etcd is not installed".to_owned());
    rows.push(Row::Failover(Failover { trouble: missing.clone(), ..failover("etcd-lock") }));
    rows.push(Row::Safety(Safety { trouble: missing, ..sale("etcd-lock") }));
    let none = "has no clock".to_owned();
    rows.push(Row::Safety(Safety { does_not_apply: Some(none), ..sale("redlock") }));
    let pages = Pages::of(&rows);
    let markdown = &pages.markdown;
    assert!(!markdown.contains("7,777"), "{markdown}");
    assert_eq!(line(markdown, "| redlock | –"), "| redlock | – |");
    let told = "- speed, redlock: redis-server has ended in mid-run: last 'words'";
    assert_eq!(markdown.matches(told).count(), 1, "once, in one line: {markdown}");
    assert!(markdown.contains("- failover, etcd-lock: etcd is not installed"));
    assert!(line(markdown, "| etcd-lock | holder paused |").contains("not measured, see below"));
    assert!(line(markdown, "| redlock | holder paused |").contains("does not apply: has no clock"));
    assert!(line(markdown, "| etcd-lock | 0 of 1 |").contains("| – | – | – |"));
}

#[test]
fn a_run_that_cannot_say_much_says_so() {
    let warned = |size| Pages::of(&[run(size)]).markdown;
    assert!(warned(Size::Tiny).contains("**A trial of the tool"));
    assert!(warned(Size::Quick).contains("**A quick run"));
    assert!(!warned(Size::Full).contains("**A "));
    let both = Pages::of(&[run(Size::Full), run(Size::Tiny)]).markdown;
    assert!(both.contains("**A trial of the tool"), "the weakest of them counts");
}

#[test]
fn files_in_memory_are_no_disk_and_the_page_says_so() {
    for (file_system, warned) in [("tmpfs", true), ("ext4", false)] {
        let Row::Run(mut row) = run(Size::Full) else { panic!("a run") };
        file_system.clone_into(&mut row.machine.file_system);
        let page = Pages::of(&[Row::Run(row)]).markdown;
        assert_eq!(page.contains("reached no disk"), warned, "{file_system}");
    }
}

#[test]
fn machine_command_versions_and_caveats_are_on_both_pages() {
    let rows = [run(Size::Full), about("redlock"), about("holdfast-http")];
    let pages = Pages::of(&rows);
    for words in
        ["compare all --quick", "2026-01-02 03:04 UTC", "memory alone", "it forgets", "2 s"]
    {
        assert!(pages.markdown.contains(words) && pages.html.contains(words), "{words}");
    }
    assert!(pages.html.contains("A &lt;fast&gt; one") && !pages.html.contains("<fast>"));
}

#[test]
fn the_page_with_plots_stands_alone_and_shows_every_part() {
    let mut rows = rates("holdfast-http", [1000.0, 900.0, 1100.0]);
    let mut open = speed("holdfast-http", 1, 250.0);
    open.load = Load::Open(250);
    rows.push(Row::Speed(open));
    rows.push(fairness("holdfast-http", [0, 1, 2], 0));
    rows.push(Row::Failover(Failover { gaps_ms: vec![800.0, 900.0], ..failover("holdfast-http") }));
    let html = Pages::of(&rows).html;
    // Rates, times, the open loop, the order of grants, failover.
    assert_eq!(html.matches("<svg").count(), 5, "{html}");
    for bad in ["NaN", "inf\"", "src=", "href=", "<script", "url("] {
        assert!(!html.contains(bad), "{bad}");
    }
}

#[test]
fn the_open_loop_shows_what_was_not_served() {
    let mut open = speed("redlock", 1, 250.0);
    open.load = Load::Open(1000);
    if let Some(measured) = &mut open.measured {
        (measured.scheduled, measured.unserved) = (200, 50);
    }
    let markdown = Pages::of(&[Row::Speed(open)]).markdown;
    assert!(line(&markdown, "| redlock | 4 / 8 / 12").contains("25% not served"), "{markdown}");
}

#[test]
fn no_rows_are_a_page_and_pages_are_written_where_they_are_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let pages = Pages::of(&[]);
    let written = pages.write(&directory.path().join("docs")).unwrap();
    let read = written.map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(read, [pages.markdown, pages.html]);
}
