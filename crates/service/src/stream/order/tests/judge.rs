//! The judge of promise 9: reads what one client was sent, in its order, and what was changed when.
//!
//! Refuses to know how the order is kept. A watch set by a reply of revision `r` owes one notice of the first change
//! after `r`, before any reply that could reveal the change, which is any of its revision or later.

use std::collections::BTreeMap;

use holdfast_types::Revision;

/// One thing a client was sent.
#[derive(Clone, Debug)]
pub(super) enum Sent {
    /// A reply, and the path of the one-shot watch of data that came with it.
    Reply { revision: u64, watch: Option<&'static str> },
    /// A notice.
    Notice { revision: Revision, path: String },
}

/// When each path was changed, in order.
pub(super) type Changes = BTreeMap<String, Vec<u64>>;

/// Whether every notice came in time, once, and for its own change.
pub(super) fn judge(sent: &[Sent], changes: &Changes) -> Result<usize, String> {
    let mut armed: BTreeMap<&str, u64> = BTreeMap::new();
    let mut notices = 0;
    for (place, item) in sent.iter().enumerate() {
        match item {
            Sent::Notice { revision, path } => {
                let Some(since) = armed.remove(path.as_str()) else {
                    return Err(format!("{place}: a notice of {path} that nobody asked for"));
                };
                if owed(changes, path, since) != Some(revision.0) {
                    return Err(format!("{place}: {path} says {revision}, set at {since}"));
                }
                notices += 1;
            }
            Sent::Reply { revision, watch } => {
                let late = armed.iter().find(|(path, since)| {
                    owed(changes, path, **since).is_some_and(|change| change <= *revision)
                });
                if let Some((path, since)) = late {
                    return Err(format!(
                        "{place}: a reply of {revision} came before the notice of {path}, set at {since}"
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

/// The first change of a path after a revision.
fn owed(changes: &Changes, path: &str, since: u64) -> Option<u64> {
    changes.get(path)?.iter().copied().find(|change| *change > since)
}

const A: Option<&str> = Some("/a");

fn reply(revision: u64, watch: Option<&'static str>) -> Sent {
    Sent::Reply { revision, watch }
}

fn notice(revision: u64) -> Sent {
    Sent::Notice { revision: Revision(revision), path: "/a".to_owned() }
}

fn verdict(sent: &[Sent]) -> Result<usize, String> {
    judge(sent, &Changes::from([("/a".to_owned(), vec![5, 7])]))
}

#[test]
fn notices_in_time_are_accepted() {
    assert_eq!(verdict(&[reply(4, A), notice(5), reply(5, A), notice(7), reply(9, None)]), Ok(2));
    assert_eq!(verdict(&[reply(4, A), reply(4, A), notice(5), reply(8, A)]), Ok(1));
    assert_eq!(verdict(&[reply(5, None), reply(7, A), reply(9, None)]), Ok(0));
}

#[test]
fn a_reply_before_its_notice_is_refused() {
    assert!(verdict(&[reply(4, A), reply(5, None), notice(5)]).is_err());
}

#[test]
fn a_notice_twice_or_of_another_change_or_of_none_is_refused() {
    assert!(verdict(&[reply(4, A), notice(5), notice(5)]).is_err());
    assert!(verdict(&[reply(4, A), notice(7)]).is_err());
    assert!(verdict(&[reply(4, None), notice(5)]).is_err());
}
