//! Measures the minimum cost of a hand-over: `cargo run -p holdfast-storage --release --example floor [DIR]`.
//!
//! A hand-over receives one message, writes and syncs 300 bytes into a preallocated file locally and on a peer over
//! TCP, and sends one message. Every lock that is durable on two disks needs these steps between two holders, even
//! without Raft and HTTP. The example prints the median and the resulting rate.

#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

const MESSAGE: [u8; 300] = [0x5A; 300];
const ROUNDS: usize = 8_000;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Fallible<()> {
    let home = std::env::temp_dir().join(format!("holdfast-floor-{}", std::process::id()));
    let dir = std::env::args().nth(1).map_or(home, PathBuf::from);
    std::fs::create_dir_all(&dir)?;
    let (leader, peer) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let (leader_at, peer_at) = (leader.local_addr()?, peer.local_addr()?);
    let (leader_file, peer_file) = (prepare(&dir.join("leader"))?, prepare(&dir.join("peer"))?);
    let peer = thread::spawn(move || -> Fallible<()> { serve(&peer, &peer_file, None) });
    let leader = thread::spawn(move || -> Fallible<()> {
        serve(&leader, &leader_file, Some(connect(TcpStream::connect(peer_at)?)?))
    });
    let mut client = connect(TcpStream::connect(leader_at)?)?;
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        client.write_all(&MESSAGE)?;
        client.read_exact(&mut [0])?;
        rounds.push(began.elapsed());
    }
    drop(client);
    for thread in [leader, peer] {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    std::fs::remove_file(dir.join("leader"))?;
    std::fs::remove_file(dir.join("peer"))?;
    rounds.sort_unstable();
    let median = rounds[ROUNDS / 2].as_secs_f64();
    let slow = rounds[ROUNDS * 99 / 100].as_secs_f64();
    println!("p50 {:.3} ms, p99 {:.3} ms: {:.0} a second", median * 1e3, slow * 1e3, 1.0 / median);
    Ok(())
}

fn prepare(path: &Path) -> Fallible<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all_at(&vec![0; MESSAGE.len() * ROUNDS], 0)?;
    file.sync_all()?;
    Ok(file)
}

fn connect(stream: TcpStream) -> Fallible<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Writes and syncs each message, concurrently with the peer, until the client disconnects.
fn serve(listener: &TcpListener, file: &File, mut peer: Option<TcpStream>) -> Fallible<()> {
    let mut client = connect(listener.accept()?.0)?;
    let mut message = MESSAGE;
    let mut offset = 0;
    while client.read_exact(&mut message).is_ok() {
        if let Some(peer) = &mut peer {
            peer.write_all(&message)?;
        }
        file.write_all_at(&message, offset)?;
        file.sync_data()?;
        if let Some(peer) = &mut peer {
            peer.read_exact(&mut [0])?;
        }
        client.write_all(&[1])?;
        offset += message.len() as u64;
    }
    Ok(())
}
