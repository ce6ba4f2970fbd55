//! A proxy that falsifies one frame, to test that the comparison finds the difference.
//!
//! The proxy forwards frames in both directions and changes one frame to the client, at fixed offsets.
//! Bounds: one frame per direction.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Lengths in bytes of a reply's header, and of a reply that has only a stat.
const HEADER: usize = 16;
const STAT: usize = HEADER + 68;
/// The reply to the `sync` of `/` after each step; the comparison uses only its position.
const SYNC: usize = HEADER + 5;

/// A falsification, applied to the first matching frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Falsification {
    /// Replaces success by an error.
    Error,
    /// Replaces the zxid in a header by a much older one.
    OldHeader,
    /// Increments a field of a stat: offset and length in bytes.
    Stat(usize, usize),
    /// Drops an event.
    Lost,
    /// Sends an event twice.
    Doubled,
    /// Sends an event after the next reply.
    Late,
    /// Changes the type of an event.
    OtherEvent,
}

impl Falsification {
    /// All falsifications, with one for each field of a stat.
    pub const ALL: [Self; 17] = [
        Self::Error,
        Self::OldHeader,
        Self::Stat(0, 8),
        Self::Stat(8, 8),
        Self::Stat(16, 8),
        Self::Stat(24, 8),
        Self::Stat(32, 4),
        Self::Stat(36, 4),
        Self::Stat(40, 4),
        Self::Stat(44, 8),
        Self::Stat(52, 4),
        Self::Stat(56, 4),
        Self::Stat(60, 8),
        Self::Lost,
        Self::Doubled,
        Self::Late,
        Self::OtherEvent,
    ];

    fn fits(self, frame: &[u8]) -> bool {
        let event = frame.starts_with(&[0xff; 4]);
        let good = frame.len() >= HEADER && frame[12..HEADER] == [0; 4];
        match self {
            Self::Error | Self::OldHeader => good && !event && frame.len() > SYNC,
            // Clocks of servers differ: a time is detectably wrong only if it differs within one change.
            Self::Stat(16 | 24, _) => {
                good && !event && frame.len() == STAT && frame[16..24] == frame[24..32]
            }
            Self::Stat(..) => good && !event && frame.len() == STAT,
            Self::Lost | Self::Doubled | Self::Late | Self::OtherEvent => event,
        }
    }

    /// The frames to send instead of this one, and a frame to send later.
    fn tell(self, mut frame: Vec<u8>) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        match self {
            Self::Error => {
                frame.truncate(HEADER);
                frame[12..].copy_from_slice(&(-110_i32).to_be_bytes());
            }
            Self::OldHeader => frame[4..12].copy_from_slice(&1_i64.to_be_bytes()),
            Self::Stat(offset, len) => increment(&mut frame[HEADER + offset..][..len]),
            Self::Lost => return (Vec::new(), None),
            Self::Doubled => return (vec![frame.clone(), frame], None),
            Self::Late => return (Vec::new(), Some(frame)),
            Self::OtherEvent => frame[19] ^= 3,
        }
        (vec![frame], None)
    }
}

fn increment(number: &mut [u8]) {
    for byte in number.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return;
        }
    }
}

/// The proxy. Dropping it stops the proxy.
#[derive(Debug)]
pub struct FaultyProxy {
    /// Listening address.
    pub address: SocketAddr,
    told: Arc<AtomicBool>,
    proxy: JoinHandle<()>,
}

impl FaultyProxy {
    /// Starts a proxy for a server.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn before(server: SocketAddr, lie: Falsification) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let told = Arc::new(AtomicBool::new(false));
        let proxy = tokio::spawn(serve(listener, server, lie, told.clone()));
        Self { address, told, proxy }
    }

    /// True after the falsification.
    pub fn has_lied(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.proxy.abort();
    }
}

async fn serve(
    listener: TcpListener,
    server: SocketAddr,
    lie: Falsification,
    told: Arc<AtomicBool>,
) {
    // The first connection only creates the folder of the run.
    let mut lying = false;
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(server).await else { continue };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::spawn(hand_on(from_client, to_server, None));
        tokio::spawn(hand_on(from_server, to_client, lying.then(|| (lie, told.clone()))));
        lying = true;
    }
}

async fn hand_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    lie: Option<(Falsification, Arc<AtomicBool>)>,
) {
    let mut first = true;
    let mut later = None;
    while let Some(frame) = frame(&mut from).await {
        let (frames, held) = match &lie {
            // The reply to the first frame has no header.
            Some((lie, told))
                if !first && lie.fits(&frame) && !told.swap(true, Ordering::Relaxed) =>
            {
                lie.tell(frame)
            }
            _ => (vec![frame], later.take()),
        };
        first = false;
        let after = if frames.is_empty() { None } else { held.clone() };
        for frame in frames.iter().chain(&after) {
            let len = u32::try_from(frame.len()).unwrap_or(0);
            if to.write_u32(len).await.is_err() || to.write_all(frame).await.is_err() {
                return;
            }
        }
        later = if after.is_some() { None } else { held };
    }
}

async fn frame(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let len = from.read_u32().await.ok()?;
    let mut frame = vec![0; usize::try_from(len).ok()?];
    from.read_exact(&mut frame).await.ok()?;
    Some(frame)
}
