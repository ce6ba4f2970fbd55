//! The id of a call, which its log lines contain.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::HeaderMap;

/// The longest id that a request may carry, bytes.
const LEN_MAX: usize = 64;

/// Assigns an id to each call: the client's own id if it is valid, else the next id of this process.
#[derive(Debug)]
pub(crate) struct RequestIds {
    prefix: String,
    next: AtomicU64,
}

impl RequestIds {
    /// Generates a random prefix, so that ids differ between runs of the process.
    pub(crate) fn new(node: u64) -> Self {
        // Without randomness the ids are still unique within this process, which is sufficient.
        let life = getrandom::u32().unwrap_or_default();
        Self { prefix: format!("{node}-{life:08x}-"), next: AtomicU64::new(1) }
    }

    /// Returns the id of one call.
    pub(crate) fn of(&self, headers: &HeaderMap) -> String {
        let given = headers.get(holdfast_api::HOLDFAST_REQUEST_ID);
        match given.and_then(|value| value.to_str().ok()).filter(|id| is_sane(id)) {
            Some(id) => id.to_owned(),
            None => format!("{}{}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Whether an id is short and has no character that could forge a log line.
fn is_sane(id: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/+=".contains(&b);
    (1..=LEN_MAX).contains(&id.len()) && id.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_id_is_kept_and_an_invalid_one_is_replaced() {
        let ids = RequestIds::new(3);
        let of = |id: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(holdfast_api::HOLDFAST_REQUEST_ID, id.parse().unwrap());
            ids.of(&headers)
        };
        assert_eq!(of("trace:4bf9-2"), "trace:4bf9-2");
        for bad in ["", "a b", "a\"b", "{x}", &"a".repeat(65)] {
            assert!(of(bad).starts_with("3-"), "{bad}");
        }
        assert_ne!(ids.of(&HeaderMap::new()), ids.of(&HeaderMap::new()));
    }
}
