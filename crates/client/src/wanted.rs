//! A lock that is asked for: one place in the queue, whatever happens to the calls that ask for it.
//!
//! Owns the asking: call upon call, each sent before the one before gives up its place, at whatever node answers, until
//! the grant, the end of the patience or of the session. What may be left behind by an asking that was given up is
//! given back in the background.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{AcquireParams, ErrorCode, GrantBody, Problem, TermsParams, WAIT_MAX};
use holdfast_types::{Attempt, Labels, LockName, Mode, Owner, SessionName};
use tokio::sync::watch;

use crate::attempt;
use crate::claim::{Claim, Stage};
use crate::clock::Moment;
use crate::exchange::{Answered, Ended};
use crate::hold::Hold;
use crate::lease::{Acknowledged, deadline};
use crate::limit::Limits;
use crate::session::Use;
use crate::{Error, Guard};

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// None: as long as it takes.
    until: Option<Instant>,
}

impl Patience {
    pub(crate) const FOR_EVER: Self = Self { until: None };

    pub(crate) fn none() -> Self {
        Self::of(Duration::ZERO)
    }

    pub(crate) fn of(wait: Duration) -> Self {
        Self { until: Instant::now().checked_add(wait) }
    }

    /// What one call may wait, in the whole milliseconds of the API.
    pub(crate) fn of_one_call(self) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let wait = left.unwrap_or(WAIT_MAX).min(WAIT_MAX);
        Duration::from_millis(holdfast_types::millis(wait))
    }

    pub(crate) fn is_over(self) -> bool {
        self.of_one_call().is_zero()
    }
}

/// Everything about the lock that was checked before anything is sent.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) lock: LockName,
    pub(crate) owner: Option<Owner>,
    /// A hold that another session hands over is no attempt of ours.
    pub(crate) is_given: bool,
    pub(crate) labels: Labels,
    pub(crate) beacon: Option<Duration>,
    /// None asks for no mode: exclusively, or as it is held already.
    pub(crate) mode: Option<Mode>,
    pub(crate) terms: TermsParams,
    pub(crate) call_patience: Duration,
}

impl Wanted {
    /// The same lock for the same owner, for another guard.
    pub(crate) fn once_more(&self) -> Self {
        // It may be held in another mode by now.
        Self { is_given: false, mode: None, ..self.clone() }
    }

    /// Asks until it is granted, the patience ends, or the session does.
    pub(crate) async fn ask(self, used: Use, patience: Patience) -> Result<Guard, Error> {
        let first =
            if self.is_given { Attempt::UNNAMED } else { attempt::next_after(Attempt::UNNAMED) };
        let claim = Claim::new(self.lock.clone(), self.owner.clone(), first);
        let claim = if self.terms.segments.is_some() { claim.of_segment() } else { claim };
        let mut asked = Asked::new(used, Arc::new(claim));
        loop {
            let (used, claim) = (&asked.used, &asked.claim);
            let session = used.session();
            let wait = patience.of_one_call();
            let params = self.params(session.name.clone(), claim, self.mode, wait);
            let calls =
                crate::calls::Calls { patience: self.call_patience, ..session.calls.clone() };
            asked.state = State::Doubtful;
            let ended = tokio::select! {
                ended = calls.acquire(&self.lock, &params) => ended,
                loss = session.lost() => return Err(Error::Lost(loss)),
                // Ours already, said the node that renewed: it is asked, the one that keeps our call has fallen behind.
                () = claim.nudge.notified() => continue,
            };
            let Ended { result, doubtful } = ended;
            match result {
                Ok(answered) => return asked.granted(answered, self),
                // Kept by a node for as long as one may, or it died over it, or there is no leader: our place is safe.
                Err(Error::Unknown(_) | Error::Retry(_)) if !patience.is_over() => {}
                // What came before is over, whatever became of it: this is another attempt.
                Err(Error::Refused(problem)) if let Some(newest) = over(&problem) => {
                    claim.begin_attempt(attempt::next_after(newest));
                }
                // The wait of one call is bounded, ours is longer.
                Err(Error::Busy(_)) if !wait.is_zero() && !patience.is_over() => {}
                Err(error) => {
                    asked.settle(&error, doubtful);
                    return Err(error);
                }
            }
        }
    }

    pub(crate) fn params(
        &self,
        session: SessionName,
        claim: &Claim,
        mode: Option<Mode>,
        wait: Duration,
    ) -> AcquireParams {
        AcquireParams {
            session: Some(session),
            owner: self.owner.clone(),
            attempt: claim.attempt(),
            wait,
            mode,
            labels: self.labels.clone(),
            terms: self.terms.clone(),
            ..AcquireParams::default()
        }
    }
}

/// When a hold that has a longest time ends on this side, and what that time is. The cluster counts from the grant, which
/// is not before `counted_from`; the time left may have been counted by a node whose log time is behind.
pub(crate) fn own_end(
    grant: &GrantBody,
    max: Option<Duration>,
    counted_from: Moment,
) -> Option<(Duration, Moment)> {
    let max = max?;
    let left = grant.ends_in_ms.map_or(max, Duration::from_millis).min(max);
    Some((max, deadline(counted_from, left)))
}

/// What the cluster may know of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Certainly nothing.
    Nothing,
    /// Perhaps something.
    Doubtful,
    /// It is a guard's now.
    Granted,
}

/// A place that is asked for and no guard yet. Dropped as such, what may be left of it is given back.
#[derive(Debug)]
struct Asked {
    used: Use,
    claim: Arc<Claim>,
    state: State,
}

impl Asked {
    fn new(used: Use, claim: Arc<Claim>) -> Self {
        used.session().claims.add(claim.clone());
        Self { used, claim, state: State::Nothing }
    }

    /// The grant becomes a guard, if its session lives.
    fn granted(mut self, answered: Answered<GrantBody>, wanted: Wanted) -> Result<Guard, Error> {
        let Answered { body: grant, sent } = answered;
        let session = self.used.session();
        let counted_from = sent.plus(Duration::from_millis(grant.waited_ms));
        let expires_in = Duration::from_millis(grant.expires_in_ms);
        session.acknowledge(Acknowledged { counted_from, held: expires_in })?;
        let limits = Limits::new(
            wanted.beacon,
            own_end(&grant, wanted.terms.max_hold, counted_from),
            Moment::now(),
        );
        self.claim.limits.send_replace(limits);
        self.claim.granted_as(&grant.lock);
        self.claim.enter(Stage::Held(grant.token));
        self.state = State::Granted;
        let grant = Arc::new(watch::Sender::new(Arc::new(grant)));
        let hold = Hold { session: session.clone(), claim: self.claim.clone(), grant };
        let used = Use::of(session);
        Ok(Guard::new(hold, wanted, used))
    }

    /// The answer is no; unless a call is still on its way, there is nothing to give back.
    fn settle(&mut self, error: &Error, doubtful: bool) {
        if is_certain(error, doubtful) {
            self.state = State::Nothing;
        }
    }
}

/// The newest attempt, if a call was refused because its own one is over.
pub(crate) fn over(problem: &Problem) -> Option<Attempt> {
    problem.facts.newest_attempt.filter(|_| problem.code == ErrorCode::AttemptOver)
}

/// Whether an error says for certain that nothing was left behind.
pub(crate) fn is_certain(error: &Error, doubtful: bool) -> bool {
    !doubtful && !matches!(error, Error::Unknown(_) | Error::Retry(_) | Error::Foreign(_))
}

impl Drop for Asked {
    fn drop(&mut self) {
        match self.state {
            State::Granted => {}
            State::Nothing => self.used.session().claims.remove(&self.claim),
            State::Doubtful => self.used.session().give_back_later(self.claim.clone()),
        }
    }
}
