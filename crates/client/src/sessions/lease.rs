//! The time that a session certainly lives, as pure arithmetic: every moment and every random number is an argument.
//!
//! This is the client's part of guarantee 5 (`docs/guarantees.md`). A deadline counts from the *sending* of the last
//! acknowledged renewal, because the server starts to count later. A margin covers clocks that run at different rates.
//! Invariant: a deadline that has passed stays passed. A later acknowledgement does not restore the session, since the
//! work may have stopped.

use std::time::Duration;

use crate::Loss;
use crate::calls::retry::RETRY_PAUSE;
use crate::clock::Moment;

/// Two clocks may differ by 1/`RATE` of the time that they measure.
const RATE: u32 = 100;
/// Subtracted for the time between reading a clock and acting on it.
const SAFETY: Duration = Duration::from_millis(5);
/// A deadline that moves by less than this fraction of the lease is no news: a task that waits for it looks again when it
/// has passed.
const NEWS_PART: u32 = 30;
/// The maximum time to park a keepalive. A node drops the events of a session that sends no poll for two minutes.
const PARK_MAX: Duration = Duration::from_secs(45);

/// Returns the deadline of a session that the server keeps for `held` from `counted_from` or later.
pub(crate) fn deadline(counted_from: Moment, held: Duration) -> Moment {
    counted_from.plus(held.saturating_sub(held / RATE).saturating_sub(SAFETY))
}

/// Returns the time of the next renewal: after a third of the lease, less up to a tenth of that third. `jitter`, from 0
/// to 255, selects the reduction, which spreads the renewals of clients that started together.
pub(crate) fn next_renewal(counted_from: Moment, held: Duration, jitter: u8) -> Moment {
    let third = held / 3;
    counted_from.plus(third.saturating_sub(third / 10 * u32::from(jitter) / 255))
}

/// Returns the moment at which an unrenewed lease is at risk: after two thirds. A renewal was due after one third.
fn at_risk_from(counted_from: Moment, held: Duration) -> Moment {
    counted_from.plus(held / 3 * 2)
}

/// Returns how long to park a keepalive: a sixth of the lease, minus up to a tenth of that by `jitter`.
fn park_time(held: Duration, jitter: u8) -> Duration {
    let sixth = held / 6;
    let less = sixth / 10 * u32::from(jitter) / u32::from(u8::MAX);
    sixth.saturating_sub(less).min(PARK_MAX)
}

/// An acknowledged renewal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    /// Not later than the moment at which the server started to count.
    pub(crate) counted_from: Moment,
    /// The time that the server keeps the session from that moment.
    pub(crate) held: Duration,
}

/// The client's view of a session's lease.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    deadline: Moment,
    /// The deadline at the last news.
    announced: Moment,
    renew_at: Moment,
    at_risk_from: Moment,
    jitter: u8,
    /// The length of the lease in the last acknowledgement.
    held: Duration,
    ended: Option<Loss>,
    /// The error of the last renewal.
    failure: Option<String>,
}

impl Lease {
    /// Creates the lease of a session that was just acknowledged.
    pub(crate) fn new(acknowledged: Acknowledged, jitter: u8) -> Self {
        let Acknowledged { counted_from, held } = acknowledged;
        let renew_at = next_renewal(counted_from, held, jitter);
        let (deadline, at_risk_from) =
            (deadline(counted_from, held), at_risk_from(counted_from, held));
        let (announced, ended, failure) = (deadline, None, None);
        Self { deadline, announced, renew_at, at_risk_from, jitter, held, ended, failure }
    }

    /// Returns the deadline while the session certainly lives, or the loss, which is final.
    pub(crate) fn deadline_or_loss(&self, now: Moment) -> Result<Moment, Loss> {
        match &self.ended {
            Some(loss) => Err(loss.clone()),
            None if now >= self.deadline => Err(self.not_renewed()),
            None => Ok(self.deadline),
        }
    }

    pub(crate) fn renew_at(&self) -> Moment {
        self.renew_at
    }

    pub(crate) fn park_time(&self) -> Duration {
        park_time(self.held, self.jitter)
    }

    /// Returns the moment at which the lease is at risk without another renewal.
    pub(crate) fn at_risk_from(&self) -> Moment {
        self.at_risk_from
    }

    /// Extends the lease, unless its deadline has passed. Returns whether that is news for the tasks that wait: each acquire
    /// extends the lease, and would wake the tasks of all guards.
    pub(crate) fn acknowledge(
        &mut self,
        acknowledged: Acknowledged,
        now: Moment,
    ) -> Result<bool, Loss> {
        self.deadline_or_loss(now)?;
        let Acknowledged { counted_from, held } = acknowledged;
        self.deadline = self.deadline.max(deadline(counted_from, held));
        self.renew_at = next_renewal(counted_from, held, self.jitter);
        self.at_risk_from = self.at_risk_from.max(at_risk_from(counted_from, held));
        self.held = held;
        self.failure = None;
        let deadline = self.deadline_or_loss(now)?;
        let is_news = deadline.left(self.announced) >= held / NEWS_PART;
        if is_news {
            self.announced = deadline;
        }
        Ok(is_news)
    }

    /// Stores the error of a renewal, and schedules the next one.
    pub(crate) fn renewal_failed(&mut self, failure: String, now: Moment) {
        self.failure = Some(failure);
        self.renew_at = now.plus(RETRY_PAUSE);
    }

    /// Ends the session; the first loss stays.
    pub(crate) fn end(&mut self, loss: Loss, now: Moment) {
        let loss = self.deadline_or_loss(now).err().unwrap_or(loss);
        self.ended = Some(loss);
    }

    fn not_renewed(&self) -> Loss {
        let reason = self.failure.clone().unwrap_or_else(|| "no renewal was answered".to_owned());
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
        for jitter in 0..=255 {
            let due = next_renewal(at(0), TTL, jitter);
            assert!(due >= at(9_000) && due <= at(10_000), "{due:?}");
        }
    }

    #[test]
    fn a_keepalive_is_parked_so_that_two_thirds_are_left_when_the_next_one_is_answered() {
        assert_eq!(park_time(TTL, 0), Duration::from_secs(5));
        for jitter in 0..=255 {
            let wait = park_time(TTL, jitter);
            assert!(wait <= TTL / 6 && wait >= TTL / 6 * 9 / 10, "{wait:?}");
        }
        assert_eq!(park_time(Duration::from_hours(24), 0), PARK_MAX);
    }

    #[test]
    fn a_deadline_that_passed_stays_passed() {
        let mut lease = Lease::new(acknowledged(0), 0);
        assert_eq!(lease.deadline_or_loss(at(29_694)), Ok(at(29_695)));
        assert!(matches!(lease.deadline_or_loss(at(29_695)), Err(Loss::NotRenewed { .. })));
        // Sent in time, acknowledged too late: the server keeps the session, but the work may have stopped.
        assert!(lease.acknowledge(acknowledged(29_000), at(29_700)).is_err());
        assert!(lease.deadline_or_loss(at(29_701)).is_err());
    }

    #[test]
    fn a_late_acknowledgement_moves_no_deadline_back() {
        let mut lease = Lease::new(acknowledged(10_000), 0);
        assert_eq!(lease.acknowledge(acknowledged(5_000), at(11_000)), Ok(false));
        assert_eq!(lease.deadline_or_loss(at(11_000)), Ok(deadline(at(10_000), TTL)));
    }

    #[test]
    fn many_small_extensions_are_news_once() {
        let mut lease = Lease::new(acknowledged(0), 0);
        let news = |lease: &mut Lease, ms| lease.acknowledge(acknowledged(ms), at(ms)).unwrap();
        assert!(!news(&mut lease, 500) && !news(&mut lease, 990));
        assert_eq!(lease.deadline_or_loss(at(991)), Ok(deadline(at(990), TTL)));
        assert!(news(&mut lease, 1_010), "1 s since the first deadline");
        assert!(!news(&mut lease, 1_500));
    }

    #[test]
    fn a_lease_without_a_renewal_is_at_risk_long_before_it_is_lost() {
        let mut lease = Lease::new(acknowledged(0), 0);
        assert_eq!(lease.at_risk_from(), at(20_000));
        assert!(
            lease.renew_at() < lease.at_risk_from() && lease.at_risk_from() < deadline(at(0), TTL)
        );
        assert_eq!(lease.acknowledge(acknowledged(10_000), at(11_000)), Ok(true));
        assert_eq!(lease.at_risk_from(), at(30_000));
        assert_eq!(lease.acknowledge(acknowledged(5_000), at(12_000)), Ok(false));
        assert_eq!(lease.at_risk_from(), at(30_000), "a late acknowledgement");
    }

    #[test]
    fn the_first_loss_stays() {
        let mut lease = Lease::new(acknowledged(0), 0);
        lease.renewal_failed("node 1 is down".to_owned(), at(9_000));
        assert_eq!(lease.renew_at(), at(9_200));
        lease.end(Loss::ReleasedElsewhere, at(40_000));
        lease.end(Loss::SessionEnded, at(50_000));
        let reason = "node 1 is down".to_owned();
        assert_eq!(lease.deadline_or_loss(at(1)), Err(Loss::NotRenewed { reason }));
    }

    #[test]
    fn a_session_that_ended_is_over_before_its_deadline() {
        let mut lease = Lease::new(acknowledged(0), 0);
        lease.end(Loss::SessionEnded, at(10));
        assert_eq!(lease.deadline_or_loss(at(11)), Err(Loss::SessionEnded));
        assert!(lease.acknowledge(acknowledged(11), at(12)).is_err());
    }
}
