//! The contract of the log on every disk: order, durability, reads, truncations, purges, metadata, queue bounds, and
//! the behaviour after an error.

mod support;

use std::sync::atomic::Ordering;
use std::sync::mpsc;

use bytes::Bytes;
use holdfast_storage::{
    FaultyDisk, Log, LogOptions, META_BYTES_MAX, RECORD_BYTES_MAX, RaftMeta, Record, StoreError,
};
use support::{Driver as _, content, records};

/// Runs a test on a new log of each disk, and on a log with small segments.
fn on_each_disk(test: impl Fn(&Log)) {
    test(&Log::in_memory().expect("memory"));
    test(&small_segments(&FaultyDisk::default()));
    let dir = tempfile::tempdir().expect("directory");
    let log = Log::open(dir.path(), LogOptions::default()).expect("directory");
    test(&log);
    log.shutdown();
}

fn small_segments(disk: &FaultyDisk) -> Log {
    let options = LogOptions { segment_bytes: 4 << 10, ..LogOptions::default() };
    Log::with_disk_and_options(disk.open(), options).expect("faulty")
}

#[test]
fn appended_records_are_read_back_in_pieces_of_any_size() {
    on_each_disk(|log| {
        let all: Vec<Record> = (0..200).map(|index| content(index, (index * 37) % 900)).collect();
        for batch in all.chunks(23) {
            log.do_append(batch.to_vec()).expect("append");
        }
        assert_eq!(log.bounds(), (Some(0), Some(199)));
        assert_eq!(log.written(), Some(199));
        assert_eq!(records(log), all);
        for at in [0_usize, 1, 22, 23, 24, 150, 199] {
            let first = at as u64;
            let some = log.read(first..=first + 9, usize::MAX).expect("read");
            let last = (at + 10).min(200);
            assert_eq!(some, all[at..last]);
            let one = log.read(first..=199, 0).expect("read");
            assert_eq!(one, all[at..=at], "never empty for an existing range");
        }
        assert_eq!(log.read(200..=300, 1000).expect("read"), []);
    });
}

#[test]
fn records_of_every_length_survive() {
    on_each_disk(|log| {
        let lengths = [
            0, 1, 2, 4079, 4080, 4096, 65_535, 65_536, 262_127, 262_128, 262_144, 700_000,
            1_100_000,
        ];
        let all: Vec<Record> =
            lengths.iter().zip(5..).map(|(&length, index)| content(index, length)).collect();
        log.do_append(all.clone()).expect("append");
        assert_eq!(records(log), all);
        let largest = content(all.len() as u64 + 5, RECORD_BYTES_MAX as u64);
        log.do_append(vec![largest.clone()]).expect("append");
        let found = log.read(largest.index..=largest.index, 1).expect("read");
        assert_eq!(found, [largest]);
    });
}

#[test]
fn a_gap_or_a_record_too_long_is_rejected_and_the_log_continues() {
    on_each_disk(|log| {
        log.do_append(vec![content(7, 10)]).expect("a new log begins anywhere");
        for wrong in [6, 7, 9] {
            let refused = log.do_append(vec![content(wrong, 10)]);
            assert!(matches!(refused, Err(StoreError::Misuse { .. })), "index {wrong}");
        }
        let half = log.do_append(vec![content(8, 10), content(10, 10)]);
        assert!(matches!(half, Err(StoreError::Misuse { .. })));
        let long = Record { index: 8, bytes: Bytes::from(vec![0; RECORD_BYTES_MAX + 1]) };
        assert!(matches!(log.do_append(vec![long]), Err(StoreError::TooLarge { .. })));
        assert_eq!(log.bounds(), (Some(7), Some(7)), "nothing of a refused call is written");
        assert_eq!(log.failed(), None);
        log.do_append(vec![content(8, 10)]).expect("append");
    });
}

#[test]
fn a_log_truncated_at_any_index_continues_there() {
    for kept in [0_u64, 1, 9, 10, 11, 18, 19, 20, 29] {
        on_each_disk(|log| {
            for first in (0..30).step_by(10) {
                let batch = (first..first + 10).map(|index| content(index, 300)).collect();
                log.do_append(batch).expect("append");
            }
            log.do_truncate(Some(kept)).expect("truncate");
            assert_eq!(log.bounds(), (Some(0), Some(kept)));
            let new: Vec<Record> = (kept + 1..kept + 5).map(|index| content(index, 77)).collect();
            log.do_append(new.clone()).expect("append");
            let mut expected: Vec<Record> = (0..=kept).map(|index| content(index, 300)).collect();
            expected.extend(new);
            assert_eq!(records(log), expected);
        });
    }
}

#[test]
fn truncating_everything_empties_a_log_and_a_large_one_too() {
    on_each_disk(|log| {
        let batch = (3..1500).map(|index| content(index, 9_000)).collect();
        log.do_append(batch).expect("append");
        log.do_truncate(Some(900)).expect("truncate");
        assert_eq!(log.bounds(), (Some(3), Some(900)));
        log.do_truncate(Some(5000)).expect("beyond the end nothing happens");
        log.do_truncate(None).expect("truncate");
        assert_eq!(log.bounds(), (None, None));
        assert_eq!(records(log), []);
        log.do_append(vec![content(50, 1)]).expect("a log that never was purged begins anywhere");
    });
}

#[test]
fn a_purge_removes_records_and_sets_the_metadata_together() {
    on_each_disk(|log| {
        log.do_append((0..40).map(|index| content(index, 500)).collect()).expect("append");
        for (through, meta) in [(0, "a"), (12, "b"), (13, "c"), (38, "d")] {
            log.do_purge(through, meta).expect("purge");
            assert_eq!(log.bounds(), (Some(through + 1), Some(39)));
            assert_eq!(log.purged(), Some(through));
            assert_eq!(log.meta(RaftMeta::Purged).expect("meta").as_deref(), Some(meta.as_bytes()));
            let expected: Vec<Record> =
                (through + 1..40).map(|index| content(index, 500)).collect();
            assert_eq!(records(log), expected);
        }
        log.do_purge(3, "late").expect("an earlier purge changes nothing");
        assert_eq!(log.meta(RaftMeta::Purged).expect("meta").as_deref(), Some(&b"d"[..]));
        let below = log.do_truncate(Some(20));
        assert!(matches!(below, Err(StoreError::Misuse { .. })));
        log.do_truncate(Some(38)).expect("cutting at the purge leaves an empty log");
        assert_eq!(log.bounds(), (None, None));
        assert!(log.do_append(vec![content(40, 1)]).is_err());
        log.do_append(vec![content(39, 1)]).expect("the log continues after the purge");
        assert_eq!(records(log), [content(39, 1)]);
    });
}

#[test]
fn a_purge_beyond_the_end_empties_the_log_which_continues_after_it() {
    on_each_disk(|log| {
        log.do_append((0..40).map(|index| content(index, 500)).collect()).expect("append");
        log.do_purge(100, "snapshot").expect("purge");
        assert_eq!((log.bounds(), log.purged()), ((None, None), Some(100)));
        assert!(log.do_append(vec![content(40, 1)]).is_err());
        log.do_append(vec![content(101, 1)]).expect("append");
        assert_eq!(records(log), [content(101, 1)]);
        let empty = Log::in_memory().expect("memory");
        empty.do_purge(9, "x").expect("an empty log can be purged");
        empty.do_append(vec![content(10, 1)]).expect("append");
    });
}

#[test]
fn segments_without_records_are_removed_and_never_before_the_purge_is_durable() {
    let disk = FaultyDisk::default();
    let log = small_segments(&disk);
    for first in (0..500).step_by(5) {
        let batch = (first..first + 5).map(|index| content(index, 700)).collect();
        log.do_append(batch).expect("append");
    }
    let before = disk.image().0;
    assert!(before.len() > 50, "{} segments", before.len());
    log.do_purge(490, "p").expect("purge");
    let kept: Vec<Record> = (491..500).map(|index| content(index, 700)).collect();
    assert_eq!(records(&log), kept);
    log.shutdown();
    let after = disk.image().0;
    assert!(after.len() <= 4, "{} segments are left", after.len());
    disk.crash(0);
    assert_eq!(small_segments(&disk).purged(), Some(490));
    // A power cut may restore any of the removed segments.
    let (mut resurrected, watermark) = disk.image();
    resurrected.extend(before.into_iter().filter(|(number, _)| number % 3 > 0 && *number < 40));
    disk.restore(&(resurrected, watermark));
    let log = small_segments(&disk);
    assert_eq!((records(&log), log.purged()), (kept, Some(490)));
    assert!(disk.image().0.len() <= 4, "they are removed again");
}

#[test]
fn metadata_is_kept_apart_and_only_purges_set_the_purged_position() {
    on_each_disk(|log| {
        assert_eq!(log.meta(RaftMeta::Vote).expect("meta"), None);
        log.do_meta(RaftMeta::Vote, b"v1", true).expect("set");
        log.do_meta(RaftMeta::Committed, b"c1", false).expect("set");
        log.do_meta(RaftMeta::Vote, b"", true).expect("set");
        assert_eq!(log.meta(RaftMeta::Vote).expect("meta").as_deref(), Some(&b""[..]));
        assert_eq!(log.meta(RaftMeta::Committed).expect("meta").as_deref(), Some(&b"c1"[..]));
        assert!(matches!(
            log.do_meta(RaftMeta::Purged, b"x", true),
            Err(StoreError::Misuse { .. })
        ));
        let long = vec![0; META_BYTES_MAX + 1];
        assert!(matches!(
            log.do_meta(RaftMeta::Vote, &long, true),
            Err(StoreError::TooLarge { .. })
        ));
    });
}

#[test]
fn a_reopened_log_is_the_same_log() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("a/log");
    let mut all: Vec<Record> = Vec::new();
    for round in 0..5_u64 {
        let log = Log::open(&path, LogOptions::default()).expect("open");
        assert_eq!(records(&log), all, "round {round}");
        let first = all.last().map_or(1, |record| record.index + 1);
        let new: Vec<Record> =
            (first..first + 20).map(|index| content(index, index * 113)).collect();
        log.do_append(new.clone()).expect("append");
        all.extend(new);
        log.do_meta(RaftMeta::Vote, &round.to_le_bytes(), true).expect("meta");
        if round == 2 {
            log.do_purge(25, "p").expect("purge");
            all.retain(|record| record.index > 25);
        }
        log.shutdown();
    }
    let log = Log::open(&path, LogOptions::default()).expect("open");
    assert_eq!(log.meta(RaftMeta::Vote).expect("meta").as_deref(), Some(&4_u64.to_le_bytes()[..]));
    assert_eq!(log.purged(), Some(25));
}

#[test]
fn a_directory_in_use_is_an_error() {
    let dir = tempfile::tempdir().expect("directory");
    let log = Log::open(dir.path(), LogOptions::default()).expect("open");
    let second = Log::open(dir.path(), LogOptions::default());
    assert!(matches!(second, Err(StoreError::InUse { .. })), "{second:?}");
    log.shutdown();
    Log::open(dir.path(), LogOptions::default()).expect("open").shutdown();
}

#[test]
fn callbacks_run_in_the_order_of_the_requests() {
    on_each_disk(|log| {
        let (answers, order) = mpsc::channel();
        let note = |number: u64| -> holdfast_storage::CompletionCallback {
            let answers = answers.clone();
            Box::new(move |result| answers.send((number, result.is_ok())).expect("send"))
        };
        for number in 0..300_u64 {
            match number % 3 {
                0 => log.append(vec![content(number / 3, 50)], note(number)),
                1 => {
                    log.set_meta(RaftMeta::Committed, Bytes::from_static(b"c"), false, note(number))
                }
                _ => log.set_meta(RaftMeta::Vote, Bytes::from_static(b"v"), true, note(number)),
            }
            .expect("room");
        }
        log.shutdown();
        let seen: Vec<(u64, bool)> = order.try_iter().collect();
        assert_eq!(seen, (0..300).map(|number| (number, true)).collect::<Vec<_>>());
    });
}

#[test]
fn a_full_queue_returns_the_request_and_notifies_when_it_has_room() {
    let (gate, log) =
        support::gated_log(LogOptions { queue_bytes_max: 10_000, ..LogOptions::default() });
    let (answers, answered) = mpsc::channel();
    let done = |answers: &mpsc::Sender<bool>| -> holdfast_storage::CompletionCallback {
        let answers = answers.clone();
        Box::new(move |result| answers.send(result.is_ok()).expect("send"))
    };
    let mut index = 0;
    let refused = loop {
        match log.append(vec![content(index, 1000)], done(&answers)) {
            Ok(()) => index += 1,
            Err(refused) => break refused,
        }
    };
    assert!(log.queued_bytes() <= 10_000 && refused.queued_bytes <= refused.queue_bytes_max);
    assert!(refused.to_string().contains("try again when there is room"));
    let (room, has_room) = mpsc::channel();
    log.on_queue_room(Box::new(move || room.send(()).expect("send")));
    assert!(has_room.try_recv().is_err());
    gate.open();
    has_room.recv().expect("room");
    refused.retry(&log).expect("room");
    log.shutdown();
    assert_eq!(answered.try_iter().filter(|ok| *ok).count() as u64, index + 1);
}

#[test]
fn one_sync_serves_all_queued_requests_and_lazy_requests_cause_none() {
    let (gate, log) = support::gated_log(LogOptions::default());
    let opened = gate.syncs.load(Ordering::Relaxed);
    let (answers, answered) = mpsc::channel();
    for index in 0..100 {
        let answers = answers.clone();
        let done = Box::new(move |result| answers.send(result).expect("send"));
        log.append(vec![content(index, 100)], done).expect("room");
    }
    gate.open();
    assert_eq!(answered.iter().take(100).flatten().count(), 100);
    let syncs = gate.syncs.load(Ordering::Relaxed) - opened;
    assert!((1..=2).contains(&syncs), "{syncs} syncs for what was taken first and for the rest");
    for _ in 0..5 {
        log.do_meta(RaftMeta::Committed, b"c", false).expect("meta");
        log.do_truncate(Some(99)).expect("truncate");
    }
    assert_eq!(gate.syncs.load(Ordering::Relaxed) - opened, syncs);
    log.do_meta(RaftMeta::Vote, b"v", true).expect("meta");
    assert_eq!(gate.syncs.load(Ordering::Relaxed) - opened, syncs + 1);
}

#[test]
fn after_an_error_every_pending_and_later_call_gets_it() {
    let full = StoreError::Full { action: "writing".to_owned() };
    // Each append is a write, a sync and a raised watermark. It succeeds only after all three.
    for step in 0..6 {
        let disk = FaultyDisk::default();
        let log = Log::with_disk(disk.open()).expect("open");
        log.do_append(vec![content(0, 10)]).expect("append");
        disk.fail_at(step, full.clone());
        let results: Vec<_> = (1..5).map(|index| log.do_append(vec![content(index, 10)])).collect();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count() as u64, step / 3);
        assert_eq!(results.last(), Some(&Err(full.clone())));
        assert_eq!(log.failed(), Some(full.clone()));
        assert_eq!(log.read(0..=0, 1), Err(full.clone()), "a log that failed is not read either");
        assert_eq!(log.meta(RaftMeta::Vote), Err(full.clone()));
        assert_eq!(log.do_meta(RaftMeta::Vote, b"v", true), Err(full.clone()));
        let steps = disk.steps();
        assert_eq!(log.do_append(vec![content(9, 1)]), Err(full.clone()));
        assert_eq!(disk.steps(), steps, "nothing is tried again");
        log.shutdown();
        assert_eq!(log.do_append(vec![content(9, 1)]), Err(StoreError::Closed));
    }
}

#[test]
fn a_callback_that_panics_does_not_stop_the_log() {
    let log = Log::in_memory().expect("memory");
    log.append(vec![content(0, 1)], Box::new(|_| panic!("an answer that panics"))).expect("room");
    log.do_append(vec![content(1, 1)]).expect("append");
}

#[test]
fn dropping_the_last_handle_completes_the_queued_requests() {
    let dir = tempfile::tempdir().expect("directory");
    let (ended, has_ended) = mpsc::channel();
    let log = Log::open(dir.path(), LogOptions::default()).expect("open");
    log.append(vec![content(0, 1)], Box::new(move |result| ended.send(result).expect("send")))
        .expect("room");
    drop(log);
    assert_eq!(has_ended.recv(), Ok(Ok(())));
}

#[test]
fn a_shutdown_from_inside_a_callback_does_not_deadlock() {
    let log = Log::in_memory().expect("memory");
    let (ended, has_ended) = mpsc::channel();
    let inner = log.clone();
    let done = move |_| {
        inner.shutdown();
        ended.send(()).expect("send");
    };
    log.append(vec![content(0, 1)], Box::new(done)).expect("room");
    has_ended.recv().expect("no deadlock");
}

#[test]
fn a_probe_completes_after_every_earlier_request_and_fails_on_a_closed_log() {
    on_each_disk(|log| {
        let (done, completed) = mpsc::channel();
        let first = done.clone();
        let appended = Box::new(move |result: Result<(), StoreError>| {
            first.send(("append", result)).expect("send");
        });
        log.append(vec![content(1, 100)], appended).expect("room");
        let last = done.clone();
        let probed = Box::new(move |result: Result<(), StoreError>| {
            last.send(("probe", result)).expect("send");
        });
        log.probe(probed).expect("room");
        assert_eq!(
            [completed.recv(), completed.recv()],
            [Ok(("append", Ok(()))), Ok(("probe", Ok(())))]
        );
        assert!(log.bytes() > 0, "the log has a segment");
        log.shutdown();
        let probed = Box::new(move |result: Result<(), StoreError>| {
            done.send(("probe", result)).expect("send");
        });
        log.probe(probed).expect("completed at once");
        assert_eq!(completed.recv(), Ok(("probe", Err(StoreError::Closed))));
    });
}

#[test]
fn a_probe_of_a_blocked_log_thread_completes_only_after_the_thread_continues() {
    let (gate, log) = support::gated_log(LogOptions::default());
    log.append(vec![content(1, 100)], Box::new(drop)).expect("room");
    let (done, completed) = mpsc::channel();
    log.probe(Box::new(move |result| done.send(result).expect("send"))).expect("room");
    assert_eq!(completed.try_recv(), Err(mpsc::TryRecvError::Empty));
    gate.open();
    assert_eq!(completed.recv(), Ok(Ok(())));
}
