//! The lifetimes of new access tokens.
//!
//! A token that never expires is created only on request, and only while no maximum is set.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long new access tokens may live. Existing ones keep their expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenPolicy {
    /// Of a token whose creator names no lifetime, milliseconds; `None` for the maximum.
    pub default_ttl_ms: Option<u64>,
    /// Milliseconds; `None` for no maximum.
    pub max_ttl_ms: Option<u64>,
}

impl TokenPolicy {
    /// A year, without a maximum.
    pub const INITIAL: Self = Self { default_ttl_ms: Some(365 * 86_400_000), max_ttl_ms: None };

    /// True for a default beyond the maximum.
    pub fn is_contradictory(&self) -> bool {
        self.default_ttl_ms.zip(self.max_ttl_ms).is_some_and(|(default, max)| default > max)
    }

    /// The lifetime, milliseconds; `None` for a token that never expires.
    pub fn ttl_ms(&self, lifetime: TokenLifetime) -> Option<u64> {
        match lifetime {
            TokenLifetime::Default => self.default_ttl_ms.or(self.max_ttl_ms),
            TokenLifetime::Never => None,
            TokenLifetime::Of(ttl) => Some(crate::millis(ttl)),
            TokenLifetime::UpToMax(ttl_ms) => [ttl_ms, self.max_ttl_ms].into_iter().flatten().min(),
        }
    }
}

impl Default for TokenPolicy {
    fn default() -> Self {
        Self::INITIAL
    }
}

/// The lifetime that the creator of an access token wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenLifetime {
    Default,
    Never,
    Of(Duration),
    /// This lifetime, milliseconds, or the maximum if that is shorter; `None` for one as long as possible.
    UpToMax(Option<u64>),
}
