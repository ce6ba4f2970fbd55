//! Crashes of the log at every step of its disk, and damage to everything it has written.
//!
//! The test crashes the faulty disk before each write, sync, creation and removal of a random run. Every possible
//! prefix of the unsynced writes survives in turn, plus some sectors of the later writes. The log must open as a
//! prefix of the operations that includes all acknowledged ones. Segments are small, so a run fills many.

mod support;

use std::io;
use std::sync::mpsc;

use holdfast_storage::{FaultyDisk, Log, LogOptions, RaftMeta, StoreError};
use support::model::{History, Model, Op, Rng, Sizes};
use support::{Driver as _, content};

const SIZES: Sizes = Sizes { records_max: 12, length_max: 20_000, one_huge_in: 9, keep: 20 };

fn open(disk: &FaultyDisk) -> Result<Log, StoreError> {
    let options = LogOptions { segment_bytes: 32 << 10, ..LogOptions::default() };
    Log::with_disk_and_options(disk.open(), options)
}

fn broken() -> StoreError {
    StoreError::Io {
        action: "writing".to_owned(),
        kind: io::ErrorKind::Other,
        message: "planned".to_owned(),
    }
}

/// A run of operations that fit each other, on an empty log.
fn plan(seed: u64, count: usize) -> Vec<Op> {
    let mut rng = Rng(seed);
    let mut model = Model::default();
    let mut op = || {
        let op = Op::random(&mut rng, &model, SIZES);
        model.apply(&op);
        op
    };
    (0..count).map(|_| op()).collect()
}

/// Runs the operations one by one until one fails; the history counts the acknowledged operations.
fn run_one_by_one(log: &Log, ops: &[Op]) -> History {
    let mut history = History { ops: ops.to_vec(), ..History::default() };
    for (number, op) in ops.iter().enumerate() {
        let (answer, answered) = mpsc::channel();
        let done = Box::new(move |result| answer.send(result).expect("the test waits"));
        op.submit(log, done).expect("room");
        if answered.recv().expect("an answer").is_err() {
            break;
        }
        if op.is_durable() {
            history.acknowledged = number + 1;
        }
    }
    history
}

/// Opens the disk after a crash and checks the log against the history.
fn check(disk: &FaultyDisk, history: &History, how: &str) {
    let log = open(disk).unwrap_or_else(|error| panic!("{how}: does not open: {error}"));
    let found = Model::observe(&log).expect("readable");
    history.check_against_history(&found).unwrap_or_else(|verdict| panic!("{how}: {verdict}"));
    log.shutdown();
}

#[test]
fn a_crash_at_any_step_loses_nothing_acknowledged() {
    let mut points = 0;
    for seed in 0..8 {
        let ops = plan(seed, 40);
        let disk = FaultyDisk::default();
        let log = open(&disk).expect("open");
        run_one_by_one(&log, &ops);
        log.shutdown();
        let steps = disk.steps();
        for step in 0..steps {
            let disk = FaultyDisk::default();
            let log = open(&disk).expect("open");
            disk.fail_at(step, broken());
            let history = run_one_by_one(&log, &ops);
            log.shutdown();
            for keep in 0..=disk.unsynced() {
                let how = format!("seed {seed}, step {step}, {keep} writes kept");
                let crashed = disk.fork();
                crashed.crash(keep);
                check(&crashed, &history, &how);
                for torn in 0..4_u64 {
                    let crashed = disk.fork();
                    let mut rng = Rng(seed ^ step << 8 ^ torn << 32);
                    crashed.crash_torn(keep, |sector| match torn {
                        0 => sector > 1,
                        1 => !rng.one_in(4),
                        _ => rng.one_in(2),
                    });
                    check(&crashed, &history, &format!("{how}, torn {torn}"));
                }
                points += 5;
            }
        }
    }
    println!("{points} crash points");
    assert!(points >= 2000, "{points} points");
}

#[test]
fn crashes_and_kills_in_a_long_life_lose_nothing_acknowledged() {
    for seed in 100..110 {
        let mut rng = Rng(seed);
        let disk = FaultyDisk::default();
        let mut model = Model::default();
        for round in 0..25 {
            let log = open(&disk).expect("open");
            // Several operations may be in flight at the crash.
            let mut history = History { start: model.clone(), ..History::default() };
            let (answers, answered) = mpsc::channel();
            disk.fail_at(rng.between(1, 60), broken());
            for number in 0..rng.between(1, 60) {
                let op = Op::random(&mut rng, &model, SIZES);
                model.apply(&op);
                let answers = answers.clone();
                let durable = op.is_durable();
                let done = Box::new(move |result: Result<(), StoreError>| {
                    answers
                        .send(if result.is_ok() && durable { number + 1 } else { 0 })
                        .expect("send");
                });
                op.submit(&log, done).expect("room");
                history.ops.push(op);
            }
            log.shutdown();
            drop(answers);
            let acknowledged: u64 = answered.iter().max().unwrap_or(0);
            history.acknowledged = usize::try_from(acknowledged).expect("count");
            let how = format!("seed {seed}, round {round}");
            if rng.one_in(3) {
                // The state that the next process sees after a kill must survive the following power cut.
                disk.kill();
                let log = open(&disk).expect("open");
                let found = Model::observe(&log).expect("readable");
                history
                    .check_against_history(&found)
                    .unwrap_or_else(|verdict| panic!("{how}: {verdict}"));
                history = History { start: found, ..History::default() };
                disk.crash(0);
                log.shutdown();
            } else {
                let keep = rng.between(0, disk.unsynced() as u64);
                let keep = usize::try_from(keep).expect("keep");
                disk.crash_torn(keep, |_| rng.one_in(2));
            }
            check(&disk, &history, &how);
            let log = open(&disk).expect("open");
            model = Model::observe(&log).expect("readable");
            log.shutdown();
        }
    }
}

#[test]
fn a_disk_that_lies_about_sync_is_detected() {
    let disk = FaultyDisk::default();
    let log = open(&disk).expect("open");
    disk.ignore_syncs();
    let history = run_one_by_one(&log, &plan(1, 20));
    log.shutdown();
    disk.crash(0);
    let log = open(&disk).expect("open");
    let verdict =
        history.check_against_history(&Model::observe(&log).expect("readable")).expect_err("lost");
    assert!(verdict.starts_with("LOST"), "{verdict}");
}

/// A disk with a log after appends, a truncation, a purge, and a shutdown.
fn used_disk() -> FaultyDisk {
    let disk = FaultyDisk::default();
    let log = open(&disk).expect("open");
    for first in (1..40).step_by(3) {
        let batch = (first..first + 3).map(|index| content(index, index * 80)).collect();
        log.do_append(batch).expect("append");
    }
    log.do_append(vec![content(40, 150_000), content(41, 10)]).expect("append");
    log.do_meta(RaftMeta::Vote, b"vote", true).expect("meta");
    log.do_meta(RaftMeta::Committed, b"committed", false).expect("meta");
    log.do_purge(5, "purged").expect("purge");
    log.do_truncate(Some(40)).expect("truncate");
    log.do_append(vec![content(41, 99)]).expect("append");
    log.shutdown();
    disk
}

fn assert_refused(disk: &FaultyDisk, how: &str) {
    let opened = open(disk);
    let refused =
        matches!(opened, Err(StoreError::Corrupt { .. } | StoreError::UnknownFormat { .. }));
    assert!(refused, "{how}: {opened:?}");
}

#[test]
fn every_damaged_byte_and_every_lost_segment_is_rejected() {
    let disk = used_disk();
    let good = disk.image();
    assert!(good.0.len() >= 3, "{} segments", good.0.len());
    let mut tried = 0;
    for (&number, bytes) in &good.0 {
        // Zeros after the last frame do not count.
        let used = 1 + bytes.iter().rposition(|byte| *byte != 0).expect("a summary");
        let offsets = (0..used).filter(|at| *at < 200 || at % 97 == 0 || used - at < 200);
        for (offset, bits) in offsets.flat_map(|at| [(at, 0x01), (at, 0x80)]) {
            assert!(disk.damage(number, offset, bits));
            assert_refused(&disk, &format!("segment {number}, byte {offset}"));
            disk.restore(&good);
            tried += 1;
        }
        let mut without = good.clone();
        without.0.remove(&number);
        disk.restore(&without);
        assert_refused(&disk, &format!("segment {number} lost"));
        disk.restore(&good);
    }
    assert!(tried > 1000, "{tried}");
    open(&disk).expect("undamaged it opens").shutdown();
}

#[test]
fn an_older_or_swapped_segment_is_rejected() {
    let disk = used_disk();
    let old = disk.image();
    let log = open(&disk).expect("open");
    log.do_meta(RaftMeta::Vote, b"newer", true).expect("meta");
    log.do_append(vec![content(42, 98)]).expect("append");
    log.shutdown();
    let new = disk.image();
    let numbers: Vec<u32> = new.0.keys().copied().collect();
    let mut tried = 0;
    for (number, content) in &new.0 {
        let others = numbers.iter().filter_map(|other| new.0.get(other));
        for other in others.chain(old.0.get(number)).filter(|other| *other != content) {
            let mut mixed = new.clone();
            mixed.0.insert(*number, other.clone());
            disk.restore(&mixed);
            assert_refused(&disk, &format!("another content of segment {number}"));
            tried += 1;
        }
    }
    assert!(tried > numbers.len(), "{tried} contents, one of them older");
    disk.restore(&new);
    open(&disk).expect("unmixed it opens").shutdown();
}

#[test]
fn damage_found_by_a_read_closes_the_log() {
    let disk = used_disk();
    let log = open(&disk).expect("open");
    let (number, bytes) = disk.image().0.pop_last().expect("a segment");
    assert!(disk.damage(number, bytes.len() - 20, 1), "the last record");
    let read = log.read(41..=41, 1000);
    assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
    assert_eq!(log.failed(), read.err());
    assert!(matches!(log.do_meta(RaftMeta::Vote, b"v", true), Err(StoreError::Corrupt { .. })));
}

#[test]
fn the_history_check_accepts_only_prefixes() {
    let ops = plan(7, 12);
    let mut models = vec![Model::default()];
    for op in &ops {
        let mut next = models[models.len() - 1].clone();
        next.apply(op);
        models.push(next);
    }
    let history = History { start: Model::default(), ops, acknowledged: 8 };
    for (done, model) in models.iter().enumerate() {
        let verdict = history.check_against_history(model);
        let again = models[8..].contains(model);
        assert_eq!(verdict.is_ok(), done >= 8 || again, "{done}: {verdict:?}");
    }
    let last = models[12].clone();
    let mut with_more = last.clone();
    with_more.records.insert(last.next_index(), (1, 1));
    let mut changed = last.clone();
    changed.records.last_entry().expect("records").get_mut().1 ^= 1;
    let mut other_vote = last.clone();
    other_vote.metas[0] = Some("never".into());
    let mut hole = last;
    let middle = *hole.records.keys().nth(1).expect("three records");
    hole.records.remove(&middle);
    for wrong in [with_more, changed, other_vote, hole] {
        assert!(history.check_against_history(&wrong).expect_err("wrong").starts_with("WRONG"));
    }
}
