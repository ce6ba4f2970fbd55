//! The connections of one client: a proxy before each node, with faults, and a record of the calls.
//!
//! A proxy forwards bytes. It reads the first line of each call, so that a fault can select calls. HTTP/1.1 sends one
//! call at a time on a connection. Connections with TLS only have the faults that need no call.
//!
//! Bounds: 16 KiB in each direction of a connection; the record grows with the calls of a scenario.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

const CHUNK_LEN: usize = 16 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const REPEAT_TIMEOUT: Duration = Duration::from_secs(5);
const METHODS: [&str; 6] = ["GET ", "PUT ", "POST ", "DELETE ", "PATCH ", "HEAD "];

/// What happens to the bytes of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// They are forwarded.
    #[default]
    Open,
    /// They wait. Connections stay open.
    Held,
    /// Connections are closed, and new ones too.
    Cut,
}

/// A fault of the next calls that begin with a text.
#[derive(Clone, Debug)]
pub struct CallFault {
    /// The beginning of the first line.
    pub call: String,
    /// The number of calls.
    pub times: u32,
    /// The fault.
    pub kind: CallFaultKind,
}

/// What happens to a call.
#[derive(Clone, Debug)]
pub enum CallFaultKind {
    /// The node gets the call, and the connection closes instead of the answer.
    LoseAnswer,
    /// The node does not get the call; the client gets these bytes.
    FalseAnswer(Vec<u8>),
}

/// A call that a proxy has seen.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    /// The index of the node.
    pub node: usize,
    /// Method and target.
    pub line: String,
    bytes: Vec<u8>,
}

/// What bytes of a client are.
enum SeenBytes {
    /// The beginning of a call, with its fault.
    Call(Option<CallFaultKind>),
    /// The rest of a call.
    Rest,
}

#[derive(Debug, Default)]
struct ProxyState {
    faults: Vec<CallFault>,
    calls: Vec<RecordedCall>,
}

impl ProxyState {
    /// Records bytes of a client.
    fn record(&mut self, node: usize, bytes: &[u8]) -> SeenBytes {
        let Some(line) = first_line(bytes) else {
            if let Some(call) = self.calls.iter_mut().rev().find(|call| call.node == node) {
                call.bytes.extend_from_slice(bytes);
            }
            return SeenBytes::Rest;
        };
        let fits = |fault: &&mut CallFault| fault.times > 0 && line.starts_with(&fault.call);
        let fault = self.faults.iter_mut().find(fits).map(|fault| {
            fault.times -= 1;
            fault.kind.clone()
        });
        self.calls.push(RecordedCall { node, line, bytes: bytes.to_vec() });
        SeenBytes::Call(fault)
    }
}

/// `PUT /v1/locks/a?…` of bytes that begin a call.
fn first_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(2_048)]);
    let line = text.split("\r\n").next()?.strip_suffix(" HTTP/1.1")?;
    METHODS.iter().any(|method| line.starts_with(method)).then(|| line.to_owned())
}

/// A state and a delay.
type Link = (LinkState, Duration);

/// The proxies of one client, one for each node. Dropping the value closes them.
#[derive(Debug)]
pub struct ClientProxies {
    addresses: Vec<SocketAddr>,
    nodes: Vec<SocketAddr>,
    links: Vec<watch::Sender<Link>>,
    state: Arc<Mutex<ProxyState>>,
    _tasks: JoinSet<()>,
}

impl ClientProxies {
    /// Starts a proxy before each of these nodes.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start(nodes: Vec<SocketAddr>) -> Self {
        let state = Arc::<Mutex<ProxyState>>::default();
        let (mut addresses, mut links, mut tasks) = (Vec::new(), Vec::new(), JoinSet::new());
        for (node, target) in nodes.iter().enumerate() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
            addresses.push(listener.local_addr().expect("a bound address"));
            let link = watch::Sender::new(Link::default());
            let (subscriber, state, target) = (link.subscribe(), state.clone(), *target);
            links.push(link);
            tasks.spawn(accept(listener, (node, target), subscriber, state));
        }
        Self { addresses, nodes, links, state, _tasks: tasks }
    }

    /// The addresses of the proxies.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Sets the state of the connections to one node, or to all.
    pub fn set(&self, node: Option<usize>, state: LinkState) {
        self.change(node, |link| link.0 = state);
    }

    /// Delays each answer of one node, or of all.
    pub fn delay(&self, node: Option<usize>, delay: Duration) {
        self.change(node, |link| link.1 = delay);
    }

    /// Forwards everything again.
    pub fn heal(&self) {
        self.change(None, |link| *link = Link::default());
        self.lock().faults.clear();
    }

    fn change(&self, node: Option<usize>, change: impl Fn(&mut Link)) {
        let links = self.links.iter().enumerate();
        let chosen = links.filter(|(index, _)| node.is_none_or(|node| node == *index));
        chosen.for_each(|(_, link)| link.send_modify(&change));
    }

    /// Adds a fault of calls.
    pub fn add(&self, fault: CallFault) {
        self.lock().faults.push(fault);
    }

    /// The calls that begin with a text.
    pub fn calls(&self, beginning: &str) -> Vec<RecordedCall> {
        let state = self.lock();
        state.calls.iter().filter(|call| call.line.starts_with(beginning)).cloned().collect()
    }

    /// Sends the recorded calls that begin with a text again. Returns their number.
    ///
    /// # Errors
    /// If no node answers a call.
    pub async fn repeat(&self, beginning: &str) -> Result<usize, String> {
        let calls = self.calls(beginning);
        for call in &calls {
            let sending = send(self.nodes[call.node], &call.bytes);
            let answer = tokio::time::timeout(REPEAT_TIMEOUT, sending).await;
            answer
                .map_err(|_| format!("no answer to the copy of {}", call.line))?
                .map_err(|error| format!("the copy of {}: {error}", call.line))?;
        }
        Ok(calls.len())
    }

    fn lock(&self) -> MutexGuard<'_, ProxyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends bytes, and waits for the beginning of the answer.
async fn send(node: SocketAddr, bytes: &[u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(node).await?;
    stream.write_all(bytes).await?;
    stream.read_u8().await.map(drop)
}

type Shared = Arc<Mutex<ProxyState>>;

async fn accept(
    listener: TcpListener,
    node: (usize, SocketAddr),
    link: watch::Receiver<Link>,
    state: Shared,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { return };
                connections.spawn(carry(client, node, link.clone(), state.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Waits until the link forwards bytes; `None` if it is cut.
async fn open(link: &mut watch::Receiver<Link>) -> Option<Duration> {
    let (state, delay) = *link.wait_for(|link| link.0 != LinkState::Held).await.ok()?;
    (state == LinkState::Open).then_some(delay)
}

async fn cut(mut link: watch::Receiver<Link>) {
    // A dropped sender counts as a cut.
    drop(link.wait_for(|link| link.0 == LinkState::Cut).await);
}

async fn carry(
    client: TcpStream,
    node: (usize, SocketAddr),
    mut link: watch::Receiver<Link>,
    state: Shared,
) {
    let until_cut = cut(link.clone());
    let forwarding = async {
        open(&mut link).await?;
        let server = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(node.1)).await;
        let server = server.ok()?.ok()?;
        client.set_nodelay(true).and(server.set_nodelay(true)).ok()?;
        forward(client, server, node.0, &mut link, &state).await
    };
    tokio::select! { _ = forwarding => {}, () = until_cut => {} }
}

/// Forwards until one side closes, or until an answer is to be lost.
async fn forward(
    mut client: TcpStream,
    mut server: TcpStream,
    node: usize,
    link: &mut watch::Receiver<Link>,
    state: &Shared,
) -> Option<()> {
    let (mut asked, mut answered) = (vec![0; CHUNK_LEN], vec![0; CHUNK_LEN]);
    let mut fault = None;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let bytes = &asked[..read.ok().filter(|len| *len > 0)?];
                let began = state.lock().unwrap_or_else(PoisonError::into_inner).record(node, bytes);
                if let SeenBytes::Call(of_call) = began {
                    fault = of_call;
                    if let Some(CallFaultKind::FalseAnswer(answer)) = &fault {
                        client.write_all(answer).await.ok()?;
                    }
                }
                if !matches!(fault, Some(CallFaultKind::FalseAnswer(_))) {
                    open(link).await?;
                    server.write_all(bytes).await.ok()?;
                }
            }
            read = server.read(&mut answered) => {
                let bytes = &answered[..read.ok().filter(|len| *len > 0)?];
                if matches!(fault, Some(CallFaultKind::LoseAnswer)) {
                    return None;
                }
                let delay = open(link).await?;
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                    open(link).await?;
                }
                client.write_all(bytes).await.ok()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_call_is_recognized() {
        let call = b"PUT /v1/locks/a?session=s HTTP/1.1\r\nhost: x\r\n\r\n";
        assert_eq!(first_line(call).as_deref(), Some("PUT /v1/locks/a?session=s"));
        assert_eq!(first_line(b"{\"a\":1}"), None);
        assert_eq!(first_line(b"\x16\x03\x01"), None);
    }

    #[test]
    fn a_fault_meets_the_calls_that_it_names() {
        let fault =
            CallFault { call: "PUT /a".to_owned(), times: 1, kind: CallFaultKind::LoseAnswer };
        let mut state = ProxyState { faults: vec![fault], calls: Vec::new() };
        assert!(matches!(state.record(0, b"GET /a HTTP/1.1\r\n"), SeenBytes::Call(None)));
        assert!(matches!(state.record(0, b"PUT /a HTTP/1.1\r\n"), SeenBytes::Call(Some(_))));
        assert!(matches!(state.record(0, b"body"), SeenBytes::Rest));
        assert!(
            matches!(state.record(0, b"PUT /a HTTP/1.1\r\n"), SeenBytes::Call(None)),
            "only once"
        );
        assert_eq!(state.calls.len(), 3);
        assert!(state.calls[1].bytes.ends_with(b"body"));
    }
}
