//! What names a call that changes the replicated state, so that a late copy of it has no effect.
//!
//! Each write has a [`LateCopies`], without a default. A test compares the table of `docs/semantics.md` with the
//! operations, and `tests/front_end/late_copies.rs` sends a late copy of each of them.

/// The name of a call. See [`LateCopies::row`] for the effect of its late copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LateCopies {
    /// An `attempt` to acquire.
    Attempt,
    /// The `attempt` of the call that opens a session.
    OpenAttempt,
    /// The `attempt` or the `token` to release.
    Release,
    /// As `Release`; a part of the permits needs a `session` and a `request`, too.
    ReleasePermits,
    /// The `token` of a hold.
    Token,
    /// The `token` of a hold, or the `ticket` of a hold or a wait.
    TokenOrTicket,
    /// The `incarnation` of a session.
    Incarnation,
    /// A `session` and a `request`: the call is executed once ([`crate::precondition::number_call`]).
    Request,
    /// As `Request`, but the session does not remember the response, because it has a secret.
    SecretRequest,
    /// A `session` and the `request` of an arrival at a barrier.
    Arrival,
    /// The `generation` of a barrier, or the `request` of an arrival.
    Generation,
    /// The `revision` of a seal.
    Seal,
    /// An id that the cluster never uses again.
    UniqueId,
    /// Nothing: only the first such call of a cluster has an effect.
    Bootstrap,
    /// A proof that is valid once.
    Proof,
    /// Nothing: a copy renews the lease of an open session.
    Renewal,
    /// Nothing: a copy opens a session of a new name, which nobody uses.
    NewSession,
    /// Nothing: the call does not change the replicated state.
    NoStateChange,
}

impl LateCopies {
    /// Whether the cluster executes the call once for its request number.
    pub(crate) const fn is_executed_once(self) -> bool {
        matches!(self, Self::Request | Self::SecretRequest | Self::ReleasePermits)
    }

    /// Whether the call has a request number.
    pub(crate) const fn is_numbered(self) -> bool {
        self.is_executed_once() || matches!(self, Self::Arrival)
    }

    /// What to do after `outcome-unknown`. `has` is whether the call has a parameter.
    pub(crate) fn after_unknown_outcome(self, has: impl Fn(&str) -> bool) -> &'static str {
        match self {
            Self::Attempt if has("reason") => {
                "repeat this call with the same owner and attempt: it returns the durable hold. To give up, DELETE it with its \
                 token; otherwise the hold stays"
            }
            Self::Attempt if has("attempt") => {
                "repeat this call with the same session and attempt: it returns the hold. To give up, DELETE it with the \
                 same session and attempt; otherwise the session may keep a hold"
            }
            Self::Attempt if has("session") => {
                "repeat this call with the same session: it returns the hold. To give up, DELETE it with the same \
                 session; otherwise the session may keep a hold"
            }
            Self::Attempt => {
                "a session without a name may keep a hold until its ttl is over. Add session and attempt to the next call: \
                 it can be repeated, or ended with DELETE"
            }
            Self::OpenAttempt => {
                "repeat this call: it renews the session if it is open. To give up, DELETE the session"
            }
            Self::ReleasePermits if has("permits") && !has("request") => {
                "read the lock before you repeat this call, which may give back permits again: add request"
            }
            Self::Release | Self::ReleasePermits => {
                "repeat this call with the same parameters until it returns 204 or 410: until then the hold may exist"
            }
            Self::Token if has("token") => {
                "repeat this call with the same token: it has one effect"
            }
            Self::TokenOrTicket if has("token") || has("ticket") => {
                "repeat this call with the same token or ticket: it has one effect"
            }
            Self::Token | Self::TokenOrTicket => {
                "read the lock before you repeat this call, which may concern a later hold: add token"
            }
            Self::Incarnation => {
                "repeat this call until it returns 204 or 410: until then the session and its holds may exist"
            }
            Self::Request if has("request") => {
                "repeat this call with the same session and request: it is executed once"
            }
            Self::Request => {
                "read the state before you repeat this call. A call with session and request is executed once"
            }
            Self::SecretRequest => {
                "the response had a secret that no other call returns: list what exists, delete what this call added, and \
                 repeat it"
            }
            Self::Arrival if has("request") => {
                "repeat this call with the same session and request: it is the same arrival. To give up, DELETE it"
            }
            Self::Arrival => {
                "repeat this call with the same session: while it waits, it is the same arrival. To give up, DELETE it"
            }
            Self::Generation if has("generation") || has("request") => {
                "repeat this call with the same parameters: it has one effect"
            }
            Self::Generation => {
                "read the barrier before you repeat this call, which may concern a later round: add generation"
            }
            Self::Seal => "repeat this call with the same revision: it ends no later seal",
            Self::UniqueId => "repeat this call: 404 means that it was applied",
            Self::Bootstrap => "repeat this call: 409 has-administrator means that it was applied",
            Self::Proof => "repeat the command, which makes a new proof",
            Self::Renewal => "repeat this call: it has no other effect than a renewal",
            Self::NewSession => "repeat this call: a session that nobody uses ends after its ttl",
            Self::NoStateChange => "repeat this call",
        }
    }

    /// The cells of the table: the name, the effect of a late copy, and how long the cluster remembers.
    #[cfg(test)]
    const fn row(self) -> [&'static str; 3] {
        match self {
            Self::Attempt => [
                "`attempt`",
                "409 `attempt-over`; during the hold, a renewal",
                "256 locks and owners of a session, then one number",
            ],
            Self::OpenAttempt => [
                "`attempt`",
                "409 `attempt-over`; while the session is open, a renewal",
                "one hour after the end of the session, for 200,000 sessions",
            ],
            Self::Release => ["`attempt` or `token`", "none", "as an acquire; a token always"],
            Self::ReleasePermits => [
                "`attempt` or `token`; with `permits`, `request` too",
                "none; with `request`, the first response",
                "as an acquire; a token always; 64 requests of a session",
            ],
            Self::Token => {
                ["`token`", "none: the first response, 409 `not-holder`, or 0 holds", "always"]
            }
            Self::TokenOrTicket => ["`token` or `ticket`", "none: 0 holds", "always"],
            Self::Incarnation => ["`incarnation`", "none", "always"],
            Self::Request => [
                "`session` and `request`",
                "the first response; when it is forgotten, 409 `request-over`",
                "64 calls or 256 KB of a session, then one number",
            ],
            Self::SecretRequest => [
                "`session` and `request`",
                "409 `request-over`, without the secret",
                "64 calls, then one number",
            ],
            Self::Arrival => [
                "`session` and `request`",
                "the first final response; when it is forgotten, 409 `request-over`",
                "64 calls of a session, then one number",
            ],
            Self::Generation => ["`generation` or `request`", "none", "always"],
            Self::Seal => {
                ["`revision`", "412 `version-mismatch`, if there is a later seal", "always"]
            }
            Self::UniqueId => ["the id, which is never used again", "404", "always"],
            Self::Bootstrap => ["the cluster", "409 `has-administrator`", "always"],
            Self::Proof => ["`proof`", "403", "always"],
            Self::Renewal => ["the session", "renews the session, if it is open", "–"],
            Self::NewSession => ["nothing", "another session, which ends after its TTL", "–"],
            Self::NoStateChange => ["nothing", "changes no state that clients store", "–"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Scope;
    use crate::operations::OPERATIONS;

    const PAGE: &str = include_str!("../../../docs/semantics.md");
    const ALL: [LateCopies; 18] = [
        LateCopies::Attempt,
        LateCopies::OpenAttempt,
        LateCopies::Release,
        LateCopies::ReleasePermits,
        LateCopies::Token,
        LateCopies::TokenOrTicket,
        LateCopies::Incarnation,
        LateCopies::Request,
        LateCopies::SecretRequest,
        LateCopies::Arrival,
        LateCopies::Generation,
        LateCopies::Seal,
        LateCopies::UniqueId,
        LateCopies::Bootstrap,
        LateCopies::Proof,
        LateCopies::Renewal,
        LateCopies::NewSession,
        LateCopies::NoStateChange,
    ];

    /// The table has each write once, with its name, the effect of a late copy, and the memory.
    #[test]
    fn the_page_has_the_name_of_every_write() {
        let writes = || OPERATIONS.iter().filter(|operation| operation.scope == Scope::Write);
        let mut listed = 0;
        for late_copies in ALL {
            let calls = writes().filter(|operation| operation.late_copies == late_copies);
            let calls: Vec<_> = calls
                .map(|call| format!("`{} {}`", call.method.as_str(), call.route.pattern))
                .collect();
            listed += calls.len();
            let [name, effect, memory] = late_copies.row();
            let row = format!("\n| {} | {name} | {effect} | {memory} |\n", calls.join(", "));
            assert!(PAGE.contains(&row), "docs/semantics.md needs the row{row}");
        }
        assert_eq!(listed, writes().count());
    }

    /// After `outcome-unknown`, a call that may have left a hold says how to repeat and how to end it.
    #[test]
    fn an_unknown_outcome_has_a_next_step_for_every_kind_of_call() {
        for late_copies in ALL {
            for named in [true, false] {
                let next = late_copies.after_unknown_outcome(|_| named);
                assert!(
                    ["repeat", "read", "DELETE"].iter().any(|verb| next.contains(verb)),
                    "{next}"
                );
                let may_hold = matches!(
                    late_copies,
                    LateCopies::Attempt | LateCopies::OpenAttempt | LateCopies::Arrival
                );
                assert!(!may_hold || next.contains("DELETE"), "{late_copies:?}: {next}");
            }
        }
        for name in ["token", "ticket"] {
            let next = LateCopies::TokenOrTicket.after_unknown_outcome(|given| given == name);
            assert!(next.contains("repeat this call"), "{name}: {next}");
        }
        let of =
            |name: &'static str| LateCopies::Attempt.after_unknown_outcome(|given| given == name);
        assert!(of("reason").contains("DELETE it with its token"), "{}", of("reason"));
        assert!(of("attempt").contains("the same session and attempt"), "{}", of("attempt"));
        assert!(of("session").contains("DELETE it with the same session;"), "{}", of("session"));
        assert!(of("").contains("until its ttl is over"), "{}", of(""));
    }

    /// A write accepts the parameters that name it.
    #[test]
    fn every_write_accepts_its_name() {
        for operation in OPERATIONS.iter().filter(|operation| operation.scope == Scope::Write) {
            let needed: &[&str] = match operation.late_copies {
                LateCopies::Attempt | LateCopies::OpenAttempt | LateCopies::Release => &["attempt"],
                LateCopies::ReleasePermits => &["attempt", "token", "request"],
                LateCopies::Token => &["token"],
                LateCopies::TokenOrTicket => &["token", "ticket"],
                LateCopies::Incarnation => &["incarnation"],
                LateCopies::Request | LateCopies::SecretRequest | LateCopies::Arrival => {
                    &["session", "request"]
                }
                LateCopies::Generation => &["generation", "request"],
                LateCopies::Seal => &["revision"],
                LateCopies::Proof => &["proof"],
                LateCopies::UniqueId
                | LateCopies::Bootstrap
                | LateCopies::Renewal
                | LateCopies::NewSession
                | LateCopies::NoStateChange => &[],
            };
            for name in needed {
                assert!(operation.takes(name), "{operation:?} does not accept {name}");
            }
        }
    }
}
