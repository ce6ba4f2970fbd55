//! The layer of the client: it adds the token to every request.
//!
//! The service rejects a stale token with 412; then the holder must stop.

use std::task::{Context, Poll};

use http::{HeaderValue, Request};
use tower::{Layer, Service};

use super::{FENCING_TOKEN, Fence};
use crate::FenceError;

/// Adds the token of one grant to all requests. Create a new layer for each grant.
#[derive(Clone, Debug)]
pub struct InjectLayer(HeaderValue);

impl InjectLayer {
    /// # Errors
    /// [`FenceError::MissingToken`] as [`Fence::header`].
    pub fn new(fence: &Fence) -> Result<Self, FenceError> {
        fence.header().map(Self)
    }
}

impl<S> Layer<S> for InjectLayer {
    type Service = Inject<S>;

    fn layer(&self, inner: S) -> Inject<S> {
        Inject { inner, header: self.0.clone() }
    }
}

/// A client that adds the token to its requests.
#[derive(Clone, Debug)]
pub struct Inject<S> {
    inner: S,
    header: HeaderValue,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for Inject<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        request.headers_mut().insert(FENCING_TOKEN, self.header.clone());
        self.inner.call(request)
    }
}
