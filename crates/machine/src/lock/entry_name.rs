//! The names of queue entries, and what the recipes of ZooKeeper clients read in them.
//!
//! ZooKeeper clients order a queue themselves, by the names of its children. The name of an HTTP caller's entry has the
//! sequence number three times, so that every known recipe finds it where it looks:
//!
//! | client | what it compares |
//! |---|---|
//! | kazoo | the ten digits after a final `__lock__` |
//! | Curator's mutexes and latches | what follows `lock-` or `latch-`, otherwise the whole name |
//! | Curator's read/write lock | what follows `__WRIT__` or `__READ__`; a reader waits for `__WRIT__` only |
//! | Go's client | the number after the last `lock-`, otherwise after the last `__` |
//!
//! A recipe that reads names in another way ([`EntryRecipe::Unknown`]) is never in one queue with an HTTP caller.

use holdfast_types::Mode;

/// The digits of a sequence number in a name. ZooKeeper clients do not sort longer numbers.
const DIGITS: usize = 10;
/// The sequence numbers that ZooKeeper clients can sort are below this one.
pub(crate) const SORTABLE_END: u64 = 10_000_000_000;
const READ: &str = "__READ__";

/// The client program that reads and orders the names of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EntryRecipe {
    /// An HTTP caller: the machine grants, and the caller reads no names.
    Own,
    /// Waits for every entry of an HTTP caller with a smaller number.
    Exclusive,
    /// kazoo's `ReadLock`: waits for every entry of an HTTP caller with a smaller number, even a shared one.
    KazooReader,
    /// Curator's read lock: waits for those that are not shared.
    CuratorReader,
    /// Reads names in another way, and can enter beside an HTTP caller.
    Unknown,
}

impl EntryRecipe {
    /// The recipe that creates znodes with this name.
    pub(crate) fn of(name: &str) -> Self {
        let stem = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let ends_with = |words: &[&str]| words.iter().any(|word| stem.ends_with(word));
        match name.len() - stem.len() {
            digits if digits < DIGITS => Self::Unknown,
            _ if stem.ends_with(READ) => Self::CuratorReader,
            _ if stem.ends_with("__rlock__") => Self::KazooReader,
            _ if ends_with(&["__lock__", "__WRIT__", "lock-", "latch-"]) => Self::Exclusive,
            _ => Self::Unknown,
        }
    }

    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::KazooReader | Self::CuratorReader => Mode::Shared,
            Self::Own | Self::Exclusive | Self::Unknown => Mode::Exclusive,
        }
    }
}

/// Whether a name is that of an HTTP caller's shared entry. Curator's readers wait for all others.
pub(crate) fn is_own_name_shared(name: &str) -> bool {
    name.contains(READ)
}

/// The name of an HTTP caller's entry. A `revision` makes it another name at the same position.
pub(crate) fn own_name(mode: Mode, sequence: u64, revision: Option<u64>) -> String {
    let word = match mode {
        Mode::Shared => READ,
        Mode::Exclusive | Mode::Upgradable => "__WRIT__",
    };
    let digits = format!("{sequence:010}");
    let other = revision.map_or(String::new(), |revision| format!("__r{revision}"));
    [&*digits, &other, word, &digits, "__lock__", &digits].concat()
}

#[cfg(test)]
mod tests;
