//! `hold=durable`: a hold of an owner, without a session and a time-to-live. It ends with its token, or by force.
//!
//! Its acquire has an attempt, so that a late copy does not take the lock after the release.

use holdfast_api::ParamError;
use holdfast_types::{Attempt, Labels, Mode, OpenSession, Owner, Reason, SessionName};

use crate::call::CallContext;
use crate::status::HttpError;

/// The owner and the reason of a durable acquire.
#[derive(Debug)]
pub(super) struct DurableHold {
    owner: Owner,
    pub(super) reason: Reason,
}

const HINT: &str =
    "a durable hold has an owner, a reason and a token, and no other end: leave one of them out";

impl DurableHold {
    /// Reads the acquire's parameters; `others` are those that a durable hold cannot have.
    pub(super) fn of(
        owner: Option<&Owner>,
        attempt: Option<Attempt>,
        reason: Option<&str>,
        mode: Option<Mode>,
        others: &[(&'static str, bool)],
    ) -> Result<Self, ParamError> {
        check_absent(others)?;
        if mode == Some(Mode::Upgradable) {
            let detail = "a durable hold is exclusive or shared";
            let error = ParamError::invalid("mode", detail);
            return Err(error.hint("leave mode out, or write mode=shared"));
        }
        let owner = named(owner)?;
        if attempt.is_none() {
            let detail = "'hold=durable' needs 'attempt'";
            return Err(ParamError::invalid("attempt", detail)
                .hint("add attempt=N, greater than in each earlier acquire of this owner: date +%s%6N prints one"));
        }
        let detail = "'hold=durable' needs 'reason'";
        let reason = reason.ok_or_else(|| {
            ParamError::invalid("reason", detail)
                .hint("add reason=TEXT: say what the lock protects, and who to ask")
        })?;
        let reason = Reason::new(reason).map_err(|error| ParamError::bad_name("reason", &error))?;
        Ok(Self { owner, reason })
    }

    /// The session of the owner's durable holds.
    pub(super) fn open(
        &self,
        call: &CallContext<'_>,
        labels: Labels,
    ) -> Result<OpenSession, HttpError> {
        let session = session_of(call, &self.owner)?;
        Ok(OpenSession { labels, ..OpenSession::of(session) })
    }
}

/// The session of the durable holds of an owner.
pub(super) fn session_of(call: &CallContext<'_>, owner: &Owner) -> Result<SessionName, HttpError> {
    let bad_name = |error| ParamError::bad_name("owner", &error);
    let name = SessionName::new(owner.as_str()).map_err(bad_name)?;
    call.whole_session("owner", SessionName::durable(&name).map_err(bad_name)?)
}

/// Rejects the first of some parameters that is given.
pub(super) fn check_absent(others: &[(&'static str, bool)]) -> Result<(), ParamError> {
    ParamError::check_alone("hold=durable", others, HINT)
}

/// The owner, which names the hold in every call.
pub(super) fn named(owner: Option<&Owner>) -> Result<Owner, ParamError> {
    let owner = owner.filter(|owner| **owner != Owner::unnamed());
    owner.cloned().ok_or_else(|| {
        let detail = "'hold=durable' needs 'owner'";
        ParamError::invalid("owner", detail)
            .hint("add owner=NAME: a person, or a name that the job keeps when it is repeated")
    })
}
