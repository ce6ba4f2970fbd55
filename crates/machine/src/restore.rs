//! Turns the state of a backup, or of one surviving node, into the first state of a new cluster.
//!
//! The cluster of the backup may have continued for any time, and may still run; other restores of its backups may exist.
//! Nothing that any of them has handed out may occur again: the counters of tokens, revisions and sessions continue at the
//! [`RestorePoint`]. All sessions end, because their clients may hold locks in both clusters. Tree, policies, limits,
//! authorization, audit trail and durable holds stay.
//!
//! A sealed cluster hands out neither tokens nor sessions. So its sessions can be kept, and its time continues.

use holdfast_types::{
    Actor, ClusterId, FencingToken, Incarnation, LossCause, NodeId, RestoreItem, RestoreSource,
    Revision, SessionEnd, SessionId, Stamp,
};
use thiserror::Error;

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::index::SessionLockKey;

/// 2026-01-01T00:00:00Z.
const EPOCH: Stamp = Stamp(1_767_225_600_000);
/// The advance for each millisecond.
const PER_MS: u64 = 1 << 12;
/// Almost twice the tokens that a cluster mints in a millisecond.
const MINTED_PER_MS: u64 = 64;
/// The random part.
const RANDOM: u64 = 1 << 19;
/// The least advance. With [`RANDOM`] less than what the clock gives in 0.2 seconds, so that the clock decides if a restored
/// cluster is soon backed up and restored again.
const ADVANCE_MIN: u64 = 1 << 18;
/// A state that is ahead of the clock by at most this was restored a moment ago: 16 seconds.
const NEAR: u64 = 1 << 26;
/// A clock that is further behind the state is wrong, milliseconds. The clock of the old leader may be ahead.
const BEHIND_MAX: u64 = 5 * 60 * 1000;
/// The least and the random part of the advance by a wrong clock.
const JUMP_MIN: u64 = 1 << 40;
const JUMP: u64 = 1 << 42;
/// A clock that is further ahead of the state is wrong, milliseconds: ten years. It would use up the counters.
const AHEAD_MAX: u64 = 10 * 365 * 24 * 3600 * 1000;

/// The moment of a restore, as its machine knows it. The counters of tokens, revisions and sessions continue there.
///
/// Counters stay below 2^53, so 53 bits must serve the order of restores, and the difference between restores whose clocks
/// read the same. `RestorePoint::after` adds three parts:
///
/// - 2^12 for each millisecond since 2026, a hundred times more than a cluster mints. A restore by a sane clock 18 minutes
///   later is above everything that an earlier one has minted, whichever backups both had. 2^53 are reached in 2095.
/// - Up to 2^32 (17 minutes), equal for all restores between a start of the machine and the next one, or a step of its clock.
/// - A random part up to 2^19 (0.13 seconds), for restores on one machine at the same moment.
///
/// The result is also above the largest known value and what the cluster can have minted since the state. A clock that is behind
/// the state is wrong: the restore then draws a jump of up to 2^42. Two restores whose clocks read the
/// same by mistake repeat tokens with the probability `2 m / 2^32`, where m is the number of minted tokens; ADR 0024 has
/// the other cases.
#[derive(Clone, Copy, Debug)]
pub struct RestorePoint {
    /// The wall clock.
    pub now: Stamp,
    /// Random, and equal for all restores between a start of the machine and the next one, or a step of its clock.
    pub clock_run: u32,
    /// Drawn for this restore.
    pub random: u64,
}

impl RestorePoint {
    /// Returns the years by which the clock is too far ahead of a state of time `at`.
    fn years_ahead(&self, at: Stamp) -> Option<u64> {
        let ahead = self.now.0.saturating_sub(at.max(EPOCH).0);
        (ahead > AHEAD_MAX).then_some(ahead / (AHEAD_MAX / 10))
    }

    /// Returns where a counter continues: above `last`, its largest value in a state. Nobody can have counted on from it
    /// before `at`.
    pub(crate) fn after(&self, last: u64, at: Stamp) -> u64 {
        let at = at.max(EPOCH);
        let is_behind = self.now.0.saturating_add(BEHIND_MAX) < at.0;
        let now = self.now.max(at);
        let since = |start: Stamp, per_ms| now.0.saturating_sub(start.0).saturating_mul(per_ms);
        let run = u64::from(self.clock_run);
        let by_clock = since(EPOCH, PER_MS).saturating_add(run);
        let by_state = last.saturating_add(since(at, MINTED_PER_MS)).saturating_add(ADVANCE_MIN);
        let base = match by_state.saturating_sub(by_clock) {
            0 => by_clock,
            // `run` is in the state, unless another machine has restored it within seconds.
            1..=NEAR => by_state,
            _ => by_state.saturating_add(run),
        };
        let drawn = if is_behind { JUMP_MIN + self.random % JUMP } else { self.random % RANDOM };
        base.saturating_add(drawn)
    }
}

/// What a restored cluster is.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// The id of the new cluster.
    pub cluster_id: ClusterId,
    /// The only member, and its data directory.
    pub node: NodeId,
    pub incarnation: Incarnation,
    /// Where the counters continue. The log's time continues there, too, unless sessions are kept: timers follow it.
    pub point: RestorePoint,
    /// The largest token that is known to have been minted outside of the state.
    pub token_floor: u64,
    /// Keeps the sessions of a sealed cluster, with their holds, waits and ephemeral znodes.
    pub keeps_sessions: bool,
    /// Deletes all access tokens.
    pub revokes_tokens: bool,
    pub source: RestoreSource,
}

/// Why a state cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// Every JSON number and every guard holds tokens below 2^53 exactly.
    #[error(
        "the last token would be {last}, and tokens stay below 2^53: give a smaller --token-floor, or start an empty \
         cluster and new fence marks"
    )]
    NoTokens { last: u64 },
    #[error(
        "the revision would be {revision}, and revisions stay below 2^53: start an empty cluster"
    )]
    NoRevisions { revision: u64 },
    #[error(
        "the clock of this machine is {years} years ahead of the state, and the tokens follow the clock: set the clock"
    )]
    ClockAhead { years: u64 },
    #[error("the backup is not sealed, so its sessions cannot be kept: clients may have new locks")]
    NotSealed,
    /// A sealed cluster mints no token.
    #[error(
        "the token floor {floor} is above {last}, the last token of the backup: a cluster has minted tokens since, so the \
         sessions cannot be kept"
    )]
    TokensSince { floor: u64, last: u64 },
}

impl Machine {
    /// Returns the first state of a new cluster.
    ///
    /// # Errors
    /// [`RestoreError`] if a counter would pass its end.
    pub fn restored(mut self, options: &RestoreOptions) -> Result<Self, RestoreError> {
        let (before, revision) = (self.cluster_id, self.revision);
        let at = self.restored_at.map_or(self.now, |restored_at| self.now.max(restored_at));
        let point = &options.point;
        self.check_sessions_can_be_kept(options)?;
        if let Some(years) = point.years_ahead(at) {
            return Err(RestoreError::ClockAhead { years });
        }
        // A floor is known now: no time has passed since, in which tokens were minted.
        let above_floor = point.after(options.token_floor, point.now);
        let last_token = point.after(self.locks.grants(), at).max(above_floor);
        if last_token >= FencingToken::END - 1 {
            return Err(RestoreError::NoTokens { last: last_token });
        }
        let next = point.after(revision.0, at);
        if next >= FencingToken::END - 1 {
            return Err(RestoreError::NoRevisions { revision: next });
        }
        self.revision = Revision(next);
        self.restored_at = Some(point.now);
        self.locks.advance_grants(last_token);
        self.sessions.advance_minted(point.after(self.sessions.counters().0, at));
        if options.keeps_sessions {
            // The old cluster may have acknowledged renewals after the backup.
            self.lease_records.clear();
            let mut events = Vec::new();
            let (revision, now) = (self.revision, self.now);
            self.end_seal(&mut ApplyContext::new(revision, now, Actor::Node, &mut events));
        } else {
            self.now = self.now.max(point.now);
            self.end_all_sessions();
        }
        self.become_new_cluster(options.cluster_id, options.node, options.incarnation);
        if options.revokes_tokens {
            self.auth.revoke_tokens(self.revision);
        }
        let cluster = before.unwrap_or(ClusterId(0));
        let items = [
            RestoreItem::From(options.source.clone()),
            RestoreItem::Before { cluster, revision },
            RestoreItem::TokensAbove(FencingToken(last_token)),
        ];
        let kept = options.keeps_sessions.then_some(RestoreItem::SessionsKept);
        let revoked = options.revokes_tokens.then_some(RestoreItem::AccessTokensDeleted);
        self.record_restore(options.cluster_id, items.into_iter().chain(kept).chain(revoked));
        Ok(self)
    }

    fn check_sessions_can_be_kept(&self, options: &RestoreOptions) -> Result<(), RestoreError> {
        let (last, floor) = (self.locks.grants(), options.token_floor);
        match (options.keeps_sessions, &self.seal) {
            (true, None) => Err(RestoreError::NotSealed),
            (true, Some(_)) if floor > last => Err(RestoreError::TokensSince { floor, last }),
            (false, _) | (true, Some(_)) => Ok(()),
        }
    }

    /// Ends every session as expired, except those with durable holds. All of them leave before any ends, so no entry and
    /// no arrival of one of them is granted or let in.
    fn end_all_sessions(&mut self) {
        let mut events = Vec::new();
        let mut ctx = ApplyContext::new(self.revision, self.now, Actor::Node, &mut events);
        let mut ids: Vec<SessionId> = self.sessions.iter().map(|session| session.id).collect();
        for id in &ids {
            let keys: Vec<_> = self.locks.keys_of(*id).cloned().collect();
            for key in &keys {
                if self.is_durable_hold(key) {
                    continue;
                }
                self.leave(key, LossCause::SessionExpired, &mut ctx);
                ctx.locks_to_grant.insert(key.lock.clone());
            }
        }
        ids.retain(|id| self.has_no_entries(*id));
        for id in &ids {
            self.remove_ephemerals(*id, &mut ctx);
        }
        for id in &ids {
            self.end_in_recipes(*id, SessionEnd::Expired, &mut ctx);
        }
        for id in ids {
            // No call can acknowledge the expiry of a durable session, so its owner could never return.
            let is_durable = self.sessions.get(id).is_some_and(|session| session.name.is_durable());
            let end = if is_durable { SessionEnd::Closed } else { SessionEnd::Expired };
            self.sessions.end(id, end, self.now, &self.limits);
        }
        // No waiter is left. This ends the cooldowns that are over.
        self.grant_stale(&mut ctx);
    }

    fn is_durable_hold(&self, key: &SessionLockKey) -> bool {
        let lock = self.locks.get(&key.lock);
        let entry = lock.and_then(|lock| lock.entry(&key.rank));
        entry.is_some_and(|entry| entry.hold.is_some() && entry.options().durable.is_some())
    }
}
