//! The parameters that a call accepts, and the hint for a name that is none of them.
//!
//! Callers bring names from other systems (`timeout`, `lease`, `?shared=true`). [`GUESSES`] maps such names to the parameter
//! that has their meaning. A spelling mistake gets the nearest parameter, and any other name only the list.

use serde_json::{Value, json};

use crate::param::{Form, Param};

/// The valid parameters of a call, or of an object in its body.
#[derive(Clone, Copy, Debug)]
pub struct ParamList {
    /// The subject of messages about them, such as "this call".
    pub what: &'static str,
    /// In the order of the API description.
    pub params: &'static [Param],
    /// Those that the front-end reads for many calls. One in `params` with the same name replaces it.
    pub implied: &'static [Param],
}

impl ParamList {
    /// The parameters of a call.
    pub const fn of_call(params: &'static [Param]) -> Self {
        Self { what: "this call", params, implied: &[] }
    }

    /// The same parameters with another subject.
    #[must_use]
    pub const fn of(self, what: &'static str) -> Self {
        Self { what, ..self }
    }

    /// The same parameters, and those that the front-end reads.
    #[must_use]
    pub const fn and(self, implied: &'static [Param]) -> Self {
        Self { implied, ..self }
    }

    /// Every parameter once, the own ones first.
    pub fn iter(&self) -> impl Iterator<Item = &'static Param> + Clone {
        let own = self.params;
        let is_new = move |param: &&Param| !own.iter().any(|own| own.name == param.name);
        own.iter().chain(self.implied.iter().filter(is_new))
    }

    /// Whether a parameter has this name.
    pub fn takes(&self, name: &str) -> bool {
        self.iter().any(|param| param.name == name)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&'static Param> {
        self.iter().find(|param| param.name == name && param.form != Form::Labels)
    }

    pub(crate) fn takes_labels(&self) -> bool {
        self.iter().any(|param| param.form == Form::Labels)
    }

    pub(crate) fn listed(&self) -> String {
        let name =
            |param: &Param| if param.form == Form::Labels { "label.KEY" } else { param.name };
        let all: Vec<&str> = self.iter().map(name).collect();
        if all.is_empty() {
            format!("{} takes no parameters", self.what)
        } else {
            format!("{} takes {}", self.what, all.join(", "))
        }
    }

    /// The hint for an unknown parameter, without the list of the known ones; `None` if no parameter is close.
    pub(crate) fn hint_of_unknown(&self, name: &str) -> Option<String> {
        let name = snake_case(name);
        let fits = |(names, takes, _): &&(&str, &str, &str)| {
            names.split_whitespace().any(|guessed| guessed == name)
                && takes.split(' ').all(|taken| self.takes(taken))
        };
        let guess = GUESSES.iter().find(fits).map(|(.., hint)| (*hint).to_owned());
        guess.or_else(|| {
            let near = nearest(&name, self.iter().map(|param| param.name))?;
            Some(if near == "labels" {
                LABELS_HINT.to_owned()
            } else {
                format!("did you mean '{near}'?")
            })
        })
    }
}

/// The JSON object with these parameters as properties, and nothing else.
pub fn object_schema(list: &ParamList) -> Value {
    let property = |param: &Param| {
        let schema = if param.form.is_repeated() && param.form.fits_query() {
            json!({ "type": "array", "items": param.schema() })
        } else {
            param.schema()
        };
        (param.name.to_owned(), described(schema, &param.explained()))
    };
    let properties: serde_json::Map<String, Value> = list.iter().map(property).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn described(mut schema: Value, about: &str) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.insert("description".to_owned(), Value::from(about));
    }
    schema
}

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

/// The candidate that differs by a slip or two, for a suggestion; `None` if every candidate differs more.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(slips, candidate)| *slips <= slips_max(word, candidate))
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// One slip for each three letters, at most three. Two words of one or two letters are never alike.
fn slips_max(word: &str, candidate: &str) -> usize {
    (word.len().max(candidate.len()) / 3).min(3)
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
            let found = ACQUIRE.hint_of_unknown(guess).unwrap_or_default();
            assert!(found.starts_with(hint), "{guess}: {found}");
        }
        for guess in ["q", "x", "zone", "verbose", "pretty", "format", "token", "namespace"] {
            assert_eq!(ACQUIRE.hint_of_unknown(guess), None, "{guess}");
        }
    }
}
