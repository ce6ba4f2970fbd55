//! The records that the state keeps: one sequence of numbers, and for each class a ring and a chain of hashes.
//!
//! A full ring evicts its own oldest record, and counts it. So the newest number is the number of all kept and evicted
//! records, and every kept record of a class follows from the kept record before it.

use std::sync::Arc;

use holdfast_types::{
    AuditClass, AuditEvicted, AuditHash, AuditItem, AuditRecord, Revision, Stamp,
};
use imbl::{OrdMap, OrdSet};

use super::RECORDS_MAX;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditTrail {
    /// The kept records of all classes, by number.
    records: OrdMap<u64, Arc<AuditRecord>>,
    rings: OrdMap<AuditClass, AuditRing>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AuditRing {
    /// Invariant: the numbers of the kept records of the class, at most [`RECORDS_MAX`].
    numbers: OrdSet<u64>,
    evicted: AuditEvicted,
}

impl AuditTrail {
    pub(crate) fn iter_after(&self, number: u64) -> impl Iterator<Item = &Arc<AuditRecord>> {
        self.records.range(number.saturating_add(1)..).map(|(_, record)| record)
    }

    pub(crate) fn last(&self) -> Option<&AuditRecord> {
        self.records.get_max().map(|(_, record)| &**record)
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Only classes of which records were evicted.
    pub(crate) fn evicted(&self) -> impl Iterator<Item = (AuditClass, AuditEvicted)> {
        let evicted = self.rings.iter().map(|(class, ring)| (*class, ring.evicted));
        evicted.filter(|(_, evicted)| evicted.count > 0)
    }

    /// The hash of the newest record of a class; zeros before the first.
    pub(crate) fn newest_hash(&self, class: AuditClass) -> AuditHash {
        let newest = self.rings.get(&class).and_then(|ring| ring.numbers.get_max());
        let newest = newest.and_then(|number| self.records.get(number));
        newest.map_or_else(AuditHash::default, |record| record.hash)
    }

    /// Adds a record. The oldest of its class leaves a full ring.
    pub(crate) fn push(&mut self, record: AuditRecord, now: Stamp) {
        let ring = self.rings.entry(record.action.class()).or_default();
        ring.numbers.insert(record.number);
        self.records.insert(record.number, Arc::new(record));
        if ring.numbers.len() > RECORDS_MAX
            && let Some(oldest) = ring.numbers.get_min().copied()
            && let Some(record) = self.records.remove(&oldest)
        {
            ring.numbers.remove(&oldest);
            let count = ring.evicted.count + 1;
            ring.evicted = AuditEvicted { count, number: oldest, at: record.at, evicted_at: now };
        }
    }

    /// Adds a record of a snapshot. Returns false if it was there.
    pub(crate) fn restore(&mut self, record: AuditRecord) -> bool {
        let ring = self.rings.entry(record.action.class()).or_default();
        ring.numbers.insert(record.number);
        self.records.insert(record.number, Arc::new(record)).is_none()
    }

    /// Adds the evictions of a class from a snapshot. Returns false if they were there.
    pub(crate) fn restore_evicted(&mut self, class: AuditClass, evicted: AuditEvicted) -> bool {
        let ring = self.rings.entry(class).or_default();
        std::mem::replace(&mut ring.evicted, evicted).count == 0
    }

    /// Checks the numbers, the bounds and the hashes. `revision` is that of the machine.
    pub(crate) fn check(&self, revision: Revision) -> Result<(), String> {
        for (number, record) in &self.records {
            if *number == 0 || *number > record.revision.0 || record.revision > revision {
                return Err(format!("audit record {number} has a wrong number or revision"));
            }
            let bytes: usize = record.details.iter().map(AuditItem::stored_len).sum();
            if bytes > AuditRecord::DETAILS_MAX {
                return Err(format!("the details of audit record {number} are too long"));
            }
        }
        let evicted = self.evicted().map(|(_, evicted)| u128::from(evicted.count));
        let all = self.records.len() as u128 + evicted.sum::<u128>();
        if all != u128::from(self.last().map_or(0, |record| record.number)) {
            return Err("the audit trail lacks records".to_owned());
        }
        self.rings.values().try_for_each(|ring| self.check_ring(ring))
    }

    fn check_ring(&self, ring: &AuditRing) -> Result<(), String> {
        let AuditRing { numbers, evicted } = ring;
        let is_full = numbers.len() == RECORDS_MAX;
        if numbers.len() > RECORDS_MAX || (evicted.count > 0 && !is_full) {
            return Err("the audit trail has a wrong number of records".to_owned());
        }
        let mut previous = (evicted.count == 0).then(AuditHash::default);
        for number in numbers {
            let Some(record) = self.records.get(number) else {
                return Err(format!("the audit trail has no record {number}"));
            };
            if *number <= evicted.number {
                return Err(format!("audit record {number} was evicted"));
            }
            if previous.is_some_and(|before| record.hash_after(before) != record.hash) {
                return Err(format!("the hash of audit record {number} is wrong"));
            }
            previous = Some(record.hash);
        }
        Ok(())
    }
}
