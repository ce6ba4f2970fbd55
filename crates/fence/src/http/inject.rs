//! The client's side: every request that goes through carries the token.
//!
//! Owns one header. Refuses to know when a token is stale: the service says so with 412, and then the holder stops.

use std::task::{Context, Poll};

use http::{HeaderValue, Request};
use tower::{Layer, Service};

use super::{FENCING_TOKEN, Fence};
use crate::FenceError;

/// Puts one holder's token into all its requests. Make a new one for each grant.
#[derive(Clone, Debug)]
pub struct InjectLayer(HeaderValue);

impl InjectLayer {
    /// For the grant of this token.
    ///
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

/// A client whose requests carry a token.
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
