//! Every way a call can fail, as a closed list: name, title, whether to retry, and one explanation each.
//!
//! Owns the words that `holdfast explain CODE` prints and `/errors/<code>` serves. The status that goes with a
//! code is the business of the front-end. The list is append-only: a code that clients know never changes meaning.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

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

            /// One line for a person, the same for every problem of this code.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// True if the very same call may succeed later and may be sent again without harm.
            pub const fn retryable(self) -> bool {
                match self { $(Self::$variant => $retryable,)* }
            }

            /// What happened, what it means for the lock, and what to do.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $explanation,)* }
            }
        }
    };
}

codes! {
    InvalidArgument, "invalid-argument", false, "The call is not understood",
        "A parameter is unknown, given twice, empty, missing or of the wrong form, or the body is not the JSON object \
         it should be. Nothing was done. The detail names the parameter and the hint shows what to write instead.";
    BadDuration, "bad-duration", false, "A duration is not usable",
        "Durations carry their units: 500ms, 30s, 1m30s, 2h. A bare number is refused, because tools disagree about \
         its unit. A ttl is from 1s to 24h and one wait is at most 5m: to wait longer, send the call again. Nothing was done.";
    BadName, "bad-name", false, "A name is not allowed",
        "Names of locks, sessions, owners, entries and labels have a greatest length and may not contain control \
         characters. A lock's name may contain '/', but no component may be empty, '.' or '..'. Names are \
         percent-decoded once, must be UTF-8, and are compared byte by byte. Nothing was done.";
    Unauthenticated, "unauthenticated", false, "The credentials are not usable",
        "The header Authorization names a scheme that this cluster does not know. Nothing was done. Send a name and a \
         password (curl -u me:secret), which make up an identity for access lists, or leave the header out.";
    Forbidden, "forbidden", false, "The access list of the node does not allow it",
        "None of the identities that the call has shown may do this. The problem names the node and the permission that was \
         needed: c(reate) and d(elete) are those of its directory, r(ead), w(rite) and a(dmin) its own. Nothing was done. \
         Show another identity (curl -u me:secret), or let somebody with 'a' change the list.";
    QuotaExceeded, "quota-exceeded", false, "A bound of the cluster is reached",
        "Sessions, locks, nodes of the tree and the bytes stored in them, contenders of one session and entries of one hold \
         are bounded, so that no caller can fill the memory of every node, and a subtree may have a quota of its own. The \
         detail names the bound \
         and its value. Close, release or delete something first. Nothing was done.";
    NotFound, "not-found", false, "There is nothing here",
        "No such path, error code, entry or node of the tree. For paths the problem names the nearest one that exists. A \
         lock is never 'not found': one that nobody holds is simply free. A node is created by a PUT without If-Match; \
         with ?parents its missing directories are, too.";
    MethodNotAllowed, "method-not-allowed", false, "The path does not take this method",
        "The header Allow lists the methods of the path. PUT takes or renews a lock, GET looks at it, DELETE releases it.";
    NotHolder, "not-holder", false, "The caller does not hold the lock",
        "The session and owner neither hold the lock nor gave it up before; the problem names who holds it. If the \
         lock was yours, your session ended in the meantime: what you did with the old token is fenced off.";
    AttemptOver, "attempt-over", false, "The attempt is over",
        "The call is a copy of an attempt that was released, cancelled or lost, or its number is not larger than that of an \
         attempt that is over. Nothing was done: a late copy never takes a lock. To take the lock, send the call with a new \
         attempt, larger than \"newest_attempt\".";
    ModeConflict, "mode-conflict", false, "The lock is held in another mode",
        "The session and owner hold the lock, or wait for it, in a mode that cannot become the one asked for: an exclusive \
         or upgradable hold can become weaker, and an upgradable one exclusive, but a shared one only goes. Nothing was done. \
         Release it first, or take it with mode=upgradable if it may have to become exclusive.";
    LimitMismatch, "limit-mismatch", false, "The number of permits does not fit the lock",
        "The call says another limit than the lock has, asks for more permits than that, for permits of a lock that is no \
         semaphore, or for another number of permits than the session has already. Nothing was done. All callers of one \
         semaphore name the same limit, or none; PATCH changes it.";
    SegmentsMismatch, "segments-mismatch", false, "The resource is cut into another number of segments",
        "The call says another number of segments than there are, names one that is not there, or takes something for one lock \
         that is cut, or the other way round. Nothing was done. The problem names the number. All callers of one resource name \
         the same number, or segment alone; PATCH changes it while nobody uses any segment.";
    NotReentrant, "not-reentrant", false, "The owner has the lock already",
        "The owner holds the lock or waits for it under another entry, and one of the calls said reentrant=false: entering \
         twice is taken for a mistake. Nothing was done. Name another owner to exclude two parts of one session.";
    InUse, "in-use", false, "The lock is in use",
        "Whether a lock is a semaphore, or cut into segments, is changed only while nobody holds it or waits for it. Of several \
         segments a caller has one at a time. A lock is not handed to \
         somebody who holds it already, or past a client of the tree that waits before. Nothing was done. Limits of semaphores \
         change at any time.";
    Deadlock, "deadlock", false, "Nobody in the circle could ever go on",
        "The caller would wait for somebody who waits, directly or through others, for what the caller holds. The detail \
         names the circle. Nothing was done, and nobody else was disturbed. Release what you hold and take the locks again \
         in one order, or all at once; PATCH with detect_deadlocks=false lets such calls wait. Nor is a lock handed to somebody \
         who waits for whoever waits for it: release it instead.";
    EphemeralParent, "ephemeral-parent", false, "Nothing can lie below this node",
        "The node above is an ephemeral one: it goes with its session and has no children. Places in a lock's queue are \
         such nodes, so that a lock's name must not continue the name of a contender. Nothing was done.";
    NodeExists, "node-exists", false, "There is a node already",
        "The call creates a node and never replaces one: it says If-None-Match: *, or which kind of node or which access list \
         it wants. The problem names the node. Nothing was done. A plain PUT replaces the data of a node that exists.";
    NotEmpty, "not-empty", false, "The node has children",
        "A node goes only when nothing is below it. Nothing was done. Delete its children first, or add ?recursive to delete \
         them with it, all or nothing.";
    SessionExpired, "session-expired", false, "The session has ended",
        "The session's time-to-live ran out without a renewal, or no such session is known. Everything it held is lost \
         and may belong to somebody else. It is never restarted silently: a client that was paused must learn that it \
         lost. Start again under a new session id, or DELETE /v1/sessions/<id> to acknowledge the loss and reuse the id.";
    RevisionCompacted, "revision-compacted", false, "The history does not reach back so far",
        "Nodes keep the latest changes in memory. What happened between the revision you asked from and 'restart_from' is no \
         longer told: a gap, which is never passed over in silence. Read the state again, then watch from the revision of that \
         answer, or from 'restart_from'.";
    StaleToken, "stale-token", false, "The fencing token is not valid",
        "The lock was granted again after this token was minted, or the token was never minted for it. Whoever carries \
         it must stop writing. The problem names the current token, if somebody holds the lock.";
    CountMismatch, "count-mismatch", false, "Made for another number",
        "A latch of this name was made with another count, or those who wait at the barrier are to pass in another number. The \
         problem names theirs. Nothing was done. Say the same number everywhere, or use another name.";
    BarrierBroken, "barrier-broken", false, "The barrier broke before it opened",
        "A member left, stopped waiting, or its session ended, so that not all could pass together. Nobody passed: everybody who \
         had arrived is told the same. The problem names who and why. To try again all arrive again, each under a new request id.";
    CounterOverflow, "counter-overflow", false, "The counter would pass its end",
        "A counter is a whole number of 64 bits with a sign, and never wraps. The problem names its value. Nothing was done.";
    VersionMismatch, "version-mismatch", false, "The node has another version",
        "Somebody changed the node since you read it, so that your change would undo theirs. The problem names the version it \
         has. Nothing was done. Read it again, decide again, and send the change with the new If-Match.";
    PayloadTooLarge, "payload-too-large", false, "The body is too large",
        "The body, or the data of a node, is over its bound, which the problem names. Nothing was done.";
    LockBusy, "lock-busy", true, "Lock is held by someone else",
        "You do not hold the lock and are not in its queue. The problem says who holds it and since when, and how many \
         wait. Add &wait=10s to queue for it.";
    LockClosed, "lock-closed", true, "Nobody gets the lock yet",
        "Nobody holds the lock, but it is kept from everybody for a while: its last holder asked for a minimal hold, its \
         policy wants a time between two grants, or its last holder was lost and may not know it yet. Retry-After says for how \
         long. Add &wait=10s to queue for it.";
    WaitTimeout, "wait-timeout", true, "The lock was not granted in time",
        "The wait you asked for has passed. You do not hold the lock, and your place in the queue is given up. Send \
         the call again to queue again, at the end.";
    NotYet, "not-yet", true, "What you wait for has not happened yet",
        "The latch is not at zero, others have not arrived at the barrier, or others are still inside of the double barrier. The \
         problem counts them. An arrival whose wait has passed is taken back, and a barrier breaks by that for those who wait at \
         it. Send the call again to wait again.";
    RateLimited, "rate-limited", true, "The node is asked too much at once",
        "The node has as much work in flight as it allows. Nothing was done. Retry-After says when to come back.";
    TooManyWaiters, "too-many-waiters", true, "The queue is full",
        "As many wait for this lock, or on this node, as are allowed. You are not in the queue. Retry-After says when \
         to come back.";
    Internal, "internal", false, "The node failed",
        "A fault of the node, not of the call: it cannot trust its own state or its disk and says no more than it knows. \
         Ask another node, and look at this node's log under the request id.";
    NoLeader, "no-leader", true, "The cluster has no leader at the moment",
        "No node can order writes or confirm reads just now: an election is under way, or a majority cannot be reached. \
         The call was certainly not applied; send it again. Held locks stay held, and sessions do not expire meanwhile.";
    OutcomeUnknown, "outcome-unknown", true, "The call may or may not have been applied",
        "The node lost sight of the call after handing it on. Send the same call again with the same session: if it was \
         applied, the answer is the first one, with the same token. Without a session a grant that nobody heard of \
         ends with its ttl.";
    ShuttingDown, "shutting-down", true, "The node is shutting down",
        "The node is going away and takes no more work; waiters are sent home so that they can ask another node. A \
         named session keeps its locks. The call was not applied, or its wait ended here: send it to another node.";
    Starting, "starting", true, "The node is starting",
        "The node has never been part of a working cluster: it waits for the other members, or to be let in by them. The \
         detail says for whom it waits. Nothing was done. Ask another node or come back soon.";
    DiskFull, "disk-full", true, "The disk is full",
        "The cluster cannot write durably, so it refuses changes. Nothing was done. Reads work, held locks stay held \
         and sessions live on by their keepalives. It recovers by itself when there is room again.";
}

impl ErrorCode {
    /// Whether the call may be sent again, as the end of a sentence about it.
    pub const fn again(self) -> &'static str {
        if self.retryable() { "may be sent again" } else { "must be changed first" }
    }

    /// What it means, whether to retry and what to do next, as a page of plain text. The status is that of the
    /// front-end's table.
    pub fn page(self, status: u16) -> String {
        let (title, again) = (self.title(), self.again());
        format!("{self}: {title}\nstatus {status}; the call {again}\n\n{}\n", self.explanation())
    }
}

/// No such error code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no error code '{name}'{}", did_you_mean(*.nearest))]
pub struct UnknownCode {
    /// What was asked for; at most 64 bytes of it.
    pub name: String,
    /// The code that looks most like it, if any does.
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
            let nearest = crate::param_error::nearest(name, Self::ALL.iter().map(|c| c.as_str()))
                .and_then(|near| Self::ALL.iter().copied().find(|code| code.as_str() == near));
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
    fn every_code_reads_back_and_explains_itself() {
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
    fn a_misspelt_code_is_answered_with_the_nearest() {
        let error = "lock-bussy".parse::<ErrorCode>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no error code 'lock-bussy': did you mean 'lock-busy'?"
        );
        let error = "xyzzy".parse::<ErrorCode>().unwrap_err();
        assert_eq!(error.to_string(), "there is no error code 'xyzzy'");
    }
}
