//! One resource cut into segments: locks of their own, `stock/0` to `stock/7`, of which a caller takes one.
//!
//! Owns the words and how a segment is called. Refuses to know who gets which one: the machine chooses. Bound:
//! [`LockPolicy::SEGMENTS_MAX`] segments.

use serde::{Deserialize, Serialize};

use crate::{FencingToken, LockName, LockPolicy, NameError, SessionName};

/// Says that an acquire is for one segment of what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Segments {
    /// Into how many the resource is cut, from 1 to [`LockPolicy::SEGMENTS_MAX`]. The first call that says so cuts it, later ones
    /// must agree. None: as many as there are.
    pub count: Option<u32>,
    /// Which of them.
    pub choice: SegmentChoice,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SegmentChoice {
    /// The one in which the caller has its place; if it has none, one that can be had at once, and of several such, or if
    /// there is none, the one with the fewest holders and waiters; then the first.
    #[default]
    Any,
    /// This one, from 0.
    At(u32),
}

impl Segments {
    /// The lock that a segment is.
    ///
    /// # Errors
    /// [`NameError`] if the name becomes too long.
    pub fn name_of(whole: &LockName, segment: u32) -> Result<LockName, NameError> {
        LockName::new(format!("{whole}/{segment}"))
    }

    /// Which segment of a resource a lock is; none if it cannot be one.
    pub fn index_of(whole: &LockName, lock: &LockName) -> Option<u32> {
        let digits = lock.as_str().strip_prefix(whole.as_str())?.strip_prefix('/')?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit())
            && (digits.len() == 1 || !digits.starts_with('0'));
        digits.parse().ok().filter(|index| plain && *index < LockPolicy::SEGMENTS_MAX)
    }
}

/// One segment as those who look at the whole see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentView {
    /// The first of those who hold it, and under which token.
    pub holder: Option<(SessionName, FencingToken)>,
    /// How many hold it.
    pub holders: u32,
    /// How many wait for it.
    pub waiters: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str) -> LockName {
        LockName::new(name).unwrap()
    }

    #[test]
    fn a_segment_is_known_by_its_name_alone() {
        for index in [0, 7, 10, LockPolicy::SEGMENTS_MAX - 1] {
            let name = Segments::name_of(&lock("shop/stock"), index).unwrap();
            assert_eq!(Segments::index_of(&lock("shop/stock"), &name), Some(index), "{name}");
        }
        for other in
            ["stock", "stock/", "stock/x", "stock/07", "stock/+7", "stock/1024", "stock2/7"]
        {
            let Ok(other) = LockName::new(other) else { continue };
            assert_eq!(Segments::index_of(&lock("stock"), &other), None, "{other}");
        }
        assert_eq!(Segments::index_of(&lock("stock"), &lock("stock/7/a")), None);
        assert!(Segments::name_of(&lock(&"a".repeat(LockName::MAX_LEN - 1)), 0).is_err());
    }
}
