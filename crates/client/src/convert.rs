//! A held lock in another mode: up to exclusive, or down to something weaker, without letting go of it.
//!
//! Owns what is between the modes. While it is not known which one the cluster has, the claim is `Changing`, so that
//! nobody takes its new token for a loss; whoever stops asking for an upgrade leaves the hold upgradable, in the background
//! if need be. A downgrade never waits and is asked for until it is certain. Bounds: one call under way.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::GrantBody;
use holdfast_types::{FencingToken, Mode};

use crate::calls::Calls;
use crate::claim::Stage;
use crate::clock::Moment;
use crate::exchange::{Answered, Ended};
use crate::hold::Hold;
use crate::lease::Acknowledged;
use crate::wanted::{Patience, Wanted};
use crate::{Error, Guard, Loss};

impl Guard {
    /// Becomes exclusive when those who share the lock have left, ahead of everybody who waits, and with a **new token**:
    /// what was read from [`token`](Hold::token) before is stale from then on. Nobody new is let in meanwhile. A guard of
    /// [`Lock::upgradable`](crate::Lock::upgradable) only. Dropping the future leaves it upgradable.
    ///
    /// # Errors
    /// [`Error::Busy`] if the others have not left in time: it is upgradable still. [`Error::Refused`] if it is shared;
    /// [`Error::Lost`] if it is lost.
    pub async fn upgrade(&mut self, wait: Duration) -> Result<FencingToken, Error> {
        if self.mode() == Mode::Exclusive {
            return self.ensure().map(|()| self.token()).map_err(Error::Lost);
        }
        self.ensure()?;
        let mut changing = Changing::begin(&self.hold, &self.wanted, self.mode());
        let patience = Patience::of(wait);
        loop {
            let wait = patience.of_one_call();
            let Ended { result, doubtful } = changing.ask(Mode::Exclusive, wait).await?;
            match result {
                Ok(answered) => return changing.settled(answered),
                Err(Error::Unknown(_) | Error::Retry(_)) if !patience.is_over() => {}
                Err(Error::Busy(_)) if !wait.is_zero() && !patience.is_over() => {}
                Err(error @ (Error::Busy(_) | Error::Refused(_))) if !doubtful => {
                    changing.unchanged();
                    return Err(error);
                }
                // It may have been granted after all: back to what it was, whatever that takes.
                Err(error) => {
                    changing.insist().await?;
                    return Err(error);
                }
            }
        }
    }

    /// Lets others in who share the lock: an exclusive hold becomes upgradable or shared, an upgradable one shared. At once,
    /// and with the same token.
    ///
    /// # Errors
    /// [`Error::Refused`] for what is no weaker mode; [`Error::Lost`] if it is lost.
    pub async fn downgrade(&mut self, to: Mode) -> Result<(), Error> {
        self.ensure()?;
        if self.mode() == to {
            return Ok(());
        }
        let allowed = matches!(
            (self.mode(), to),
            (Mode::Exclusive, Mode::Upgradable | Mode::Shared) | (Mode::Upgradable, Mode::Shared)
        );
        if !allowed {
            let (has, wants) = (self.mode().as_str(), to.as_str());
            return Err(Error::Argument(format!(
                "{wants} is not weaker than {has}: use upgrade()"
            )));
        }
        Changing::begin(&self.hold, &self.wanted, to).insist().await
    }
}

/// A hold between two modes. Dropped as such, the one to fall back to is insisted on in the background.
#[derive(Debug)]
struct Changing {
    hold: Hold,
    wanted: Wanted,
    /// What can always be had: a mode that is not stronger than the present one.
    fallback: Mode,
    token: FencingToken,
    over: bool,
}

impl Changing {
    fn begin(hold: &Hold, wanted: &Wanted, fallback: Mode) -> Self {
        let token = hold.token();
        hold.claim.enter(Stage::Changing(token));
        Self { hold: hold.clone(), wanted: wanted.clone(), fallback, token, over: false }
    }

    /// One call.
    ///
    /// # Errors
    /// The loss of the hold meanwhile.
    async fn ask(&self, mode: Mode, wait: Duration) -> Result<Ended<GrantBody>, Error> {
        let (session, claim) = (&self.hold.session, &self.hold.claim);
        let params = self.wanted.params(session.name.clone(), claim, Some(mode), wait);
        let calls = Calls { patience: self.wanted.call_patience, ..session.calls.clone() };
        loop {
            tokio::select! {
                ended = calls.acquire(&claim.asked, &params) => return Ok(ended),
                loss = self.hold.lost() => return Err(Error::Lost(loss)),
                // Ours already, said the node that renewed.
                () = claim.nudge.notified() => {}
            }
        }
    }

    /// It is known again.
    fn settled(&mut self, answered: Answered<GrantBody>) -> Result<FencingToken, Error> {
        let Answered { body: grant, sent } = answered;
        let (session, token) = (&self.hold.session, grant.token);
        let counted_from = sent.plus(Duration::from_millis(grant.waited_ms));
        let held = Duration::from_millis(grant.expires_in_ms);
        session.acknowledge(Acknowledged { counted_from, held })?;
        self.hold.grant.send_replace(Arc::new(grant));
        self.hold.claim.enter(Stage::Held(token));
        self.over = true;
        Ok(token)
    }

    /// Nothing was done.
    fn unchanged(&mut self) {
        self.hold.claim.enter(Stage::Held(self.token));
        self.over = true;
    }

    /// Asks for the mode to fall back to until it is certain.
    async fn insist(mut self) -> Result<(), Error> {
        loop {
            let asked = self.ask(self.fallback, Duration::ZERO).await?.result;
            if self.hold.claim.stage() == Stage::Leaving {
                // The guard was given back while this was on its way, which may have taken the lock anew.
                self.over = true;
                self.hold.session.give_back_later(self.hold.claim.clone());
                return Err(Error::Lost(Loss::TakenAway));
            }
            match asked {
                Ok(answered) => return self.settled(answered).map(drop),
                Err(Error::Retry(_) | Error::Unknown(_) | Error::Foreign(_)) => {}
                Err(error) => {
                    // The cluster does not know of the hold any more.
                    self.over = true;
                    let lose = |limits: &mut crate::limit::Limits| {
                        limits.lose(Loss::TakenAway, Moment::now());
                    };
                    self.hold.claim.limits.send_modify(lose);
                    return Err(error);
                }
            }
        }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        // Lost: nothing is left to be known.
        if self.over || !self.hold.is_held() {
            return;
        }
        let (hold, wanted) = (self.hold.clone(), self.wanted.clone());
        let (fallback, token) = (self.fallback, self.token);
        let runtime = hold.session.runtime.clone();
        runtime.spawn(async move {
            let again = Self { hold, wanted, fallback, token, over: false };
            // Whatever comes of it: the claim says so.
            drop(again.insist().await);
        });
    }
}
