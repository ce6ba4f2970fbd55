//! The limits of a hold besides its session: a progress timeout, `max_hold`, and the deadline of a release request that
//! revokes. Pure arithmetic.
//!
//! A renewal shows that the process is alive; a progress report shows that its work advances. Invariant: an exceeded
//! limit stays exceeded, and a late report does not restore the hold.

use std::time::Duration;

use crate::Loss;
use crate::clock::Moment;
use crate::sessions::lease;

#[derive(Clone, Debug, Default)]
pub(crate) struct HoldLimits {
    progress: Option<ProgressDeadline>,
    max: Option<(Duration, Moment)>,
    /// The moment at which the cluster revokes the hold, and the reason of the request.
    revoked: Option<(Moment, Option<String>)>,
    lost: Option<Loss>,
}

#[derive(Clone, Copy, Debug)]
struct ProgressDeadline {
    timeout: Duration,
    until: Moment,
}

impl HoldLimits {
    /// Creates the limits of a hold that begins now. `max` is `max_hold` and the moment at which it ends.
    pub(crate) fn new(
        progress_timeout: Option<Duration>,
        max: Option<(Duration, Moment)>,
        now: Moment,
    ) -> Self {
        let progress =
            progress_timeout.map(|timeout| ProgressDeadline { timeout, until: now.plus(timeout) });
        Self { progress, max, revoked: None, lost: None }
    }

    /// Whether the client ends the hold at some time.
    pub(crate) fn is_limited(&self) -> bool {
        self.progress.is_some() || self.max.is_some() || self.revoked.is_some()
    }

    pub(crate) fn max_hold(&self) -> Option<Duration> {
        self.max.map(|(max, _)| max)
    }

    /// The moment at which `max_hold` ends the hold.
    pub(crate) fn max_hold_end(&self) -> Option<Moment> {
        self.max.map(|(_, end)| end)
    }

    /// Ends the hold at the deadline of the request, or of an earlier request if that is sooner.
    pub(crate) fn revoke(&mut self, request: &ReleaseRequest) {
        if self.revoked.as_ref().is_none_or(|(until, _)| request.deadline < *until) {
            self.revoked = Some((request.deadline, request.reason.clone()));
        }
    }

    /// Returns the nearest limit, `None` without limits; or the loss.
    pub(crate) fn next_deadline(&self, now: Moment) -> Result<Option<Moment>, Loss> {
        if let Some(loss) = &self.lost {
            return Err(loss.clone());
        }
        let stalled = self.progress.filter(|progress| now >= progress.until);
        let over = self.max.filter(|(_, until)| now >= *until);
        let revoked = self.revoked.as_ref();
        match (stalled, over, revoked.filter(|(until, _)| now >= *until)) {
            (Some(stalled), _, _) => Err(Loss::Stalled { timeout: stalled.timeout }),
            (None, Some((max, _)), _) => Err(Loss::MaxHoldExceeded { max }),
            (None, None, Some((_, reason))) => Err(Loss::Revoked { reason: reason.clone() }),
            (None, None, None) => {
                let progress = self.progress.map(|progress| progress.until);
                let ends = [progress, self.max.map(|max| max.1), revoked.map(|revoked| revoked.0)];
                Ok(ends.into_iter().flatten().min())
            }
        }
    }

    /// Moves the progress deadline, unless a limit is exceeded.
    pub(crate) fn report_progress(&mut self, now: Moment) -> Result<(), Loss> {
        self.next_deadline(now)?;
        if let Some(progress) = &mut self.progress {
            progress.until = now.plus(progress.timeout);
        }
        Ok(())
    }

    /// Marks the hold as lost; the first loss stays.
    pub(crate) fn lose(&mut self, loss: Loss, now: Moment) {
        let loss = self.next_deadline(now).err().unwrap_or(loss);
        self.lost = Some(loss);
    }
}

/// A request to the holder to release the lock (`holdfast unlock --ask`, `POST /v1/release-requests/NAME`). The cluster does not store the
/// requester; the reason may name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseRequest {
    /// The requester's reason.
    pub reason: Option<String>,
    /// The moment by which the requester wants the lock.
    pub deadline: Moment,
    /// Whether the cluster revokes the hold at the deadline. The guard is lost shortly before.
    pub revoke: bool,
}

impl ReleaseRequest {
    /// `wanted_in` counts from `counted_from` or later.
    pub(crate) fn new(
        reason: Option<String>,
        counted_from: Moment,
        wanted_in: Duration,
        revoke: bool,
    ) -> Self {
        Self { reason, deadline: lease::deadline(counted_from, wanted_in), revoke }
    }

    /// The time until the deadline; zero if it has passed.
    pub fn remaining(&self) -> Duration {
        self.deadline.left(Moment::now())
    }

    /// Whether both are the same request, received at different moments.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.reason == other.reason && self.revoke == other.revoke
    }
}

impl std::fmt::Display for ReleaseRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.remaining().as_millis().div_ceil(1_000);
        write!(f, "release wanted within {seconds}s")?;
        if self.revoke {
            f.write_str(", then it is revoked")?;
        }
        match &self.reason {
            Some(reason) => write!(f, " (reason: {reason})"),
            None => f.write_str(" (no reason given)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn a_hold_without_limits_does_not_end() {
        assert_eq!(HoldLimits::default().next_deadline(at(u64::MAX)), Ok(None));
    }

    #[test]
    fn a_report_in_time_moves_the_progress_deadline_and_a_late_one_does_not() {
        let mut limits = HoldLimits::new(Some(SECOND), None, at(0));
        assert_eq!(limits.report_progress(at(900)), Ok(()));
        assert_eq!(limits.next_deadline(at(1_800)), Ok(Some(at(1_900))));
        assert_eq!(limits.report_progress(at(1_900)), Err(Loss::Stalled { timeout: SECOND }));
        assert_eq!(limits.next_deadline(at(1_901)), Err(Loss::Stalled { timeout: SECOND }));
    }

    #[test]
    fn progress_reports_do_not_extend_max_hold() {
        let mut limits = HoldLimits::new(Some(SECOND), Some((SECOND * 2, at(2_000))), at(0));
        for ms in [500, 1_000, 1_500, 1_900] {
            assert_eq!(limits.report_progress(at(ms)), Ok(()));
        }
        assert_eq!(limits.next_deadline(at(1_900)), Ok(Some(at(2_000))));
        assert_eq!(limits.next_deadline(at(2_000)), Err(Loss::MaxHoldExceeded { max: SECOND * 2 }));
    }

    #[test]
    fn a_request_that_revokes_ends_the_hold_at_its_deadline_and_a_later_one_does_not_extend_it() {
        let request = |ms: u64, reason: &str| ReleaseRequest {
            reason: Some(reason.to_owned()),
            deadline: at(ms),
            revoke: true,
        };
        let mut limits = HoldLimits::new(None, Some((SECOND * 9, at(9_000))), at(0));
        limits.revoke(&request(2_000, "patch day"));
        limits.revoke(&request(3_000, "again"));
        assert_eq!(limits.next_deadline(at(1_999)), Ok(Some(at(2_000))));
        let reason = Some("patch day".to_owned());
        assert_eq!(limits.next_deadline(at(2_000)), Err(Loss::Revoked { reason }));
    }

    #[test]
    fn the_first_loss_stays() {
        let mut limits = HoldLimits::new(None, Some((SECOND, at(1_000))), at(0));
        limits.lose(Loss::ReleasedElsewhere, at(500));
        assert_eq!(limits.next_deadline(at(2_000)), Err(Loss::ReleasedElsewhere));
    }
}
