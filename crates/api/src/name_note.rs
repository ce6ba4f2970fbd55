//! A note about a name that looks like a call: `orders/acquire` is a lock of its own, and not the lock `orders`.

use holdfast_types::LockName;

/// Last components of a name that callers of other systems write as a verb.
const VERBS: [&str; 22] = [
    "acquire",
    "lock",
    "unlock",
    "release",
    "renew",
    "extend",
    "refresh",
    "keepalive",
    "heartbeat",
    "history",
    "queue",
    "waiters",
    "holders",
    "holder",
    "owner",
    "status",
    "state",
    "info",
    "try",
    "wait",
    "campaign",
    "resign",
];

/// The note for a lock or an election, if its name contains parameters, or its last component is a verb. `calls` are the
/// right calls.
pub(crate) fn name_note(name: &LockName, what: &str, calls: &str) -> Option<String> {
    if let Some((intended, parameters)) = name.as_str().split_once('&')
        && parameters.contains('=')
    {
        return Some(format!(
            "'{name}' is the name of a {what} of its own: a ? begins the parameters of '{intended}', as in {intended}?{parameters}"
        ));
    }
    let (parent, verb) = name.as_str().rsplit_once('/')?;
    let is_verb = VERBS.iter().any(|known| verb.eq_ignore_ascii_case(known));
    is_verb.then(|| {
        format!("'{name}' is the name of a {what} of its own, not a call for '{parent}'. {calls}")
    })
}

/// The note for a lock.
pub(crate) fn lock_note(name: &LockName) -> Option<String> {
    const CALLS: &str = "PUT /v1/locks/NAME acquires and renews, DELETE releases, GET shows holders and queue, \
                         GET /v1/history/NAME shows past holds";
    name_note(name, "lock", CALLS)
}

/// The note for an election.
pub(crate) fn election_note(name: &LockName) -> Option<String> {
    const CALLS: &str =
        "PUT /v1/elections/NAME campaigns and renews, DELETE resigns, GET shows the leader";
    name_note(name, "election", CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_ends_with_a_verb_has_a_note_and_another_name_has_none() {
        let note = |name: &str| lock_note(&LockName::new(name).unwrap());
        for name in
            ["orders/acquire", "orders/lock", "a/b/renew", "orders/Release", "orders/history"]
        {
            let note = note(name).unwrap();
            assert!(note.contains(&format!("'{name}' is the name of a lock")), "{note}");
        }
        assert!(note("a/b/queue").unwrap().contains("not a call for 'a/b'"));
        assert!(note("orders&wait=10s").unwrap().ends_with("as in orders?wait=10s"));
        for name in ["acquire", "orders/eu", "lock", "orders/acquired", "release/v2", "a&b"] {
            assert_eq!(note(name), None, "{name}");
        }
    }
}
