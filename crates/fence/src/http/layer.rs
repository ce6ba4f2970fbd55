//! The layer of the service rejects calls with stale tokens. The layer of the client adds the token to every request; after a
//! 412 the holder must stop.
//!
//! The layer of the service does not cover work that a handler continues after its answer, nor calls of another process on the same data. For
//! those the handler passes the [`Fence`] of the request's extensions to the guard of the database.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{Either, Full};
use tower::{Layer, Service};

use super::marks::{CallOrder, Marks, RunningCall};
use super::{FENCING_TOKEN, Fence, FenceRejection};
use crate::FenceError;

/// How long a newer holder waits for the calls of older holders by default.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of the service or of a rejection.
pub type GuardedBody<B> = Either<B, Full<Bytes>>;

/// Guards a service. Calls that change data need a token. `GET`, `HEAD`, `OPTIONS` and `TRACE` may have one, and the
/// first read of a new holder should, because it raises the mark before the read. Use clones of one layer for a
/// resource: calls of two layers do not wait for each other.
#[derive(Debug)]
pub struct FenceLayer<M>(Arc<LayerOptions<M>>);

#[derive(Debug)]
struct LayerOptions<M> {
    marks: M,
    order: Arc<CallOrder>,
    resource: Option<String>,
    token_required: bool,
    drain_timeout: Duration,
}

impl<M> Clone for FenceLayer<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Marks> FenceLayer<M> {
    /// Guards one resource, for a service whose data one lock protects. A caller that names a resource must name this
    /// one.
    pub fn new(resource: impl Into<String>, marks: M) -> Self {
        Self::of(marks, Some(resource.into()))
    }

    /// Guards the resource that the caller names. The service must check that it is the resource that it writes.
    pub fn by_header(marks: M) -> Self {
        Self::of(marks, None)
    }

    fn of(marks: M, resource: Option<String>) -> Self {
        let order = Arc::default();
        Self(Arc::new(LayerOptions {
            marks,
            order,
            resource,
            token_required: true,
            drain_timeout: DRAIN_TIMEOUT,
        }))
    }

    /// Accepts calls without a token, for the time until all callers send one. Has no effect after the first use of the
    /// layer.
    #[must_use]
    pub fn allow_missing(self) -> Self {
        self.with(|options| options.token_required = false)
    }

    /// How long a newer holder waits for older calls to end before it gets 503; by default 10 s. Has no effect after
    /// the first use of the layer.
    #[must_use]
    pub fn drain_timeout(self, timeout: Duration) -> Self {
        self.with(|options| options.drain_timeout = timeout)
    }

    fn with(mut self, change: impl FnOnce(&mut LayerOptions<M>)) -> Self {
        if let Some(options) = Arc::get_mut(&mut self.0) {
            change(options);
        }
        self
    }
}

impl<M: Marks> LayerOptions<M> {
    /// Admits a call, or rejects it. Returns `None` for a call that needs no token and has none.
    async fn admit(
        &self,
        needs_token: bool,
        fence: Result<Option<Fence>, FenceRejection>,
    ) -> Result<Option<(Fence, RunningCall)>, FenceRejection> {
        let Some(fence) = fence? else {
            let is_missing = needs_token && self.token_required;
            return if is_missing { Err(FenceRejection::Missing) } else { Ok(None) };
        };
        let resource = self.resource_of(&fence)?;
        let raise = self.marks.raise(&resource, fence.claim);
        let running = self.order.enter(&resource, fence.claim, raise, self.drain_timeout).await?;
        Ok(Some((Fence { resource: Some(resource), ..fence }, running)))
    }

    fn resource_of(&self, fence: &Fence) -> Result<String, FenceRejection> {
        let named = fence.resource.as_ref().filter(|name| !name.is_empty());
        match (&self.resource, named) {
            (Some(own), Some(named)) if own != named => Err(FenceRejection::Malformed(format!(
                "the token is for {named:?}, and this resource is {own:?}: acquire the lock that protects it"
            ))),
            (Some(own), _) => Ok(own.clone()),
            (None, Some(named)) => Ok(named.clone()),
            (None, None) => {
                let reason = "the header Fencing-Token names no resource";
                Err(FenceRejection::Malformed(reason.to_owned()))
            }
        }
    }
}

/// Reads the header of a request; `None` if there is none.
fn fence_of(headers: &HeaderMap) -> Result<Option<Fence>, FenceRejection> {
    let mut values = headers.get_all(FENCING_TOKEN).iter();
    let fence = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => Fence::parse(value).map_err(|error| error.to_string()),
        (Some(_), Some(_)) => Err("there is more than one Fencing-Token".to_owned()),
    };
    fence.map(Some).map_err(FenceRejection::Malformed)
}

impl<S, M> Layer<S> for FenceLayer<M> {
    type Service = FenceService<S, M>;

    fn layer(&self, inner: S) -> FenceService<S, M> {
        FenceService { inner, options: Arc::clone(&self.0) }
    }
}

/// A guarded service. A call with a token runs to its end in a task of its own, also after its caller has disconnected: a
/// handler that is dropped may leave work behind, such as a write of a blocking thread, which would come after later tokens.
#[derive(Debug)]
pub struct FenceService<S, M> {
    inner: S,
    options: Arc<LayerOptions<M>>,
}

impl<S: Clone, M> Clone for FenceService<S, M> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), options: Arc::clone(&self.options) }
    }
}

impl<S, M, B, R> Service<Request<B>> for FenceService<S, M>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    M: Marks,
    B: Send + 'static,
    R: Send + 'static,
{
    type Response = Response<GuardedBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // `poll_ready` was called on this instance, so this instance gets the call.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let options = Arc::clone(&self.options);
        let (needs_token, fence) = (changes_data(request.method()), fence_of(request.headers()));
        Box::pin(async move {
            let (fence, running) = match options.admit(needs_token, fence).await {
                Ok(None) => return Ok(inner.call(request).await?.map(Either::Left)),
                Ok(Some(admitted)) => admitted,
                Err(rejection) => return Ok(rejection.answer().map(Either::Right)),
            };
            request.extensions_mut().insert(fence);
            let call = inner.call(request);
            let handler = tokio::spawn(async move {
                let response = call.await;
                drop(running);
                response
            });
            match handler.await {
                Ok(response) => Ok(response?.map(Either::Left)),
                // The runtime stops, so nobody waits for the answer.
                Err(ended) if ended.is_cancelled() => std::future::pending().await,
                Err(ended) => std::panic::resume_unwind(ended.into_panic()),
            }
        })
    }
}

/// Whether the method may change data: it is not one of the safe methods of RFC 9110.
fn changes_data(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method)
}

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
