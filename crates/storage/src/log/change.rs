//! The contents of the log, one change of them, and the condition for a valid change.

use bytes::Bytes;

/// The maximum length of a record, bytes.
pub const RECORD_BYTES_MAX: usize = 4 << 20;
/// The maximum length of a value of Raft metadata, bytes.
pub const META_BYTES_MAX: usize = 4 << 10;

/// One entry of the log. The log does not interpret it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The position in the log; indexes are consecutive.
    pub index: u64,
    /// The content, at most [`RECORD_BYTES_MAX`] bytes; may be empty.
    pub bytes: Bytes,
}

/// The name of a small value that becomes durable in order with the log. The enum is append-only; the number is part
/// of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RaftMeta {
    Vote = 0,
    /// The last position known to be committed.
    Committed = 1,
    /// The last purged position; only a purge sets it.
    Purged = 2,
}

impl RaftMeta {
    /// All values, by number.
    pub const ALL: [Self; 3] = [Self::Vote, Self::Committed, Self::Purged];

    pub(crate) const fn number(self) -> u8 {
        self as u8
    }
}

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
