//! Inputs and outputs that the service's calls share: the caller, the freshness of a read, and the position in the log.

use std::time::Duration;

use holdfast_types::{Actor, CertificateName, Identity, Revision};

/// The caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Whose permissions the call has.
    pub actor: Actor,
    /// The certificate that proves the subject of the actor; `None` for other actors.
    pub certificate: Option<CertificateName>,
    /// The proven identities, for the access lists of znodes. `world:anyone` is implied.
    pub identities: Vec<Identity>,
}

impl Principal {
    pub fn anonymous() -> Self {
        Self::of(Actor::Anonymous)
    }

    pub fn of(actor: Actor) -> Self {
        Self { actor, certificate: None, identities: Vec::new() }
    }
}

#[derive(Clone, Debug)]
pub struct RequestContext {
    pub principal: Principal,
    /// Identifies the request in logs.
    pub request_id: String,
}

impl RequestContext {
    pub fn anonymous() -> Self {
        Self { principal: Principal::anonymous(), request_id: String::new() }
    }
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// The read sees every write acknowledged before it began.
    Linearizable,
    /// The read returns this node's state, labelled with its age.
    Stale,
}

/// A value with the position in the log at which it was true.
#[derive(Clone, Debug)]
pub struct Response<T> {
    pub value: T,
    /// The revision of the write, or of the state that the read returned.
    pub revision: Revision,
    /// For stale reads: the time since this node's last contact with a leader.
    pub leader_contact: Option<Duration>,
}

impl<T> Response<T> {
    /// The response to a write or a linearizable read.
    pub(crate) fn new(value: T, revision: Revision) -> Self {
        Self { value, revision, leader_contact: None }
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Response<U> {
        let Self { value, revision, leader_contact } = self;
        Response { value: change(value), revision, leader_contact }
    }
}
