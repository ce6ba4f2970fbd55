//! Calls with a bad node first: it refuses, accepts and never answers, drops packets, or answers too late.

use tokio::net::{TcpSocket, TcpStream};

use super::*;

/// A little more than the time of the worst case, because the machine may be busy. One node had 6 s before.
const IN_TIME: Duration = Duration::from_secs(4);

/// A node at which every call fails.
struct BadNode {
    name: &'static str,
    address: String,
    /// Keeps the backlog full.
    backlog: Option<(TcpListener, Vec<TcpStream>)>,
}

impl BadNode {
    async fn all() -> [Self; 4] {
        let (silent, _) = node(|_, _| Some((HANG, String::new()))).await;
        let no_leader = |_: usize, _: &str| Some(problem("no-leader", 503, true));
        let (late, _) = node_after(Duration::from_millis(1_500), no_leader).await;
        let (dropping, backlog) = full_backlog().await;
        let bad = |name, address, backlog| Self { name, address, backlog };
        [
            bad("refuses", unused_address().await, None),
            bad("never answers", silent, None),
            bad("drops packets", dropping, Some(backlog)),
            bad("answers late", late, None),
        ]
    }
}

/// An address whose listener accepts nothing more: the kernel drops each SYN.
async fn full_backlog() -> (String, (TcpListener, Vec<TcpStream>)) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut held = Vec::new();
    loop {
        let connect = TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_millis(200), connect).await {
            Ok(stream) => held.push(stream.unwrap()),
            Err(_) => return (address.to_string(), (listener, held)),
        }
    }
}

async fn in_time<T>(what: &str, call: impl Future<Output = Result<T, Error>>) -> T {
    let start = Instant::now();
    let result = tokio::time::timeout(IN_TIME, call).await;
    let result = result.unwrap_or_else(|_| panic!("{what}: no result after {:?}", start.elapsed()));
    result.unwrap_or_else(|error| panic!("{what}: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_call_succeeds_although_its_first_node_is_bad() {
    for bad in BadNode::all().await {
        let posts = Arc::new(AtomicUsize::new(0));
        let counter = posts.clone();
        let (good, _) = node(move |_, line| {
            if line.starts_with("POST /v1/once") {
                counter.fetch_add(1, Ordering::SeqCst);
            }
            if is_acquire(line) {
                Some((200, grant(7, 0, 30_000)))
            } else {
                default_answer(line, "")
            }
        })
        .await;
        let new_client = || {
            let client = Client::builder([&bad.address, &good]);
            let client = client.request_timeout(Duration::from_secs(3)).build().unwrap();
            client.prefer(0);
            client
        };
        let name = bad.name;
        let read = LockName::new("job").unwrap();
        in_time(&format!("{name}: read"), new_client().lock_state(&read)).await;
        let _guard = in_time(&format!("{name}: acquire"), acquire(&new_client())).await;
        let once = Call::new(http::Method::POST, "/v1/once").copies(Copies::Never);
        in_time(&format!("{name}: once"), new_client().call_raw(&once)).await;
        assert_eq!(posts.load(Ordering::SeqCst), 1, "{name}: the call has one copy");
        let client = new_client();
        let _session = in_time(&format!("{name}: session"), client.session()).await;
        client.prefer(0);
        let _guard = in_time(&format!("{name}: wait"), client.lock("job").acquire()).await;
        drop(bad.backlog);
    }
}

/// The node of the acquire still answers pings, as one that is cut off from the others does.
#[tokio::test]
async fn a_waiter_learns_of_its_grant_from_the_node_of_its_keepalive() {
    let short = |line: &str, holds: &str| match line.split(' ').next() {
        Some("PUT" | "POST") => Some((200, session(holds, 3_000))),
        _ => default_answer(line, holds),
    };
    let (waits, waiting) =
        node(
            move |_, line| {
                if is_acquire(line) { Some((HANG, String::new())) } else { short(line, "") }
            },
        )
        .await;
    let (parks, _) = node(move |_, line| {
        let held = r#"{"lock":"job","token":7}"#;
        if is_acquire(line) { Some((200, grant(7, 0, 3_000))) } else { short(line, held) }
    })
    .await;
    let client = client([waits, parks]);
    client.prefer(0);
    let guard = in_time("the grant", client.lock("job").acquire()).await;
    assert_eq!(guard.token().0, 7);
    assert!(waiting.load(Ordering::SeqCst) > 0);
}

#[tokio::test]
async fn a_node_without_an_answer_rests() {
    let (silent, calls) = node(|_, _| Some((HANG, String::new()))).await;
    let (good, _) = node(|_, line| default_answer(line, "")).await;
    let client = client([silent, good]);
    client.prefer(0);
    let read = LockName::new("job").unwrap();
    in_time("the first read", client.lock_state(&read)).await;
    let before = calls.load(Ordering::SeqCst);
    client.prefer(0);
    in_time("the second read", client.lock_state(&read)).await;
    assert_eq!((before, calls.load(Ordering::SeqCst)), (1, 1));
}

/// The unanswered copy may still acquire the lock, so the client releases it by its attempt.
#[tokio::test]
async fn a_busy_lock_is_released_if_another_copy_has_no_answer() {
    let (silent, _) =
        node(
            |_, line| {
                if is_acquire(line) {
                    Some((HANG, String::new()))
                } else {
                    default_answer(line, "")
                }
            },
        )
        .await;
    let releases = Arc::new(AtomicUsize::new(0));
    let counter = releases.clone();
    let (good, _) = node(move |_, line| {
        if line.starts_with("DELETE /v1/locks/job?") && line.contains("attempt=") {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        if is_acquire(line) {
            Some(problem("lock-busy", 423, true))
        } else {
            default_answer(line, "")
        }
    })
    .await;
    let client = client([silent, good]);
    let _session = client.session().await.unwrap();
    client.prefer(0);
    assert!(matches!(acquire(&client).await, Err(Error::Busy(_))));
    until("the entry is released", || releases.load(Ordering::SeqCst) > 0).await;
}
