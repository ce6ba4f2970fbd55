//! The changes that watchers receive from the log, and how it reports discarded changes.

use holdfast_types::{Applied, TreeEvent};

use super::*;

const WATCHERS: usize = 3;

fn log(events_max: usize) -> ChangeLog {
    ChangeLog::new(events_max, 1 << 20, WATCHERS)
}

fn path(text: &str) -> ZnodePath {
    ZnodePath::new(text).unwrap()
}

/// Applies an entry that created these nodes, each with a revision.
fn created(log: &ChangeLog, nodes: &[(u64, &str)]) {
    let event = |(revision, at): &(u64, &str)| {
        (Revision(*revision), Event::Tree(TreeEvent::Created { path: path(at) }))
    };
    let events: Vec<_> = nodes.iter().map(event).collect();
    let revision = events.last().map_or(Revision(0), |(revision, _)| *revision);
    log.on_applied(&Applied { revision, outcomes: Vec::new(), events });
}

fn all() -> WatchFilter {
    WatchFilter::Subtree(ZnodePath::root())
}

/// Returns the changes that a watcher reads: each path with its `resume` revision.
fn changes(log: &ChangeLog, number: u64) -> Vec<(String, u64)> {
    match log.read(number) {
        ReadChanges::Changes(changes) => changes
            .into_iter()
            .map(|watched| {
                let WatchItem::Change { path, .. } = watched.item else { panic!("{watched:?}") };
                (path.to_string(), watched.resume.0)
            })
            .collect(),
        ReadChanges::Nothing(_) => Vec::new(),
        ReadChanges::Compacted(revision) => panic!("compacted: {revision:?}"),
    }
}

fn expected(of: &[(&str, u64)]) -> Vec<(String, u64)> {
    of.iter().map(|(at, revision)| ((*at).to_owned(), *revision)).collect()
}

#[test]
fn a_watcher_without_a_revision_receives_changes_from_now_on() {
    let log = log(10);
    created(&log, &[(1, "/a")]);
    let handle = log.add_watcher(all(), None).unwrap();
    assert_eq!(handle.after, Revision(1));
    assert_eq!(changes(&log, handle.number), []);
    created(&log, &[(2, "/b")]);
    assert_eq!(changes(&log, handle.number), expected(&[("/b", 2)]));
    assert!(matches!(log.read(handle.number), ReadChanges::Nothing(Revision(2))));
}

#[test]
fn a_watcher_from_a_revision_receives_exactly_the_later_changes() {
    let log = log(10);
    created(&log, &[(1, "/a"), (2, "/b"), (3, "/c")]);
    let handle = log.add_watcher(all(), Some(Revision(1))).unwrap();
    assert_eq!(changes(&log, handle.number), expected(&[("/b", 2), ("/c", 3)]));
}

#[test]
fn a_watcher_ahead_of_the_node_receives_no_change_twice() {
    let log = log(10);
    created(&log, &[(1, "/a")]);
    let handle = log.add_watcher(all(), Some(Revision(2))).unwrap();
    created(&log, &[(2, "/b")]);
    created(&log, &[(3, "/c")]);
    assert_eq!(changes(&log, handle.number), expected(&[("/c", 3)]));
}

/// Within one revision, `resume` is the revision before, so that a resumed watch misses no change.
#[test]
fn resuming_between_two_changes_of_one_revision_skips_no_change() {
    let log = log(10);
    let handle = log.add_watcher(all(), None).unwrap();
    created(&log, &[(7, "/a"), (7, "/b"), (8, "/c")]);
    assert_eq!(changes(&log, handle.number), expected(&[("/a", 6), ("/b", 7), ("/c", 8)]));
}

#[test]
fn a_revision_longer_than_a_batch_can_be_resumed_without_loss() {
    let log = log(10_000);
    let handle = log.add_watcher(all(), None).unwrap();
    let nodes: Vec<_> = (0..2 * BATCH_MAX).map(|_| (7, "/a")).collect();
    created(&log, &nodes);
    let first = changes(&log, handle.number);
    assert_eq!(first.len(), BATCH_MAX);
    assert!(first.iter().all(|(_, resume)| *resume == 6));
    let second = changes(&log, handle.number);
    assert_eq!((second.len(), second.last().unwrap().1), (BATCH_MAX, 7));
    assert_eq!(changes(&log, handle.number), []);
}

#[test]
fn a_watcher_is_woken_only_by_changes_that_its_filter_matches() {
    let log = log(10);
    let handle = log.add_watcher(WatchFilter::Prefix("/locks/or".to_owned()), None).unwrap();
    assert_eq!(changes(&log, handle.number), []);
    let unread = || log.state.lock().watchers.get_mut(handle.number).unwrap().unread;
    created(&log, &[(1, "/a"), (2, "/locks/job")]);
    assert_eq!(unread(), None);
    created(&log, &[(3, "/locks/orders")]);
    assert_eq!(unread(), Some(2));
    assert_eq!(changes(&log, handle.number), expected(&[("/locks/orders", 3)]));
}

#[test]
fn a_watch_of_discarded_changes_is_rejected_with_the_restart_revision() {
    let log = log(2);
    created(&log, &[(1, "/a"), (2, "/b"), (3, "/c")]);
    let refused = log.add_watcher(all(), Some(Revision(0)));
    assert!(matches!(refused, Err(Failure::Compacted { restart_from: Revision(3) })));
    let handle = log.add_watcher(all(), Some(Revision(1))).unwrap();
    assert_eq!(changes(&log, handle.number), expected(&[("/b", 2), ("/c", 3)]));
}

#[test]
fn a_slow_watcher_receives_compacted_and_then_later_changes() {
    let log = log(2);
    let slow = log.add_watcher(all(), None).unwrap();
    created(&log, &[(1, "/a"), (2, "/b"), (3, "/c")]);
    assert!(matches!(log.read(slow.number), ReadChanges::Compacted(Revision(3))));
    created(&log, &[(4, "/d")]);
    assert_eq!(changes(&log, slow.number), expected(&[("/d", 4)]));
}

#[test]
fn a_watcher_without_matching_changes_is_not_compacted() {
    let log = log(2);
    let quiet = log.add_watcher(WatchFilter::Node(path("/quiet")), None).unwrap();
    assert_eq!(changes(&log, quiet.number), []);
    created(&log, &[(1, "/a"), (2, "/b"), (3, "/c")]);
    assert!(matches!(log.read(quiet.number), ReadChanges::Nothing(Revision(3))));
    created(&log, &[(4, "/quiet")]);
    assert_eq!(changes(&log, quiet.number), expected(&[("/quiet", 4)]));
}

#[test]
fn after_skipped_entries_every_watcher_receives_compacted() {
    let log = log(10);
    created(&log, &[(1, "/a")]);
    let handle = log.add_watcher(all(), Some(Revision(0))).unwrap();
    log.restart(Revision(9));
    assert!(matches!(log.read(handle.number), ReadChanges::Compacted(Revision(9))));
    assert!(log.add_watcher(all(), Some(Revision(8))).is_err());
    created(&log, &[(10, "/b")]);
    assert_eq!(changes(&log, handle.number), expected(&[("/b", 10)]));
    let later = log.add_watcher(all(), Some(Revision(9))).unwrap();
    assert_eq!(changes(&log, later.number), expected(&[("/b", 10)]));
}

#[test]
fn the_log_is_bounded_in_bytes_and_watchers_in_number() {
    let log = ChangeLog::new(1_000_000, 10 * ITEM_BYTES, WATCHERS);
    for revision in 1..1_000 {
        created(&log, &[(revision, "/a")]);
    }
    assert!(log.state.lock().changes.len() <= 10);
    let handles: Vec<_> = (0..WATCHERS).map(|_| log.add_watcher(all(), None).unwrap()).collect();
    let refused = log.add_watcher(all(), None);
    assert!(matches!(refused, Err(Failure::TooManyStreams { limit: WATCHERS })));
    log.leave(handles[0].number);
    assert!(log.add_watcher(all(), None).is_ok());
}
