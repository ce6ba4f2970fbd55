//! One change of the log, and the condition for a valid change.

use bytes::Bytes;

use crate::record::{RaftMeta, Record};

/// One change of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LogChange {
    Append(Record),
    SetMeta {
        meta: RaftMeta,
        bytes: Bytes,
    },
    /// Removes the records from `next` on.
    Truncate {
        next: u64,
    },
    /// Removes the records up to `through`, and sets [`RaftMeta::Purged`].
    Purge {
        through: u64,
        meta: Bytes,
    },
}

/// The range of existing records, `first..next`. Invariants: `first <= next`, and `purged < first`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The last purged index.
    pub(super) purged: Option<u64>,
    pub(super) first: u64,
    pub(super) next: u64,
}

impl Bounds {
    pub(super) fn are_valid(self) -> bool {
        self.first <= self.next && self.purged.is_none_or(|purged| purged < self.first)
    }

    pub(super) fn is_empty(self) -> bool {
        self.first == self.next
    }

    pub(super) fn len(self) -> u64 {
        self.next - self.first
    }

    pub(super) fn last(self) -> Option<u64> {
        if self.is_empty() { None } else { self.next.checked_sub(1) }
    }

    /// The index of the next record; `None` if a record of any index may be the first.
    pub(super) fn next_index(self) -> Option<u64> {
        (!self.is_empty() || self.purged.is_some()).then_some(self.next)
    }

    /// Returns the bounds after a change, or the reason why the change does not fit.
    pub(super) fn after(self, change: &LogChange) -> Result<Self, String> {
        match change {
            LogChange::Append(record) => self.after_append(record.index),
            LogChange::SetMeta { meta: RaftMeta::Purged, .. } => {
                Err("only a purge sets the Raft metadata Purged".to_owned())
            }
            LogChange::SetMeta { .. } => Ok(self),
            LogChange::Truncate { next } => Ok(self.after_truncate(*next)),
            LogChange::Purge { through, .. } => self.after_purge(*through),
        }
    }

    pub(super) fn after_append(self, index: u64) -> Result<Self, String> {
        let expected = self.next_index().unwrap_or(index);
        let next = index.checked_add(1).filter(|_| index == expected);
        let next =
            next.ok_or_else(|| format!("record {index} appended, expected record {expected}"))?;
        Ok(Self { first: if self.is_empty() { index } else { self.first }, next, ..self })
    }

    fn after_truncate(self, next: u64) -> Self {
        if next > self.first {
            return Self { next: next.min(self.next), ..self };
        }
        let first = self.purged.map_or(self.first, |purged| purged + 1);
        Self { first, next: first, ..self }
    }

    fn after_purge(self, through: u64) -> Result<Self, String> {
        let behind = through.checked_add(1).ok_or_else(|| {
            "purge through the largest index leaves none for the next record".to_owned()
        })?;
        if self.purged > Some(through) {
            return Err(format!("purge through {through}, below an earlier purge"));
        }
        let purged = Some(through);
        if self.next <= behind || self.is_empty() {
            return Ok(Self { purged, first: behind, next: behind });
        }
        Ok(Self { purged, first: self.first.max(behind), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_do_not_fit_are_rejected() {
        let some = Bounds { purged: Some(4), first: 5, next: 9 };
        let append = |index| LogChange::Append(Record { index, bytes: Bytes::new() });
        let purge = |through| LogChange::Purge { through, meta: Bytes::new() };
        let purged = LogChange::SetMeta { meta: RaftMeta::Purged, bytes: Bytes::new() };
        for change in [append(8), append(10), purge(3), purge(u64::MAX), purged] {
            assert!(some.after(&change).is_err(), "{change:?}");
        }
        assert!(Bounds::default().after(&append(u64::MAX)).is_err());
    }
}
