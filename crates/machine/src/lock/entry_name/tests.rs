//! The comparison functions of the clients, from their sources: kazoo 2.11 (`recipe/lock.py`), Curator 5.4
//! (`StandardLockInternalsDriver`, `InterProcessReadWriteLock`, `LeaderLatch`), Go's `zk` 1.0.4 and its later parser
//! (`lock.go`), ZooKeeper 3.8 (`ZNodeName.java`, `zoo_lock.c`).

use super::*;

/// The names that a client waits for, of the children of its directory; `None` if it fails.
type Waits = fn(&[String], &str) -> Option<Vec<String>>;

fn kazoo_number<'a>(name: &'a str, words: &[&str]) -> Option<&'a str> {
    let (stem, digits) = name.split_at(name.len().checked_sub(10)?);
    let matches = words.iter().any(|word| stem.ends_with(word));
    (matches && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}

fn kazoo(children: &[String], own: &str, words: &[&str]) -> Vec<String> {
    let own = &own[own.len() - 10..];
    let earlier = |name: &&String| kazoo_number(name, words).is_some_and(|number| number < own);
    children.iter().filter(earlier).cloned().collect()
}

fn after_last<'a>(name: &'a str, word: &str) -> &'a str {
    name.rsplit_once(word).map_or(name, |(_, rest)| rest)
}

fn sorted_before(children: &[String], own: &str, key: impl Fn(&str) -> String) -> Vec<String> {
    let mut sorted = children.to_vec();
    sorted.sort_by_key(|name| key(name));
    sorted.into_iter().take_while(|name| name != own).collect()
}

fn curator_mutex(children: &[String], own: &str) -> Vec<String> {
    sorted_before(children, own, |name| after_last(name, "lock-").to_owned())
}

fn curator_latch(children: &[String], own: &str) -> Vec<String> {
    sorted_before(children, own, |name| after_last(name, "latch-").to_owned())
}

fn curator_writer(children: &[String], own: &str) -> Vec<String> {
    let key = |name: &str| after_last(after_last(name, "__READ__"), "__WRIT__").to_owned();
    sorted_before(children, own, key)
}

fn curator_reader(children: &[String], own: &str) -> Vec<String> {
    let mut before = curator_writer(children, own);
    before.retain(|name| name.contains("__WRIT__"));
    before
}

fn go(children: &[String], own: &str, separator: &str) -> Option<Vec<String>> {
    let number = |name: &str| {
        let rest = after_last(name, separator);
        let rest = if rest == name { after_last(name, "__") } else { rest };
        rest.parse::<u64>().ok()
    };
    let own = number(own)?;
    let numbers: Option<Vec<_>> = children.iter().map(|name| Some((number(name)?, name))).collect();
    let earlier = numbers?.into_iter().filter(|(number, _)| *number < own);
    Some(earlier.map(|(_, name)| name.clone()).collect())
}

/// A name for a number, the comparison, and whether the client waits for shared entries.
const CLIENTS: [(&str, Waits, bool); 9] = [
    ("3f2a__lock__", |all, own| Some(kazoo(all, own, &["__lock__"])), true),
    ("3f2a__lock__", |all, own| Some(kazoo(all, own, &["__lock__", "__rlock__"])), true),
    ("3f2a__rlock__", |all, own| Some(kazoo(all, own, &["__lock__"])), true),
    ("_c_3f2a-lock-", |all, own| Some(curator_mutex(all, own)), true),
    ("_c_3f2a-latch-", |all, own| Some(curator_latch(all, own)), true),
    ("_c_3f2a-__WRIT__", |all, own| Some(curator_writer(all, own)), true),
    ("_c_3f2a-__READ__", |all, own| Some(curator_reader(all, own)), false),
    ("_c_3f2a-lock-", |all, own| go(all, own, "lock-"), true),
    ("_c_3f2a-lock-", |all, own| go(all, own, "-"), true),
];

/// Numbers at which the count of digits changes, and neighbours.
const NUMBERS: [u64; 9] =
    [0, 1, 9, 10, 99, 2_147_483_647, 2_147_483_648, 9_999_999_998, 9_999_999_999];

#[test]
fn every_client_waits_for_exactly_the_earlier_entries_of_http_callers() {
    for (prefix, waits, for_shared) in CLIENTS {
        for (own, at) in
            NUMBERS.iter().enumerate().flat_map(|(at, _)| modes().map(move |m| (m, at)))
        {
            for revision in [None, Some(7)] {
                let name = |number: u64| own_name(own, number, revision);
                let http: Vec<String> =
                    NUMBERS.iter().filter(|n| **n != NUMBERS[at]).map(|n| name(*n)).collect();
                let client = format!("{prefix}{:010}", NUMBERS[at]);
                let children: Vec<String> = http.iter().cloned().chain([client.clone()]).collect();
                let expected = if own == Mode::Shared && !for_shared { 0 } else { at };
                let found = waits(&children, &client).unwrap();
                assert_eq!(found, http[..expected], "{client} among {own:?} {revision:?}");
            }
        }
    }
}

fn modes() -> impl Iterator<Item = Mode> {
    Mode::ALL.into_iter()
}

#[test]
fn the_recipe_of_a_name_is_that_of_the_client_that_creates_it() {
    let found = |prefix: &str| EntryRecipe::of(&format!("{prefix}0000000012"));
    let known = CLIENTS.map(|(prefix, ..)| found(prefix));
    let [one, two, reader, mutex, latch, writer, curator_reader, go, later_go] = known;
    assert!(
        [one, two, mutex, latch, writer, go, later_go]
            .iter()
            .all(|it| *it == EntryRecipe::Exclusive)
    );
    assert_eq!((reader, curator_reader), (EntryRecipe::KazooReader, EntryRecipe::CuratorReader));
    assert_eq!(found("lock-"), EntryRecipe::Exclusive);
    // ZooKeeper's Java and C recipes, a lease, ZooKeeper's election, no prefix at all.
    for prefix in ["x-72057594037927936-", "x-0100000000000000-", "_c_3f2a-lease-", "n_", "foo", ""]
    {
        assert_eq!(found(prefix), EntryRecipe::Unknown, "{prefix}");
    }
    for name in ["foo", "x__lock__7", "lock-000000001"] {
        assert_eq!(EntryRecipe::of(name), EntryRecipe::Unknown, "{name}");
    }
    // Own names read as a recipe that waits, in a directory of an older program too.
    assert_eq!(EntryRecipe::of(&own_name(Mode::Exclusive, 3, None)), EntryRecipe::Exclusive);
}

/// The name has no `-`: `zoo_lock.c` compares from behind the last `-` and reads an invalid address without one, and
/// `ZNodeName` sorts such a name before all others, later ones too.
#[test]
fn the_recipes_that_need_a_dash_cannot_read_the_name_of_an_http_caller() {
    assert!(modes().all(|mode| !own_name(mode, 12, Some(7)).contains('-')));
}
