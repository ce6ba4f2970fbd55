//! The one task that looks after a session: renews it while it is needed, compares what the cluster says it holds with
//! what the guards believe, and closes it at the end.
//!
//! Owns the answer to every disagreement. A lock that a guard believes in and the cluster does not know of is lost,
//! never taken anew. A lock that the cluster says we hold and that an acquire still waits for is asked for again, at
//! another node. One that nobody here knows of (a call that was held up somewhere, and arrived after its caller had
//! given up) is given back. Bounds: one call under way.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{
    FenceBody, HoldBody, HolderBody, LockBody, ReleaseParams, fence_path, lock_path,
};
use holdfast_types::{FencingToken, LockName, ReleaseTarget};

use crate::calls::{Calls, timer};
use crate::claim::{Claim, Match, Stage, is_own_name};
use crate::clock::Moment;
use crate::lease::Acknowledged;
use crate::session::{Needs, Session};
use crate::{Error, Loss};

/// A closer look at one lock takes at most this part of what is left of the lease.
const LOOK_PART: u32 = 8;

/// Runs until the session is over, or nobody will need it again.
pub(crate) async fn keep(session: Arc<Session>) {
    let mut needs = session.needs.subscribe();
    let mut lease = session.lease.subscribe();
    loop {
        let Needs { users, client } = *needs.borrow_and_update();
        if users == 0 && !client {
            return close(&session).await;
        }
        let (standing, renew_at) = {
            let lease = lease.borrow_and_update();
            (lease.standing(Moment::now()), lease.renew_at())
        };
        let deadline = match standing {
            Ok(deadline) => deadline,
            Err(loss) => return bury(&session, loss, users > 0).await,
        };
        let idle = users == 0;
        if !idle && Moment::now() >= renew_at {
            renew(&session, deadline).await;
            continue;
        }
        tokio::select! {
            _changed = needs.changed() => {}
            _changed = lease.changed() => {}
            () = timer(if idle { deadline } else { renew_at.min(deadline) }) => {}
        }
    }
}

/// It is over on this side. The cluster may still keep it, because a node renews it for a call that waits: it is
/// closed as soon as nobody here does anything in its name any more.
async fn bury(session: &Session, loss: Loss, used: bool) {
    session.end(loss);
    if used {
        let mut needs = session.needs.subscribe();
        drop(needs.wait_for(|needs| needs.users == 0).await);
        close(session).await;
    }
}

async fn close(session: &Session) {
    if session.own {
        // If nobody takes it, the session ends by itself after its time-to-live.
        drop(session.calls.close(&session.name, Some(session.incarnation)).await);
    } else {
        // What was dropped is on its way back, and needs the session for that.
        tokio::select! {
            () = session.claims.settled() => {}
            _over = session.lost() => {}
        }
    }
    session.end(Loss::SessionEnded);
}

async fn renew(session: &Session, deadline: Moment) {
    let believed = session.claims.held();
    let left = deadline.left(Moment::now());
    match session.calls.keep_alive(&session.name, left).await {
        Ok(answered) => {
            let held = Duration::from_millis(answered.body.expires_in_ms.unwrap_or(0));
            let acknowledged = Acknowledged { counted_from: answered.sent, held };
            if session.acknowledge(acknowledged).is_ok() {
                compare(session, &believed, &answered.body.holds, held / LOOK_PART).await;
            }
        }
        Err(Error::Lost(loss)) => session.end(loss),
        Err(error) => {
            let trouble = error.to_string();
            session.lease.send_modify(|lease| lease.failed(trouble, Moment::now()));
        }
    }
}

async fn compare(
    session: &Session,
    believed: &[(Arc<Claim>, FencingToken)],
    holds: &[HoldBody],
    patience: Duration,
) {
    let calls = Calls { patience, ..session.calls.clone() };
    let is_told = |lock: &LockName, token: FencingToken| {
        holds.iter().any(|hold| hold.lock == *lock && hold.token == token)
    };
    for (claim, token) in believed.iter().filter(|(claim, token)| !is_told(claim.lock(), *token)) {
        if !is_holder(&calls, session, claim.lock(), *token).await
            && claim.stage() == Stage::Held(*token)
        {
            claim.limits.send_modify(|limits| limits.lose(Loss::TakenAway, Moment::now()));
        }
    }
    for hold in holds {
        match session.claims.matching(&hold.lock, hold.token) {
            Match::Known => {}
            Match::Awaited(waiting) => waiting.iter().for_each(|claim| claim.nudge.notify_one()),
            Match::Nobodys => give_up_stray(&calls, session, hold).await,
        }
    }
}

/// The node that renewed may show its own state, which may be older than our grant: ask the cluster. If it cannot
/// tell, the session's life is what counts.
async fn is_holder(calls: &Calls, session: &Session, lock: &LockName, token: FencingToken) -> bool {
    match calls.get::<LockBody>(lock_path(lock)).await {
        Ok(body) if body.holders.iter().any(|holder| is_ours(session, holder, token)) => true,
        // Of many holders only the first are listed; the token is the cluster's own, so it can be asked for.
        Ok(body) if lists_all(&body) => false,
        Ok(_) => {
            let judged =
                calls.get::<FenceBody>(format!("{}?token={token}", fence_path(lock))).await;
            !matches!(judged, Err(Error::Refused(_)))
        }
        Err(_) => true,
    }
}

fn is_ours(session: &Session, holder: &HolderBody, token: FencingToken) -> bool {
    holder.session == session.name && holder.token == token
}

fn lists_all(body: &LockBody) -> bool {
    usize::try_from(body.holders_total).is_ok_and(|total| total <= body.holders.len())
}

/// A hold of our own session for which there is no guard: only ours to give up if the session is, and its owner was
/// made up for a guard.
async fn give_up_stray(calls: &Calls, session: &Session, hold: &HoldBody) {
    if !session.own {
        return;
    }
    let Ok(body) = calls.get::<LockBody>(lock_path(&hold.lock)).await else { return };
    let mut holders = body.holders.iter();
    let Some(holder) = holders.find(|holder| is_ours(session, holder, hold.token)) else { return };
    let nobodys = matches!(session.claims.matching(&hold.lock, hold.token), Match::Nobodys)
        && !session.claims.is_owner(&hold.lock, holder.owner.as_ref());
    if nobodys && is_own_name(holder.owner.as_ref()) {
        let params = ReleaseParams {
            session: session.name.clone(),
            owner: holder.owner.clone(),
            target: ReleaseTarget::Hold(hold.token),
            to: None,
            redirect: false,
        };
        // If nobody takes it, the next renewal finds it again.
        drop(calls.release(&hold.lock, &params).await);
    }
}
