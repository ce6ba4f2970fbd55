//! Where holdfast answers otherwise on purpose: each with its reason, and narrow enough to hide nothing else.
//!
//! Owns the list; `docs/zookeeper.md` has it in prose, with what the scripts leave out altogether.

use std::collections::BTreeMap;

use holdfast_zkwire::{Create, MultiOp, ReadOp, Request};

use crate::script::Step;

struct Excuse {
    why: &'static str,
    holds: fn(&Step, &str, &str) -> bool,
}

const EXCUSES: &[Excuse] = &[
    Excuse {
        why: "a check that holds, outside a multi, is answered: a client that waits for ever helps nobody",
        holds: |step, theirs, ours| {
            asks(step, |request| matches!(request, Request::Check { .. }))
                && theirs.ends_with(" reply none")
                && ours.contains(" reply h:")
                && ours.ends_with(" done")
        },
    },
    Excuse {
        why: "checkWatches tells of one's own watches: ZooKeeper says yes if anybody has one there",
        holds: |step, theirs, ours| {
            asks(step, |request| matches!(request, Request::CheckWatches { .. }))
                && theirs.ends_with(" done")
                && ours.ends_with(" error -121")
        },
    },
    Excuse {
        why: "of a path that no node can have, the path is told, before what the parent's list forbids",
        holds: |step, theirs, ours| {
            let told = |code: &str| without_header(&theirs.replacen("error -102", code, 1));
            asks(step, names_an_impossible_path)
                && theirs.contains("error -102")
                && [told("error -101"), told("error -8")].contains(&without_header(ours))
        },
    },
    Excuse {
        why: "an ensemble shows its members; the ZooKeeper beside it is alone and has none to show",
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

/// A line without data and its length.
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

/// Why these lines may differ, if they may.
pub(crate) fn of(step: &Step, theirs: &str, ours: &str) -> Option<&'static str> {
    let excuse = EXCUSES.iter().find(|excuse| (excuse.holds)(step, theirs, ours));
    excuse.map(|excuse| excuse.why)
}

/// Our lines in their order. Of what one connection is told, events stand in the same order and so do replies; but an
/// event may come before replies to requests that were sent before the change: a client that learns of a
/// change early cannot take the older replies for newer ones, since it knows what it asked.
///
/// # Errors
/// What does not fit: lines are missing or too many, or an event comes later than theirs.
pub(crate) fn in_order<'a>(
    theirs: &[String],
    ours: &'a [String],
) -> Result<Vec<&'a String>, String> {
    let mut lines: BTreeMap<_, Vec<(usize, &String)>> = BTreeMap::new();
    for (place, line) in places(ours) {
        lines.entry(of_whom(line)).or_default().push((place, line));
    }
    for lines in lines.values_mut() {
        lines.reverse();
    }
    let mut ordered = Vec::new();
    for (expected, line) in places(theirs) {
        let next = lines.get_mut(&of_whom(line)).and_then(Vec::pop);
        let (place, found) = next.ok_or_else(|| format!("`{line}` is missing"))?;
        if place > expected {
            return Err(format!("`{found}` comes {} replies late", place - expected));
        }
        ordered.push(found);
    }
    match lines.into_values().flatten().next() {
        Some((_, line)) => Err(format!("`{line}` is too much")),
        None => Ok(ordered),
    }
}

/// Whose line it is, and whether it is an event.
fn of_whom(line: &str) -> (&str, bool) {
    let (slot, rest) = line.split_once(' ').unwrap_or((line, ""));
    (slot, rest.starts_with("event "))
}

/// Each line with how many of the same connection's, but events, came before.
fn places(lines: &[String]) -> impl Iterator<Item = (usize, &String)> {
    let mut replies: BTreeMap<&str, usize> = BTreeMap::new();
    lines.iter().map(move |line| {
        let (slot, event) = of_whom(line);
        let count = replies.entry(slot).or_default();
        let place = *count;
        *count += usize::from(!event);
        (place, line)
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
    fn events_may_come_early_but_never_late_or_in_another_order() {
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
    fn an_excuse_holds_for_its_own_request_alone() {
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
