//! The intended differences between holdfast and ZooKeeper, each with its reason and a narrow condition.
//!
//! `docs/contributing/zookeeper.md` describes these differences, and the requests that the scripts leave out.

use std::collections::BTreeMap;

use holdfast_zkwire::{Create, MultiOp, ReadOp, Request};

use crate::script::Step;

struct IntendedDifference {
    why: &'static str,
    holds: fn(&Step, &str, &str) -> bool,
}

const EXCUSES: &[IntendedDifference] = &[
    IntendedDifference {
        why: "holdfast replies to a successful check outside a multi: without a reply the client would wait forever",
        holds: |step, theirs, ours| {
            asks(step, |request| matches!(request, Request::Check { .. }))
                && theirs.ends_with(" reply none")
                && ours.contains(" reply h:")
                && ours.ends_with(" done")
        },
    },
    IntendedDifference {
        why: "checkWatches covers the session's own watches: ZooKeeper's covers the watches of every session",
        holds: |step, theirs, ours| {
            asks(step, |request| matches!(request, Request::CheckWatches { .. }))
                && theirs.ends_with(" done")
                && ours.ends_with(" error -121")
        },
    },
    IntendedDifference {
        why: "holdfast reports an invalid path before a missing permission on the parent",
        holds: |step, theirs, ours| {
            let told = |code: &str| without_header(&theirs.replacen("error -102", code, 1));
            asks(step, names_an_impossible_path)
                && theirs.contains("error -102")
                && [told("error -101"), told("error -8")].contains(&without_header(ours))
        },
    },
    IntendedDifference {
        why: "exists needs the permission to read, as in ZooKeeper from 3.9.3 on (ZOOKEEPER-2590)",
        holds: |step, theirs, ours| {
            asks(step, |request| matches!(request, Request::Exists { .. }))
                && !theirs.contains(" error ")
                && ours.ends_with(" error -102")
        },
    },
    IntendedDifference {
        why: "an ensemble shows its members; the standalone ZooKeeper has no members to show",
        holds: |step, theirs, ours| {
            asks(step, reads_the_members)
                && theirs.contains(" len=0 ")
                && theirs.contains(" av=-1 ")
                && without_data(theirs) == without_data(ours)
        },
    },
];

fn reads_the_members(request: &Request) -> bool {
    const CONFIG: &str = "^/zookeeper/config";
    let of = |read: &ReadOp| matches!(read, ReadOp::GetData { path, .. } if path == CONFIG);
    match request {
        Request::Exists { path, .. }
        | Request::GetData { path, .. }
        | Request::GetChildren2 { path, .. }
        | Request::GetAcl { path } => path == CONFIG,
        Request::MultiRead(reads) => reads.iter().any(of),
        _ => false,
    }
}

/// A line without data and data length.
fn without_data(line: &str) -> Vec<&str> {
    let words = line.split(' ').scan(false, |is_data, word| {
        let was_data = std::mem::replace(is_data, word == "data");
        Some((was_data, word))
    });
    let kept = words
        .filter(|(is_data, word)| !is_data && !word.starts_with("len=") && !word.starts_with("h:"));
    kept.map(|(_, word)| word).collect()
}

fn asks(step: &Step, what: fn(&Request) -> bool) -> bool {
    matches!(step, Step::Burst { requests, .. } if requests.iter().any(what))
}

fn without_header(line: &str) -> String {
    line.split(' ').filter(|word| !word.starts_with("h:")).collect::<Vec<_>>().join(" ")
}

fn names_an_impossible_path(request: &Request) -> bool {
    let of = |op: &MultiOp| match op {
        MultiOp::Create(Create { path, .. })
        | MultiOp::Delete { path, .. }
        | MultiOp::SetData { path, .. }
        | MultiOp::Check { path, .. } => impossible(path),
    };
    match request {
        Request::Create(Create { path, .. }) | Request::Delete { path, .. } => impossible(path),
        Request::Multi(ops) => ops.iter().any(of),
        _ => false,
    }
}

fn impossible(path: &str) -> bool {
    let bad = |name: &str| matches!(name, "" | "." | "..") || name.contains(char::is_control);
    path.strip_prefix('/').is_none_or(|names| names.split('/').any(bad))
        || path.contains('\u{f8ff}')
}

/// The reason for an intended difference of these lines.
pub(crate) fn of(step: &Step, theirs: &str, ours: &str) -> Option<&'static str> {
    let excuse = EXCUSES.iter().find(|excuse| (excuse.holds)(step, theirs, ours));
    excuse.map(|excuse| excuse.why)
}

/// Sorts holdfast's lines into the order of ZooKeeper's. On one connection, events must have the same order, and so
/// must replies. An event may precede replies to requests sent before the change: the client can still match each reply
/// to its request.
///
/// # Errors
/// The difference: a missing or extra line, or an event that is later than in ZooKeeper.
pub(crate) fn in_order<'a>(
    theirs: &[String],
    ours: &'a [String],
) -> Result<Vec<&'a String>, String> {
    let mut lines: BTreeMap<_, Vec<(usize, &String)>> = BTreeMap::new();
    for (position, line) in positions(ours) {
        lines.entry(of_whom(line)).or_default().push((position, line));
    }
    for lines in lines.values_mut() {
        lines.reverse();
    }
    let mut ordered = Vec::new();
    for (expected, line) in positions(theirs) {
        let next = lines.get_mut(&of_whom(line)).and_then(Vec::pop);
        let (position, found) = next.ok_or_else(|| format!("`{line}` is missing"))?;
        if position > expected {
            return Err(format!("`{found}` is {} replies late", position - expected));
        }
        ordered.push(found);
    }
    match lines.into_values().flatten().next() {
        Some((_, line)) => Err(format!("`{line}` is an extra line")),
        None => Ok(ordered),
    }
}

/// The connection of a line, and whether the line is an event.
fn of_whom(line: &str) -> (&str, bool) {
    let (slot, rest) = line.split_once(' ').unwrap_or((line, ""));
    (slot, rest.starts_with("event "))
}

/// Each line with the number of earlier replies on the same connection.
fn positions(lines: &[String]) -> impl Iterator<Item = (usize, &String)> {
    let mut replies: BTreeMap<&str, usize> = BTreeMap::new();
    lines.iter().map(move |line| {
        let (slot, event) = of_whom(line);
        let count = replies.entry(slot).or_default();
        let position = *count;
        *count += usize::from(!event);
        (position, line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse_script;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn events_may_be_early_but_never_late_or_reordered() {
        let theirs = lines(&["0 reply a", "0 event x", "0 reply b", "1 event x"]);
        let fits = |ours: &[&str]| in_order(&theirs, &lines(ours)).is_ok();
        assert!(fits(&["0 reply a", "0 event x", "0 reply b", "1 event x"]));
        assert!(fits(&["0 event x", "0 reply a", "0 reply b", "1 event x"]));
        assert!(!fits(&["0 reply a", "0 reply b", "0 event x", "1 event x"]), "late");
        assert!(!fits(&["0 reply a", "0 event x", "0 reply b"]), "lost");
        assert!(!fits(&["0 reply a", "0 event x", "0 event x", "0 reply b", "1 event x"]), "twice");
        let ours = lines(&["0 event x", "0 reply a", "0 reply b", "1 event x"]);
        assert_eq!(in_order(&theirs, &ours).unwrap()[1], "0 event x");
    }

    #[test]
    fn an_intended_difference_applies_only_to_its_request() {
        let step = |text| parse_script(text).unwrap().remove(0);
        let excused = |text, theirs, ours| of(&step(text), theirs, ours).is_some();
        assert!(excused("0: check / -1", "0 reply none", "0 reply h:7 done"));
        assert!(!excused("0: ping", "0 reply none", "0 reply h:7 done"));
        assert!(excused("0: check-watches /a any", "0 reply h:7 done", "0 reply h:7 error -121"));
        assert!(!excused("0: check-watches /a any", "0 reply h:7 error -121", "0 reply h:7 done"));
        let bad = "0: multi | delete /a/. -1";
        let (theirs, ours) = ("0 reply h:5 multi | error -102", "0 reply h:9 multi | error -101");
        assert!(excused(bad, theirs, ours) && !excused(bad, ours, theirs));
        assert!(!excused("0: multi | delete /a/b -1", theirs, ours));
        assert!(!excused("0: remove-watches /a any", "0 reply h:7 done", "0 reply h:7 error -121"));
    }
}
