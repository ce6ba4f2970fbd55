//! Commands while one of three nodes is frozen (SIGSTOP), or while the first address never answers.
//!
//! `HOLDFAST_TRIALS` sets the number of runs of each command; `scripts/campaign frozen` prints the longest time of each.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use holdfast_lab::Http;
use nix::sys::signal::Signal;

use crate::program::{DevCluster, End, eventually, send, spawn};

/// The goal is 2 s. The test machine may be busy, so only a command that spends the former 6 s at one node fails.
const IN_TIME: Duration = Duration::from_secs(5);
/// The goal of a waiter with the default TTL is 3 s; the former time was 10 s.
const GRANT_IN_TIME: Duration = Duration::from_secs(6);

/// The commands, with the greatest right exit code. `{}` becomes unique.
const COMMANDS: [(&str, i32); 25] = [
    ("run job --try --quiet -- true", 0),
    ("elect db --try --quiet -- true", 0),
    ("run job --quiet -- true", 0),
    ("unlock held --session me", 0),
    ("unlock held --force --reason test", 0),
    ("ls", 0),
    ("ls --stale", 0),
    ("status", 0),
    ("who job", 0),
    ("who job --stale", 0),
    ("history job", 0),
    ("session ls", 0),
    ("policy job", 0),
    ("policy job --cooldown off", 0),
    ("top", 0),
    ("wait job --free", 0),
    ("audit ls", 0),
    ("member ls", 0),
    ("elect who db", 0),
    ("tree create /t{} x", 0),
    ("tree get /t{}", 0),
    ("counter add hits 1", 0),
    ("latch create gate{} --count 1", 0),
    // The frozen node is an alarm, and a failed check of the doctor.
    ("alarms", 2),
    ("doctor", 1),
];

fn trials() -> usize {
    std::env::var("HOLDFAST_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn client(addresses: &str, line: &str) -> End {
    let words: Vec<&str> = line.split_whitespace().collect();
    spawn(&words, &[("HOLDFAST_ADDR", addresses)]).wait()
}

/// The addresses of the cluster, with `first` instead of that of the first node.
fn addresses(cluster: &DevCluster, first: &str) -> String {
    let port = cluster.port();
    format!("{first},127.0.0.1:{},127.0.0.1:{}", port + 10, port + 20)
}

/// Sends a request to a node.
fn call(cluster: &DevCluster, node: u16, method: &str, target: &str) {
    let http = Http::new(format!("127.0.0.1:{}", cluster.port() + 10 * node));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let method = method.parse().unwrap();
    let answer = runtime.block_on(http.call(method, target));
    assert!(answer.status < 300, "{target}: {answer}");
}

/// Waits until the nodes other than the first have a leader.
fn await_leader(cluster: &DevCluster) {
    let others = 1..3;
    let others: Vec<String> =
        others.map(|node| format!("127.0.0.1:{}", cluster.port() + 10 * node)).collect();
    eventually("a leader", || {
        client(&others.join(","), "run settled --try --quiet -- true").code == Some(0)
    });
}

/// Runs every command, and prints a line of a table for each.
fn run_all(cluster: &DevCluster, fault: &str, first: &str) {
    let addresses = addresses(cluster, first);
    for (line, code_max) in COMMANDS {
        let mut longest = Duration::ZERO;
        for trial in 0..trials() {
            let line = line.replace("{}", &format!("{}-{trial}", fault.len()));
            if line.starts_with("unlock") {
                call(cluster, 1, "PUT", "/v1/locks/held?session=me&ttl=5m");
            }
            let start = Instant::now();
            let end = client(&addresses, &line);
            longest = longest.max(start.elapsed());
            let code = end.code.unwrap_or(-1);
            assert!(
                (0..=code_max).contains(&code),
                "{fault}: {line}: exit code {code}: {}{}",
                end.stdout,
                end.stderr
            );
        }
        eprintln!("| {fault} | `{line}` | {:.2} |", longest.as_secs_f64());
        assert!(longest < IN_TIME, "{fault}: {line}: {longest:?}");
    }
}

#[test]
fn every_command_works_while_the_first_node_is_frozen() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let first = format!("127.0.0.1:{}", cluster.port());
    send(cluster.node_pids()[0], Signal::SIGSTOP);
    await_leader(&cluster);
    run_all(&cluster, "stopped", &first);
    send(cluster.node_pids()[0], Signal::SIGCONT);
}

/// A listener that never answers: with a free backlog it accepts every connection, with a full one none.
struct DeadListener {
    address: SocketAddr,
    _listener: TcpListener,
    connections: Vec<TcpStream>,
}

impl DeadListener {
    fn accepting() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, _listener: listener, connections: Vec::new() }
    }

    /// The kernel drops the packets of further connections.
    fn full() -> Self {
        let mut dead = Self::accepting();
        while let Ok(stream) = TcpStream::connect_timeout(&dead.address, Duration::from_millis(300))
        {
            dead.connections.push(stream);
        }
        dead
    }
}

#[test]
fn every_command_works_while_the_first_address_never_answers() {
    // Each connection to a full backlog uses a descriptor of this process, so the campaign alone has that fault.
    let cluster = DevCluster::start(&["--nodes", "3"]);
    run_all(&cluster, "accepts, never answers", &DeadListener::accepting().address.to_string());
    if trials() > 1 {
        run_all(&cluster, "drops packets", &DeadListener::full().address.to_string());
    }
}

fn waits_for_ms(explained: &str) -> u64 {
    let explained: serde_json::Value = serde_json::from_str(explained).unwrap_or_default();
    explained["queue"][0]["waiting_for_ms"].as_u64().unwrap_or_default()
}

/// Each node is frozen once: the one where the acquire waits, the one of the keepalive, and the leader.
#[test]
fn a_waiter_and_a_new_command_succeed_although_any_node_freezes() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let all = addresses(&cluster, &format!("127.0.0.1:{}", cluster.port()));
    for frozen in 0..3 {
        let other = (frozen + 1) % 3;
        let lock = format!("turn{frozen}");
        call(&cluster, other, "PUT", &format!("/v1/locks/{lock}?session=holder{frozen}&ttl=5m"));
        let mut waiter = cluster.spawn_client(&["run", &lock, "--quiet", "--", "echo", "got"]);
        let who = format!("who {lock} -o json");
        let address = format!("127.0.0.1:{}", cluster.port() + 10 * other);
        // After the first ping only the keepalive can deliver the grant.
        eventually("it waits", || waits_for_ms(&client(&address, &who).stdout) > 1_500);
        send(cluster.node_pids()[usize::from(frozen)], Signal::SIGSTOP);
        let start = Instant::now();
        let fresh = client(&all, "run fresh --quiet -- true");
        eprintln!(
            "| node {} just stopped | `run fresh` | {:.2} |",
            frozen + 1,
            start.elapsed().as_secs_f64()
        );
        assert_eq!(fresh.code, Some(0), "node {}: {}", frozen + 1, fresh.stderr);
        let start = Instant::now();
        call(&cluster, other, "DELETE", &format!("/v1/locks/{lock}?session=holder{frozen}"));
        let line = waiter.next_stdout_line();
        let took = start.elapsed();
        send(cluster.node_pids()[usize::from(frozen)], Signal::SIGCONT);
        assert_eq!(line, "got");
        eprintln!("| node {} stopped | a waiter | {:.2} |", frozen + 1, took.as_secs_f64());
        assert!(took < GRANT_IN_TIME, "node {}: {took:?}", frozen + 1);
        waiter.wait();
    }
}

#[test]
fn without_a_majority_commands_name_the_missing_nodes_and_stale_reads_work() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    call(&cluster, 0, "PUT", "/v1/locks/kept?session=me&ttl=5m");
    let all = addresses(&cluster, &format!("127.0.0.1:{}", cluster.port()));
    let survivor = format!("127.0.0.1:{}", cluster.port() + 20);
    eventually("it has the lock", || {
        client(&survivor, "who kept --stale").stdout.contains("held by me")
    });
    for pid in &cluster.node_pids()[..2] {
        send(*pid, Signal::SIGSTOP);
    }
    eventually("it has no leader", || client(&survivor, "status").code == Some(1));
    let missing = "no majority: 2 of 3 nodes do not answer (node 1 at ";
    let run = client(&all, "run other --try -- true").assert_code(1);
    let text = run.stderr;
    assert!(
        text.contains(missing) && text.contains("the command did not run. Repeat it"),
        "{text}"
    );
    let text = client(&all, "who kept").stderr;
    assert!(text.contains(missing) && text.contains("nothing was done"), "{text}");
    for (line, shown) in
        [("who kept", "held by me"), ("ls", "kept"), ("session ls", "me"), ("history kept", "me")]
    {
        let end = client(&all, &format!("{line} --stale"));
        assert_eq!(end.code, Some(0), "{line}: {}", end.stderr);
        assert!(end.stdout.contains(shown), "{line}: {}", end.stdout);
        assert!(end.stderr.contains("the state of node 3 at revision"), "{line}: {}", end.stderr);
        assert!(end.stderr.contains("last message from a leader was"), "{line}: {}", end.stderr);
    }
    assert_eq!(client(&all, "audit ls --stale").code, Some(0));
    let doctor = client(&all, "doctor");
    assert!(doctor.stdout.contains("the cluster has no leader"), "{}", doctor.stdout);
    for pid in &cluster.node_pids()[..2] {
        send(*pid, Signal::SIGCONT);
    }
}

#[test]
fn an_ipv6_address_without_brackets_is_a_usage_error() {
    for (address, advice) in
        [("::1:8500", "put the IPv6 address into brackets"), ("[::1%lo]:8500", "write host:port")]
    {
        let end = client(address, "run w --try -- true");
        assert_eq!(end.code, Some(2), "{address}: {}", end.stderr);
        assert!(end.stderr.contains(advice), "{address}: {}", end.stderr);
    }
}
