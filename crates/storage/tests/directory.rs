//! A log directory in a damaged, truncated, incomplete, mixed or full file system. The log opens with its previous
//! content, or it does not open.

#![expect(clippy::print_stdout, reason = "a test that cannot run here says so")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use holdfast_storage::{Log, LogOptions, RaftMeta, StoreError, free_bytes};
use support::model::{Model, Rng};
use support::{Driver as _, content};

fn open(dir: &Path) -> Result<Log, StoreError> {
    Log::open(dir, LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() })
}

/// The names of the segment files, oldest first.
fn segments(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.strip_suffix(".log").is_some());
    names.sort();
    names
}

/// Opens a log, appends to it, closes it, and returns its content.
fn use_log(dir: &Path, first: u64) -> Model {
    let log = open(dir).expect("open");
    for index in first..first + 30 {
        let large = if index % 10 == 0 { 70_000 } else { index * 31 % 3000 };
        log.do_append(vec![content(index, large)]).expect("append");
    }
    log.do_meta(RaftMeta::Vote, &first.to_le_bytes(), true).expect("meta");
    if first > 1 {
        log.do_purge(first, "p").expect("purge");
    }
    let model = Model::observe(&log).expect("readable");
    log.shutdown();
    model
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("directory");
    for entry in fs::read_dir(from).expect("list") {
        let path = entry.expect("entry").path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().expect("name"))).expect("copy");
        }
    }
}

/// Checks that a damaged copy is rejected or opens with the previous content, byte for byte. Returns `true` if it is
/// rejected.
fn refused_or_whole(dir: &Path, model: &Model, how: &str) -> bool {
    match open(dir) {
        Ok(log) => {
            assert_eq!(Model::observe(&log).as_ref(), Ok(model), "{how}");
            log.shutdown();
            false
        }
        Err(StoreError::Corrupt { fix, .. } | StoreError::UnknownFormat { fix, .. }) => {
            assert!(
                fix.contains("holdfast member replace") || fix.contains("version"),
                "{how}: {fix}"
            );
            true
        }
        Err(other) => panic!("{how}: {other}"),
    }
}

#[test]
fn a_damaged_log_is_rejected_or_unchanged() {
    let home = tempfile::tempdir().expect("directory");
    let good = home.path().join("good");
    use_log(&good, 1);
    let model = use_log(&good, 31);
    let mut rng = Rng(11);
    let mut refused = 0;
    for trial in 0..60 {
        let bad = home.path().join(format!("bad-{trial}"));
        copy(&good, &bad);
        let names = segments(&bad);
        let name = &names[trial % names.len()];
        let damaged = bad.join(name);
        let mut bytes = fs::read(&damaged).expect("read");
        let at = usize::try_from(rng.between(0, bytes.len() as u64 - 1)).expect("offset");
        let how = match trial % 4 {
            0 => {
                bytes[at] ^= 1 << rng.between(0, 7);
                format!("bit at {at}")
            }
            1 => {
                let end = bytes.len().min(at + 512);
                bytes[at..end].fill(0);
                format!("sector at {at} zeroed")
            }
            2 => {
                bytes.truncate(at);
                format!("cut at {at}")
            }
            _ => {
                let (other, len) = (at / 2, (bytes.len() - at).min(4096));
                bytes.copy_within(other..other + len, at);
                format!("page at {at} is that of {other}")
            }
        };
        fs::write(&damaged, bytes).expect("write");
        refused += u64::from(refused_or_whole(&bad, &model, &format!("{name}: {how}")));
        fs::remove_dir_all(&bad).expect("remove");
    }
    assert!(refused > 20, "{refused} of 60 were refused");
}

#[test]
fn a_missing_file_is_rejected() {
    let home = tempfile::tempdir().expect("directory");
    let good = home.path().join("good");
    let model = use_log(&good, 1);
    let names = [segments(&good), vec!["synced".to_owned()]].concat();
    assert!(names.len() > 3, "{names:?}");
    for file in &names {
        let bad = home.path().join(file);
        copy(&good, &bad);
        fs::remove_file(bad.join(file)).expect("remove");
        assert!(refused_or_whole(&bad, &model, file), "{file}");
    }
    let bad = home.path().join("no-segments");
    copy(&good, &bad);
    for file in segments(&bad) {
        fs::remove_file(bad.join(file)).expect("remove");
    }
    assert!(refused_or_whole(&bad, &model, "no segment"));
}

#[test]
fn a_log_older_than_its_watermark_is_rejected() {
    let home = tempfile::tempdir().expect("directory");
    let (log, old) = (home.path().join("log"), home.path().join("old"));
    use_log(&log, 1);
    copy(&log, &old);
    let model = use_log(&log, 31);
    fs::copy(log.join("synced"), old.join("synced")).expect("copy");
    match open(&old) {
        Err(StoreError::Corrupt { detail, .. }) => {
            assert!(detail.contains("was acknowledged"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!refused_or_whole(&log, &model, "undamaged"));
}

#[test]
fn an_interrupted_creation_is_completed() {
    let home = tempfile::tempdir().expect("directory");
    let whole = home.path().join("whole");
    open(&whole).expect("open").shutdown();
    // The second slot still has the number from the creation of the file.
    let mut new = fs::read(whole.join("synced")).expect("read");
    new.copy_within(4096..4112, 0);
    let segment = fs::read(whole.join("00000001.log")).expect("read");
    let files: [&[(&str, &[u8])]; 4] = [
        &[],
        &[("synced.partial", &new[..20])],
        &[("synced", &new)],
        &[("synced", &new), ("00000001.log.partial", &segment[..20])],
    ];
    for (number, files) in files.iter().enumerate() {
        let half = home.path().join(number.to_string());
        fs::create_dir_all(&half).expect("directory");
        for (name, content) in *files {
            fs::write(half.join(name), content).expect("write");
        }
        let log = open(&half).expect("the creation completes");
        log.do_append(vec![content(1, 1)]).expect("append");
        log.shutdown();
        let names = fs::read_dir(&half).expect("list").map(|entry| entry.expect("entry").path());
        assert!(names.into_iter().all(|path| path.extension().is_none_or(|end| end != "partial")));
        assert_eq!(open(&half).expect("open").bounds(), (Some(1), Some(1)));
    }
}

#[test]
fn a_later_format_is_rejected_and_unchanged() {
    let home = tempfile::tempdir().expect("directory");
    let later = home.path().join("later");
    let model = use_log(&later, 1);
    let path = later.join(segments(&later).pop().expect("a segment"));
    let mut bytes = fs::read(&path).expect("read");
    bytes[5] += 1;
    fs::write(&path, &bytes).expect("write");
    let refused = open(&later);
    assert!(matches!(refused, Err(StoreError::UnknownFormat { .. })), "{refused:?}");
    bytes[5] -= 1;
    fs::write(&path, &bytes).expect("write");
    assert!(!refused_or_whole(&later, &model, "unchanged"));
}

/// A file system in memory of a given size; unavailable without the permission to mount.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    fn new(mib: u64) -> Option<Self> {
        let dir = tempfile::tempdir().expect("directory");
        let options = format!("size={mib}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(dir.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            println!("SKIPPED: no small disk can be mounted here (not root?)");
        }
        mounted.then_some(Self { dir })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

#[test]
fn a_full_disk_is_reported_and_loses_no_acknowledged_record() {
    for mib in [1, 2, 9, 17] {
        let Some(disk) = SmallDisk::new(mib) else { return };
        let dir = disk.dir.path().join("log");
        let log = match open(&dir) {
            Ok(log) => log,
            Err(error) => {
                assert!(matches!(error, StoreError::Full { .. }), "{mib} MiB: {error}");
                continue;
            }
        };
        let mut last = 0;
        let error = loop {
            match log.do_append(vec![content(last + 1, 50_000)]) {
                Ok(()) => last += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::Full { .. }), "{mib} MiB: {error}");
        assert!(error.to_string().contains("make room"), "{error}");
        assert_eq!(log.failed(), Some(error.clone()));
        assert_eq!(log.do_meta(RaftMeta::Vote, b"v", true), Err(error));
        assert!(free_bytes(&dir).expect("statvfs") < 1 << 20);
        log.shutdown();
        drop(log);
        // The test enlarges the disk and starts the node again.
        let grow = Command::new("mount")
            .args(["-o", "remount,size=96m"])
            .arg(disk.dir.path())
            .status()
            .expect("mount");
        assert!(grow.success());
        let log = open(&dir).expect("it opens when there is room");
        assert_eq!(log.bounds().0, Some(1));
        assert!(log.bounds().1 >= Some(last), "{:?} of {last}", log.bounds());
        log.shutdown();
    }
}

#[test]
fn a_log_that_was_shut_down_can_be_opened_at_once() {
    let dir = tempfile::tempdir().expect("directory");
    for round in 0..40 {
        let log = open(dir.path()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let first = log.bounds().1.map_or(1, |last| last + 1);
        log.do_append((first..first + 60).map(|index| content(index, 60_000)).collect())
            .expect("append");
        log.do_purge(first + 50, "p").expect("purge");
        log.shutdown();
    }
}
