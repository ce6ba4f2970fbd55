//! Compares two transcripts of one script word by word.
//!
//! Change numbers (`z:`) match if they have the same order and are equal at the same positions. A header number (`h:`)
//! matches if the same number of earlier changes precedes it. Sessions (`s:`) match if the mapping between them is
//! one-to-one. 0, −1 and every other word must be equal.

use std::collections::BTreeMap;

use crate::intended_difference;
use crate::play::Transcript;
use crate::script::Step;

/// The first difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The step, from 0.
    pub step: usize,
    /// Description of the difference.
    pub what: String,
    /// All lines of the step, from the reference.
    pub expected: Vec<String>,
    /// All lines of the step, from the server under test.
    pub found: Vec<String>,
}

/// Compares two transcripts of a script; `None` if they match.
pub fn compare(steps: &[Step], expected: &Transcript, found: &Transcript) -> Option<Difference> {
    let mut pairing = Pairing::new();
    let none = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let (left, right) = (expected.get(at).unwrap_or(&none), found.get(at).unwrap_or(&none));
        let what = match intended_difference::in_order(left, right) {
            Ok(ordered) => pairing.lines(step, left, &ordered),
            Err(what) => Some(what),
        };
        if let Some(what) = what {
            return Some(Difference {
                step: at,
                what,
                expected: left.clone(),
                found: right.clone(),
            });
        }
    }
    None
}

struct Pairing {
    /// Change numbers of the reference mapped to those of holdfast, ordered on both sides.
    changes: BTreeMap<i64, i64>,
    sessions: BTreeMap<i64, i64>,
}

impl Pairing {
    fn new() -> Self {
        let fixed = BTreeMap::from([(-1, -1), (0, 0)]);
        Self { changes: fixed.clone(), sessions: fixed }
    }

    fn lines(&mut self, step: &Step, left: &[String], right: &[&String]) -> Option<String> {
        let mut pairs = left.iter().zip(right);
        pairs.find_map(|(left, right)| {
            if intended_difference::of(step, left, right).is_some() {
                None
            } else {
                self.line(left, right)
            }
        })
    }

    /// Compares changes before headers, so that a header is compared with the changes of its own reply.
    fn line(&mut self, left: &str, right: &str) -> Option<String> {
        let words = || left.split(' ').zip(right.split(' '));
        if left.split(' ').count() != right.split(' ').count() {
            return Some(format!("`{right}`, not `{left}`"));
        }
        let mut headers = Vec::new();
        for (left, right) in words() {
            match (marked(left), marked(right)) {
                (Some(("h:", left)), Some(("h:", right))) => headers.push((left, right)),
                (Some((mark, left)), Some((other, right))) if mark == other => {
                    let wrong = if mark == "s:" {
                        self.session(left, right)
                    } else {
                        self.change(left, right)
                    };
                    if wrong.is_some() {
                        return wrong;
                    }
                }
                _ if left == right => {}
                _ => return Some(format!("`{right}`, not `{left}`")),
            }
        }
        headers.into_iter().find_map(|(left, right)| self.header(left, right))
    }

    fn change(&mut self, left: i64, right: i64) -> Option<String> {
        if let Some(known) = self.changes.get(&left) {
            let what = || format!("change {right}, but {left} was {known} before");
            return (*known != right).then(what);
        }
        let before = self.changes.range(..left).next_back();
        let after = self.changes.range(left..).next();
        let fits = before.is_none_or(|(_, before)| *before < right)
            && after.is_none_or(|(_, after)| right < *after);
        if !fits {
            return Some(format!(
                "change {right} is out of order where {left} is between {before:?} and {after:?}"
            ));
        }
        self.changes.insert(left, right);
        None
    }

    fn session(&mut self, left: i64, right: i64) -> Option<String> {
        let known = *self.sessions.entry(left).or_insert(right);
        let twice = self.sessions.values().filter(|session| **session == right).count() != 1;
        let what = || format!("session {right}, but {left} is {known}");
        (known != right || twice).then(what)
    }

    /// Numbers of 0 or below must be equal.
    fn header(&self, left: i64, right: i64) -> Option<String> {
        let shown = |count: usize| format!("{count} of the changes seen so far");
        let before = self.changes.keys().filter(|change| **change <= left).count();
        let here = self.changes.values().filter(|change| **change <= right).count();
        let exact = left.min(right) <= 0 && left != right;
        (exact || before != here).then(|| {
            format!("header {right} is after {}, {left} after {}", shown(here), shown(before))
        })
    }
}

/// The prefix (`z`, `h`, `s`) and number of a word, also after `name=`.
fn marked(word: &str) -> Option<(&str, i64)> {
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    let mark = ["z:", "h:", "s:"].into_iter().find(|mark| value.starts_with(mark))?;
    Some((mark, value[2..].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differ(left: &[&str], right: &[&str]) -> bool {
        let transcript =
            |lines: &[&str]| lines.iter().map(|line| vec![format!("0 {line}")]).collect();
        let steps = vec![Step::Open { slot: 0 }; left.len().max(right.len())];
        compare(&steps, &transcript(left), &transcript(right)).is_some()
    }

    #[test]
    fn numbers_of_changes_are_compared_by_their_order() {
        assert!(!differ(&["z:5 a", "z:9 b m=z:5"], &["z:100 a", "z:101 b m=z:100"]));
        assert!(differ(&["z:5 a", "z:9 b"], &["z:100 a", "z:99 b"]));
        assert!(differ(&["z:5 a", "z:9 b"], &["z:100 a", "z:100 b"]));
        assert!(differ(&["z:5 a", "z:5 b"], &["z:100 a", "z:101 b"]));
        assert!(differ(&["m=z:0"], &["m=z:3"]));
    }

    #[test]
    fn a_header_number_follows_the_same_number_of_changes() {
        assert!(!differ(&["z:5", "h:6 error -101", "z:9"], &["z:50", "h:50 error -101", "z:51"]));
        assert!(differ(&["z:5", "z:6", "h:6"], &["z:50", "z:51", "h:50"]));
        assert!(differ(&["h:-1"], &["h:7"]));
    }

    #[test]
    fn sessions_map_one_to_one() {
        assert!(!differ(&["s:7", "s:8", "owner=s:7"], &["s:1", "s:2", "owner=s:1"]));
        assert!(differ(&["s:7", "s:8"], &["s:1", "s:1"]));
        assert!(differ(&["s:7", "s:8", "owner=s:7"], &["s:1", "s:2", "owner=s:2"]));
        assert!(differ(&["owner=s:0"], &["owner=s:5"]));
    }

    #[test]
    fn other_words_and_lines_must_be_equal() {
        assert!(differ(&["a"], &["b"]) && differ(&["a"], &["a", "b"]) && differ(&["a b"], &["a"]));
    }
}
