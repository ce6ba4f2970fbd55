//! The connections and event streams of each subject on this node.
//!
//! Bound: one count for each subject with a connection or stream, of which `subject_limits.rs` limits the number.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_types::{Actor, QuotaKind, SubjectName};
use parking_lot::Mutex;

/// What the subjects use on this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalUses(Arc<Mutex<BTreeMap<(SubjectName, QuotaKind), u64>>>);

/// A connection or stream of a subject, counted until it is dropped.
#[derive(Debug)]
pub struct LocalUse {
    uses: LocalUses,
    key: (SubjectName, QuotaKind),
}

/// The place of a connection among those of its caller.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPlace(pub(crate) Arc<Mutex<Option<CountedCaller>>>);

/// The caller of a connection, and its place if its subject has a limit.
pub(crate) type CountedCaller = (Actor, Option<LocalUse>);

impl Drop for LocalUse {
    fn drop(&mut self) {
        let mut uses = self.uses.0.lock();
        if let Some(count) = uses.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                uses.remove(&self.key);
            }
        }
    }
}

impl LocalUses {
    /// Counts one more, or returns the count that has reached the limit.
    pub(crate) fn take(&self, key: (SubjectName, QuotaKind), limit: u64) -> Result<LocalUse, u64> {
        let mut uses = self.0.lock();
        let count = uses.get(&key).copied().unwrap_or_default();
        if count >= limit {
            return Err(count);
        }
        uses.insert(key.clone(), count + 1);
        Ok(LocalUse { uses: self.clone(), key })
    }

    pub(crate) fn used(&self, subject: &SubjectName, quota: QuotaKind) -> u64 {
        self.0.lock().get(&(subject.clone(), quota)).copied().unwrap_or_default()
    }
}
