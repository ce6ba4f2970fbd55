//! The checker of guarantee 9: compares the items that one client received, in their order, with all changes.
//!
//! A watch that a reply of revision `r` armed must give one notice of the first change after `r`. The notice must
//! precede any reply that could reveal the change: any reply of the change's revision or a later one.

use std::collections::BTreeMap;

use holdfast_types::Revision;

/// An item that a client received.
#[derive(Clone, Debug)]
pub(super) enum Sent {
    /// A reply, and the path of the one-shot data watch that it armed.
    Reply { revision: u64, watch: Option<&'static str> },
    /// A notice of a change.
    Notice { revision: Revision, path: String },
}

/// The revisions of the changes of each path, in order.
pub(super) type Changes = BTreeMap<String, Vec<u64>>;

/// Checks that every notice came once, in time, and for the right change. Returns the number of notices.
pub(super) fn check_order(sent: &[Sent], changes: &Changes) -> Result<usize, String> {
    let mut armed: BTreeMap<&str, u64> = BTreeMap::new();
    let mut notices = 0;
    for (index, item) in sent.iter().enumerate() {
        match item {
            Sent::Notice { revision, path } => {
                let Some(since) = armed.remove(path.as_str()) else {
                    return Err(format!("item {index}: a notice of {path} without an armed watch"));
                };
                if first_change(changes, path, since) != Some(revision.0) {
                    return Err(format!(
                        "item {index}: the notice of {path}, armed at {since}, has revision {revision}"
                    ));
                }
                notices += 1;
            }
            Sent::Reply { revision, watch } => {
                let late = armed.iter().find(|(path, since)| {
                    first_change(changes, path, **since).is_some_and(|change| change <= *revision)
                });
                if let Some((path, since)) = late {
                    return Err(format!(
                        "item {index}: a reply of {revision} precedes the notice of {path}, armed at {since}"
                    ));
                }
                if let Some(path) = watch {
                    armed.entry(path).or_insert(*revision);
                }
            }
        }
    }
    Ok(notices)
}

/// Returns the first change of a path after a revision.
fn first_change(changes: &Changes, path: &str, since: u64) -> Option<u64> {
    changes.get(path)?.iter().copied().find(|change| *change > since)
}

const A: Option<&str> = Some("/a");

fn reply(revision: u64, watch: Option<&'static str>) -> Sent {
    Sent::Reply { revision, watch }
}

fn notice(revision: u64) -> Sent {
    Sent::Notice { revision: Revision(revision), path: "/a".to_owned() }
}

fn check(sent: &[Sent]) -> Result<usize, String> {
    check_order(sent, &Changes::from([("/a".to_owned(), vec![5, 7])]))
}

#[test]
fn notices_in_time_are_accepted() {
    assert_eq!(check(&[reply(4, A), notice(5), reply(5, A), notice(7), reply(9, None)]), Ok(2));
    assert_eq!(check(&[reply(4, A), reply(4, A), notice(5), reply(8, A)]), Ok(1));
    assert_eq!(check(&[reply(5, None), reply(7, A), reply(9, None)]), Ok(0));
}

#[test]
fn a_reply_before_its_notice_is_rejected() {
    assert!(check(&[reply(4, A), reply(5, None), notice(5)]).is_err());
}

#[test]
fn a_repeated_wrong_or_unarmed_notice_is_rejected() {
    assert!(check(&[reply(4, A), notice(5), notice(5)]).is_err());
    assert!(check(&[reply(4, A), notice(7)]).is_err());
    assert!(check(&[reply(4, None), notice(5)]).is_err());
}
