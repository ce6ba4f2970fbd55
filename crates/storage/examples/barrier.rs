//! Measures the cost of an append and its sync: `cargo run -p holdfast-storage --release --example barrier [DIR]`.
//!
//! The example appends records of 100 and 1,000 bytes to a log in DIR (default: a temporary directory), with one
//! append or several appends in flight. It purges old records and prints latency and throughput.

#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_storage::{Log, LogOptions, Record, StoreError};

const SECONDS: u64 = 3;
/// The number of records that a purge keeps.
const KEEP: u64 = 20_000;

type Answer = (Instant, Result<(), StoreError>);

fn main() -> Result<(), Box<dyn Error>> {
    let home = std::env::temp_dir().join(format!("holdfast-barrier-{}", std::process::id()));
    let dir = std::env::args().nth(1).map_or(home, PathBuf::from);
    std::fs::create_dir_all(&dir)?;
    println!("fdatasync of a preallocated file, p50 | p99: {}\n", floor(&dir.join("floor"))?);
    println!(
        "| record bytes | records an append | appends in flight | records/s | p50 | p99 | disk |"
    );
    println!("|---|---|---|---|---|---|---|");
    for bytes in [100, 1000] {
        for (batch, window) in [(1, 1), (1, 16), (1, 64), (64, 1), (64, 4), (64, 16)] {
            let place = dir.join(format!("{bytes}-{batch}-{window}"));
            let log = Log::open(&place, LogOptions::default())?;
            let line = measure(&log, bytes, batch, window)?;
            log.shutdown();
            let disk = size(&place)? >> 20;
            println!("| {bytes} | {batch} | {window} | {line} | {disk} MiB |");
            std::fs::remove_dir_all(&place)?;
        }
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("\npeak memory {peak}");
    Ok(())
}

/// Measures the latency of the disk itself, for comparison.
fn floor(path: &Path) -> Result<String, Box<dyn Error>> {
    let file = File::create(path)?;
    file.write_all_at(&vec![0; 8 << 20], 0)?;
    file.sync_all()?;
    let (begun, mut latencies) = (Instant::now(), Vec::new());
    for offset in (0..8 << 20).step_by(512).cycle() {
        let asked = Instant::now();
        file.write_all_at(&[1; 512], offset)?;
        file.sync_data()?;
        latencies.push(asked.elapsed());
        if begun.elapsed() > Duration::from_secs(SECONDS) {
            break;
        }
    }
    std::fs::remove_file(path)?;
    Ok(quantiles(&mut latencies))
}

/// Formats the median and the 99th percentile.
fn quantiles(latencies: &mut [Duration]) -> String {
    latencies.sort_unstable();
    let at = |percent: usize| latencies[latencies.len() * percent / 100].as_secs_f64() * 1e3;
    format!("{:.2} ms | {:.2} ms", at(50), at(99))
}

fn measure(log: &Log, bytes: usize, batch: u64, window: usize) -> Result<String, Box<dyn Error>> {
    let (answers, answered) = mpsc::sync_channel(window);
    let content = Bytes::from(vec![0x5A; bytes]);
    let (begun, mut next) = (Instant::now(), 1);
    let mut latencies = Vec::new();
    for under_way in 0.. {
        if under_way >= window {
            latencies.push(take(&answered)?);
        }
        if begun.elapsed() > Duration::from_secs(SECONDS) {
            break;
        }
        append(log, next, batch, &content, &answers)?;
        next += batch;
        if next % (KEEP / 4) < batch && next > KEEP {
            log.purge_through(next - KEEP, Bytes::from_static(b"p"), Box::new(drop))?;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a count of records")]
    let rate = (latencies.len() as u64 * batch) as f64 / seconds;
    Ok(format!("{rate:.0} | {}", quantiles(&mut latencies)))
}

fn append(
    log: &Log,
    first: u64,
    count: u64,
    content: &Bytes,
    answers: &SyncSender<Answer>,
) -> Result<(), Box<dyn Error>> {
    let records = (first..first + count).map(|index| Record { index, bytes: content.clone() });
    let (asked, answers) = (Instant::now(), answers.clone());
    let done = move |result| {
        // The receiver no longer exists after the measurement.
        drop(answers.try_send((asked, result)));
    };
    Ok(log.append(records.collect(), Box::new(done))?)
}

fn take(answered: &Receiver<Answer>) -> Result<Duration, Box<dyn Error>> {
    let (asked, result) = answered.recv()?;
    result?;
    Ok(asked.elapsed())
}

fn size(dir: &Path) -> std::io::Result<u64> {
    dir.read_dir()?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
