//! An engine in memory, for tests and simulations. Memory: all written and not deleted values.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::RwLock;

use super::{Engine, Order, Visit, Write, WriteBatch};
use crate::error::StoreError;

pub(super) type Map = BTreeMap<Vec<u8>, Bytes>;

/// An [`Engine`] that forgets everything when it is dropped and never fails.
#[derive(Debug, Default)]
pub struct MemoryEngine {
    map: RwLock<Map>,
}

impl Engine for MemoryEngine {
    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        apply(&mut self.map.write(), batch);
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.map.read().get(key).cloned())
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        order: Order,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        scan(&self.map.read(), from, to, order, visit)
    }
}

pub(super) fn apply(map: &mut Map, batch: &WriteBatch) {
    for write in &batch.writes {
        match write {
            Write::Put(key, value) => drop(map.insert(key.clone(), value.clone())),
            Write::Delete(key) => drop(map.remove(key)),
        }
    }
}

pub(super) fn scan(
    map: &Map,
    from: &[u8],
    to: &[u8],
    order: Order,
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    if from >= to {
        return Ok(());
    }
    let mut pairs = map.range(from.to_vec()..to.to_vec());
    loop {
        let next = match order {
            Order::Ascending => pairs.next(),
            Order::Descending => pairs.next_back(),
        };
        match next {
            Some((key, value)) if visit(key, value.clone())? => {}
            _ => return Ok(()),
        }
    }
}
