//! Reads a request's body. Bounds: its bytes, its time, and the number of large bodies at once. A further large body waits unread
//! in its connection, so the callers of small requests wait behind few large ones.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::EXPECT;
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
/// The maximum number of bodies of refused calls that arrive at once. The connections of further ones close.
const DISCARDS_MAX: usize = 16;
/// The time limit of such a body.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// The content of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// The body is not read.
    None,
    /// A JSON object with the parameters of the query.
    Params { bytes_max: usize },
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
    /// Parameters without lists and labels.
    pub(crate) const SMALL: Self = Self::Params { bytes_max: 8 * 1024 };
    /// Parameters with lists or labels.
    pub(crate) const LISTS: Self = Self::Params { bytes_max: 64 * 1024 };

    fn bytes_max(self, config: &HttpConfig) -> usize {
        match self {
            Self::None => 0,
            Self::Params { bytes_max } => bytes_max,
            Self::Sessions => config.body_bytes_max,
            Self::Data => config.data_bytes_max,
            Self::Txn => config.txn_bytes_max,
            Self::Value => AcquireOptions::VALUE_MAX,
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::None | Self::Params { .. } => "send the fields of the query, and nothing else",
            Self::Data => "keep large data elsewhere, and its location here",
            Self::Txn => "split the transaction",
            Self::Sessions => "renew fewer sessions at once",
            Self::Value => "keep the text elsewhere, and its location here",
        }
    }
}

/// The permits of large bodies, and of bodies that are discarded. Two kinds, so that clients that send slowly hold up no calls that are complete.
#[derive(Debug)]
pub(crate) struct LargeBodies {
    /// One permit for each large body in memory.
    received: Semaphore,
    /// One permit for each call with a large body that is executed.
    executed: Semaphore,
    /// One permit for each body of a refused call that is still arriving.
    discarded: Arc<Semaphore>,
    wait: Duration,
}

impl LargeBodies {
    pub(crate) fn new(config: &HttpConfig) -> Self {
        Self {
            received: Semaphore::new(config.large_bodies_max),
            executed: Semaphore::new(config.large_calls_max),
            discarded: Arc::new(Semaphore::new(DISCARDS_MAX)),
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

/// Discards the body of a call that its head refused, so that a client that still sends receives the response. The body is
/// not kept. A client that waits for `100 Continue` sends no body; hyper closes the connection of an unread one.
pub(crate) fn discard(
    body: Body,
    kind: BodyKind,
    headers: &HeaderMap,
    config: &HttpConfig,
    large: &LargeBodies,
) {
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    let Ok(permit) = large.discarded.clone().try_acquire_owned() else { return };
    let bytes_max = kind.bytes_max(config).max(config.body_bytes_max);
    tokio::spawn(async move {
        drop(tokio::time::timeout(DISCARD_TIME, skip(body, bytes_max)).await);
        drop(permit);
    });
}

/// Reads and drops a body up to its bound.
async fn skip(mut body: Body, bytes_max: usize) {
    let mut seen = 0_usize;
    while let Some(Ok(frame)) = body.frame().await {
        seen = seen.saturating_add(frame.data_ref().map_or(0, Bytes::len));
        if seen > bytes_max {
            return;
        }
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
