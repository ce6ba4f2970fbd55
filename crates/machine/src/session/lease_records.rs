//! What the log knows about the leases of sessions: the TTL, a longer one before it, and how much of a TTL had passed
//! without a renewal.
//!
//! Leases are memory of the leader, and renewals do not enter the log. A new leader starts the lease of a silent session with the
//! recorded rest, so the session ends although leaders change more often than its TTL. A renewal of a session with a
//! record enters the log: it begins another generation of the lease, and the record does not count any more.
//!
//! Bound: one record for each session, and as many outdated ones.

use std::time::Duration;

use holdfast_types::{LeaseRecord, Reply, SessionId, Stamp, Ttl};
use serde::{Deserialize, Serialize};

use crate::Machine;

/// The lease of a session, for a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    pub session: SessionId,
    pub ttl: Ttl,
    /// The generation of the lease.
    pub generation: u64,
    /// The longest TTL on which a caller may still rely: the TTL, or a longer one that it has replaced.
    pub longest_ttl: Ttl,
}

/// The TTL of a session. A caller whose renewal is not in the log may still rely on a longer one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SessionTtl {
    pub(crate) present: Ttl,
    /// The longest TTL before it, and the time of the log from which on no caller relies on it.
    replaced: Option<(Ttl, Stamp)>,
}

impl SessionTtl {
    pub(crate) fn new(ttl: Ttl) -> Self {
        Self { present: ttl, replaced: None }
    }

    /// Replaces the TTL at a time of the log.
    pub(super) fn replace(&mut self, ttl: Ttl, now: Stamp) {
        let longest = self.longest(now);
        if ttl < self.present {
            // A caller counts the former TTL from its last renewal, which was before this command is applied. The
            // command was proposed at `now`: the second TTL is for the time since.
            let until = Stamp(now.0.saturating_add(2 * u64::from(self.present.as_millis())));
            let until = self.replaced.map_or(until, |(_, before)| before.max(until));
            self.replaced = Some((longest, until));
        } else if ttl >= longest {
            self.replaced = None;
        }
        self.present = ttl;
    }

    fn longest(self, now: Stamp) -> Ttl {
        let relied = self.replaced.filter(|(_, until)| now < *until);
        relied.map_or(self.present, |(ttl, _)| ttl.max(self.present))
    }
}

/// The record of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct StoredLease {
    pub(crate) generation: u64,
    /// Milliseconds of the TTL that have passed.
    pub(crate) used_ms: u32,
}

impl Machine {
    /// The leases of all live sessions that have one, in the order of their numbers.
    pub fn leases(&self) -> impl Iterator<Item = LeaseTerms> {
        let leased = self.sessions.iter().filter(|session| !session.name.is_durable());
        leased.map(|session| LeaseTerms {
            session: session.id,
            ttl: session.ttl.present,
            generation: session.generation,
            longest_ttl: session.ttl.longest(self.now),
        })
    }

    /// How much of the TTL of a session had passed without a renewal; `None` without a record of its present lease.
    pub fn lease_used(&self, session: SessionId) -> Option<Duration> {
        let stored = self.record_of(session)?;
        Some(Duration::from_millis(stored.used_ms.into()))
    }

    /// Whether a renewal of the session must enter the log: its lease has a record, or its client has closed it under the
    /// seal.
    pub fn renews_in_log(&self, session: SessionId) -> bool {
        self.record_of(session).is_some() || self.is_closed_under_seal(session)
    }

    /// The sessions with a record, as in [`Machine::lease_used`], in the order of their numbers.
    pub fn leases_used(&self) -> impl Iterator<Item = (SessionId, Duration)> {
        let sessions = self.lease_records.keys();
        sessions.filter_map(|session| Some((*session, self.lease_used(*session)?)))
    }

    pub(crate) fn record_of(&self, session: SessionId) -> Option<StoredLease> {
        let stored = *self.lease_records.get(&session)?;
        let (_, generation) = self.lease(session)?;
        (stored.generation == generation).then_some(stored)
    }

    pub(crate) fn record_leases(&mut self, leases: Vec<LeaseRecord>) -> Reply {
        for LeaseRecord { session, generation, used_ms } in leases {
            let is_present = self
                .lease(session)
                .is_some_and(|(ttl, present)| present == generation && used_ms < ttl.as_millis());
            if is_present && self.record_of(session).is_none_or(|old| old.used_ms < used_ms) {
                self.store_record(session, StoredLease { generation, used_ms });
            }
        }
        Reply::LeasesRecorded
    }

    fn store_record(&mut self, session: SessionId, record: StoredLease) {
        self.lease_records.insert(session, record);
        if self.lease_records.len() > 2 * self.sessions.len() {
            let valid = self.lease_records.iter();
            let valid = valid.filter(|(session, _)| self.record_of(**session).is_some());
            self.lease_records = valid.map(|(session, stored)| (*session, *stored)).collect();
        }
    }
}
