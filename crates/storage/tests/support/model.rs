//! The log as a plain value, the operations on it, and the comparison of a log after a crash with the acknowledged
//! operations.

use std::collections::BTreeMap;

use bytes::Bytes;
use holdfast_storage::{
    CompletionCallback, Log, QueueFull, RECORD_BYTES_MAX, RaftMeta, Record, StoreError,
};

/// A small random number generator; equal seeds give equal numbers.
#[derive(Clone)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number from `low` to `high`, inclusive.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// One request to the log, which determines its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Append { first: u64, lengths: Vec<u64>, salt: u64 },
    Vote { value: u64 },
    Committed { value: u64 },
    Truncate { last_kept: Option<u64> },
    Purge { through: u64, salt: u64 },
}

/// The sizes of the operations.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) records_max: u64,
    pub(crate) length_max: u64,
    /// One append in `one_huge_in` has a record above 64 KiB.
    pub(crate) one_huge_in: u64,
    /// The approximate number of records that purges keep.
    pub(crate) keep: u64,
}

impl Op {
    /// Returns a random operation that fits the current log.
    pub(crate) fn random(rng: &mut Rng, model: &Model, sizes: Sizes) -> Self {
        let (first, last) = model.bounds();
        match (rng.between(0, 99), first, last) {
            (0..=9, ..) => Self::Vote { value: rng.next() },
            (10..=19, ..) => Self::Committed { value: rng.next() },
            (20..=25, Some(first), Some(last)) => {
                let back = rng.between(0, (last - first).min(12));
                let all = rng.one_in(40) && model.purged.is_none();
                Self::Truncate { last_kept: if all { None } else { Some(last - back) } }
            }
            (26..=31, Some(first), Some(last)) => {
                let beyond = if rng.one_in(8) { last + rng.between(0, 5) } else { 0 };
                let through =
                    last.saturating_sub(rng.between(0, sizes.keep)).max(first).max(beyond);
                Self::Purge { through, salt: rng.next() }
            }
            _ => Self::append(rng, model.next_index(), sizes),
        }
    }

    fn append(rng: &mut Rng, first: u64, sizes: Sizes) -> Self {
        let count = rng.between(1, sizes.records_max);
        let mut lengths: Vec<u64> = (0..count)
            .map(|_| match rng.between(0, 9) {
                0 => rng.between(0, sizes.length_max),
                1 | 2 => rng.between(0, sizes.length_max / 8),
                _ => rng.between(10, sizes.length_max.min(400)),
            })
            .collect();
        if rng.one_in(sizes.one_huge_in) {
            lengths[0] = rng.between(64 << 10, 200 << 10);
        }
        Self::Append { first, lengths, salt: rng.next() }
    }

    /// Returns `true` if an acknowledged operation must survive a crash.
    pub(crate) fn is_durable(&self) -> bool {
        matches!(self, Self::Append { .. } | Self::Vote { .. })
    }

    pub(crate) fn submit(&self, log: &Log, done: CompletionCallback) -> Result<(), QueueFull> {
        match self {
            Self::Append { .. } => log.append(self.records(), done),
            Self::Vote { value } => log.set_meta(RaftMeta::Vote, number(*value), true, done),
            Self::Committed { value } => {
                log.set_meta(RaftMeta::Committed, number(*value), false, done)
            }
            Self::Truncate { last_kept } => log.truncate_after(*last_kept, done),
            Self::Purge { through, salt } => log.purge_through(*through, number(*salt), done),
        }
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        let Self::Append { first, lengths, salt } = self else { return Vec::new() };
        let record =
            |(index, &length): (u64, &u64)| Record { index, bytes: fill(salt ^ index, length) };
        (*first..).zip(lengths).map(record).collect()
    }
}

fn number(value: u64) -> Bytes {
    Bytes::copy_from_slice(&value.to_le_bytes())
}

/// Bytes determined by a seed and a length.
pub(crate) fn fill(seed: u64, length: u64) -> Bytes {
    let mut rng = Rng(seed);
    let length = usize::try_from(length).expect("length").min(RECORD_BYTES_MAX);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&rng.next().to_le_bytes());
    }
    bytes.truncate(length);
    Bytes::from(bytes)
}

/// The content of a log: the length and the checksum of each record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) purged: Option<u64>,
    pub(crate) records: BTreeMap<u64, (u64, u32)>,
    pub(crate) metas: [Option<Bytes>; RaftMeta::ALL.len()],
}

impl Model {
    pub(crate) fn bounds(&self) -> (Option<u64>, Option<u64>) {
        let first = self.records.first_key_value().map(|(index, _)| *index);
        (first, self.records.last_key_value().map(|(index, _)| *index))
    }

    pub(crate) fn next_index(&self) -> u64 {
        self.bounds().1.or(self.purged).map_or(1, |last| last + 1)
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Append { .. } => {
                self.records.extend(op.records().iter().map(|record| (record.index, seen(record))));
            }
            Op::Vote { value } => self.metas[0] = Some(number(*value)),
            Op::Committed { value } => self.metas[1] = Some(number(*value)),
            Op::Truncate { last_kept: None } => self.records.clear(),
            Op::Truncate { last_kept: Some(kept) } => drop(self.records.split_off(&(kept + 1))),
            Op::Purge { through, salt } => {
                self.records = self.records.split_off(&(through + 1));
                self.purged = Some(*through);
                self.metas[2] = Some(number(*salt));
            }
        }
    }

    /// Reads the content of a log.
    pub(crate) fn observe(log: &Log) -> Result<Self, StoreError> {
        let mut model = Self { purged: log.purged(), ..Self::default() };
        for meta in RaftMeta::ALL {
            model.metas[meta as usize] = log.meta(meta)?;
        }
        let (first, last) = log.bounds();
        let (Some(mut next), Some(last)) = (first, last) else { return Ok(model) };
        while next <= last {
            for record in log.read(next..=last, 1 << 20)? {
                next = record.index + 1;
                model.records.insert(record.index, seen(&record));
            }
        }
        Ok(model)
    }

    /// A short summary, for messages.
    pub(crate) fn summary(&self) -> String {
        let Self { purged, records, metas } = self;
        let (bounds, count) = (self.bounds(), records.len());
        format!("purged {purged:?}, {count} records {bounds:?}, metas {metas:?}")
    }
}

fn seen(record: &Record) -> (u64, u32) {
    (record.bytes.len() as u64, crc32c::crc32c(&record.bytes))
}

/// The operations requested of a log from a known state on, and the number of acknowledged ones.
#[derive(Clone, Default)]
pub(crate) struct History {
    pub(crate) start: Model,
    pub(crate) ops: Vec<Op>,
    /// Every durable operation among the first `acknowledged` operations was acknowledged.
    pub(crate) acknowledged: usize,
}

impl History {
    /// Compares a log after a crash with the history. The log must equal the result of a prefix of the operations that
    /// includes all acknowledged ones. The operation after the prefix may be applied partially, record by record.
    pub(crate) fn check_against_history(&self, found: &Model) -> Result<(), String> {
        let mut model = self.start.clone();
        let mut shorter = None;
        for done in 0..=self.ops.len() {
            let before = model.clone();
            if done > 0 {
                model.apply(&self.ops[done - 1]);
            }
            if *found == model || (done > 0 && is_between(found, &before, &model)) {
                if done >= self.acknowledged {
                    return Ok(());
                }
                shorter = Some(done);
            }
        }
        let (asked, acknowledged) = (self.ops.len(), self.acknowledged);
        Err(match shorter {
            Some(done) => format!(
                "LOST: {acknowledged} of {asked} operations were acknowledged, {done} are there"
            ),
            None => format!(
                "WRONG: found {}, which no prefix of {asked} operations ({acknowledged} acknowledged) gives; all give {}",
                found.summary(),
                model.summary()
            ),
        })
    }
}

/// Returns `true` if `found` lies between two consecutive states: its records are a prefix of the longer state, and at
/// least as many as in the shorter state.
fn is_between(found: &Model, before: &Model, after: &Model) -> bool {
    let same = |other: &Model| found.purged == other.purged && found.metas == other.metas;
    let is_prefix = |short: &Model, long: &Model| {
        short.records.len() <= long.records.len()
            && short.records.iter().zip(&long.records).all(|(left, right)| left == right)
    };
    if !same(before) || !same(after) {
        return false;
    }
    let (short, long) =
        if before.records.len() < after.records.len() { (before, after) } else { (after, before) };
    is_prefix(short, found) && is_prefix(found, long)
}
