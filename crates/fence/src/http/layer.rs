//! The service's side: a call goes through only with a token that is not stale.
//!
//! Owns which calls need a token, and for which resource; the gate beside it owns the order. Refuses to know what the service does. What a handler leaves running after it has answered is not
//! covered, nor are the calls of another process on the same data: there the handler carries the [`Fence`] from the
//! request's extensions on to the database's own guard.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{Either, Full};
use tower::{Layer, Service};

use super::gate::{Gate, Pass};
use super::marks::Marks;
use super::problem::Refusal;
use super::{FENCING_TOKEN, Fence};

/// How long a newer holder waits for the calls of older ones, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// The service's body, or a refusal's.
pub type GuardedBody<B> = Either<B, Full<Bytes>>;

/// Guards a service. Calls that change something need a token; `GET`, `HEAD`, `OPTIONS` and `TRACE` may show one, and
/// the first read of a new holder should (it raises the mark before it reads). Use one layer for a resource, and clone
/// it: calls of two layers do not wait for each other.
#[derive(Debug)]
pub struct FenceLayer<M>(Arc<Rules<M>>);

#[derive(Debug)]
struct Rules<M> {
    marks: M,
    gate: Arc<Gate>,
    resource: Option<String>,
    demanded: bool,
    patience: Duration,
}

impl<M> Clone for FenceLayer<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Marks> FenceLayer<M> {
    /// Guards one resource: right where one lock protects all that the service writes. A caller need not name it; if it
    /// does, it must be this one.
    pub fn new(resource: impl Into<String>, marks: M) -> Self {
        Self::of(marks, Some(resource.into()))
    }

    /// Guards whatever resource the caller names: right only where the service checks that it is the one it writes.
    pub fn by_header(marks: M) -> Self {
        Self::of(marks, None)
    }

    fn of(marks: M, resource: Option<String>) -> Self {
        let gate = Arc::default();
        Self(Arc::new(Rules { marks, gate, resource, demanded: true, patience: PATIENCE }))
    }

    /// Lets calls without a token through, for the time until all callers send one. Does nothing once the layer has
    /// been used.
    #[must_use]
    pub fn allow_missing(self) -> Self {
        self.with(|rules| rules.demanded = false)
    }

    /// How long a newer holder waits for older calls to end; then it is told 503. Does nothing once the layer has been
    /// used.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        self.with(|rules| rules.patience = patience)
    }

    fn with(mut self, change: impl FnOnce(&mut Rules<M>)) -> Self {
        if let Some(rules) = Arc::get_mut(&mut self.0) {
            change(rules);
        }
        self
    }
}

impl<M: Marks> Rules<M> {
    /// Lets a call in, or says why not. Nothing is answered for a call that needs no token and shows none.
    async fn admit(
        &self,
        needs_token: bool,
        shown: Shown,
    ) -> Result<Option<(Fence, Pass)>, Refusal> {
        let fence = match shown {
            Shown::Nothing if needs_token && self.demanded => return Err(Refusal::Missing),
            Shown::Nothing => return Ok(None),
            Shown::Broken(reason) => return Err(Refusal::Malformed(reason)),
            Shown::Token(fence) => fence,
        };
        let resource = self.resource_of(&fence)?;
        let raise = self.marks.raise(&resource, fence.claim);
        let pass = self.gate.enter(&resource, fence.claim, raise, self.patience).await?;
        Ok(Some((Fence { resource: Some(resource), ..fence }, pass)))
    }

    fn resource_of(&self, fence: &Fence) -> Result<String, Refusal> {
        let named = fence.resource.as_ref().filter(|name| !name.is_empty());
        match (&self.resource, named) {
            (Some(ours), Some(named)) if ours != named => Err(Refusal::Malformed(format!(
                "the token is for {named:?}, and this needs one for {ours:?}: take the lock that protects it"
            ))),
            (Some(ours), _) => Ok(ours.clone()),
            (None, Some(named)) => Ok(named.clone()),
            (None, None) => {
                let reason = "the header Fencing-Token names no resource";
                Err(Refusal::Malformed(reason.to_owned()))
            }
        }
    }
}

/// What the headers say.
enum Shown {
    Nothing,
    Token(Fence),
    Broken(String),
}

impl Shown {
    fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(FENCING_TOKEN).iter();
        match (values.next(), values.next()) {
            (None, _) => Self::Nothing,
            (Some(value), None) => match Fence::parse(value) {
                Ok(fence) => Self::Token(fence),
                Err(error) => Self::Broken(error.to_string()),
            },
            (Some(_), Some(_)) => Self::Broken("there is more than one Fencing-Token".to_owned()),
        }
    }
}

impl<S, M> Layer<S> for FenceLayer<M> {
    type Service = FenceService<S, M>;

    fn layer(&self, inner: S) -> FenceService<S, M> {
        FenceService { inner, rules: Arc::clone(&self.0) }
    }
}

/// A guarded service.
#[derive(Debug)]
pub struct FenceService<S, M> {
    inner: S,
    rules: Arc<Rules<M>>,
}

impl<S: Clone, M> Clone for FenceService<S, M> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), rules: Arc::clone(&self.rules) }
    }
}

impl<S, M, B, R> Service<Request<B>> for FenceService<S, M>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    M: Marks,
    B: Send + 'static,
{
    type Response = Response<GuardedBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The one that was polled ready is the one to be called.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let rules = Arc::clone(&self.rules);
        let (needs_token, shown) = (changes(request.method()), Shown::of(request.headers()));
        Box::pin(async move {
            let pass = match rules.admit(needs_token, shown).await {
                Ok(None) => None,
                Ok(Some((fence, pass))) => {
                    request.extensions_mut().insert(fence);
                    Some(pass)
                }
                Err(refusal) => return Ok(refusal.answer().map(Either::Right)),
            };
            let response = inner.call(request).await;
            drop(pass);
            Ok(response?.map(Either::Left))
        })
    }
}

/// Everything but the methods that are safe by definition.
fn changes(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method)
}
