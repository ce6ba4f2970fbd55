//! A disk that fails one `fdatasync` and loses the unsynced bytes, a restart without a reboot, and a power cut.
//!
//! After the failure the bytes exist only in the page cache, and the next process reads them like durable bytes. The
//! content that this process sees must survive the power cut. The disk is `disk.c`, a library that the test preloads
//! into the worker. The worker is this program in a second process.

#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use holdfast_storage::{Log, LogOptions};
use support::{Driver as _, content, records};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/failed_sync/disk.c");
const WORK: &str = "FAILED_SYNC_WORK";
const DIR: &str = "FAILED_SYNC_DIR";
const IMAGE: &str = "FAILED_SYNC_IMAGE";
const FILE: &str = "FAILED_SYNC_FILE";
const AT: &str = "FAILED_SYNC_AT";

/// Length of a record, bytes.
const RECORD_BYTES: u64 = 32 << 10;
/// Records of one append.
const APPENDED: u64 = 16;
/// The number of records that a purge keeps: more than one segment.
const KEPT: u64 = 300;
/// Appends that fill seven segments.
const APPENDS: u64 = 120;

fn say(line: &str) {
    // The first line break ends any output of the test harness.
    let line = format!("\n@{line}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("the test listens");
}

/// The worker process. Returns at once unless a test has started it. It never closes the log, and so ends like a
/// killed process.
#[test]
fn worker() {
    let Ok(appends) = std::env::var(WORK) else { return };
    let appends: u64 = appends.parse().expect("a number");
    let dir = std::env::var_os(DIR).expect("set by the test");
    let log = match Log::open(Path::new(&dir), LogOptions::default()) {
        Ok(log) => log,
        Err(error) => {
            say(&format!("refused {error}"));
            std::process::abort();
        }
    };
    let shown = log.bounds().1.unwrap_or(0);
    say(&format!("last {shown}"));
    for number in 0..appends {
        let first = shown + number * APPENDED + 1;
        let some = (first..first + APPENDED).map(|index| content(index, RECORD_BYTES));
        if log.do_append(some.collect()).is_err() {
            say("failed");
            break;
        }
        say(&format!("last {}", first + APPENDED - 1));
        if first > KEPT && log.do_purge(first - KEPT, "purged").is_err() {
            say("failed");
            break;
        }
    }
    std::process::abort();
}

/// A log on a disk that can lose unsynced bytes.
struct Disk {
    home: tempfile::TempDir,
}

/// The report of a worker: the last record that it read or that was acknowledged, and whether its log failed.
struct FailedSyncReport {
    last: u64,
    failed: bool,
}

impl Disk {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        for dir in ["log", "image"] {
            fs::create_dir(home.path().join(dir)).expect("a directory");
        }
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-pthread", "-o"]);
        let compiled = compile.arg(home.path().join("disk.so")).arg(SOURCE).status();
        assert!(compiled.expect("a C compiler").success(), "{SOURCE} does not compile");
        Self { home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Runs a process that opens the log and appends to it. Sync number `at` of the file `file` fails.
    fn run(&self, appends: u64, (file, at): (&str, u64)) -> FailedSyncReport {
        let mut worker = Command::new(std::env::current_exe().expect("this program"));
        worker.args(["--exact", "worker", "--nocapture"]).stdin(Stdio::null());
        worker.env("LD_PRELOAD", self.path("disk.so")).env(WORK, appends.to_string());
        worker.env(DIR, self.path("log")).env(IMAGE, self.path("image"));
        let output = worker.env(FILE, file).env(AT, at.to_string()).output().expect("a worker");
        let text = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix('@')).collect();
        let refused = lines.iter().find(|line| line.starts_with("refused"));
        assert_eq!(refused, None, "the log opens: {}", String::from_utf8_lossy(&output.stderr));
        let last = lines.iter().rev().find_map(|line| line.strip_prefix("last ")?.parse().ok());
        FailedSyncReport {
            last: last.expect("the worker opened the log"),
            failed: lines.contains(&"failed"),
        }
    }

    /// Cuts the power: returns a directory with the durable content.
    fn cut(&self) -> PathBuf {
        let after = self.path("after");
        self.restore(&self.path("log"), &after);
        after
    }

    fn restore(&self, from: &Path, to: &Path) {
        fs::create_dir(to).expect("a directory");
        for entry in fs::read_dir(from).expect("a directory") {
            let entry = entry.expect("an entry");
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            let metadata = entry.metadata().expect("its metadata");
            if metadata.is_dir() {
                self.restore(&path, &to);
                continue;
            }
            let image = self.path("image").join(format!("{}.image", metadata.ino()));
            fs::write(&to, fs::read(image).unwrap_or_default()).expect("a restored file");
            let file = fs::File::options().write(true).open(&to).expect("a restored file");
            file.set_len(metadata.len()).expect("its length");
        }
    }
}

/// Fails a sync, restarts without a reboot, cuts the power, and checks the log. Returns `true` if the failing sync
/// occurred.
fn shown_is_durable(file: &str, at: u64, appends_after: u64) -> bool {
    let how = format!("sync {at} of {file}, {appends_after} appends after the restart");
    let disk = Disk::new();
    let before = disk.run(APPENDS, (file, at));
    let shown = disk.run(appends_after, (file, 0));
    assert!(shown.last >= before.last && !shown.failed, "{how}: the restart lost something");
    let log = Log::open(&disk.cut(), LogOptions::default())
        .unwrap_or_else(|error| panic!("{how}: after the power cut: {error}"));
    let (first, last) = log.bounds();
    assert!(last >= Some(shown.last), "{how}: shown up to {}, there is {last:?}", shown.last);
    let expected = (first.unwrap_or(1)..=last.unwrap_or(0)).map(|i| content(i, RECORD_BYTES));
    assert!(records(&log).into_iter().eq(expected), "{how}: other records");
    before.failed
}

#[test]
fn what_a_restarted_log_shows_after_a_failed_sync_of_a_segment_survives_a_power_cut() {
    let cases = [("00000001.log", 1, 0), ("00000002.log", 12, 0), ("00000004.log", 5, 3)];
    for (segment, at, appends_after) in cases {
        assert!(shown_is_durable(segment, at, appends_after), "sync {at} of {segment} failed");
    }
}

#[test]
fn what_a_restarted_log_shows_after_a_failed_creation_of_a_segment_survives_a_power_cut() {
    for (segment, appends_after) in [("00000002.log.partial", 0), ("00000005.log.partial", 3)] {
        assert!(shown_is_durable(segment, 1, appends_after), "the creation of {segment} failed");
    }
}

#[test]
fn a_disk_without_a_failed_sync_loses_no_record() {
    assert!(!shown_is_durable("none", 0, 2));
}
