//! The one task that looks after a session while it is needed: it renews the session, hears what happens to its locks,
//! and closes it at the end.
//!
//! It keeps one keepalive parked at a node ([`crate::listen`]). The call renews the session and returns as soon as a lock of
//! the session is granted, lost or asked for. If no node takes such a call, the task renews at a third of the
//! time-to-live with plain keepalives, and tries again. Bounds: one call under way.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::calls::timer;
use crate::clock::{CLOCK_CHECK, Clocks, Moment};
use crate::lease::Acknowledged;
use crate::listen::Listener;
use crate::session::{Needs, Session};
use crate::{Error, Loss};

/// Runs until the session is over, or nobody will need it again.
pub(crate) async fn keep(session: Arc<Session>) {
    tokio::select! {
        () = look_after(&session) => {}
        never = notice_suspensions(&session) => match never {},
    }
}

async fn look_after(session: &Session) {
    let mut needs = session.needs.subscribe();
    let mut lease = session.lease.subscribe();
    let mut listener = Listener::new(session.opened_at);
    loop {
        let Needs { users, client } = *needs.borrow_and_update();
        if users == 0 && !client {
            return close(session).await;
        }
        let (standing, renew_at) = {
            let lease = lease.borrow_and_update();
            (lease.standing(Moment::now()), lease.renew_at())
        };
        let deadline = match standing {
            Ok(deadline) => deadline,
            Err(loss) => return bury(session, loss, users > 0).await,
        };
        let wake = if users == 0 {
            deadline
        } else if Moment::now() >= listener.due() {
            listen(session, &mut listener, &mut needs).await;
            continue;
        } else if Moment::now() >= renew_at {
            renew(session, &mut listener).await;
            continue;
        } else {
            renew_at.min(deadline).min(listener.due())
        };
        tokio::select! {
            _changed = needs.changed() => {}
            _changed = lease.changed() => {}
            () = timer(wake) => {}
        }
    }
}

/// Timers stand still while the machine is suspended, deadlines do not: after a suspension, everything that waits for a
/// deadline of this session compares it with the clock again.
async fn notice_suspensions(session: &Session) -> Infallible {
    loop {
        let before = Clocks::now();
        tokio::time::sleep(CLOCK_CHECK).await;
        if Clocks::now().is_after_suspension(before) {
            session.lease.send_modify(|_| ());
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

/// Parks a keepalive until it is answered, the session is over, or nobody needs it any more.
async fn listen(session: &Session, listener: &mut Listener, needs: &mut watch::Receiver<Needs>) {
    let believed = session.claims.held();
    let answered = tokio::select! {
        answered = listener.listen(session) => answered,
        _unneeded = needs.wait_for(|needs| needs.users == 0) => return,
        _over = session.lost() => return,
    };
    match answered {
        Ok(answered) => {
            let expires_in = answered.body.session.expires_in_ms.unwrap_or(0);
            let held = Duration::from_millis(answered.body.waited_ms.saturating_add(expires_in));
            let acknowledged = Acknowledged { counted_from: answered.sent, held };
            if session.acknowledge(acknowledged).is_ok() {
                listener.hear(session, &believed, answered.body, held).await;
            }
        }
        Err(Error::Lost(loss)) => session.end(loss),
        Err(_) => {
            listener.failed();
            renew(session, listener).await;
        }
    }
}

async fn renew(session: &Session, listener: &mut Listener) {
    let Ok(deadline) = session.standing(Moment::now()) else { return };
    let believed = session.claims.held();
    let left = deadline.left(Moment::now());
    match session.calls.keep_alive(&session.name, left).await {
        Ok(answered) => {
            let held = Duration::from_millis(answered.body.expires_in_ms.unwrap_or(0));
            let acknowledged = Acknowledged { counted_from: answered.sent, held };
            if session.acknowledge(acknowledged).is_ok() {
                listener.compare(session, &believed, &answered.body.holds, held).await;
            }
        }
        Err(Error::Lost(loss)) => session.end(loss),
        Err(error) => {
            let trouble = error.to_string();
            session.lease.send_modify(|lease| lease.failed(trouble, Moment::now()));
        }
    }
}
