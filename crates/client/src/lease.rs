//! How long a session certainly lives, as pure arithmetic: every moment and every random number is an argument.
//!
//! Owns promise 5 on this side. A deadline is counted from the moment the last acknowledged renewal was *sent*, because
//! the server began to count later than that; a margin is taken off for clocks that run at different rates. Invariant:
//! a deadline that has passed stays passed. A renewal that is acknowledged later revives nothing, since somebody may
//! have looked meanwhile and given up.

use std::time::Duration;

use crate::Loss;
use crate::clock::Moment;

/// Two clocks that count the same time may differ by so much: one hundredth.
const RATE: u32 = 100;
/// Taken off besides, for the time between looking at a clock and acting on it.
const SAFETY: Duration = Duration::from_millis(5);
/// A keepalive is parked no longer than this: a node forgets what it keeps for a session that does not ask for two minutes.
const PARK_MAX: Duration = Duration::from_secs(45);
/// After a renewal that failed the next is tried so soon.
const AGAIN: Duration = Duration::from_millis(200);

/// The deadline for a session that the server keeps for `held` from `counted_from` or later.
pub(crate) fn deadline(counted_from: Moment, held: Duration) -> Moment {
    counted_from.plus(held.saturating_sub(held / RATE).saturating_sub(SAFETY))
}

/// When to renew next: a third of what there was, less up to a tenth of that third by chance, so that clients
/// that began together do not renew together. `chance` is from 0 to 255.
pub(crate) fn next_renewal(counted_from: Moment, held: Duration, chance: u8) -> Moment {
    let third = held / 3;
    counted_from.plus(third.saturating_sub(third / 10 * u32::from(chance) / 255))
}

/// When a lease that was not renewed is in jeopardy: two thirds of it have passed, and a renewal was due after one.
pub(crate) fn in_doubt(counted_from: Moment, held: Duration) -> Moment {
    counted_from.plus(held / 3 * 2)
}

/// How long a keepalive is parked: a sixth of what there was, less up to a tenth of that by chance, and not too long.
pub(crate) fn park_for(held: Duration, chance: u8) -> Duration {
    let sixth = held / 6;
    let less = sixth / 10 * u32::from(chance) / u32::from(u8::MAX);
    sixth.saturating_sub(less).min(PARK_MAX)
}

/// An acknowledged sign of life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    /// Not later than when the server began to count.
    pub(crate) counted_from: Moment,
    /// How long the server keeps the session from then on.
    pub(crate) held: Duration,
}

/// A session's life as this side knows it.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    deadline: Moment,
    renew_at: Moment,
    doubt_at: Moment,
    /// How long the server kept the session, by its last acknowledgement.
    held: Duration,
    ended: Option<Loss>,
    /// What stood in the way of the last renewal.
    trouble: Option<String>,
}

impl Lease {
    /// The lease of a session that was just acknowledged.
    pub(crate) fn new(acknowledged: Acknowledged, chance: u8) -> Self {
        let Acknowledged { counted_from, held } = acknowledged;
        let renew_at = next_renewal(counted_from, held, chance);
        let (deadline, doubt_at) = (deadline(counted_from, held), in_doubt(counted_from, held));
        Self { deadline, renew_at, doubt_at, held, ended: None, trouble: None }
    }

    /// The deadline while the session certainly lives; else why not. The same answer for ever once it is a loss.
    pub(crate) fn standing(&self, now: Moment) -> Result<Moment, Loss> {
        match &self.ended {
            Some(loss) => Err(loss.clone()),
            None if now >= self.deadline => Err(self.not_renewed()),
            None => Ok(self.deadline),
        }
    }

    /// When to renew next.
    pub(crate) fn renew_at(&self) -> Moment {
        self.renew_at
    }

    /// How long to park the next keepalive.
    pub(crate) fn park_for(&self, chance: u8) -> Duration {
        park_for(self.held, chance)
    }

    /// From when on it is in jeopardy unless it is renewed before.
    pub(crate) fn doubt_at(&self) -> Moment {
        self.doubt_at
    }

    /// A renewal was acknowledged, if that is not too late.
    pub(crate) fn acknowledge(
        &mut self,
        acknowledged: Acknowledged,
        chance: u8,
        now: Moment,
    ) -> Result<(), Loss> {
        self.standing(now)?;
        let Acknowledged { counted_from, held } = acknowledged;
        self.deadline = self.deadline.max(deadline(counted_from, held));
        self.renew_at = next_renewal(counted_from, held, chance);
        self.doubt_at = self.doubt_at.max(in_doubt(counted_from, held));
        self.held = held;
        self.trouble = None;
        self.standing(now).map(drop)
    }

    /// A renewal failed: it is tried again soon.
    pub(crate) fn failed(&mut self, trouble: String, now: Moment) {
        self.trouble = Some(trouble);
        self.renew_at = now.plus(AGAIN);
    }

    /// The session is over; the first reason stays.
    pub(crate) fn end(&mut self, loss: Loss, now: Moment) {
        let loss = self.standing(now).err().unwrap_or(loss);
        self.ended = Some(loss);
    }

    fn not_renewed(&self) -> Loss {
        let reason = self.trouble.clone().unwrap_or_else(|| "none was answered".to_owned());
        Loss::NotRenewed { reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    fn acknowledged(ms: u64) -> Acknowledged {
        Acknowledged { counted_from: at(ms), held: TTL }
    }

    #[test]
    fn the_deadline_is_before_the_servers_by_a_margin() {
        assert_eq!(deadline(at(1_000), TTL), at(1_000 + 30_000 - 300 - 5));
        assert_eq!(deadline(at(0), Duration::from_millis(3)), at(0));
    }

    #[test]
    fn a_renewal_is_due_within_the_last_tenth_of_the_first_third() {
        assert_eq!(next_renewal(at(0), TTL, 0), at(10_000));
        assert_eq!(next_renewal(at(0), TTL, 255), at(9_000));
        for chance in 0..=255 {
            let due = next_renewal(at(0), TTL, chance);
            assert!(due >= at(9_000) && due <= at(10_000), "{due:?}");
        }
    }

    #[test]
    fn a_keepalive_is_parked_so_that_two_thirds_are_left_when_the_next_one_is_answered() {
        assert_eq!(park_for(TTL, 0), Duration::from_secs(5));
        for chance in 0..=255 {
            let wait = park_for(TTL, chance);
            assert!(wait <= TTL / 6 && wait >= TTL / 6 * 9 / 10, "{wait:?}");
        }
        assert_eq!(park_for(Duration::from_hours(24), 0), PARK_MAX);
    }

    #[test]
    fn a_deadline_that_passed_stays_passed() {
        let mut lease = Lease::new(acknowledged(0), 0);
        assert_eq!(lease.standing(at(29_694)), Ok(at(29_695)));
        assert!(matches!(lease.standing(at(29_695)), Err(Loss::NotRenewed { .. })));
        // Sent long before, acknowledged too late: the server keeps it, but this side may have given up.
        assert!(lease.acknowledge(acknowledged(29_000), 0, at(29_700)).is_err());
        assert!(lease.standing(at(29_701)).is_err());
    }

    #[test]
    fn an_acknowledgement_that_was_overtaken_moves_nothing_back() {
        let mut lease = Lease::new(acknowledged(10_000), 0);
        assert_eq!(lease.acknowledge(acknowledged(5_000), 0, at(11_000)), Ok(()));
        assert_eq!(lease.standing(at(11_000)), Ok(deadline(at(10_000), TTL)));
    }

    #[test]
    fn what_is_not_renewed_is_in_jeopardy_long_before_it_is_lost() {
        let mut lease = Lease::new(acknowledged(0), 0);
        assert_eq!(lease.doubt_at(), at(20_000));
        assert!(lease.renew_at() < lease.doubt_at() && lease.doubt_at() < deadline(at(0), TTL));
        assert_eq!(lease.acknowledge(acknowledged(10_000), 0, at(11_000)), Ok(()));
        assert_eq!(lease.doubt_at(), at(30_000));
        assert_eq!(lease.acknowledge(acknowledged(5_000), 0, at(12_000)), Ok(()));
        assert_eq!(lease.doubt_at(), at(30_000), "an acknowledgement that was overtaken");
    }

    #[test]
    fn the_first_reason_stays() {
        let mut lease = Lease::new(acknowledged(0), 0);
        lease.failed("node 1 is down".to_owned(), at(9_000));
        assert_eq!(lease.renew_at(), at(9_200));
        lease.end(Loss::TakenAway, at(40_000));
        lease.end(Loss::SessionEnded, at(50_000));
        let reason = "node 1 is down".to_owned();
        assert_eq!(lease.standing(at(1)), Err(Loss::NotRenewed { reason }));
    }

    #[test]
    fn a_session_that_ended_is_over_before_its_deadline() {
        let mut lease = Lease::new(acknowledged(0), 0);
        lease.end(Loss::SessionEnded, at(10));
        assert_eq!(lease.standing(at(11)), Err(Loss::SessionEnded));
        assert!(lease.acknowledge(acknowledged(11), 0, at(12)).is_err());
    }
}
