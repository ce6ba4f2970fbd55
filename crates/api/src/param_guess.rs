//! The parameter to write instead of an unknown one.
//!
//! Callers bring names from other systems (`timeout`, `lease`, `?shared=true`). [`GUESSES`] maps such names to the parameter
//! that has their meaning. A spelling mistake gets the nearest parameter, and any other name only the list.

use crate::ParamList;
use crate::param_error::nearest;

/// Names of one meaning with spaces between, and the hint for a call that takes all parameters in `takes`. The first match applies.
struct ParamGuess {
    names: &'static str,
    takes: &'static [&'static str],
    hint: &'static str,
}

const LABELS_HINT: &str = r#"write label.KEY=VALUE, or {"labels":{"KEY":"VALUE"}} in a JSON body"#;

const GUESSES: &[ParamGuess] = &[
    ParamGuess {
        names: "label labels tag tags metadata annotations",
        takes: &["labels"],
        hint: LABELS_HINT,
    },
    ParamGuess {
        names: "shared share read reader readonly read_only read_lock",
        takes: &["mode", "wait"],
        hint: "write mode=shared",
    },
    ParamGuess {
        names: "exclusive write writer write_lock",
        takes: &["mode", "wait"],
        hint: "write mode=exclusive, or leave it out: it is the default",
    },
    ParamGuess {
        names: "upgradable upgradeable",
        takes: &["mode", "permits"],
        hint: "write mode=upgradable",
    },
    ParamGuess {
        names: "timeout timeout_ms max_wait wait_time waittime wait_timeout wait_ms wait_for block \
                blocking acquire_timeout lock_timeout lock_wait poll",
        takes: &["wait"],
        hint: "write wait=10s to wait for at most 10s",
    },
    ParamGuess {
        names: "nowait no_wait try non_blocking nonblocking nonblock immediate",
        takes: &["wait"],
        hint: "leave wait out: without it the call returns at once",
    },
    ParamGuess {
        names: "lease lease_time leasetime lease_duration lease_ttl expire expires expiry expiration \
                expires_in ex px duration seconds ttl_ms ttl_seconds session_ttl lock_ttl timeout \
                keepalive",
        takes: &["ttl"],
        hint: "write ttl=30s",
    },
    ParamGuess {
        names: "id session_id sid client client_id holder user worker uuid lock_id lockid owner_id \
                acquire release lease_id",
        takes: &["session"],
        hint: "write session=ID",
    },
    ParamGuess {
        names: "owner thread thread_id",
        takes: &["session"],
        hint: "write session=ID: the session is the owner",
    },
    ParamGuess {
        names: "nonce try_id attempt_id attempts idempotency_key",
        takes: &["attempt"],
        hint: "write attempt=N, larger than all earlier numbers of the session",
    },
    ParamGuess {
        names: "request_id idempotency_key nonce dedupe",
        takes: &["request"],
        hint: "write request=ID",
    },
    ParamGuess {
        names: "max max_leases maxleases capacity slots size max_permits max_holders concurrency \
                total",
        takes: &["permits", "limit"],
        hint: "write limit=N: the first call creates a semaphore of N permits",
    },
    ParamGuess {
        names: "count n weight amount units acquire_count",
        takes: &["permits"],
        hint: "write permits=N, with limit=N in the call that creates the semaphore",
    },
    ParamGuess { names: "n num number size initial", takes: &["count"], hint: "write count=N" },
    ParamGuess {
        names: "by n delta increment amount incr inc",
        takes: &["add"],
        hint: "write add=N",
    },
    ParamGuess {
        names: "n count size members num_parties",
        takes: &["parties"],
        hint: "write parties=N",
    },
    ParamGuess {
        names: "name lock key filter match pattern search contains",
        takes: &["prefix", "sort"],
        hint: "GET /v1/locks/{name} reads one lock; write prefix=TEXT for a part of the list",
    },
    ParamGuess {
        names: "name lock key znode node",
        takes: &["path", "since"],
        hint: "write path=/PATH for one znode, or prefix=/PATH/ for all below it; a lock is /locks/NAME",
    },
    ParamGuess {
        names: "since from to until before after time date",
        takes: &["at", "limit"],
        hint: "write at=5m, or at=2026-03-01T14:05:09Z",
    },
    ParamGuess {
        names: "data value content body payload",
        takes: &["parents", "acl"],
        hint: "the data of a znode is the body of the call",
    },
    ParamGuess {
        names: "compare conditions condition when",
        takes: &["if", "then"],
        hint: "write \"if\"",
    },
    ParamGuess {
        names: "success operations ops do",
        takes: &["if", "then"],
        hint: "write \"then\"",
    },
    ParamGuess { names: "failure otherwise", takes: &["if", "else"], hint: "write \"else\"" },
    ParamGuess {
        names: "data payload note comment description info message val candidate address addr url host",
        takes: &["value"],
        hint: "write value=TEXT",
    },
    ParamGuess {
        names: "names key keys lock locks resource resources",
        takes: &["name"],
        hint: "write name=LOCK, once for each lock",
    },
    ParamGuess {
        names: "fence fencing fencing_token fencingtoken",
        takes: &["token"],
        hint: "write token=N",
    },
    ParamGuess {
        names: "page cursor offset continue next start after marker",
        takes: &["page_token"],
        hint: "write page_token=TEXT with the next_page_token of the previous page",
    },
    ParamGuess {
        names: "page_size pagesize per_page count top max max_results size",
        takes: &["limit", "page_token"],
        hint: "write limit=N",
    },
    ParamGuess {
        names: "rev revision start_revision index wait_index waitindex from",
        takes: &["since"],
        hint: "write since=REVISION",
    },
    ParamGuess {
        names: "recurse deep all subtree",
        takes: &["recursive"],
        hint: "write recursive",
    },
    ParamGuess {
        names: "consistency serializable dirty consistent local",
        takes: &["stale"],
        hint: "reads are linearizable by default; write stale to read this node's own state",
    },
    ParamGuess {
        names: "why message comment cause",
        takes: &["reason"],
        hint: "write reason=TEXT",
    },
    ParamGuess {
        names: "force steal break kill forced",
        takes: &["attempt"],
        hint: "POST /v1/release-requests/{name} asks the holders to release a lock; for operators, \
               POST /v1/force-releases/{name}?reason=TEXT ends their holds",
    },
    ParamGuess {
        names: "order ageing lock_delay cooldown detect_deadlocks fair",
        takes: &["permits"],
        hint: "it belongs to the policy of the lock: PATCH /v1/policies/{name} changes it",
    },
];

/// The hint for an unknown parameter, without the list of the known ones; `None` if no parameter is close.
pub(crate) fn hint_of_unknown(name: &str, list: &ParamList) -> Option<String> {
    let name = snake_case(name);
    let fits = |guess: &&ParamGuess| {
        guess.names.split(' ').any(|guessed| guessed == name)
            && guess.takes.iter().all(|taken| list.takes(taken))
    };
    let guess = GUESSES.iter().find(fits).map(|guess| guess.hint.to_owned());
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
