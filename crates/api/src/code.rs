//! The error codes: name, title, whether to retry, and one explanation each.
//!
//! `holdfast explain CODE` prints the explanations and `/errors/<code>` serves them. The front-end maps a code to its
//! status. The list is append-only: a released code never changes its meaning.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::nearest;

macro_rules! codes {
    ($($variant:ident, $name:literal, $retryable:literal, $title:literal, $explanation:literal;)*) => {
        /// Why a call failed. Printed as its name, such as `lock-busy`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "&'static str")]
        pub enum ErrorCode {
            $(#[doc = $title] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [ErrorCode] = &[$(Self::$variant,)*];

            /// The stable name, such as `lock-busy`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The problem type of RFC 9457, `/errors/<code>`; the node serves its explanation there.
            pub const fn type_uri(self) -> &'static str {
                match self { $(Self::$variant => concat!("/errors/", $name),)* }
            }

            /// One line in words, the same for every problem of this code.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// True if the same call may succeed later, and is safe to send again.
            pub const fn retryable(self) -> bool {
                match self { $(Self::$variant => $retryable,)* }
            }

            /// What happened, the effect on the lock, and what to do next.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $explanation,)* }
            }
        }
    };
}

codes! {
    InvalidArgument, "invalid-argument", false, "The call is not valid",
        "A parameter is unknown, given twice, empty, missing or of the wrong form, or the body is not the expected \
         JSON object. Nothing was done. The detail names the parameter, and the hint shows what to write instead.";
    BadDuration, "bad-duration", false, "A duration is not valid",
        "Durations carry their units: 500ms, 30s, 1m30s, 2h. A bare number is rejected, because tools disagree about \
         its unit. A ttl is from 1s to 24h and one wait is at most 5m: to wait longer, send the call again. Nothing \
         was done.";
    BadName, "bad-name", false, "A name is not valid",
        "Names of locks, sessions, owners and labels have a maximum length and may not contain control or invisible \
         characters. A lock's name may contain '/', but no component may be empty, '.' or '..'. Names are \
         percent-decoded once, must be UTF-8, and are compared byte by byte. Nothing was done. Choose a name that follows \
         these rules.";
    Unauthenticated, "unauthenticated", false, "The caller has no valid credential",
        "The call needs an access token or a client certificate, or its credential is unknown, mistyped, or of a scheme that \
         this cluster does not support. Nothing was done. Send an access token (Authorization: Bearer hf_...), or a name and a \
         password for access lists (curl -u me:secret).";
    TokenExpired, "token-expired", false, "The access token has expired",
        "The access token is right, but its lifetime is over. Nothing was done. An administrator creates a new one with \
         'holdfast auth token new', or replaces one before it expires with 'holdfast auth token rotate'.";
    Forbidden, "forbidden", false, "The caller has no permission for the call",
        "No role of the subject has the permission, the session belongs to another subject, or the access list of the znode denies \
         the call. The problem names the missing permission. For an access list, c (create) and d (delete) are permissions of the \
         parent; r (read), w (write) and a (admin) are its own. Nothing was done. 'holdfast auth can' explains a decision.";
    ForeignSite, "foreign-site", false, "The call is for another host, or a web page of another site sent it",
        "A browser sends calls for the pages that it shows, also to nodes that only its machine can reach. A node refuses calls with \
         Sec-Fetch-Site: cross-site or same-site, and with an Origin that is not its own. Where calls need no credential, Host must \
         be a loopback name or address, the host of a member, or a name in http.hosts. Nothing was done. Programs need neither \
         Origin nor Sec-Fetch-Site.";
    HasAdministrator, "has-administrator", false, "The cluster has had an administrator",
        "The first administrator is added only once. Nothing was done. An administrator adds others with 'holdfast auth subject set'. \
         If every access token of the administrators is lost, run 'holdfast auth recover' on a node.";
    LastAdministrator, "last-administrator", false, "The change would remove the last administrator",
        "After the change, no subject with the role admin would have a certificate or a valid access token. Nothing was done. Add \
         another administrator first.";
    NamespaceInUse, "namespace-in-use", false, "Something still belongs to the namespace",
        "A namespace is deleted only when it has no subject, session, znode and recipe. The detail has their numbers. Nothing was \
         done. Delete them first; empty locks disappear after a short time.";
    MembershipInProgress, "membership-in-progress", false, "Another change of the members is unfinished",
        "The members change one at a time. The detail names the member that joins, leaves or changes its role. Nothing was done. Wait \
         until GET /v1/cluster shows no change, or remove the member that does not finish.";
    MembershipUnsafe, "membership-unsafe", false, "The members do not allow the change",
        "The change would lose the quorum, tolerate fewer failures, leave no voter, or use an address twice. The detail has what was \
         found. Nothing was done. Restart the named nodes first; ?force accepts fewer tolerated failures.";
    LevelTooLow, "level-too-low", false, "The feature level of the cluster does not allow the call yet",
        "The call needs a feature that nodes with an older program do not know. Nothing was done. When every node runs a program that \
         knows it, raise the level: holdfast cluster level N.";
    LevelNotReady, "level-not-ready", false, "The feature level cannot change",
        "It changes by one. A change needs an answer of every member, and a program that knows the new level. The detail names the \
         member. Nothing was done. Start its node, or update its program, and send the call again.";
    QuotaExceeded, "quota-exceeded", false, "A limit of the cluster, a namespace or a subject is reached",
        "Sessions, locks, znodes and their bytes, locks of one session and attempts of one hold are limited, so \
         that no caller can fill the memory of every node. A subtree, a namespace or a subject may have quotas of its own. The detail \
         names the limit and its value. Nothing was done. Close, release or delete something first.";
    NotFound, "not-found", false, "The resource does not exist",
        "There is no such path, error code, queue entry or znode. For an unknown path of the API the problem names the \
         nearest path. A lock is never 'not found': a lock without a holder is free. PUT without If-Match creates a \
         znode; ?parents also creates its missing parents.";
    MethodNotAllowed, "method-not-allowed", false, "The path does not support this method",
        "The header Allow lists the methods of the path. PUT acquires or renews a lock, GET reads it, DELETE releases \
         it.";
    NotHolder, "not-holder", false, "The caller does not hold the lock",
        "The session and owner do not hold the lock; the problem names its holder. If they held it before, the session \
         ended in the meantime, and stores reject writes with the old token. To get the lock from another holder, ask for \
         it with POST /v1/release-requests/{name}; an operator ends the hold with POST /v1/force-releases/{name}?reason=TEXT.";
    AttemptOver, "attempt-over", false, "The attempt is over",
        "The call is a copy of an attempt that was released, cancelled or lost, or its number is not larger than that \
         of an attempt that is over. Nothing was done: a late copy never acquires a lock. To acquire the lock, send \
         the call with a new attempt, larger than \"newest_attempt\".";
    RequestOver, "request-over", false, "The request number is over",
        "The session no longer remembers its calls up to a number, and the request number is not above it. The call may have \
         been executed before; this copy did nothing. A later call needs a number larger than \"newest_request\". Read the \
         state to learn whether the call was executed.";
    RequestMismatch, "request-mismatch", false, "The request number belongs to another call",
        "The session has executed another call under this request number: another method, path, parameter or body. Nothing was \
         done. A copy of a call must be the same call, and every new call needs a larger number.";
    ModeConflict, "mode-conflict", false, "The lock is held in another mode",
        "The attempt holds the lock, or waits for it, in another mode, or its owner cannot get the requested one. Only a \
         call with change=N converts attempt N; a larger attempt without change nests, and the hold has the strongest \
         mode. Beside other holders, a shared hold cannot become stronger: two such holders would wait for each other. \
         Nothing was done. Acquire with mode=upgradable what may have to become exclusive.";
    ValueConflict, "value-conflict", false, "The attempt has another value",
        "A copy of an acquire never replaces its value, so that a late copy reverts nothing. Nothing was done. To replace \
         the value, send the call with change=N, the attempt that has it, and with a larger attempt of its own.";
    LimitMismatch, "limit-mismatch", false, "The number of permits does not match the lock",
        "The call names another limit than the lock has, more permits than the limit, permits of a lock that is not a \
         semaphore, or another number of permits than the session already has. Nothing was done. All callers of one \
         semaphore must send the same limit, or none; PATCH /v1/policies/{name} changes it.";
    ShardsMismatch, "shards-mismatch", false, "The lock has another number of shards",
        "The call names another number of shards than the lock has, or a shard that does not exist, or uses a \
         sharded lock as one lock, or the reverse. Nothing was done. The problem names the number. All callers of a \
         sharded lock must send the same number, or only shard; PATCH /v1/policies/{name} changes the number while no shard has a \
         holder or a waiter.";
    NotReentrant, "not-reentrant", false, "The owner holds the lock already",
        "The owner holds the lock or waits for it with another attempt, and one of the calls has reentrant=false. \
         Nothing was done. Name another owner to exclude two parts of one session.";
    InUse, "in-use", false, "The lock is in use",
        "A lock becomes a semaphore or a sharded lock, or the reverse, only while it has no holder and no waiter; the \
         limit of a semaphore changes at any time. A caller has one shard of a sharded lock at a time. A lock is not \
         handed over to a session that holds it already, or ahead of a ZooKeeper client in the queue. A ZooKeeper client \
         whose recipe does not see HTTP callers never shares a lock with one: the detail names its znode, and holdfast \
         who NAME lists them. Nothing was done. Wait until the lock is not in use, or use another lock.";
    Deadlock, "deadlock", false, "The wait would close a cycle",
        "The caller would wait for, or keep waiting, a session that waits, directly or through others, for a lock of the \
         caller. The detail names the cycle. Nothing was done, and no other caller is affected. Release the locks and \
         acquire them in one order, or all at once; the policy detect_deadlocks=false lets such calls wait. A hand-over \
         that would close a cycle is rejected too: release instead.";
    EphemeralParent, "ephemeral-parent", false, "This znode cannot have children",
        "The parent is an ephemeral znode, which is deleted with its session and has no children. The entries of a \
         lock's queue are such znodes, so a lock's name must not extend the name of an entry. Nothing was done. \
         Choose a path that is not below the parent.";
    ZnodeExists, "znode-exists", false, "The znode already exists",
        "The call creates a znode and never replaces one, because it has If-None-Match: *, a kind of znode or an \
         access list. The problem names the znode. Nothing was done. A plain PUT replaces the data of an existing \
         znode.";
    NotEmpty, "not-empty", false, "The znode has children",
        "Only a znode without children can be deleted. Nothing was done. Delete its children first, or add ?recursive \
         to delete them with it, all or nothing.";
    SessionExpired, "session-expired", false, "The session has ended, or does not exist",
        "The session's time-to-live passed without a renewal, or there is no such session. Its locks are lost and may \
         have other holders. A session is never restarted silently, so that a paused client gets this error. Use a new \
         session id, or DELETE /v1/sessions/<id> to acknowledge the loss and reuse the id.";
    RevisionCompacted, "revision-compacted", false, "The history before this revision is no longer available",
        "Nodes keep the latest changes in memory. Changes between the requested revision and 'restart_from' are no \
         longer available. Read the state again, then watch from the revision of that response, or from \
         'restart_from'.";
    StaleToken, "stale-token", false, "The fencing token is not valid",
        "The lock was granted again after this token was minted, or the token was never minted for it. The client with \
         this token must stop writing. The problem names the current token, if the lock is held.";
    CountMismatch, "count-mismatch", false, "The count does not match",
        "The latch has another count, or the waiters at the barrier sent another number of parties. The problem names \
         the number. Nothing was done. All callers must send the same number. Use another name for another number.";
    BarrierBroken, "barrier-broken", false, "The barrier broke before it opened",
        "A member left, its wait timed out, or its session ended before all had arrived. No member passed, and every \
         member that had arrived gets this error. The problem names the member and the cause. To try again, all \
         members arrive again, each with a larger request number.";
    CounterOverflow, "counter-overflow", false, "The counter would overflow",
        "A counter is a signed whole number of 64 bits and never wraps. The problem names its value. Nothing was done. PUT \
         /v1/counters/{name} sets another value.";
    VersionMismatch, "version-mismatch", false, "The version does not match",
        "The znode or counter has changed since the caller read it. The problem names the current version. Nothing was \
         done. Read it again, and send the change with the new version.";
    PayloadTooLarge, "payload-too-large", false, "The body is too large",
        "The body, or the data of a znode, exceeds its limit, which the problem names. Nothing was done. \
         Send less in one call.";
    LockBusy, "lock-busy", true, "The lock is held by another caller",
        "The caller does not hold the lock and is not in its queue. The problem names the holder, the age of the hold, \
         and the number of waiters. Add the parameter wait=10s to queue.";
    LockInCooldown, "lock-in-cooldown", true, "The lock is not granted yet",
        "The lock has no holder, but is not granted for a while: its last holder set min_hold, its policy has a \
         cooldown between two grants, or its last hold expired, was revoked or was force-released, and its holder may still \
         write. Retry-After has the remaining time. Add the parameter wait=10s to queue.";
    WaitTimeout, "wait-timeout", true, "The lock was not granted in time",
        "The wait of the call timed out. The caller does not hold the lock and is no longer in the queue. Send the \
         call again to queue at the end; a call that names its attempt needs a larger one.";
    NotYet, "not-yet", true, "The awaited event has not happened yet",
        "The latch is not at zero, members have not arrived at the barrier, or members are still inside the double \
         barrier. The problem has their number. An arrival whose wait times out is withdrawn, which breaks the barrier \
         for the waiting members. Send the call again to wait again, with a larger request number if it has one.";
    RateLimited, "rate-limited", true, "The node accepts no call at the moment",
        "The node has as many calls in flight as it allows; or the caller or its namespace makes more calls per second than its quota, or the \
         caller has too many connections or streams. Nothing was done. Retry-After has the time until the next \
         try.";
    TooManyWaiters, "too-many-waiters", true, "The queue is full",
        "The lock's queue, or the node, has as many waiters as allowed. The caller is not in the queue. Retry-After \
         has the time until the next try.";
    Internal, "internal", false, "The node failed",
        "The node failed, not the call: its state or its disk may be damaged. Send the call to another node, and \
         search this node's log for the request id.";
    NoLeader, "no-leader", true, "The cluster has no leader at the moment",
        "No node can order writes or confirm reads at the moment: an election is in progress, or a majority is \
         unreachable. The call was certainly not applied; send it again. Held locks stay held, and sessions do not \
         expire meanwhile.";
    OutcomeUnknown, "outcome-unknown", true, "The call may or may not have been applied",
        "The node forwarded or proposed the call, and got no result in time. The hint of the problem has the next step. \
         After an acquire, repeat the call with the same session and attempt: if it was applied, the response has the \
         same token. To give up, DELETE it with the same session and attempt: otherwise the session may keep the \
         lock, and each later acquire of the session keeps it alive. Without a session, a grant whose response was \
         lost ends with its ttl.";
    ShuttingDown, "shutting-down", true, "The node is shutting down",
        "The node accepts no more calls and ends waits, so that waiters can use another node. A named session keeps \
         its locks. The call was not applied, or its wait ended here: send it to another node.";
    Starting, "starting", true, "The node is starting",
        "The node has not joined its cluster yet: it waits for the other members, or until they admit it. The detail \
         names the nodes it waits for. Nothing was done. Use another node, or try again soon.";
    DiskFull, "disk-full", true, "The disk is full",
        "The cluster cannot write durably, so it rejects changes. Nothing was done. Reads work, held locks stay held, \
         and keepalives renew sessions. Changes are accepted again once there is free space.";
    Sealed, "sealed", true, "The cluster is sealed",
        "An operator has stopped all changes, to move the cluster to other machines. Nothing was done. Reads work, keepalives \
         renew sessions, held locks stay held, waiters keep their places, and nothing expires. Send the call again, to the \
         new cluster if it has another address, or until the operator ends the seal.";
}

impl ErrorCode {
    /// Whether the call may be sent again, as the end of a sentence.
    pub const fn again(self) -> &'static str {
        if self.retryable() { "may be sent again" } else { "must be changed first" }
    }

    /// The explanation as a page of plain text. The front-end passes the HTTP status of the code.
    pub fn page(self, status: u16) -> String {
        let (title, again) = (self.title(), self.again());
        format!("{self}: {title}\nstatus {status}; the call {again}\n\n{}\n", self.explanation())
    }
}

/// The error code does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no error code '{name}'{}", did_you_mean(*.nearest))]
pub struct UnknownCode {
    /// The unknown code, cut to 64 bytes.
    pub name: String,
    /// The most similar code, if one is similar enough for a suggestion.
    pub nearest: Option<ErrorCode>,
}

fn did_you_mean(nearest: Option<ErrorCode>) -> String {
    nearest.map(|code| format!(": did you mean '{code}'?")).unwrap_or_default()
}

impl FromStr for ErrorCode {
    type Err = UnknownCode;

    fn from_str(name: &str) -> Result<Self, UnknownCode> {
        let found = Self::ALL.iter().copied().find(|code| code.as_str() == name);
        found.ok_or_else(|| {
            let near = nearest(name, Self::ALL.iter().map(|c| c.as_str()));
            let nearest = Self::ALL.iter().copied().find(|code| near == Some(code.as_str()));
            let name = &name[..name.floor_char_boundary(64)];
            UnknownCode { name: name.to_owned(), nearest }
        })
    }
}

impl TryFrom<String> for ErrorCode {
    type Error = UnknownCode;

    fn try_from(name: String) -> Result<Self, UnknownCode> {
        name.parse()
    }
}

impl From<ErrorCode> for &'static str {
    fn from(code: ErrorCode) -> &'static str {
        code.as_str()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_has_an_explanation() {
        for code in ErrorCode::ALL {
            assert_eq!(code.as_str().parse(), Ok(*code));
            assert_eq!(code.type_uri(), format!("/errors/{code}"));
            assert!(code.explanation().len() > 60 && !code.explanation().contains("  "), "{code}");
            assert!(!code.title().ends_with('.'), "{code}");
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<ErrorCode>(&json).unwrap(), *code);
        }
    }

    #[test]
    fn a_misspelt_code_is_rejected_with_the_nearest() {
        let error = "lock-bussy".parse::<ErrorCode>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no error code 'lock-bussy': did you mean 'lock-busy'?"
        );
        let error = "xyzzy".parse::<ErrorCode>().unwrap_err();
        assert_eq!(error.to_string(), "there is no error code 'xyzzy'");
    }
}
