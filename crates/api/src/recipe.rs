//! Latches, barriers, double barriers and counters: paths, and bodies in `bodies`.

mod bodies;

use holdfast_types::RecipeName;

use crate::escape_path;

pub use bodies::{
    BarrierBody, BreachCauseBody, CounterBody, LatchBody, LatchCountBody, LeftBody, RecipeFacts,
    TrippedBody,
};

/// `/v1/latches/<name>`
pub fn latch_path(latch: &RecipeName) -> String {
    format!("/v1/latches/{}", escape_path(latch.as_str()))
}

/// `/v1/barriers/<name>`
pub fn barrier_path(barrier: &RecipeName) -> String {
    format!("/v1/barriers/{}", escape_path(barrier.as_str()))
}

/// `/v1/double-barriers/<name>`
pub fn double_barrier_path(barrier: &RecipeName) -> String {
    format!("/v1/double-barriers/{}", escape_path(barrier.as_str()))
}

/// `/v1/counters/<name>`
pub fn counter_path(counter: &RecipeName) -> String {
    format!("/v1/counters/{}", escape_path(counter.as_str()))
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Breach, BreachCause, Revision, SessionEnd, SessionName, Tripped};

    use super::*;

    #[test]
    fn bodies_look_as_specified() {
        let barrier = RecipeName::new("start").unwrap();
        let passed = Tripped { generation: Revision(7), index: 2, parties: 3 };
        let json = serde_json::to_string(&TrippedBody::new(barrier, &passed)).unwrap();
        assert_eq!(json, r#"{"barrier":"start","generation":7,"index":2,"parties":3}"#);
        let breach = Breach {
            generation: Revision(7),
            session: SessionName::new("w1").unwrap(),
            cause: BreachCause::SessionEnded(SessionEnd::Expired),
        };
        let json = serde_json::to_string(&RecipeFacts::of_breach(&breach)).unwrap();
        assert_eq!(json, r#"{"generation":7,"cause":"session-expired"}"#);
    }
}
