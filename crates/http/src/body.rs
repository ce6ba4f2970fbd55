//! Reads a request's body. Bounds: its bytes, its time, and the number of large bodies at once. A further large body waits unread
//! in its connection, so the callers of small requests wait behind few large ones.

use std::time::Duration;

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

/// The permits of large bodies. Two kinds, so that clients that send slowly hold up no calls that are complete.
#[derive(Debug)]
pub(crate) struct LargeBodies {
    /// One permit for each large body in memory.
    received: Semaphore,
    /// One permit for each call with a large body that is executed.
    executed: Semaphore,
    wait: Duration,
}

impl LargeBodies {
    pub(crate) fn new(config: &HttpConfig) -> Self {
        Self {
            received: Semaphore::new(config.large_bodies_max),
            executed: Semaphore::new(config.large_calls_max),
            wait: config.large_body_wait,
        }
    }

    /// Acquires a permit, in the order of the requests.
    async fn permit<'p>(&self, of: &'p Semaphore) -> Result<SemaphorePermit<'p>, HttpError> {
        // The semaphores are never closed.
        if let Ok(Ok(permit)) = tokio::time::timeout(self.wait, of.acquire()).await {
            return Ok(permit);
        }
        let bound = Some("large bodies at once".into());
        let facts = Facts { bound, retry_after_ms: Some(1_000), ..Facts::default() };
        Err(Box::new(Problem::new(ErrorCode::RateLimited, "nothing was done").facts(facts)))
    }
}

/// A body, with its permits if it is large.
#[derive(Debug, Default)]
pub(crate) struct Received<'p> {
    /// Empty if the request has no body.
    pub(crate) bytes: Bytes,
    /// The permits are released when the call returns its reply.
    pub(crate) permits: Option<[SemaphorePermit<'p>; 2]>,
}

/// Reads the whole body.
///
/// # Errors
/// `payload-too-large` if the body exceeds its bound, `rate-limited` if no permit for a large body becomes free in time,
/// `invalid-argument` if the body does not arrive in time.
pub(crate) async fn read<'p>(
    body: Body,
    kind: BodyKind,
    config: &HttpConfig,
    large: &'p LargeBodies,
) -> Result<Received<'p>, HttpError> {
    if kind == BodyKind::None || body.is_end_stream() {
        return Ok(Received::default());
    }
    let bytes_max = kind.bytes_max(config);
    let small_max = u64::try_from(config.body_bytes_max).unwrap_or(u64::MAX);
    // A body of unknown length counts as large.
    if body.size_hint().upper().is_some_and(|bytes| bytes <= small_max) {
        let bytes = collect_in_time(body, kind, bytes_max, config).await?;
        return Ok(Received { bytes, permits: None });
    }
    let received = match large.permit(&large.received).await {
        Ok(received) => received,
        Err(error) => {
            // A client that still sends would not read the response.
            drop(tokio::time::timeout(large.wait, collect(body, 0)).await);
            return Err(error);
        }
    };
    let bytes = collect_in_time(body, kind, bytes_max, config).await?;
    let executed = large.permit(&large.executed).await?;
    Ok(Received { bytes, permits: Some([received, executed]) })
}

async fn collect_in_time(
    body: Body,
    kind: BodyKind,
    bytes_max: usize,
    config: &HttpConfig,
) -> Result<Bytes, HttpError> {
    let in_time = tokio::time::timeout(config.body_timeout, collect(body, bytes_max)).await;
    let collected = in_time.unwrap_or_else(|_| {
        let limit = holdfast_api::format_duration(config.body_timeout);
        Err(BodyError::Broken(format!("the body did not arrive within {limit}")))
    });
    collected.map_err(|error| match error {
        BodyError::TooLarge => too_large(bytes_max, kind.hint()),
        BodyError::Broken(detail) => problem(ErrorCode::InvalidArgument, detail),
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
