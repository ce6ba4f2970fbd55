//! ZooKeeper's rules for watches, with one test for each rule.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const A: StreamNumber = StreamNumber(1);
const B: StreamNumber = StreamNumber(2);

fn path(text: &str) -> ZnodePath {
    ZnodePath::new(text).unwrap()
}

/// A table with one stream's watches.
fn armed(watches: &[(&str, WatchFlags)]) -> WatchTable {
    let mut table = WatchTable::default();
    for (at, arms) in watches {
        table.arm(A, &path(at), *arms);
    }
    table
}

/// Fires the watches of a change, and returns the notices to stream A.
fn fire(table: &mut WatchTable, kind: NoticeKind, at: &str) -> Vec<(NoticeKind, String)> {
    let fired = table.fire(kind, &path(at)).into_iter().filter(|fired| fired.stream == A);
    fired.map(|fired| (fired.kind, fired.path.to_string())).collect()
}

fn notices(of: &[(NoticeKind, &str)]) -> Vec<(NoticeKind, String)> {
    of.iter().map(|(kind, at)| (*kind, (*at).to_owned())).collect()
}

use NoticeKind::{Changed, ChildrenChanged, Created, Deleted};

#[test]
fn an_existence_watch_fires_once_for_creation_deletion_or_change() {
    for kind in [Created, Deleted, Changed] {
        let mut table = armed(&[("/a", WatchFlags::DATA)]);
        assert_eq!(fire(&mut table, kind, "/a"), notices(&[(kind, "/a")]));
        assert_eq!(fire(&mut table, kind, "/a"), []);
        assert_eq!(table.len(), 0);
    }
}

#[test]
fn a_data_watch_does_not_fire_for_children() {
    let mut table = armed(&[("/a", WatchFlags::DATA)]);
    assert_eq!(fire(&mut table, Created, "/a/b"), []);
    assert_eq!(fire(&mut table, Deleted, "/a/b"), []);
    assert_eq!(fire(&mut table, Changed, "/a"), notices(&[(Changed, "/a")]));
}

#[test]
fn a_child_watch_fires_once_for_the_list_or_the_nodes_own_deletion() {
    for kind in [Created, Deleted] {
        let mut table = armed(&[("/a", WatchFlags::CHILD)]);
        assert_eq!(fire(&mut table, kind, "/a/b"), notices(&[(ChildrenChanged, "/a")]));
        assert_eq!(fire(&mut table, kind, "/a/c"), []);
    }
    let mut table = armed(&[("/a", WatchFlags::CHILD)]);
    assert_eq!(fire(&mut table, Changed, "/a"), []);
    assert_eq!(fire(&mut table, Changed, "/a/b"), []);
    assert_eq!(fire(&mut table, Created, "/a/b/c"), []);
    assert_eq!(fire(&mut table, Deleted, "/a"), notices(&[(Deleted, "/a")]));
    assert_eq!(table.len(), 0);
}

#[test]
fn a_data_watch_and_a_child_watch_of_one_node_give_one_notice_of_its_deletion() {
    let mut table = armed(&[("/a", WatchFlags::DATA), ("/a", WatchFlags::CHILD)]);
    assert_eq!(fire(&mut table, Deleted, "/a"), notices(&[(Deleted, "/a")]));
    assert_eq!(table.len(), 0);
}

#[test]
fn watches_of_a_node_and_its_directory_give_two_notices_of_a_creation() {
    let mut table = armed(&[("/a/b", WatchFlags::DATA), ("/a", WatchFlags::CHILD)]);
    let both = notices(&[(Created, "/a/b"), (ChildrenChanged, "/a")]);
    assert_eq!(fire(&mut table, Created, "/a/b"), both);
}

#[test]
fn a_child_watch_of_the_root_fires() {
    let mut table = armed(&[("/", WatchFlags::CHILD)]);
    assert_eq!(fire(&mut table, Created, "/a"), notices(&[(ChildrenChanged, "/")]));
}

#[test]
fn a_persistent_watch_fires_each_time_for_data_and_children() {
    let mut table = armed(&[("/a", WatchFlags::PERSISTENT)]);
    for _ in 0..2 {
        assert_eq!(fire(&mut table, Created, "/a"), notices(&[(Created, "/a")]));
        assert_eq!(fire(&mut table, Changed, "/a"), notices(&[(Changed, "/a")]));
        assert_eq!(fire(&mut table, Created, "/a/b"), notices(&[(ChildrenChanged, "/a")]));
        assert_eq!(fire(&mut table, Changed, "/a/b"), []);
        assert_eq!(fire(&mut table, Deleted, "/a"), notices(&[(Deleted, "/a")]));
    }
    assert_eq!(table.len(), 2, "both sides are counted");
}

#[test]
fn a_recursive_watch_fires_for_the_subtree_and_never_for_lists_of_children() {
    let mut table = armed(&[("/a", WatchFlags::RECURSIVE)]);
    for at in ["/a", "/a/b", "/a/b/c"] {
        for kind in [Created, Changed, Deleted] {
            assert_eq!(fire(&mut table, kind, at), notices(&[(kind, at)]));
        }
    }
    assert_eq!(fire(&mut table, Created, "/ab"), []);
    assert_eq!(fire(&mut table, Created, "/b"), []);
}

#[test]
fn a_recursive_watch_of_the_root_fires_for_every_node() {
    let mut table = armed(&[("/", WatchFlags::RECURSIVE)]);
    assert_eq!(fire(&mut table, Changed, "/a/b"), notices(&[(Changed, "/a/b")]));
}

#[test]
fn a_change_gives_one_notice_for_any_number_of_watches() {
    let all = [
        ("/a/b", WatchFlags::DATA),
        ("/a/b", WatchFlags::PERSISTENT),
        ("/a/b", WatchFlags::RECURSIVE),
        ("/a", WatchFlags::RECURSIVE),
        ("/", WatchFlags::RECURSIVE),
    ];
    let mut table = armed(&all);
    for kind in [Created, Changed, Deleted] {
        assert_eq!(fire(&mut table, kind, "/a/b"), notices(&[(kind, "/a/b")]));
    }
}

#[test]
fn a_one_shot_child_watch_fires_in_addition_to_a_recursive_watch() {
    let mut table = armed(&[("/a", WatchFlags::RECURSIVE), ("/a", WatchFlags::CHILD)]);
    let both = notices(&[(Created, "/a/b"), (ChildrenChanged, "/a")]);
    assert_eq!(fire(&mut table, Created, "/a/b"), both);
    assert_eq!(fire(&mut table, Created, "/a/c"), notices(&[(Created, "/a/c")]));
}

#[test]
fn a_one_shot_watch_does_not_remove_a_persistent_one() {
    let mut table = armed(&[("/a", WatchFlags::PERSISTENT), ("/a", WatchFlags::DATA)]);
    for _ in 0..2 {
        assert_eq!(fire(&mut table, Changed, "/a"), notices(&[(Changed, "/a")]));
    }
}

#[test]
fn a_notice_that_no_read_has_armed_is_flagged() {
    let mut table = armed(&[
        ("/a", WatchFlags::RECURSIVE),
        ("/a/b", WatchFlags::DATA),
        ("/p", WatchFlags::PERSISTENT),
        ("/e", WatchFlags::DATA),
    ]);
    let unread = |table: &mut WatchTable, kind, at| {
        let fired = table.fire(kind, &path(at)).into_iter();
        fired.map(|fired| fired.unread).collect::<Vec<_>>()
    };
    assert_eq!(unread(&mut table, Changed, "/a/b"), [false]);
    assert_eq!(unread(&mut table, Changed, "/a/b"), [true]);
    assert_eq!(unread(&mut table, Changed, "/a"), [true]);
    assert_eq!(unread(&mut table, Changed, "/p"), [true]);
    assert_eq!(unread(&mut table, Created, "/e"), [true]);
}

#[test]
fn watches_are_checked_and_removed_by_kind() {
    let mut table = armed(&[
        ("/a", WatchFlags::DATA),
        ("/a", WatchFlags::CHILD),
        ("/p", WatchFlags::PERSISTENT),
    ]);
    assert!(table.has(A, &path("/a"), WatchKind::Child));
    assert!(!table.has(B, &path("/a"), WatchKind::Any));
    assert!(table.remove(A, &path("/a"), WatchKind::Child));
    assert!(!table.remove(A, &path("/a"), WatchKind::Child));
    assert!(table.has(A, &path("/a"), WatchKind::Data));
    assert!(table.remove(A, &path("/a"), WatchKind::Any));
    assert!(!table.remove(A, &path("/a"), WatchKind::Any));
    assert!(table.remove(A, &path("/p"), WatchKind::Data));
    assert_eq!(fire(&mut table, Changed, "/p"), []);
    assert_eq!(fire(&mut table, Created, "/p/c"), notices(&[(ChildrenChanged, "/p")]));
}

#[test]
fn a_stream_that_ends_has_no_counted_watch() {
    let mut table = armed(&[
        ("/a", WatchFlags::DATA),
        ("/a", WatchFlags::RECURSIVE),
        ("/b", WatchFlags::CHILD),
    ]);
    table.arm(B, &path("/a"), WatchFlags::DATA);
    assert_eq!((table.len(), table.paths(), table.streams(), table.len_of(A)), (4, 2, 2, 3));
    table.forget(A);
    assert_eq!((table.len(), table.paths(), table.streams(), table.len_of(A)), (1, 2, 1, 0));
    assert_eq!(fire(&mut table, Changed, "/b"), []);
    table.sweep(1);
    assert_eq!((table.paths(), table.recursive), (1, 1), "one path at a time");
    table.sweep(2);
    assert_eq!((table.paths(), table.recursive), (1, 0));
    assert!(table.ended.is_empty());
}

/// A removal can arrive after the end of its stream, before a sweep.
#[test]
fn a_watch_of_an_ended_stream_is_not_counted_again() {
    let mut table =
        armed(&[("/a", WatchFlags::DATA.and(WatchFlags::CHILD)), ("/b", WatchFlags::RECURSIVE)]);
    table.arm(B, &path("/a"), WatchFlags::DATA);
    table.forget(A);
    for (at, kind) in [("/a", WatchKind::Data), ("/a", WatchKind::Child), ("/b", WatchKind::Any)] {
        assert!(!table.has(A, &path(at), kind) && !table.remove(A, &path(at), kind), "{at}");
    }
    assert_eq!((table.len(), table.streams(), table.len_of(A), table.len_of(B)), (1, 1, 0, 1));
    table.sweep(usize::MAX);
    assert_eq!((table.len(), table.paths(), table.recursive), (1, 1, 0));
    assert!(table.remove(B, &path("/a"), WatchKind::Data));
    assert_eq!((table.len(), table.paths()), (0, 0));
}

#[test]
fn streams_that_arm_watches_and_end_leave_few_paths() {
    let mut table = WatchTable::default();
    for stream in (1..=50).map(StreamNumber) {
        for at in ["/a", "/b", "/c", "/d"] {
            table.arm(stream, &path(at), WatchFlags::DATA);
        }
        table.forget(stream);
    }
    let left: usize = table.ended.iter().map(|(_, paths)| paths.len()).sum();
    assert!(left <= 4, "{left}");
}

#[test]
fn ancestors_go_up_to_the_root() {
    assert_eq!(ancestors("/a/b/c").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
    assert_eq!(ancestors("/a").collect::<Vec<_>>(), ["/"]);
    assert_eq!(ancestors("/").count(), 0);
}

/// One watch of the naive model: a list whose watches are checked one by one.
#[derive(Clone, Debug, PartialEq)]
struct Naive {
    stream: StreamNumber,
    at: String,
    arms: WatchFlags,
}

fn fires(watch: &Naive, kind: NoticeKind, at: &str) -> bool {
    let here = watch.at == at;
    let inside = here || watch.at == "/" || at.starts_with(&format!("{}/", watch.at));
    match (watch.arms, kind) {
        (WatchFlags::DATA, Created | Changed | Deleted)
        | (WatchFlags::CHILD, ChildrenChanged | Deleted)
        | (WatchFlags::PERSISTENT, _) => here,
        (WatchFlags::RECURSIVE, Created | Changed | Deleted) => inside,
        _ => false,
    }
}

/// Returns the notices of one change, by stream.
fn naive_fire(
    watches: &mut Vec<Naive>,
    kind: NoticeKind,
    at: &str,
) -> BTreeMap<StreamNumber, Vec<(NoticeKind, String)>> {
    let mut found: BTreeMap<StreamNumber, Vec<_>> = BTreeMap::new();
    let mut parts = vec![(kind, at.to_owned())];
    if matches!(kind, Created | Deleted)
        && let Some(parent) = path(at).parent()
    {
        parts.push((ChildrenChanged, parent.to_string()));
    }
    for (kind, at) in parts {
        let mut fired: Vec<_> =
            watches.iter().filter(|w| fires(w, kind, &at)).map(|w| w.stream).collect();
        fired.sort();
        fired.dedup();
        for stream in fired {
            found.entry(stream).or_default().push((kind, at.clone()));
        }
        let spent = |w: &Naive| {
            [WatchFlags::DATA, WatchFlags::CHILD].contains(&w.arms) && fires(w, kind, &at)
        };
        watches.retain(|watch| !spent(watch));
    }
    found
}

#[derive(Clone, Debug)]
enum Step {
    Arm(StreamNumber, &'static str, WatchFlags),
    Fire(NoticeKind, &'static str),
    Forget(StreamNumber),
}

fn step() -> impl Strategy<Value = Step> {
    let paths = ["/", "/a", "/a/b", "/a/b/c", "/a/bc", "/ab"];
    let at = prop::sample::select(paths.to_vec());
    let changed = prop::sample::select(paths[1..].to_vec());
    let stream = (1..4_u64).prop_map(StreamNumber);
    let all = [WatchFlags::DATA, WatchFlags::CHILD, WatchFlags::PERSISTENT, WatchFlags::RECURSIVE];
    let arms = prop::sample::select(all.to_vec());
    let kind = prop::sample::select(vec![Created, Changed, Deleted]);
    prop_oneof![
        5 => (stream.clone(), at, arms).prop_map(|(stream, at, arms)| Step::Arm(stream, at, arms)),
        5 => (kind, changed).prop_map(|(kind, at)| Step::Fire(kind, at)),
        1 => stream.prop_map(Step::Forget),
    ]
}

proptest! {
    #[test]
    fn the_table_fires_the_same_watches_as_a_naive_list(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let (mut table, mut naive) = (WatchTable::default(), Vec::new());
        // No stream has the number of another one.
        let mut ended = [0; 4];
        let number = |stream: StreamNumber, ended: &[u64; 4]| {
            StreamNumber(stream.0 + 10 * ended[usize::try_from(stream.0).unwrap()])
        };
        for step in steps {
            table.sweep(1);
            match step {
                Step::Arm(stream, at, arms) => {
                    let stream = number(stream, &ended);
                    let watch = Naive { stream, at: at.to_owned(), arms };
                    let before = table.len();
                    let added = table.added(stream, &path(at), arms);
                    table.arm(stream, &path(at), arms);
                    prop_assert_eq!(table.len(), before + added);
                    if !naive.contains(&watch) {
                        naive.push(watch);
                    }
                }
                Step::Fire(kind, at) => {
                    let mut found: BTreeMap<StreamNumber, Vec<_>> = BTreeMap::new();
                    for fired in table.fire(kind, &path(at)) {
                        let notice = (fired.kind, fired.path.to_string());
                        found.entry(fired.stream).or_default().push(notice);
                    }
                    prop_assert_eq!(found, naive_fire(&mut naive, kind, at));
                }
                Step::Forget(stream) => {
                    let index = usize::try_from(stream.0).unwrap();
                    let stream = number(stream, &ended);
                    ended[index] += 1;
                    table.forget(stream);
                    naive.retain(|watch| watch.stream != stream);
                }
            }
            let streams: BTreeSet<_> = naive.iter().map(|watch| watch.stream).collect();
            prop_assert_eq!(table.streams(), streams.len());
        }
        table.sweep(usize::MAX);
        let paths: BTreeSet<_> = naive.iter().map(|watch| &watch.at).collect();
        prop_assert_eq!(table.paths(), paths.len());
    }
}
