//! The parameter to write instead of an unknown one.
//!
//! Callers bring names from other systems (`timeout`, `lease`, `?shared=true`). [`GUESSES`] maps such names to the parameter
//! that has their meaning. A spelling mistake gets the nearest parameter, and any other name only the list.

use crate::param_error::nearest;
use crate::param_list::ParamList;

const LABELS_HINT: &str = r#"write label.KEY=VALUE, or {"labels":{"KEY":"VALUE"}} in a JSON body"#;

/// Names of one meaning, the parameters that the call must take, and the hint. The first match applies.
const GUESSES: &[(&str, &str, &str)] = &[
    ("label labels tag tags metadata annotations", "labels", LABELS_HINT),
    ("shared share read reader readonly read_only read_lock", "mode wait", "write mode=shared"),
    (
        "exclusive write writer write_lock",
        "mode wait",
        "write mode=exclusive, or leave it out: it is the default",
    ),
    ("upgradable upgradeable", "mode permits", "write mode=upgradable"),
    (
        "timeout timeout_ms max_wait wait_time waittime wait_timeout wait_ms wait_for block \
         blocking acquire_timeout lock_timeout lock_wait poll",
        "wait",
        "write wait=10s to wait for at most 10s",
    ),
    (
        "nowait no_wait try non_blocking nonblocking nonblock immediate",
        "wait",
        "leave wait out: without it the call returns at once",
    ),
    (
        "lease lease_time leasetime lease_duration lease_ttl expire expires expiry expiration \
         expires_in ex px duration seconds ttl_ms ttl_seconds session_ttl lock_ttl timeout \
         keepalive",
        "ttl",
        "write ttl=30s",
    ),
    (
        "id session_id sid client client_id holder user worker uuid lock_id lockid owner_id \
         acquire release lease_id",
        "session",
        "write session=ID",
    ),
    ("owner thread thread_id", "session", "write session=ID: the session is the owner"),
    (
        "nonce try_id attempt_id attempts idempotency_key",
        "attempt",
        "write attempt=N, larger than all earlier numbers of the session",
    ),
    ("request_id idempotency_key nonce dedupe", "request", "write request=ID"),
    (
        "max max_leases maxleases capacity slots size max_permits max_holders concurrency \
         total",
        "permits limit",
        "write limit=N: the first call creates a semaphore of N permits",
    ),
    (
        "count n weight amount units acquire_count",
        "permits",
        "write permits=N, with limit=N in the call that creates the semaphore",
    ),
    ("n num number size initial", "count", "write count=N"),
    ("by n delta increment amount incr inc", "add", "write add=N"),
    ("n count size members num_parties", "parties", "write parties=N"),
    (
        "name lock key filter match pattern search contains",
        "prefix sort",
        "GET /v1/locks/{name} reads one lock; write prefix=TEXT for a part of the list",
    ),
    (
        "name lock key znode node",
        "path since",
        "write path=/PATH for one znode, or prefix=/PATH/ for all below it; a lock is /locks/NAME",
    ),
    (
        "since from to until before after time date",
        "at limit",
        "write at=5m, or at=2026-03-01T14:05:09Z",
    ),
    (
        "data value content body payload",
        "parents acl",
        "the data of a znode is the body of the call",
    ),
    ("compare conditions condition when", "if then", "write \"if\""),
    ("success operations ops do", "if then", "write \"then\""),
    ("failure otherwise", "if else", "write \"else\""),
    (
        "data payload note comment description info message val candidate address addr url host",
        "value",
        "write value=TEXT",
    ),
    ("names key keys lock locks resource resources", "name", "write name=LOCK, once for each lock"),
    ("fence fencing fencing_token fencingtoken", "token", "write token=N"),
    (
        "page cursor offset continue next start after marker",
        "page_token",
        "write page_token=TEXT with the next_page_token of the previous page",
    ),
    (
        "page_size pagesize per_page count top max max_results size",
        "limit page_token",
        "write limit=N",
    ),
    (
        "rev revision start_revision index wait_index waitindex from",
        "since",
        "write since=REVISION",
    ),
    ("recurse deep all subtree", "recursive", "write recursive"),
    (
        "consistency serializable dirty consistent local",
        "stale",
        "reads are linearizable by default; write stale to read this node's own state",
    ),
    ("why message comment cause", "reason", "write reason=TEXT"),
    (
        "force steal break kill forced",
        "attempt",
        "POST /v1/release-requests/{name} asks the holders to release a lock; for operators, \
         POST /v1/force-releases/{name}?reason=TEXT ends their holds",
    ),
    (
        "order ageing lock_delay cooldown detect_deadlocks fair",
        "permits",
        "it belongs to the policy of the lock: PATCH /v1/policies/{name} changes it",
    ),
];

/// The hint for an unknown parameter, without the list of the known ones; `None` if no parameter is close.
pub(crate) fn hint_of_unknown(name: &str, list: &ParamList) -> Option<String> {
    let name = snake_case(name);
    let fits = |(names, takes, _): &&(&str, &str, &str)| {
        names.split_whitespace().any(|guessed| guessed == name)
            && takes.split(' ').all(|taken| list.takes(taken))
    };
    let guess = GUESSES.iter().find(fits).map(|(.., hint)| (*hint).to_owned());
    guess.or_else(|| {
        let near = nearest(&name, list.iter().map(|param| param.name))?;
        Some(if near == "labels" {
            LABELS_HINT.to_owned()
        } else {
            format!("did you mean '{near}'?")
        })
    })
}

/// Converts `maxHold`, `max-hold` and `MAX_HOLD` to `max_hold`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len());
    let mut after_lower = false;
    for letter in name.chars() {
        if after_lower && letter.is_ascii_uppercase() {
            snake.push('_');
        }
        after_lower = letter.is_ascii_lowercase();
        snake.push(if letter == '-' { '_' } else { letter.to_ascii_lowercase() });
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Param;
    use crate::parameters::lock::{LIMIT, MODE, PERMITS, SESSION, SHARD};
    use crate::parameters::{ATTEMPT, LABELS, TTL, WAIT};

    const ACQUIRE: ParamList = ParamList::of_call(&[
        SESSION,
        ATTEMPT,
        TTL,
        WAIT,
        MODE,
        PERMITS,
        LIMIT,
        SHARD,
        LABELS,
        Param::duration("max_hold", (std::time::Duration::ZERO, std::time::Duration::ZERO), ""),
    ]);

    /// Names that callers of Redis, Consul, etcd, ZooKeeper and Kubernetes write.
    #[test]
    fn a_guess_leads_to_the_parameter_of_its_meaning_or_to_none() {
        for (guess, hint) in [
            ("label", "write label.KEY=VALUE"),
            ("labels", "write label.KEY=VALUE"),
            ("Labels", "write label.KEY=VALUE"),
            ("shared", "write mode=shared"),
            ("readOnly", "write mode=shared"),
            ("timeout", "write wait=10s"),
            ("max_wait", "write wait=10s"),
            ("waitTimeout", "write wait=10s"),
            ("TTL", "did you mean 'ttl'?"),
            ("Session", "did you mean 'session'?"),
            ("maxHold", "did you mean 'max_hold'?"),
            ("max-hold", "did you mean 'max_hold'?"),
            ("lease", "write ttl=30s"),
            ("leaseTime", "write ttl=30s"),
            ("expire", "write ttl=30s"),
            ("client_id", "write session=ID"),
            ("acquire", "write session=ID"),
            ("max_leases", "write limit=N"),
            ("count", "write permits=N, with limit=N"),
            ("force", "POST /v1/release-requests/{name}"),
            ("cooldown", "it belongs to the policy"),
            ("sesion", "did you mean 'session'?"),
            ("permit", "did you mean 'permits'?"),
            ("nowait", "leave wait out"),
        ] {
            let found = hint_of_unknown(guess, &ACQUIRE).unwrap_or_default();
            assert!(found.starts_with(hint), "{guess}: {found}");
        }
        for guess in ["q", "x", "zone", "verbose", "pretty", "format", "token", "namespace"] {
            assert_eq!(hint_of_unknown(guess, &ACQUIRE), None, "{guess}");
        }
    }
}
