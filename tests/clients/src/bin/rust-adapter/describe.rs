//! Describes the Rust client for the table of names.
//!
//! The compiler knows every method that the lists name, and a `match` every error and cause. `Debug` shows which fields an
//! option changes, and their defaults. A field that no listed method changes appears under its own name, so that a new option
//! needs a row in the table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_client::http::ClientTls;
use holdfast_client::{AccessToken, Client, ClientBuilder, Error, Guard, Hold, Lock, Loss};
use holdfast_tests_clients::protocol::ErrorKind;
use serde_json::{Map, Value, json};

use crate::state::{Answered, cause_of, error_of, invalid};

/// The type of an option's argument, as the table names it.
trait OptionType {
    const WORD: &'static str;
}

macro_rules! words {
    ($($type:ty: $word:literal),*) => { $(impl OptionType for $type { const WORD: &'static str = $word; })* };
}

words!(Duration: "duration", &str: "text", u32: "integer", u8: "integer", ClientTls: "tls", AccessToken: "access_token");

fn word<T: OptionType>(_: &T) -> &'static str {
    T::WORD
}

/// A method of a builder: its name, the type of its first argument, and the builder after its call.
struct OptionMethod {
    name: &'static str,
    argument: &'static str,
    after: String,
}

macro_rules! options {
    ($start:expr; $($name:ident($($first:expr $(, $other:expr)*)?)),* $(,)?) => {
        vec![$(OptionMethod {
            name: stringify!($name),
            argument: [$(word(&$first),)? "none"][0],
            after: format!("{:?}", $start.clone().$name($($first $(, $other)*)?)),
        }),*]
    };
}

macro_rules! members {
    ($($type:ident: $($name:ident),*;)*) => {{
        $($(let _method = $type::$name;)*)*
        [$($(stringify!($name)),*),*]
    }};
}

/// The answer to `describe`.
pub(crate) fn describe() -> Answered {
    let builder = Client::builder(["a:1"]);
    let client = builder.clone().build().map_err(|error| invalid(error.to_string()))?;
    let lock = client.lock("a");
    let members = members!(
        Hold: token, min_valid_token, session, mode, permits, slots, lock, ensure, remaining, lost, release_requested,
            report_progress, headers, shard;
        Guard: upgrade, downgrade, release_permits, release, transfer;
    );
    let empty = |names: Vec<&str>| -> Map<String, Value> {
        names.into_iter().map(|name| (name.to_owned(), json!({}))).collect()
    };
    Ok(json!({
        "client_options": described(&format!("{builder:?}"), &client_options(&builder), &[]),
        "lock_options": described(&format!("{lock:?}"), &lock_options(&lock), &["client", "names", "count"]),
        "errors": errors(),
        "loss_causes": empty(losses().iter().map(cause_of).collect()),
        "guard_members": empty(members.to_vec()),
        "metrics": {},
    }))
}

fn client_options(builder: &ClientBuilder) -> Vec<OptionMethod> {
    let second = Duration::from_secs(1);
    options!(builder;
        ttl(second), session_prefix("s"), named_session("s"), label("k", "v"), request_timeout(second),
        tls(ClientTls::default()), access_token(AccessToken::text("t")),
    )
}

fn lock_options(lock: &Lock) -> Vec<OptionMethod> {
    let second = Duration::from_secs(1);
    options!(lock;
        timeout(second), shared(), upgradable(), permits(1_u32), limit(1_u32), priority(1_u8), owner("o"), entering(),
        not_reentrant(), queue_max(1_u32), max_hold(second), min_hold(second), value("v"), progress_timeout(second),
        ttl(second), label("k", "v"), owned_by_session(), end_with_session(), shards(2_u32), shard(1_u32),
    )
}

/// Each method with the default of the first field that it changes, and each field that no method changes. `arguments` are
/// the fields that are no options.
fn described(start: &str, methods: &[OptionMethod], arguments: &[&str]) -> BTreeMap<String, Value> {
    let before = fields(start);
    let mut changed = BTreeSet::new();
    let mut described = BTreeMap::new();
    for method in methods {
        let after = fields(&method.after);
        let differing = before.iter().filter(|(name, value)| after.get(*name) != Some(value));
        let names: Vec<&String> = differing.map(|(name, _)| name).collect();
        let default = names.first().and_then(|name| before.get(*name));
        let default = default.map_or(Value::Null, |default| value_of(default, method.name));
        changed.extend(names);
        let option = json!({ "type": method.argument, "default": default });
        described.insert(method.name.to_owned(), option);
    }
    let is_left = |name: &&String| !changed.contains(name) && !arguments.contains(&name.as_str());
    let left = before.keys().filter(is_left);
    described.extend(left.map(|name| (name.clone(), json!({ "type": "texts" }))));
    described
}

/// The fields of a structure that `Debug` has written. Those of a structure in it replace its field.
fn fields(debug: &str) -> BTreeMap<String, String> {
    let inside = debug.split_once(" { ").and_then(|(_, rest)| rest.strip_suffix(" }"));
    let mut fields = BTreeMap::new();
    let (mut depth, mut start) = (0_u32, 0);
    let inside = format!("{}, ", inside.unwrap_or_default());
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                if let Some((name, value)) = inside[start..at].trim().split_once(": ") {
                    let inner = self::fields(value);
                    if inner.is_empty() {
                        fields.insert(name.to_owned(), value.to_owned());
                    }
                    fields.extend(inner);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    fields
}

/// The default that `Debug` has written, as the table has it.
fn value_of(debug: &str, method: &str) -> Value {
    let seconds = debug.strip_suffix('s').and_then(|number| number.parse::<u64>().ok());
    let prefix = debug.strip_prefix("Prefix(\"").and_then(|rest| rest.strip_suffix("\")"));
    match (debug, seconds, prefix) {
        ("None" | "Generated", _, _) => Value::Null,
        ("{}", _, _) => json!({}),
        ("false", _, _) => json!(false),
        (_, Some(seconds), _) => json!(seconds * 1000),
        // One field has the prefix or the name of the session.
        (_, _, Some(prefix)) => {
            if method == "session_prefix" {
                json!(prefix)
            } else {
                Value::Null
            }
        }
        (other, None, None) => json!(other),
    }
}

fn errors() -> BTreeMap<String, Value> {
    let problem =
        r#"{"type":"/errors/x","title":"t","status":400,"code":"bad-name","retryable":false}"#;
    let problem = || Box::new(serde_json::from_str(problem).expect("a problem document"));
    let text = String::new;
    let all = [
        Error::Busy(problem()),
        Error::Lost(Loss::SessionEnded),
        Error::Unavailable(text()),
        Error::OutcomeUnknown(text()),
        Error::Rejected(problem()),
        Error::UnexpectedResponse(text()),
        Error::InvalidArgument(text()),
    ];
    let described = |error: &Error| {
        let name = format!("{error:?}").split('(').next().unwrap_or_default().to_owned();
        let kind: ErrorKind = error_of(error).kind;
        (name, json!({ "kind": kind }))
    };
    all.iter().map(described).collect()
}

fn losses() -> [Loss; 8] {
    let (reason, time) = (None, Duration::ZERO);
    [
        Loss::NotRenewed { reason: String::new() },
        Loss::SessionEnded,
        Loss::ReleasedElsewhere,
        Loss::ForceReleased { reason: reason.clone() },
        Loss::Revoked { reason },
        Loss::Transferred,
        Loss::Stalled { timeout: time },
        Loss::MaxHoldExceeded { max: time },
    ]
}
