//! What a snapshot says of a lock and of a place in its queue, as the machine keeps it.
//!
//! Owns which of it could have been written. Refuses to know who holds: the invariants do.

use std::sync::Arc;

use holdfast_types::{Acquire, ClosedBy, Policy};

use crate::closing::{Closings, Delay, Rest};
use crate::contender::{Hold, Terms};
use crate::locks::Rules;
use crate::part::{ClosedPart, DelayPart, HoldPart, PastPart, RestPart, RulesPart, TermsPart};
use crate::znode::Past;

/// What a directory of locks remembers; none if no directory can.
pub(super) fn past(part: PastPart) -> Option<Past> {
    let PastPart { base, floor, last_token, rules, closed } = part;
    let rules = match rules {
        Some(part) => Some(Arc::new(self::rules(part)?)),
        None => None,
    };
    let closed = match closed {
        Some(part) => Some(Arc::new(closings(part)?)),
        None => None,
    };
    Some(Past { base, floor, last_token, rules, closed })
}

fn rules(RulesPart { policy, kept }: RulesPart) -> Option<Rules> {
    (policy.is_sound() && policy != Policy::DEFAULT).then_some(Rules { policy, kept })
}

fn closings(ClosedPart { rest, delay }: ClosedPart) -> Option<Closings> {
    let rest = rest.map(|RestPart { since, until, why }| Rest { since, until, why });
    let delay = delay.map(|DelayPart { since, until, lost }| Delay { since, until, lost });
    let rests = rest.is_none_or(|rest| rest.since <= rest.until && rest.why != ClosedBy::LockDelay);
    let delays = delay.as_ref().is_none_or(|delay| {
        let sorted = delay.lost.is_sorted_by(|a, b| a < b);
        delay.since <= delay.until && sorted && delay.lost.len() <= Delay::LOST_MAX
    });
    let closes = rest.is_some() || delay.is_some();
    (rests && delays && closes).then_some(Closings { rest, delay })
}

/// What a contender asked for; none if none can.
pub(super) fn terms(part: TermsPart) -> Option<Box<Terms>> {
    let TermsPart { permits, priority, reentrant, max_hold_ms, min_hold_ms, value } = part;
    let terms = Terms { permits, priority, reentrant, max_hold_ms, min_hold_ms, value };
    let sound = (1..=Policy::LIMIT_MAX).contains(&permits)
        && priority <= Acquire::PRIORITY_MAX
        && max_hold_ms.is_none_or(|ms| (1..=Acquire::HOLD_MAX_MS).contains(&ms))
        && min_hold_ms.is_none_or(|ms| (1..=Acquire::HOLD_MAX_MS).contains(&ms))
        && terms.value.as_ref().is_none_or(|value| value.len() <= Acquire::VALUE_MAX);
    if sound { terms.kept() } else { None }
}

/// What a grant left on a holder.
pub(super) fn hold(part: HoldPart) -> Hold {
    let HoldPart { token, granted_at, granted_in, mode, since, slots, asked_for } = part;
    let (slots, asked_for) = (slots.into(), asked_for.map(Box::new));
    Hold { token, granted_at, granted_in, mode, since, slots, asked_for }
}
