//! Opening, renewing and closing sessions.

use holdfast_types::{Labels, Ttl};

use super::query::Query;
use super::{REDIRECT, about, labels, ttl};
use crate::{Fields, Keys, Refusal};

/// `PUT /v1/sessions/{id}` and `POST /v1/sessions`: open a session, or renew it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenParams {
    /// Its time-to-live.
    pub ttl: Option<Ttl>,
    /// Shown to those who wait for its locks.
    pub labels: Labels,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl OpenParams {
    /// What the call takes.
    pub const KEYS: Keys = Keys {
        values: &["ttl"],
        flags: &[REDIRECT],
        later: &["name"],
        labels: true,
        about: &[about::TTL, about::REDIRECTED],
        ..Keys::NONE
    };

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: Fields<'_>) -> Result<Self, Refusal> {
        let redirect = fields.flag(REDIRECT);
        Ok(Self { ttl: ttl(&fields)?, labels: labels(fields)?, redirect })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.duration("ttl", self.ttl.map(Ttl::as_duration));
        query.flag(REDIRECT, self.redirect);
        query.labels(&self.labels);
        query.0
    }
}

/// `POST /v1/sessions/{id}/keepalive`, and `DELETE /v1/sessions/{id}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepAliveParams {
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl KeepAliveParams {
    /// What the call takes.
    pub const KEYS: Keys = Keys {
        values: &[],
        flags: &[REDIRECT],
        later: &["wait"],
        labels: false,
        about: &[about::REDIRECTED],
        ..Keys::NONE
    };

    /// Reads the flag.
    pub fn parse(fields: &Fields<'_>) -> Self {
        Self { redirect: fields.flag(REDIRECT) }
    }
}
