//! The HTTP layers against a real service on a real socket.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::{Method, Request, Response};
use holdfast_fence::http::{
    FENCING_TOKEN, Fence, FenceLayer, FileMarks, InjectLayer, Marks, MemoryMarks,
};
use holdfast_fence::{Claim, FenceError, FencingToken};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::model::{TestStore, a_store_judges_as_the_rule_says, invalid_claims_are_rejected};
use crate::pausing::{Pauses, STOCK, StockStore, StoreConnection, WriterSchedule};
use crate::search::{half_a_guard_loses_updates, no_interleaving_loses_an_update, runtime};

const RESOURCE: &str = "shop";

/// The data of the service, and the stage on which its handlers pause.
#[derive(Default)]
struct Shelf {
    stock: i64,
    orders: Vec<u64>,
    stage: Option<WriterSchedule>,
}

type Shared = Arc<Mutex<Shelf>>;

/// `GET` returns the stock, `PUT` stores stock and token. Guarded calls pause in the middle of the handler.
async fn handle(
    shelf: Shared,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let writer =
        request.headers().get("writer").map(|value| value.to_str().unwrap().parse().unwrap());
    let is_guarded = request.extensions().get::<Fence>().is_some();
    let stage = shelf.lock().unwrap().stage.clone();
    let pauses = writer.zip(stage).map(|(writer, stage)| Pauses { stage, writer });
    let is_write = request.method() == Method::PUT;
    let body = request.into_body().collect().await.unwrap().to_bytes();
    if let Some(pauses) = pauses.filter(|_| is_guarded) {
        pauses.pause().await;
    }
    let mut shelf = shelf.lock().unwrap();
    if is_write {
        let (stock, token) = std::str::from_utf8(&body).unwrap().split_once(' ').unwrap();
        shelf.stock = stock.parse().unwrap();
        shelf.orders.push(token.parse().unwrap());
    }
    Ok(Response::new(shelf.stock.to_string().into()))
}

/// Serves until the runtime ends.
async fn serve<S, B>(service: S) -> SocketAddr
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

struct HttpStore {
    shelf: Shared,
    plain: String,
    guarded: String,
    directory: TempDir,
    http: reqwest::Client,
}

impl HttpStore {
    async fn open() -> Self {
        let (shelf, directory) = (Shared::default(), tempfile::tempdir().unwrap());
        let own = Arc::clone(&shelf);
        let service = service_fn(move |request| handle(Arc::clone(&own), request));
        let plain = format!("http://{}/", serve(service.clone()).await);
        // A call that meets a call in flight fails, and starts again at its next step.
        let layer = FenceLayer::by_header(FileMarks::open(directory.path()).unwrap());
        let guarded = serve(layer.drain_timeout(Duration::ZERO).layer(service)).await;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { shelf, plain, guarded: format!("http://{guarded}/"), directory, http }
    }

    fn desk_of(&self, writer: usize) -> HttpConnection {
        let (http, plain, guarded) = (self.http.clone(), self.plain.clone(), self.guarded.clone());
        HttpConnection { http, plain, guarded, writer }
    }
}

impl StockStore for HttpStore {
    type StoreConnection = HttpConnection;

    fn resource(&self) -> String {
        RESOURCE.to_owned()
    }

    async fn reset(&mut self) {
        self.forget().await;
        *self.shelf.lock().unwrap() = Shelf { stock: STOCK, ..Shelf::default() };
    }

    async fn desk(&mut self, writer: usize, stage: &WriterSchedule) -> HttpConnection {
        self.shelf.lock().unwrap().stage = Some(stage.clone());
        self.desk_of(writer)
    }

    async fn count(&mut self) -> (i64, Vec<u64>) {
        let now = self.shelf.lock().unwrap();
        (now.stock, now.orders.clone())
    }
}

struct HttpConnection {
    http: reqwest::Client,
    plain: String,
    guarded: String,
    writer: usize,
}

/// The stock, or the error of a problem document.
async fn answer(response: reqwest::Response) -> Result<i64, FenceError> {
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type").cloned();
    let text = response.text().await.unwrap();
    if status == 200 {
        return Ok(text.parse().unwrap());
    }
    assert_eq!(kind.unwrap(), "application/problem+json", "{text}");
    let problem: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(problem["status"], status);
    let reason = problem["detail"].as_str().unwrap().to_owned();
    Err(match (status, problem["code"].as_str().unwrap()) {
        (412, "stale-token") => FenceError::Stale {
            resource: problem["resource"].as_str().unwrap().to_owned(),
            token: FencingToken(problem["token"].as_u64().unwrap()),
            newest: FencingToken(problem["newest"].as_u64().unwrap()),
            holder: None,
        },
        (503, "fence-unavailable") => FenceError::Conflict { reason },
        (428, "missing-token") | (400, "malformed-token") => FenceError::MissingToken { reason },
        other => panic!("{other:?}: {text}"),
    })
}

impl HttpConnection {
    async fn call(&self, claim: Option<Claim>, body: Option<String>) -> Result<i64, FenceError> {
        let to = if claim.is_some() { &self.guarded } else { &self.plain };
        let mut request = match &body {
            Some(_) => self.http.put(to),
            None => self.http.get(to),
        };
        if let Some(claim) = claim {
            request = request.header(FENCING_TOKEN, Fence::new(RESOURCE, claim).header()?);
        }
        request = request.header("writer", self.writer).body(body.unwrap_or_default());
        answer(request.send().await.unwrap()).await
    }
}

impl StoreConnection for HttpConnection {
    async fn read(&mut self) -> Result<i64, FenceError> {
        self.call(None, None).await
    }

    async fn write(&mut self, token: FencingToken, stock: i64) -> Result<(), FenceError> {
        self.call(None, Some(format!("{stock} {token}"))).await.map(drop)
    }

    async fn read_fenced(&mut self, token: FencingToken, _: &Pauses) -> Result<i64, FenceError> {
        self.call(Some(token.into()), None).await
    }

    async fn write_fenced(
        &mut self,
        token: FencingToken,
        stock: i64,
        _: &Pauses,
    ) -> Result<(), FenceError> {
        self.call(Some(token.into()), Some(format!("{stock} {token}"))).await.map(drop)
    }
}

impl TestStore for HttpStore {
    fn resource(&self) -> String {
        RESOURCE.to_owned()
    }

    async fn forget(&mut self) {
        for entry in std::fs::read_dir(self.directory.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    async fn show(&mut self, claim: Claim) -> Result<(), FenceError> {
        self.desk_of(0).call(Some(claim), None).await.map(drop)
    }
}

#[test]
fn http_judges_as_the_rule_says() {
    let runtime = runtime();
    let mut store = runtime.block_on(HttpStore::open());
    invalid_claims_are_rejected(&runtime, &mut store);
    a_store_judges_as_the_rule_says(&runtime, store);
}

#[test]
fn no_interleaving_of_paused_writers_loses_an_update_over_http() {
    let runtime = runtime();
    let store = runtime.block_on(HttpStore::open());
    no_interleaving_loses_an_update(&runtime, store);
}

#[test]
fn half_a_guard_loses_updates_over_http() {
    let runtime = runtime();
    let store = runtime.block_on(HttpStore::open());
    half_a_guard_loses_updates(&runtime, store);
}

/// Marks in memory, without a network.
struct InMemory(MemoryMarks);

impl TestStore for InMemory {
    fn resource(&self) -> String {
        RESOURCE.to_owned()
    }

    async fn forget(&mut self) {
        self.0 = MemoryMarks::default();
    }

    async fn show(&mut self, claim: Claim) -> Result<(), FenceError> {
        self.0.raise(RESOURCE, claim).await.map(drop)
    }
}

#[test]
fn marks_in_memory_judge_as_the_rule_says() {
    let (runtime, mut marks) = (runtime(), InMemory(MemoryMarks::default()));
    invalid_claims_are_rejected(&runtime, &mut marks);
    a_store_judges_as_the_rule_says(&runtime, marks);
}

/// A service that returns the claim of the request.
async fn echo(request: Request<String>) -> Result<Response<Full<Bytes>>, Infallible> {
    let fence = request.extensions().get::<Fence>();
    let text = fence.map_or("nothing".to_owned(), |fence| {
        format!("{} {}", fence.resource.as_deref().unwrap(), fence.claim.token())
    });
    Ok(Response::new(text.into()))
}

/// Status and text of one call through a layer for `orders`.
async fn through<M: Marks>(
    layer: &FenceLayer<M>,
    method: Method,
    headers: &[&str],
) -> (u16, String) {
    let mut request = Request::builder().method(method);
    for header in headers {
        request = request.header(FENCING_TOKEN, *header);
    }
    let service = layer.layer(service_fn(echo));
    let response = service.oneshot(request.body(String::new()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn missing_and_malformed_tokens_are_rejected_with_an_example() {
    let layer = FenceLayer::new("orders", MemoryMarks::default());
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let (status, text) = through(&layer, method, &[]).await;
        assert!(status == 428 && text.contains("Fencing-Token: 34"), "{status} {text}");
    }
    assert_eq!(through(&layer, Method::GET, &[]).await, (200, "nothing".to_owned()));
    for headers in [
        &["x"][..],
        &["0"],
        &["34", "34"],
        &["34, 35"],
        &["34; resource=\"others\""],
        &["34; floor=35"],
    ] {
        let (status, text) = through(&layer, Method::GET, headers).await;
        assert_eq!((status, text.contains("malformed-token")), (400, true), "{headers:?} {text}");
    }
    assert_eq!(through(&layer, Method::PUT, &["34"]).await, (200, "orders 34".to_owned()));
    assert_eq!(
        through(&layer, Method::GET, &["35; resource=\"orders\""]).await,
        (200, "orders 35".to_owned())
    );
    let (status, text) = through(&layer, Method::PUT, &["34"]).await;
    assert_eq!(status, 412, "{text}");
    let problem: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&problem["token"], &problem["newest"]), (&34.into(), &35.into()), "{text}");

    let anything = FenceLayer::by_header(MemoryMarks::default());
    assert_eq!(through(&anything, Method::PUT, &["34"]).await.0, 400);
    let lenient = FenceLayer::new("orders", MemoryMarks::default()).allow_missing();
    assert_eq!(through(&lenient, Method::PUT, &[]).await, (200, "nothing".to_owned()));
    assert_eq!(through(&lenient, Method::PUT, &["x"]).await.0, 400);
}

#[tokio::test]
async fn the_clients_layer_puts_the_token_into_every_request() {
    let guard = FenceLayer::new("orders", MemoryMarks::default());
    let inject = |token| InjectLayer::new(&Fence::new("orders", FencingToken(token))).unwrap();
    for (token, status) in [(34, 200), (35, 200), (34, 412), (35, 200)] {
        let client = inject(token).layer(guard.layer(service_fn(echo)));
        let response =
            client.oneshot(Request::put("/").body(String::new()).unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{token}");
    }
}

/// A newer call enters when the older call has ended, not before. Then calls with older tokens are rejected.
#[tokio::test]
async fn a_newer_token_waits_for_older_calls_in_flight() {
    let (entered, mut admitted) = tokio::sync::mpsc::unbounded_channel();
    let leave = Arc::new(tokio::sync::Notify::new());
    let end = Arc::clone(&leave);
    let service = service_fn(move |request: Request<String>| {
        let (entered, end) = (entered.clone(), Arc::clone(&end));
        async move {
            entered.send(request.extensions().get::<Fence>().unwrap().claim.token().0).unwrap();
            end.notified().await;
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }
    });
    let guarded = FenceLayer::new("orders", MemoryMarks::default()).layer(service);
    let call = |token: &str| {
        let request = Request::put("/").header(FENCING_TOKEN, token).body(String::new()).unwrap();
        tokio::spawn(guarded.clone().oneshot(request))
    };
    let status = async |call: tokio::task::JoinHandle<_>| {
        let response: Result<Response<_>, Infallible> = call.await.unwrap();
        response.unwrap().status().as_u16()
    };
    let older = call("34");
    assert_eq!(admitted.recv().await, Some(34));
    let newer = call("35");
    // This runtime starts tasks in the order of their creation: 35 raises the mark, then another call with 34 arrives.
    assert_eq!(
        (status(call("34")).await, admitted.try_recv().is_err()),
        (412, true),
        "35 entered beside 34"
    );
    leave.notify_one();
    assert_eq!(status(older).await, 200);
    assert_eq!(admitted.recv().await, Some(35));
    leave.notify_one();
    assert_eq!(status(newer).await, 200);

    // A waiting call is rejected at its turn if a newer call has arrived meanwhile.
    let oldest = call("35");
    assert_eq!(admitted.recv().await, Some(35));
    let (overtaken, newest) = (call("36"), call("37"));
    assert_eq!(status(call("36")).await, 412);
    leave.notify_one();
    assert_eq!((status(oldest).await, admitted.recv().await), (200, Some(37)));
    let rejected = tokio::time::timeout(Duration::from_secs(20), status(overtaken)).await;
    assert_eq!(rejected.ok(), Some(412), "36 entered beside 37");
    leave.notify_one();
    assert_eq!(status(newest).await, 200);

    // Holders of a shared lock do not wait for each other.
    let (first, second) = (call("39; floor=38"), call("38; floor=38"));
    let mut both = [admitted.recv().await.unwrap(), admitted.recv().await.unwrap()];
    both.sort_unstable();
    assert_eq!(both, [38, 39]);
    leave.notify_waiters();
    assert_eq!((status(first).await, status(second).await), (200, 200));
}

/// Marks in files survive the process that wrote them.
#[tokio::test]
async fn the_mark_survives_a_restart_of_the_service() {
    let directory = tempfile::tempdir().unwrap();
    let layer = || FenceLayer::new("orders/eu", FileMarks::open(directory.path()).unwrap());
    assert_eq!(through(&layer(), Method::PUT, &["34"]).await.0, 200);
    let (status, text) = through(&layer(), Method::PUT, &["33"]).await;
    assert_eq!((status, text.contains("orders/eu")), (412, true), "{text}");
}
