//! The changes that sled does not have yet, in two layers: those of the journal file being written, and those of the full
//! file being folded into sled. A reader looks in the newer layer first, then in the older one, then in sled.
//!
//! A change leaves its layer only after sled has it durably, so a reader never misses it.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use parking_lot::RwLock;

use crate::engine::{Engine, Order, Visit, Write, WriteBatch};
use crate::error::StoreError;

/// A key's new value, or none if it is gone.
type Change = (Vec<u8>, Option<Bytes>);
/// One layer.
pub(super) type Layer = BTreeMap<Vec<u8>, Option<Bytes>>;

/// See the module.
#[derive(Default)]
pub(super) struct Layers(RwLock<Both>);

#[derive(Default)]
struct Both {
    active: Layer,
    frozen: Option<Arc<Layer>>,
}

impl Layers {
    pub(super) fn put(&self, batch: &WriteBatch) {
        let mut both = self.0.write();
        for write in &batch.writes {
            match write {
                Write::Put(key, value) => both.active.insert(key.clone(), Some(value.clone())),
                Write::Delete(key) => both.active.insert(key.clone(), None),
            };
        }
    }

    /// The active layer becomes the frozen one; the former frozen one has been thawed.
    pub(super) fn freeze(&self) {
        let mut both = self.0.write();
        both.frozen = Some(Arc::new(std::mem::take(&mut both.active)));
    }

    pub(super) fn frozen(&self) -> Option<Arc<Layer>> {
        self.0.read().frozen.clone()
    }

    /// sled has the frozen layer.
    pub(super) fn thaw(&self) {
        self.0.write().frozen = None;
    }

    /// The value of a key, if the layers say anything of it; otherwise what is `below`.
    pub(super) fn get(
        &self,
        key: &[u8],
        below: impl FnOnce() -> Result<Option<Bytes>, StoreError>,
    ) -> Result<Option<Bytes>, StoreError> {
        let change = {
            let both = self.0.read();
            let frozen = || both.frozen.as_ref().and_then(|frozen| frozen.get(key));
            both.active.get(key).or_else(frozen).cloned()
        };
        change.map_or_else(below, Ok)
    }

    /// What the layers say of the keys from `from` (inclusive) to `to` (exclusive).
    pub(super) fn range(&self, from: &[u8], to: &[u8], order: Order) -> Vec<Change> {
        if from >= to {
            return Vec::new();
        }
        let both = self.0.read();
        let mut found = Layer::new();
        for layer in both.frozen.as_deref().into_iter().chain([&both.active]) {
            let range = layer.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
            found.extend(range.map(|(key, value)| (key.clone(), value.clone())));
        }
        match order {
            Order::Ascending => found.into_iter().collect(),
            Order::Descending => found.into_iter().rev().collect(),
        }
    }
}

/// Scans sled with the layers' changes on top.
pub(super) fn merged(
    changes: Vec<Change>,
    from: &[u8],
    to: &[u8],
    order: Order,
    below: &dyn Engine,
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    let mut changes = changes.into_iter().peekable();
    let mut going = true;
    below.scan(from, to, order, &mut |key, value| {
        going = before(&mut changes, key, order, visit)?;
        let hidden = changes.next_if(|(changed, _)| changed == key);
        if going {
            going = match hidden {
                None => visit(key, value)?,
                Some((_, Some(value))) => visit(key, value)?,
                Some((_, None)) => true,
            };
        }
        Ok(going)
    })?;
    for (key, value) in changes {
        if !going {
            break;
        }
        if let Some(value) = value {
            going = visit(&key, value)?;
        }
    }
    Ok(())
}

/// Visits the changes that come before a key of sled's; false if the visitor has had enough.
fn before(
    changes: &mut Peekable<IntoIter<Change>>,
    key: &[u8],
    order: Order,
    visit: Visit<'_>,
) -> Result<bool, StoreError> {
    let comes_first = |changed: &[u8]| match order {
        Order::Ascending => changed < key,
        Order::Descending => changed > key,
    };
    while let Some((changed, value)) = changes.next_if(|(changed, _)| comes_first(changed)) {
        if let Some(value) = value
            && !visit(&changed, value)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}
