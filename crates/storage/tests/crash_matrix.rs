//! Crashes of the log at every step of its engine, and damage to everything it has written.
//!
//! The faulty disk is crashed before each write and each sync of a random run; of what was not synced, every possible
//! prefix survives in turn, whole batches and torn ones. The log must open as some prefix of the operations with
//! everything acknowledged, or, for what an atomic engine cannot leave behind, refuse.

mod support;

use std::io;
use std::sync::mpsc;

use holdfast_storage::{FaultyDisk, Log, RaftMeta, StoreError};
use support::model::{History, Model, Op, Rng, Sizes};
use support::{Driver as _, content};

const SIZES: Sizes = Sizes { records_max: 12, length_max: 20_000, one_huge_in: 9, keep: 20 };

fn broken() -> StoreError {
    StoreError::Io {
        doing: "writing".to_owned(),
        kind: io::ErrorKind::Other,
        message: "planned".to_owned(),
    }
}

/// A run of operations that fit each other, from an empty log.
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

/// Runs the operations one by one until one fails; what was acknowledged is in the history.
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

/// Opens what a crash left and judges it; answers whether it opened.
fn check(disk: &FaultyDisk, history: &History, how: &str) -> bool {
    let log = match Log::with_engine(disk.engine()) {
        Ok(log) => log,
        Err(StoreError::Corrupt { .. }) => return false,
        Err(other) => panic!("{how}: {other}"),
    };
    let found = Model::observe(&log).expect("readable");
    history.judge(&found).unwrap_or_else(|verdict| panic!("{how}: {verdict}"));
    log.shutdown();
    true
}

#[test]
fn a_crash_at_any_step_loses_nothing_acknowledged() {
    let (mut points, mut torn_refused) = (0, 0);
    for seed in 0..8 {
        let ops = plan(seed, 40);
        let disk = FaultyDisk::default();
        let log = Log::with_engine(disk.engine()).expect("open");
        run_one_by_one(&log, &ops);
        let steps = disk.steps();
        log.shutdown();
        for step in 0..steps {
            let disk = FaultyDisk::default();
            let log = Log::with_engine(disk.engine()).expect("open");
            disk.fail_at(step, broken());
            let history = run_one_by_one(&log, &ops);
            log.shutdown();
            for keep in 0..=disk.unsynced() {
                let crashed = disk.fork();
                crashed.crash(keep);
                let how = format!("seed {seed}, step {step}, {keep} batches kept");
                assert!(check(&crashed, &history, &how), "{how}: does not open");
                points += 1;
                for writes in 1..=3 {
                    let torn = disk.fork();
                    torn.crash_torn(keep, writes);
                    torn_refused +=
                        u64::from(!check(&torn, &history, &format!("{how}, torn {writes}")));
                    points += 1;
                }
            }
        }
    }
    println!("{points} crash points, {torn_refused} torn batches refused");
    assert!(points >= 2000 && torn_refused > 0, "{points} points, {torn_refused} refused");
}

#[test]
fn crashes_and_kills_in_a_long_life_lose_nothing_acknowledged() {
    for seed in 100..110 {
        let mut rng = Rng(seed);
        let disk = FaultyDisk::default();
        let mut model = Model::default();
        for round in 0..25 {
            let log = Log::with_engine(disk.engine()).expect("open");
            // Several operations may be under way at the crash.
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
                // What the next process is shown after a kill must survive the power cut that follows.
                disk.kill();
                let log = Log::with_engine(disk.engine()).expect("open");
                let found = Model::observe(&log).expect("readable");
                history.judge(&found).unwrap_or_else(|verdict| panic!("{how}: {verdict}"));
                history = History { start: found, ..History::default() };
                disk.crash(0);
                log.shutdown();
            } else {
                disk.crash(usize::try_from(rng.between(0, disk.unsynced() as u64)).expect("keep"));
            }
            assert!(check(&disk, &history, &how), "{how}: does not open");
            let log = Log::with_engine(disk.engine()).expect("open");
            model = Model::observe(&log).expect("readable");
            log.shutdown();
        }
    }
}

#[test]
fn a_disk_that_lies_about_sync_is_found_out() {
    let disk = FaultyDisk::default();
    let log = Log::with_engine(disk.engine()).expect("open");
    disk.lie_about_sync();
    let history = run_one_by_one(&log, &plan(1, 20));
    log.shutdown();
    disk.crash(0);
    let log = Log::with_engine(disk.engine()).expect("open");
    let verdict = history.judge(&Model::observe(&log).expect("readable")).expect_err("lost");
    assert!(verdict.starts_with("LOST"), "{verdict}");
}

/// A disk with a log that was appended to, cut, purged, marked, and shut down.
fn used_disk() -> FaultyDisk {
    let disk = FaultyDisk::default();
    let log = Log::with_engine(disk.engine()).expect("open");
    log.do_append((1..40).map(|index| content(index, index * 40)).collect()).expect("append");
    log.do_append(vec![content(40, 150_000), content(41, 10)]).expect("append");
    log.do_meta(RaftMeta::Vote, b"vote", true).expect("meta");
    log.do_meta(RaftMeta::Committed, b"committed", false).expect("meta");
    log.do_purge(5, "purged").expect("purge");
    log.do_truncate(Some(40)).expect("truncate");
    log.do_append(vec![content(41, 99)]).expect("append");
    log.shutdown();
    disk
}

#[test]
fn every_damaged_byte_and_every_lost_key_is_refused() {
    let disk = used_disk();
    let good = disk.image();
    let mut tried = 0;
    for (key, value) in &good {
        // Long values: every byte of the headers, a sample of the rest.
        let offsets =
            (0..value.len()).filter(|at| *at < 64 || at % 97 == 0 || at + 1 == value.len());
        for (offset, bits) in offsets.flat_map(|at| [(at, 0x01), (at, 0x80)]) {
            disk.damage(key, offset, bits);
            let opened = Log::with_engine(disk.engine());
            assert!(
                matches!(opened, Err(StoreError::Corrupt { .. })),
                "key {key:?}, byte {offset}"
            );
            disk.restore(&good);
            tried += 1;
        }
        assert!(disk.lose(key));
        let opened = Log::with_engine(disk.engine());
        assert!(matches!(opened, Err(StoreError::Corrupt { .. })), "key {key:?} lost");
        disk.restore(&good);
    }
    assert!(tried > 1000, "{tried}");
    Log::with_engine(disk.engine()).expect("undamaged it opens").shutdown();
}

#[test]
fn a_key_that_turned_back_into_an_older_one_is_refused() {
    let disk = used_disk();
    let old = disk.image();
    let log = Log::with_engine(disk.engine()).expect("open");
    log.do_meta(RaftMeta::Vote, b"newer", true).expect("meta");
    log.do_meta(RaftMeta::Committed, b"newer", true).expect("meta");
    log.do_truncate(Some(40)).expect("truncate");
    log.do_append(vec![content(41, 98)]).expect("append");
    log.do_purge(20, "newer").expect("purge");
    log.shutdown();
    let new = disk.image();
    let mut tried = 0;
    for (key, old_value) in &old {
        let mut mixed = new.clone();
        for (new_key, value) in &mut mixed {
            if new_key == key && value != old_value {
                *value = old_value.clone();
                tried += 1;
            }
        }
        if mixed != new {
            disk.restore(&mixed);
            let opened = Log::with_engine(disk.engine());
            assert!(matches!(opened, Err(StoreError::Corrupt { .. })), "key {key:?}");
        }
    }
    assert!(tried >= 5, "{tried} keys differ: the head, three metas, a chunk");
}

#[test]
fn damage_met_while_reading_closes_the_log() {
    let disk = used_disk();
    let log = Log::with_engine(disk.engine()).expect("open");
    let chunk = disk.keys().into_iter().rfind(|key| key[0] == 1).expect("a chunk");
    disk.damage(&chunk, 20, 1);
    let read = log.read(41..=41, 1000);
    assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
    assert_eq!(log.failed(), read.err());
    assert!(matches!(log.do_meta(RaftMeta::Vote, b"v", true), Err(StoreError::Corrupt { .. })));
}

#[test]
fn the_judge_accepts_prefixes_and_refuses_everything_else() {
    let ops = plan(7, 12);
    let mut models = vec![Model::default()];
    for op in &ops {
        let mut next = models[models.len() - 1].clone();
        next.apply(op);
        models.push(next);
    }
    let history = History { start: Model::default(), ops, acknowledged: 8 };
    for (done, model) in models.iter().enumerate() {
        let verdict = history.judge(model);
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
        assert!(history.judge(&wrong).expect_err("wrong").starts_with("WRONG"));
    }
}
