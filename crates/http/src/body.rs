//! Reads a request's body. Bounds: its bytes, its time, and the number of large bodies at once.

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tokio::sync::{Semaphore, SemaphorePermit};

use holdfast_api::{ErrorCode, Facts, Problem};
use holdfast_types::AcquireOptions;

use crate::HttpConfig;
use crate::status::{HttpError, problem};

/// The server reads and discards up to this many bytes beyond the bound, so that the client receives the error. It
/// closes the connection on a larger body.
const DISCARDED_MAX: usize = 1024 * 1024;

/// The content of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// The body is not read.
    None,
    /// A JSON object with the parameters of the query.
    Params,
    /// The data of a node.
    Data,
    /// A transaction.
    Txn,
    /// A list of session ids.
    Sessions,
    /// The value of a candidate.
    Value,
}

impl BodyKind {
    fn bytes_max(self, config: &HttpConfig) -> usize {
        match self {
            Self::None | Self::Params | Self::Sessions => config.body_bytes_max,
            Self::Data => config.data_bytes_max,
            Self::Txn => config.txn_bytes_max,
            Self::Value => AcquireOptions::VALUE_MAX,
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::None | Self::Params => "send the fields of the query, and nothing else",
            Self::Data => "keep large data elsewhere, and its location here",
            Self::Txn => "split the transaction",
            Self::Sessions => "renew fewer sessions at once",
            Self::Value => "keep the text elsewhere, and its location here",
        }
    }
}

/// A body, with its permit if it is large.
#[derive(Debug, Default)]
pub(crate) struct Received<'p> {
    /// Empty if the request has no body.
    pub(crate) bytes: Bytes,
    /// The permit is released when the call returns its reply.
    pub(crate) place: Option<SemaphorePermit<'p>>,
}

/// Reads the whole body.
///
/// # Errors
/// `payload-too-large` if the body exceeds its bound, `rate-limited` if no permit for a large body is free,
/// `invalid-argument` if the body does not arrive in time.
pub(crate) async fn read<'p>(
    body: Body,
    kind: BodyKind,
    config: &HttpConfig,
    places: &'p Semaphore,
) -> Result<Received<'p>, HttpError> {
    if kind == BodyKind::None || body.is_end_stream() {
        return Ok(Received::default());
    }
    let (bytes_max, place) = (kind.bytes_max(config), place(&body, config, places)?);
    let collected = collect(body, bytes_max);
    let in_time = tokio::time::timeout(config.body_timeout, collected).await;
    let collected = in_time.unwrap_or_else(|_| {
        let limit = holdfast_api::format_duration(config.body_timeout);
        Err(BodyError::Broken(format!("the body did not arrive within {limit}")))
    });
    match collected {
        Ok(bytes) => Ok(Received { bytes, place }),
        Err(BodyError::TooLarge) => Err(too_large(bytes_max, kind.hint())),
        Err(BodyError::Broken(detail)) => Err(problem(ErrorCode::InvalidArgument, detail)),
    }
}

/// Acquires a permit for a large body or a body of unknown length.
fn place<'p>(
    body: &Body,
    config: &HttpConfig,
    places: &'p Semaphore,
) -> Result<Option<SemaphorePermit<'p>>, HttpError> {
    let small = u64::try_from(config.body_bytes_max).unwrap_or(u64::MAX);
    if body.size_hint().upper().is_some_and(|bytes| bytes <= small) {
        return Ok(None);
    }
    places.try_acquire().map(Some).map_err(|_| {
        let limit = u64::try_from(config.large_bodies_max).ok();
        let bound = Some("large bodies at once".into());
        let facts = Facts { bound, limit, retry_after_ms: Some(1_000), ..Facts::default() };
        Box::new(Problem::new(ErrorCode::RateLimited, "nothing was done").facts(facts))
    })
}

enum BodyError {
    TooLarge,
    Broken(String),
}

async fn collect(mut body: Body, bytes_max: usize) -> Result<Bytes, BodyError> {
    let seen_max = bytes_max.saturating_add(DISCARDED_MAX);
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > seen_max {
        return Err(BodyError::TooLarge);
    }
    let (mut collected, mut seen) = (Vec::with_capacity(declared.min(bytes_max)), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| BodyError::Broken(format!("the body broke off: {error}")))?;
        let Some(data) = frame.data_ref() else { continue };
        seen = seen.saturating_add(data.len());
        if seen <= bytes_max {
            collected.extend_from_slice(data);
        } else if seen > seen_max {
            break;
        }
    }
    if seen > bytes_max { Err(BodyError::TooLarge) } else { Ok(collected.into()) }
}

fn too_large(bytes_max: usize, hint: &'static str) -> HttpError {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let detail = format!("the body is larger than {limit} bytes");
    let facts = Facts { limit: Some(limit), ..Facts::default() };
    Box::new(Problem::new(ErrorCode::PayloadTooLarge, detail).facts(facts).hint(hint))
}
