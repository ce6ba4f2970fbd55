//! The commands of golden scripts for breaks, release requests and hand-overs.

use holdfast_types::*;

use super::script_commands::{Words, lock_name, session_name};

/// The command of a line, if it is one of these.
pub(super) fn command(words: &Words<'_>) -> Option<Command> {
    let lock = || lock_name(words.at(1));
    let reason = || words.value("reason").map(|reason| Reason::new(reason).unwrap());
    let to = words.value("to_owner").map_or_else(Owner::unnamed, |name| Owner::new(name).unwrap());
    Some(match words.at(0) {
        "break" => {
            let by = |name, target: fn(u64) -> _| words.number(name).map(target);
            let what = by("ticket", |n| ForceReleaseTarget::Ticket(Ticket(n)))
                .or_else(|| by("sequence", ForceReleaseTarget::Sequence))
                .or_else(|| by("token", |n| ForceReleaseTarget::Token(FencingToken(n))))
                .unwrap_or(ForceReleaseTarget::Holders);
            Command::ForceRelease(ForceRelease { lock: lock(), what, reason: reason().unwrap() })
        }
        "request_release" => Command::RequestRelease(RequestRelease {
            lock: lock(),
            holder: words.value("session").map(|name| (session_name(name), words.owner())),
            token: words.number("token").map(FencingToken),
            reason: reason(),
            deadline_ms: words.number("deadline").unwrap(),
            revoke: words.flag("revoke"),
        }),
        "hand_over" => Command::HandOver(HandOver {
            lock: lock(),
            from: (session_name(words.at(2)), words.owner()),
            to: (session_name(words.at(3)), to),
            token: words.number("token").map(FencingToken),
        }),
        _ => return None,
    })
}
