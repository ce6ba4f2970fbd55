//! Connection handling against slow, malformed and disconnecting clients, with a minimal router.

use std::net::SocketAddr;

use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::*;

/// The time limit of one test step; long enough for a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

struct Server {
    address: SocketAddr,
    metrics: HttpMetrics,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

async fn start(config: HttpConfig, router: Router) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = HttpMetrics::register(&mut Registry::default());
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move { drop(stopped.await) };
    let phase = watch::Sender::new(ShutdownPhase::Serving);
    let ended = tokio::spawn(listen(
        HttpListener { listener, tls: None },
        Arc::new(config),
        router,
        metrics.clone(),
        phase,
        shutdown,
    ));
    Server { address, metrics, stop, ended }
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

fn hasty() -> HttpConfig {
    HttpConfig {
        head_timeout: Duration::from_secs(1),
        idle_timeout: Duration::from_secs(2),
        drain_timeout: Duration::from_millis(200),
        ..HttpConfig::default()
    }
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address).await.unwrap()
}

/// Reads until the server closes the connection, within a time limit.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut received)).await;
    // A reset closes the connection, too.
    drop(read.expect("the connection is still open"));
    String::from_utf8(received).unwrap()
}

async fn call(stream: &mut TcpStream) -> String {
    stream.write_all(REQUEST).await.unwrap();
    let mut received = vec![0; 4096];
    let read = tokio::time::timeout(TIMEOUT, stream.read(&mut received)).await;
    let length = read.expect("no answer").unwrap();
    String::from_utf8(received[..length].to_vec()).unwrap()
}

async fn until_open(server: &Server, connections: i64) {
    let all = async {
        while server.metrics.connections().get() != connections {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, all).await.unwrap();
}

#[tokio::test]
async fn a_connection_serves_many_calls_and_is_closed_when_idle() {
    let server = start(hasty(), hello()).await;
    let mut stream = connect(&server).await;
    for _ in 0..3 {
        assert!(call(&mut stream).await.ends_with("hello"));
    }
    assert_eq!(until_closed(&mut stream).await, "");
}

/// The client's limit is below the server's, so a client never sends into a closing connection.
#[tokio::test]
async fn a_response_names_the_idle_limit_of_its_connection() {
    let named = async |idle_timeout| {
        let server = start(HttpConfig { idle_timeout, ..HttpConfig::default() }, hello()).await;
        let answer = call(&mut connect(&server).await).await.to_lowercase();
        let named = answer.lines().find_map(|line| line.strip_prefix("keep-alive: timeout="));
        named.map(|seconds| Duration::from_secs(seconds.parse().unwrap()))
    };
    let default = HttpConfig::default().idle_timeout;
    for idle_timeout in [default, Duration::from_secs(6)] {
        let named = named(idle_timeout).await.unwrap();
        assert!(!named.is_zero() && named < idle_timeout, "{named:?}");
    }
    assert_eq!(named(Duration::from_secs(1)).await, None, "too short for a hint in seconds");
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let server = start(hasty(), hello()).await;
    assert_eq!(until_closed(&mut connect(&server).await).await, "");
}

#[tokio::test]
async fn a_connection_with_an_incomplete_head_is_closed_at_the_head_timeout() {
    let config = HttpConfig { idle_timeout: Duration::from_hours(1), ..hasty() };
    let server = start(config, hello()).await;
    let mut stream = connect(&server).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    assert_eq!(until_closed(&mut stream).await, "");
    let mut stream = connect(&server).await;
    assert!(call(&mut stream).await.ends_with("hello"));
    stream.write_all(b"GET / HT").await.unwrap();
    assert_eq!(until_closed(&mut stream).await, "");
}

#[tokio::test]
async fn a_head_sent_byte_by_byte_does_not_extend_the_head_timeout() {
    let config = HttpConfig { idle_timeout: Duration::from_hours(1), ..hasty() };
    let server = start(config, hello()).await;
    let (mut reader, mut writer) = connect(&server).await.into_split();
    let dribble = tokio::spawn(async move {
        let mut drops = tokio::time::interval(Duration::from_millis(20));
        loop {
            drops.tick().await;
            if writer.write_all(b"x").await.is_err() {
                return;
            }
        }
    });
    let mut received = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, reader.read_to_end(&mut received)).await;
    drop(read.expect("the dribbling connection is still open"));
    tokio::time::timeout(TIMEOUT, dribble).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_half_close_within_a_head_closes_the_connection() {
    let server = start(HttpConfig::default(), hello()).await;
    let mut stream = connect(&server).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(until_closed(&mut stream).await, "");
    until_open(&server, 0).await;
}

#[tokio::test]
async fn a_head_over_the_bound_is_rejected() {
    let server = start(HttpConfig::default(), hello()).await;
    let mut stream = connect(&server).await;
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(17 * 1024));
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(until_closed(&mut stream).await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn malformed_http_is_rejected() {
    let server = start(HttpConfig::default(), hello()).await;
    for nonsense in
        ["\x16\x03\x01\x02\0\x01\0\x01\0\0\r\n\r\n", "GET\r\n\r\n", "G\0T / HTTP/1.1\r\n\r\n"]
    {
        let mut stream = connect(&server).await;
        stream.write_all(nonsense.as_bytes()).await.unwrap();
        assert!(until_closed(&mut stream).await.starts_with("HTTP/1.1 400 "), "{nonsense:?}");
    }
}

#[tokio::test]
async fn a_connection_beyond_the_bound_gets_503_and_is_closed() {
    let config = HttpConfig { connections_max: 2, ..HttpConfig::default() };
    let server = start(config, hello()).await;
    let (mut first, _second) = (connect(&server).await, connect(&server).await);
    until_open(&server, 2).await;
    let told = until_closed(&mut connect(&server).await).await;
    assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("Retry-After: 1"), "{told}");
    assert!(call(&mut first).await.ends_with("hello"));
    assert_eq!(server.metrics.refused().get(), 1);
    drop(first);
    until_open(&server, 1).await;
    assert!(call(&mut connect(&server).await).await.ends_with("hello"));
}

/// A route that reports the arrival of a call and the drop of its future.
fn endless(events: mpsc::UnboundedSender<&'static str>) -> Router {
    struct Gone(mpsc::UnboundedSender<&'static str>);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _heard = self.0.send("gone");
        }
    }
    let endless = move || {
        let gone = Gone(events.clone());
        async move {
            gone.0.send("come").unwrap();
            std::future::pending::<()>().await;
        }
    };
    Router::new().route("/", get(endless))
}

async fn next(events: &mut mpsc::UnboundedReceiver<&'static str>) -> &'static str {
    tokio::time::timeout(TIMEOUT, events.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_disconnect_cancels_the_call() {
    let (sender, mut events) = mpsc::unbounded_channel();
    let server = start(HttpConfig::default(), endless(sender)).await;
    let mut stream = connect(&server).await;
    stream.write_all(REQUEST).await.unwrap();
    assert_eq!(next(&mut events).await, "come");
    drop(stream);
    assert_eq!(next(&mut events).await, "gone");
    until_open(&server, 0).await;
}

/// A route that reports the arrival of a call, and answers after a signal.
fn slow() -> (Router, mpsc::UnboundedReceiver<&'static str>, watch::Sender<bool>) {
    let (come, comes) = mpsc::unbounded_channel();
    let (go, gone) = watch::channel(false);
    let slow = move || {
        let (come, mut gone) = (come.clone(), gone.clone());
        async move {
            come.send("come").unwrap();
            drop(gone.wait_for(|gone| *gone).await);
            "finished"
        }
    };
    (Router::new().route("/", get(slow)), comes, go)
}

#[tokio::test]
async fn the_idle_timeout_does_not_end_a_call_in_flight() {
    let (slow, mut comes, go) = slow();
    let server = start(hasty(), slow).await;
    let mut stream = connect(&server).await;
    stream.write_all(REQUEST).await.unwrap();
    assert_eq!(next(&mut comes).await, "come");
    // Another connection reaches the idle timeout meanwhile.
    until_closed(&mut connect(&server).await).await;
    go.send(true).unwrap();
    assert!(until_closed(&mut stream).await.ends_with("finished"));
}

#[tokio::test]
async fn shutdown_closes_idle_connections_and_finishes_calls_in_flight() {
    let (slow, mut comes, go) = slow();
    let server = start(HttpConfig::default(), slow).await;
    let (mut idle, mut busy) = (connect(&server).await, connect(&server).await);
    busy.write_all(REQUEST).await.unwrap();
    assert_eq!(next(&mut comes).await, "come");
    server.stop.send(()).unwrap();
    assert_eq!(until_closed(&mut idle).await, "");
    assert!(TcpStream::connect(server.address).await.is_err(), "it still accepts");
    go.send(true).unwrap();
    let answer = until_closed(&mut busy).await;
    assert!(answer.contains("connection: close") && answer.ends_with("finished"), "{answer}");
    tokio::time::timeout(TIMEOUT, server.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn shutdown_closes_connections_that_wait_for_a_complete_request() {
    let server = start(HttpConfig::default(), hello()).await;
    let (mut used, mut half) = (connect(&server).await, connect(&server).await);
    assert!(call(&mut used).await.ends_with("hello"));
    half.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    until_open(&server, 2).await;
    server.stop.send(()).unwrap();
    assert_eq!(until_closed(&mut used).await, "");
    assert_eq!(until_closed(&mut half).await, "");
    tokio::time::timeout(Duration::from_secs(5), server.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn shutdown_cancels_calls_that_exceed_the_drain_timeout() {
    let (sender, mut events) = mpsc::unbounded_channel();
    let server = start(hasty(), endless(sender)).await;
    let mut stream = connect(&server).await;
    stream.write_all(REQUEST).await.unwrap();
    assert_eq!(next(&mut events).await, "come");
    server.stop.send(()).unwrap();
    assert_eq!(next(&mut events).await, "gone");
    tokio::time::timeout(TIMEOUT, server.ended).await.unwrap().unwrap();
    assert_eq!(until_closed(&mut stream).await, "");
}
