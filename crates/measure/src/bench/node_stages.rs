//! The instructions of a cycle in the leader, by the part of the program that executes them.
//!
//! A node of a cluster of one runs below callgrind. The counters start after the warm-up, so that the start of the process is
//! not counted. A function belongs to the crate that its name begins with. The program must have symbols.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use super::access::Access;
use super::load::{LoadSettings, LockChoice, measure_times};
use super::target::OwnCluster;

/// A node below callgrind starts about twenty times slower.
const START_TIMEOUT: Duration = Duration::from_mins(5);
const CLIENTS: u32 = 64;
/// With fewer functions in percent of the instructions, the program has no symbols.
const KNOWN_MIN: u64 = 50;

/// Parts of the program, and the crates of each.
const STAGES: [(&str, &[&str]); 8] = [
    (
        "HTTP: parse, route and reply",
        &[
            "axum",
            "axum_core",
            "holdfast_api",
            "holdfast_http",
            "http",
            "http_body",
            "http_body_util",
            "httparse",
            "hyper",
            "hyper_util",
            "itoa",
            "matchit",
            "memchr",
            "percent_encoding",
            "serde_json",
            "serde_urlencoded",
            "tower",
            "tower_layer",
            "tower_service",
        ],
    ),
    (
        "service: checks, waits and observers",
        &["governor", "holdfast_service", "prometheus_client"],
    ),
    ("propose, and openraft", &["holdfast_raft", "openraft"]),
    (
        "apply",
        &[
            "archetype",
            "holdfast_machine",
            "holdfast_types",
            "im",
            "imbl",
            "imbl_sized_chunks",
            "smallvec",
        ],
    ),
    (
        "encode, and the log",
        &["bincode", "crc32c", "crc32fast", "holdfast_codec", "holdfast_storage", "sled"],
    ),
    (
        "tasks, timers and locks",
        &[
            "crossbeam_channel",
            "crossbeam_utils",
            "flume",
            "futures_channel",
            "futures_core",
            "futures_util",
            "mio",
            "parking_lot",
            "parking_lot_core",
            "tokio",
            "tokio_util",
        ],
    ),
    ("spans and metrics", &["tracing", "tracing_core", "tracing_subscriber"]),
    ("allocator, and copies of memory", &["_mi", "mi", "mem"]),
];
/// Functions of the standard library, and of C.
const OTHERS: &str = "other functions";

/// Counts the instructions of each part in one cycle. The load lasts `seconds`.
///
/// # Errors
/// valgrind is not installed, the node does not start, or its program has no symbols.
pub(super) async fn count(seconds: u64) -> Result<Vec<(String, u64)>, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let counts = dir.path().join("counts");
    let program = below_callgrind(dir.path(), &counts)?;
    let own =
        OwnCluster::start_within(START_TIMEOUT, 1, |layout| layout.with_program(&program)).await?;
    let counted = load(&own, seconds).await;
    own.stop().await;
    let cycles = counted?;
    let file = first_dump(dir.path())?;
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    by_stage(&text, cycles)
}

/// Writes a program that runs its node below callgrind.
fn below_callgrind(dir: &Path, counts: &Path) -> Result<PathBuf, String> {
    let node = crate::servers::holdfast_program()?;
    let script = dir.join("node-below-callgrind");
    let text = format!(
        "#!/bin/sh\nexec valgrind --quiet --tool=callgrind --callgrind-out-file='{}' '{}' \"$@\"\n",
        counts.display(),
        node.display()
    );
    let written = fs::write(&script, text)
        .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)));
    written.map(|()| script).map_err(|error| error.to_string())
}

/// Counts a load of the node, and returns its cycles.
async fn load(own: &OwnCluster, seconds: u64) -> Result<u64, String> {
    let layout = own.cluster.layout();
    let node = layout.ids().next().and_then(|node| own.cluster.pid(node)).ok_or("no node runs")?;
    let endpoints = layout.endpoints();
    let load = |seconds| LoadSettings::new(CLIENTS, seconds, LockChoice::Spread);
    measure_times(&load(1), endpoints.clone(), &Access::default()).await?;
    control(node, "--zero").await?;
    let settings = LoadSettings { warmup: 0, ..load(seconds) };
    let report = measure_times(&settings, endpoints, &Access::default()).await?;
    control(node, "--dump").await?;
    Ok(report.cycles)
}

async fn control(node: u32, order: &str) -> Result<(), String> {
    let output = Command::new("callgrind_control").arg(order).arg(node.to_string()).output().await;
    let output = output.map_err(|error| format!("callgrind_control: {error}"))?;
    let failed =
        || format!("callgrind_control {order}: {}", String::from_utf8_lossy(&output.stderr));
    output.status.success().then_some(()).ok_or_else(failed)
}

/// The file of the first dump that was ordered.
fn first_dump(dir: &Path) -> Result<PathBuf, String> {
    let file = dir.join("counts.1");
    file.exists().then_some(file).ok_or_else(|| "callgrind wrote no counts".to_owned())
}

/// Sums a file of callgrind by stage, in instructions of a cycle.
fn by_stage(text: &str, cycles: u64) -> Result<Vec<(String, u64)>, String> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    let mut unknown = 0;
    for (function, instructions) in own_instructions(text) {
        *sums.entry(stage_of(function)).or_default() += instructions;
        unknown += if function.starts_with("0x") { instructions } else { 0 };
    }
    let all: u64 = sums.values().sum();
    if unknown * 100 > all * (100 - KNOWN_MIN) {
        return Err("the program of the nodes has no symbols: build it with `cargo build --profile profiling`, and set HOLDFAST_BIN".to_owned());
    }
    let names = STAGES.iter().map(|(name, _)| *name).chain([OTHERS]);
    let cost = |name: &str| sums.get(name).copied().unwrap_or(0) / cycles.max(1);
    Ok(names.map(|name| (name.to_owned(), cost(name))).collect())
}

/// The instructions of each function without those of its callees, from the format of callgrind: a line `fn=(1) name` or
/// `fn=(1)`, then a line `position cost` for each source line. The line after `calls=` has the cost of a callee.
fn own_instructions(text: &str) -> Vec<(&str, u64)> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let (mut sums, mut function, mut is_of_callee) = (HashMap::<&str, u64>::new(), "", false);
    for line in text.lines() {
        if let Some((key, name)) =
            line.split_once("fn=(").filter(|(key, _)| matches!(*key, "" | "c"))
        {
            let (id, name) = name.split_once(')').unwrap_or((name, ""));
            if !name.is_empty() {
                names.insert(id, name.trim());
            }
            if key.is_empty() {
                function = id;
            }
        } else if line.starts_with("calls=") {
            is_of_callee = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*')) {
            let cost =
                line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok()).unwrap_or(0);
            if !std::mem::take(&mut is_of_callee) {
                *sums.entry(function).or_default() += cost;
            }
        }
    }
    sums.into_iter().map(|(id, cost)| (names.get(id).copied().unwrap_or_default(), cost)).collect()
}

/// The stage of a function, such as `<hyper::proto::h1::Conn as core::fmt::Debug>::fmt`.
fn stage_of(function: &str) -> &'static str {
    let name = function.trim_start_matches(['<', '&', '(', '*', '[', '\'']);
    let name = name.trim_start_matches("mut ").trim_start_matches("dyn ");
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    let is_c = !function.contains("::");
    let word = match &name[..end] {
        c if is_c && (c.starts_with("mi_") || c.starts_with("_mi_")) => "mi",
        c if is_c
            && ["mem", "__mem", "bcmp", "malloc", "free"].iter().any(|p| c.starts_with(p)) =>
        {
            "mem"
        }
        word => word,
    };
    STAGES.iter().find(|(_, crates)| crates.contains(&word)).map_or(OTHERS, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = "version: 1\nevents: Ir\n\nfl=(1) a.rs\nfn=(1) hyper::parse\n10 400\n+2 100\ncfn=(2) _mi_malloc\n\
        calls=3 0\n+1 900\nfn=(2)\n* 60\n\nfn=(3) <holdfast_machine::Machine as x::Y>::apply\n7 1000\ncfn=(1)\ncalls=1 10\n* 500\n-3 40\n";

    #[test]
    fn a_function_has_its_own_instructions_without_those_of_its_callees() {
        let mut functions = own_instructions(COUNTS);
        functions.sort_unstable();
        let apply = "<holdfast_machine::Machine as x::Y>::apply";
        assert_eq!(functions, [(apply, 1_040), ("_mi_malloc", 60), ("hyper::parse", 500)]);
    }

    #[test]
    fn a_function_belongs_to_the_crate_that_its_name_begins_with() {
        for (function, stage) in [
            ("hyper::proto::h1::parse", "HTTP: parse, route and reply"),
            (
                "<&mut serde_json::Serializer as serde::Serializer>::serialize_u64",
                "HTTP: parse, route and reply",
            ),
            ("<holdfast_machine::Machine>::apply", "apply"),
            ("_mi_page_malloc", "allocator, and copies of memory"),
            ("__memcpy_avx_unaligned_erms", "allocator, and copies of memory"),
            ("core::fmt::write", OTHERS),
            ("0x0000000000123456", OTHERS),
        ] {
            assert_eq!(stage_of(function), stage, "{function}");
        }
    }

    #[test]
    fn a_program_without_symbols_is_an_error() {
        assert!(by_stage("fn=(1) 0x12\n1 90\nfn=(2) hyper::a\n1 10\n", 1).is_err());
        let stages = by_stage(COUNTS, 10).unwrap();
        assert_eq!(stages[0], ("HTTP: parse, route and reply".to_owned(), 50));
        assert_eq!(stages.iter().map(|(_, cost)| cost).sum::<u64>(), 50 + 6 + 104);
    }
}
