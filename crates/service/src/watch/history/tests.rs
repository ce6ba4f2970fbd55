//! What the history tells followers, and how it says what it has forgotten.

use holdfast_types::{Applied, TreeEvent};

use super::*;

const FOLLOWERS: usize = 3;

fn history(events_max: usize) -> History {
    History::new(events_max, 1 << 20, FOLLOWERS)
}

fn path(text: &str) -> ZnodePath {
    ZnodePath::new(text).unwrap()
}

/// An entry that created these nodes, each with a revision.
fn created(history: &History, nodes: &[(u64, &str)]) {
    let event = |(revision, at): &(u64, &str)| {
        (Revision(*revision), Event::Tree(TreeEvent::Created { path: path(at) }))
    };
    let events: Vec<_> = nodes.iter().map(event).collect();
    let revision = events.last().map_or(Revision(0), |(revision, _)| *revision);
    history.see(&Applied { revision, outcomes: Vec::new(), events });
}

fn all() -> WatchFilter {
    WatchFilter::Subtree(ZnodePath::root())
}

/// What a follower finds: the paths with the revisions to go on from.
fn changes(history: &History, number: u64) -> Vec<(String, u64)> {
    match history.read(number) {
        Found::Changes(changes) => changes
            .into_iter()
            .map(|watched| {
                let WatchItem::Change { path, .. } = watched.item else { panic!("{watched:?}") };
                (path.to_string(), watched.resume.0)
            })
            .collect(),
        Found::Nothing(_) => Vec::new(),
        Found::Compacted(revision) => panic!("compacted: {revision:?}"),
    }
}

fn told(of: &[(&str, u64)]) -> Vec<(String, u64)> {
    of.iter().map(|(at, revision)| ((*at).to_owned(), *revision)).collect()
}

#[test]
fn a_follower_without_a_revision_hears_what_comes_from_now_on() {
    let history = history(10);
    created(&history, &[(1, "/a")]);
    let seat = history.follow(all(), None).unwrap();
    assert_eq!(seat.after, Revision(1));
    assert_eq!(changes(&history, seat.number), []);
    created(&history, &[(2, "/b")]);
    assert_eq!(changes(&history, seat.number), told(&[("/b", 2)]));
    assert!(matches!(history.read(seat.number), Found::Nothing(Revision(2))));
}

#[test]
fn a_follower_from_a_revision_hears_exactly_what_came_after_it() {
    let history = history(10);
    created(&history, &[(1, "/a"), (2, "/b"), (3, "/c")]);
    let seat = history.follow(all(), Some(Revision(1))).unwrap();
    assert_eq!(changes(&history, seat.number), told(&[("/b", 2), ("/c", 3)]));
}

#[test]
fn a_follower_ahead_of_the_node_hears_nothing_twice() {
    let history = history(10);
    created(&history, &[(1, "/a")]);
    let seat = history.follow(all(), Some(Revision(2))).unwrap();
    created(&history, &[(2, "/b")]);
    created(&history, &[(3, "/c")]);
    assert_eq!(changes(&history, seat.number), told(&[("/c", 3)]));
}

/// "The `since` with which nothing after this item is missed": within one revision, the revision before.
#[test]
fn between_two_changes_of_one_revision_nothing_can_be_skipped() {
    let history = history(10);
    let seat = history.follow(all(), None).unwrap();
    created(&history, &[(7, "/a"), (7, "/b"), (8, "/c")]);
    assert_eq!(changes(&history, seat.number), told(&[("/a", 6), ("/b", 7), ("/c", 8)]));
}

#[test]
fn a_revision_longer_than_a_batch_can_be_resumed_without_loss() {
    let history = history(10_000);
    let seat = history.follow(all(), None).unwrap();
    let nodes: Vec<_> = (0..2 * BATCH_MAX).map(|_| (7, "/a")).collect();
    created(&history, &nodes);
    let first = changes(&history, seat.number);
    assert_eq!(first.len(), BATCH_MAX);
    assert!(first.iter().all(|(_, resume)| *resume == 6));
    let second = changes(&history, seat.number);
    assert_eq!((second.len(), second.last().unwrap().1), (BATCH_MAX, 7));
    assert_eq!(changes(&history, seat.number), []);
}

#[test]
fn a_follower_is_woken_only_by_what_concerns_it() {
    let history = history(10);
    let seat = history.follow(WatchFilter::Prefix("/locks/or".to_owned()), None).unwrap();
    assert_eq!(changes(&history, seat.number), []);
    let unread = || history.past.lock().followers.get_mut(seat.number).unwrap().unread;
    created(&history, &[(1, "/a"), (2, "/locks/job")]);
    assert_eq!(unread(), None);
    created(&history, &[(3, "/locks/orders")]);
    assert_eq!(unread(), Some(2));
    assert_eq!(changes(&history, seat.number), told(&[("/locks/orders", 3)]));
}

#[test]
fn who_asks_for_what_is_forgotten_is_told_from_where_to_start_again() {
    let history = history(2);
    created(&history, &[(1, "/a"), (2, "/b"), (3, "/c")]);
    let refused = history.follow(all(), Some(Revision(0)));
    assert!(matches!(refused, Err(Failure::Compacted { restart_from: Revision(3) })));
    let seat = history.follow(all(), Some(Revision(1))).unwrap();
    assert_eq!(changes(&history, seat.number), told(&[("/b", 2), ("/c", 3)]));
}

#[test]
fn a_slow_follower_is_told_that_it_missed_something_and_goes_on_from_there() {
    let history = history(2);
    let slow = history.follow(all(), None).unwrap();
    created(&history, &[(1, "/a"), (2, "/b"), (3, "/c")]);
    assert!(matches!(history.read(slow.number), Found::Compacted(Revision(3))));
    created(&history, &[(4, "/d")]);
    assert_eq!(changes(&history, slow.number), told(&[("/d", 4)]));
}

#[test]
fn a_follower_whom_nothing_concerned_misses_nothing_however_much_was_forgotten() {
    let history = history(2);
    let quiet = history.follow(WatchFilter::Node(path("/quiet")), None).unwrap();
    assert_eq!(changes(&history, quiet.number), []);
    created(&history, &[(1, "/a"), (2, "/b"), (3, "/c")]);
    assert!(matches!(history.read(quiet.number), Found::Nothing(Revision(3))));
    created(&history, &[(4, "/quiet")]);
    assert_eq!(changes(&history, quiet.number), told(&[("/quiet", 4)]));
}

#[test]
fn after_entries_were_skipped_everybody_is_told_so() {
    let history = history(10);
    created(&history, &[(1, "/a")]);
    let seat = history.follow(all(), Some(Revision(0))).unwrap();
    history.restart(Revision(9));
    assert!(matches!(history.read(seat.number), Found::Compacted(Revision(9))));
    assert!(history.follow(all(), Some(Revision(8))).is_err());
    created(&history, &[(10, "/b")]);
    assert_eq!(changes(&history, seat.number), told(&[("/b", 10)]));
    let later = history.follow(all(), Some(Revision(9))).unwrap();
    assert_eq!(changes(&history, later.number), told(&[("/b", 10)]));
}

#[test]
fn the_memory_is_bounded_by_bytes_too_and_followers_by_number() {
    let history = History::new(1_000_000, 10 * ITEM_BYTES, FOLLOWERS);
    for revision in 1..1_000 {
        created(&history, &[(revision, "/a")]);
    }
    assert!(history.past.lock().noted.len() <= 10);
    let seats: Vec<_> = (0..FOLLOWERS).map(|_| history.follow(all(), None).unwrap()).collect();
    let refused = history.follow(all(), None);
    assert!(matches!(refused, Err(Failure::TooManyStreams { limit: FOLLOWERS })));
    history.leave(seats[0].number);
    assert!(history.follow(all(), None).is_ok());
}
