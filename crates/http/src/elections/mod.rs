//! Elections: one file for each call. An election is the lock `elections/<name>`: the holder leads, the waiters are
//! candidates.

pub(crate) mod campaign;
mod observe;
pub(crate) mod read;
pub(crate) mod resign;

use holdfast_api::{ErrorCode, ParamError, election_lock};
use holdfast_types::LockName;

use crate::call::CallContext;
use crate::status::HttpError;

/// Parses the election from the path; returns it with its lock.
fn election(call: &mut CallContext<'_>) -> Result<(LockName, LockName), HttpError> {
    let election = call.lock()?;
    let lock = election_lock(&election)
        .map_err(|error| ParamError::new(ErrorCode::BadName, error.to_string()))?;
    call.log_fields.lock = Some(lock.clone());
    Ok((election, lock))
}
