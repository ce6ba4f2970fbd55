//! `DELETE /v1/locks`: release several locks, or leave their queues.

use futures_util::FutureExt as _;
use holdfast_api::parameters::lock::{NAMES, RELEASED_MULTI_LOCK_SESSION};
use holdfast_api::parameters::{OWNER, RELEASED_ATTEMPT};
use holdfast_api::{CallParams as _, params};
use holdfast_types::{Attempt, LockName, Owner, Release, ReleaseTarget, SessionName};

use super::acquire_many::checked_names;
use super::{RELEASE_ERRORS, owner_or_unnamed};
use crate::access::Access;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::LOCKS;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Release several locks, or leave their queues",
    description: "With attempt a late copy of the call changes nothing. Without it the call ends every hold and every wait \
        that the owner has when the call arrives.",
    params: ReleaseManyParams::LIST,
    example: Example { query: "name=account/7&name=account/9&session=me", body: "" },
    answers: || ResponseSpec::no_content("The places are given up"),
    errors: RELEASE_ERRORS,
    ..Operation::write(
        "releaseLocks",
        Method::Delete,
        &LOCKS,
        LateCopies::Release,
        Access::Subject,
        BodyKind::LISTS,
        |call| release(call).boxed(),
    )
};

params! {
    struct ReleaseManyParams {
        names: Vec<LockName> = NAMES,
        session: SessionName = RELEASED_MULTI_LOCK_SESSION,
        owner: Option<Owner> = OWNER,
        attempt: Option<Attempt> = RELEASED_ATTEMPT,
    }
}

async fn release(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let ReleaseManyParams { names, session, owner, attempt } = call.params()?;
    let locks = checked_names(names)?;
    call.log_fields.session = Some(session.clone());
    let target = attempt.map_or(ReleaseTarget::AnyEntry, ReleaseTarget::Attempt);
    let release = Release { locks, session, owner: owner_or_unnamed(owner), target };
    call.change(call.service().release(release)).await
}
