//! Reading a request's body: bounded in bytes and in time.

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;

use holdfast_api::{ErrorCode, Facts, Problem};

use crate::HttpConfig;
use crate::status::{Fault, problem};

/// A body that is too large is read on up to this many bytes and thrown away, so that the client is still there to
/// read why; a larger one is cut off.
const DISCARDED_MAX: usize = 1024 * 1024;

/// Reads the whole body; empty if there is none.
///
/// # Errors
/// `payload-too-large` beyond [`HttpConfig::body_bytes_max`], `invalid-argument` if it does not arrive in time.
pub(crate) async fn read(body: Body, config: &HttpConfig) -> Result<Bytes, Fault> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let collected = collect(body, config.body_bytes_max);
    let in_time = tokio::time::timeout(config.body_timeout, collected).await;
    in_time.unwrap_or_else(|_| {
        let limit = holdfast_api::format_duration(config.body_timeout);
        Err(problem(ErrorCode::InvalidArgument, format!("the body did not arrive within {limit}")))
    })
}

async fn collect(mut body: Body, bytes_max: usize) -> Result<Bytes, Fault> {
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > DISCARDED_MAX {
        return Err(too_large(bytes_max));
    }
    let (mut collected, mut seen) = (Vec::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            problem(ErrorCode::InvalidArgument, format!("the body broke off: {error}"))
        })?;
        let Some(data) = frame.data_ref() else { continue };
        seen = seen.saturating_add(data.len());
        if seen <= bytes_max {
            collected.extend_from_slice(data);
        } else if seen > DISCARDED_MAX {
            break;
        }
    }
    if seen > bytes_max { Err(too_large(bytes_max)) } else { Ok(collected.into()) }
}

fn too_large(bytes_max: usize) -> Fault {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let detail = format!("the body is larger than {limit} bytes");
    let facts = Facts { limit: Some(limit), ..Facts::default() };
    let too_large = Problem::new(ErrorCode::PayloadTooLarge, 0, detail).facts(facts);
    crate::status::sealed(too_large.hint("send the fields of the query, and nothing else"))
}
