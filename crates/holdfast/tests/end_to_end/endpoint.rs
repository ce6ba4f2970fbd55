//! A user's HTTP service, guarded or not, on a free port.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use holdfast_fence::http::{FENCING_TOKEN, Fence, FenceLayer, FileMarks};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tower::{Layer, Service, service_fn};

/// How the service treats tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// The guard of the fencing kit, for the resource `orders`.
    Guarded,
    /// The same guard, which accepts calls without a token.
    Lenient,
    /// No check.
    Open,
    /// Accepts larger tokens, and rejects equal ones.
    LargerOnly,
    /// Fails every call.
    Failing,
}

/// A running service, which ends on drop.
pub(crate) struct Endpoint {
    address: SocketAddr,
    _runtime: Runtime,
    _marks: TempDir,
}

impl Endpoint {
    pub(crate) fn start(kind: Kind) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let marks = tempfile::tempdir().unwrap();
        let layer = || FenceLayer::new("orders", FileMarks::open(marks.path()).unwrap());
        let newest = Arc::new(AtomicU64::new(0));
        let service = service_fn(move |request| {
            std::future::ready(Ok::<_, Infallible>(answer(kind, &newest, &request)))
        });
        let address = runtime.block_on(async {
            match kind {
                Kind::Guarded => serve(layer().layer(service)).await,
                Kind::Lenient => serve(layer().allow_missing().layer(service)).await,
                Kind::Open | Kind::LargerOnly | Kind::Failing => serve(service).await,
            }
        });
        Self { address, _runtime: runtime, _marks: marks }
    }

    /// The address, e.g. `127.0.0.1:43117`.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }
}

fn answer(kind: Kind, newest: &AtomicU64, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"written")));
    let shown = request
        .headers()
        .get(FENCING_TOKEN)
        .map(|value| Fence::parse(value).unwrap().claim.token().0);
    *response.status_mut() = match kind {
        Kind::Guarded | Kind::Lenient | Kind::Open => StatusCode::OK,
        Kind::Failing => StatusCode::INTERNAL_SERVER_ERROR,
        Kind::LargerOnly
            if newest.fetch_max(shown.unwrap_or(0), Ordering::SeqCst) < shown.unwrap_or(0) =>
        {
            StatusCode::OK
        }
        Kind::LargerOnly => StatusCode::PRECONDITION_FAILED,
    };
    response
}

async fn serve<S, B>(service: S) -> SocketAddr
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    address
}
