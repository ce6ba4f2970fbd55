//! This process: its metrics under the names of Prometheus' client libraries, its memory, and its open files.
//!
//! The limit of the memory is the smallest limit of the control groups of the process, or the memory of the machine. Every
//! connection is an open file. A part of their limit is for the log, the snapshots and the peers, so that clients and
//! strangers never take these files; the rest are the connections of the ports.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_http::HttpConfig;
use holdfast_service::{MemoryUse, Service};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::config::Config;

/// The commit of the build, if the build script passed it.
pub(crate) const COMMIT: Option<&str> = option_env!("HOLDFAST_COMMIT");

/// Registers `process_*` and, under the prefix of holdfast, `build_info`.
pub(crate) fn register_metrics(registry: &mut Registry) {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let started_at = started.as_secs_f64();
    registry.register_collector(Box::new(ProcessMetrics { started_at }));
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("commit", COMMIT.unwrap_or("unknown"))];
    let help = "Version and commit of the running program";
    registry.sub_registry_with_prefix("holdfast").register("build", help, Info::new(labels));
}

/// Reads the metrics when Prometheus asks for them.
#[derive(Debug)]
struct ProcessMetrics {
    /// Unix time, seconds.
    started_at: f64,
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name, help, value: f64| {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)
        };
        gauge(
            "process_start_time_seconds",
            "Unix time of the start of the process",
            self.started_at,
        )?;
        if let Some(bytes) = resident() {
            let help = "Resident memory of the process";
            gauge("process_resident_memory_bytes", help, float(bytes))?;
        }
        if let Some(count) = open_files() {
            gauge("process_open_fds", "Open file descriptors of the process", count)?;
        }
        if let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
            gauge(
                "process_max_fds",
                "Limit of open file descriptors of the process",
                float(limit),
            )?;
        }
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            let seconds = seconds(usage.user_time()) + seconds(usage.system_time());
            let (name, help) = ("process_cpu_seconds", "Processor time of the process");
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(metric)?;
        }
        Ok(())
    }
}

fn open_files() -> Option<f64> {
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    Some(float(count as u64))
}

fn seconds(time: TimeVal) -> f64 {
    float(time.tv_sec().unsigned_abs()) + float(time.tv_usec().unsigned_abs()) / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floats; these values are below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

/// The interval between two measurements of the memory.
const MEMORY_EVERY: Duration = Duration::from_secs(5);
/// The mount of the control groups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// A node can need this many times the bytes that clients may store (docs/how-to/capacity.md).
const STATE_FACTOR: u64 = 4;

/// Reports the memory of this process to the service. Warns if clients may store more than fits.
pub(crate) async fn report_memory(service: Service, tree_bytes_max: u64) {
    if let Some(MemoryUse { limit, .. }) =
        measure_memory().filter(|of| is_small(of.limit, tree_bytes_max))
    {
        let (limit_mib, tree_bytes_mib) = (limit >> 20, tree_bytes_max >> 20);
        tracing::warn!(
            limit_mib,
            tree_bytes_mib,
            "limits.tree_bytes_max can need four times as much memory, which is above the limit of this process"
        );
    }
    loop {
        service.set_memory(measure_memory());
        tokio::time::sleep(MEMORY_EVERY).await;
    }
}

fn is_small(limit: u64, tree_bytes_max: u64) -> bool {
    limit < tree_bytes_max.saturating_mul(STATE_FACTOR)
}

fn measure_memory() -> Option<MemoryUse> {
    let machine = nix::sys::sysinfo::sysinfo().ok()?.ram_total();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = memory_limit(&groups, machine, |file| std::fs::read_to_string(file).ok());
    Some(MemoryUse { resident: resident()?, limit })
}

/// The resident memory, bytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

/// The limit of the process whose `/proc/self/cgroup` has this text. A group cannot use more than those around it. In a container the
/// path can be unknown: its group is then the root of the mount.
fn memory_limit(groups: &str, machine: u64, read: impl Fn(&Path) -> Option<String>) -> u64 {
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (root, file) = match controllers {
            "" => (CGROUPS.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|of| of == "memory") => {
                (format!("{CGROUPS}/memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = Path::new(path.trim_start_matches('/'));
        // A group without a limit has `max`, or a number beyond every machine.
        group
            .ancestors()
            .filter_map(|of| read(&Path::new(&root).join(of).join(file))?.trim().parse().ok())
            .min()
    });
    limits.min().map_or(machine, |limit: u64| limit.min(machine))
}

/// The files of a node apart from its log, at most: 128 connections from peers, those to peers, snapshots, databases.
const OWN_FILES: u64 = 512;
/// The bytes of the log for each of its files: a file has 8 MiB, and the log up to two intervals of snapshots.
const LOG_BYTES_OF_FILE: u64 = 4 << 20;
/// The limit of a system that does not tell it.
const UNKNOWN_LIMIT: u64 = 1_024;

/// Raises the limit of open files to the maximum. Returns the most connections of each port, and warns if they are few.
pub(crate) fn connections_of_port(config: &Config) -> usize {
    let limit = raise_limit();
    let own = OWN_FILES + config.snapshot_log / LOG_BYTES_OF_FILE;
    let ports = if config.zookeeper.is_some() { 3 } else { 2 };
    let (connections, wanted) =
        (connections_share(limit, own, ports), HttpConfig::default().connections_max);
    if connections < wanted {
        tracing::warn!(
            limit,
            connections,
            wanted,
            "the limit of open files allows few connections to each port: raise it with LimitNOFILE= (systemd) or ulimit -Hn"
        );
    }
    connections.min(wanted)
}

fn raise_limit() -> u64 {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((UNKNOWN_LIMIT, UNKNOWN_LIMIT));
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            tracing::warn!(%error, limit = soft, "cannot raise the limit of open files");
            soft
        }
    }
}

/// The connections of each port if the node keeps `own` files, at most half of the limit.
fn connections_share(limit: u64, own: u64, ports: u64) -> usize {
    let left = limit - own.min(limit / 2);
    usize::try_from(left / ports).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_shows_the_process_and_the_build() {
        let mut registry = Registry::default();
        register_metrics(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("{name} is missing in\n{text}")).parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_max_fds") >= value("process_open_fds"));
        assert!(value("process_start_time_seconds") > 1.7e9);
        assert!(value("process_cpu_seconds_total") >= 0.0);
        let build = format!("holdfast_build_info{{version=\"{}\"", env!("CARGO_PKG_VERSION"));
        assert!(text.contains(&build), "{text}");
    }

    const GIB: u64 = 1 << 30;

    fn limit_with(groups: &str, files: &[(&str, &str)]) -> u64 {
        memory_limit(groups, 8 * GIB, |path| {
            let found = files.iter().find(|(file, _)| Path::new(file) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_smallest_limit_around_the_process_counts() {
        let unit = "0::/system.slice/holdfast.service\n";
        let files = [
            ("/sys/fs/cgroup/system.slice/holdfast.service/memory.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "2147483648\n"),
        ];
        assert_eq!(limit_with(unit, &files), 2 * GIB);
        assert_eq!(limit_with(unit, &files[..1]), 8 * GIB);
        assert_eq!(limit_with("", &[]), 8 * GIB);
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root() {
        let files = [("/sys/fs/cgroup/memory.max", "1073741824\n")];
        assert_eq!(limit_with("0::/\n", &files), GIB);
        assert_eq!(limit_with("0::/kubepods/pod1/c\n", &files), GIB);
    }

    #[test]
    fn the_first_version_of_control_groups_counts_too() {
        let groups = "5:cpu,cpuacct:/x\n4:memory:/docker/1\n";
        let file = "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes";
        assert_eq!(limit_with(groups, &[(file, "1073741824\n")]), GIB);
        assert_eq!(limit_with(groups, &[(file, "9223372036854771712\n")]), 8 * GIB);
    }

    /// The memory limits for Kubernetes hold what clients may store by default.
    #[test]
    fn the_manifests_give_a_node_enough_memory() {
        let default = holdfast_service::ServiceConfig::default().tree_bytes_max;
        for file in ["base/stateful-set.yaml", "helm/holdfast/values.yaml"] {
            let file =
                format!("{}/../../cluster-config/kubernetes/{file}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&file).unwrap();
            let limit =
                text.split("limits: { memory: ").nth(1).unwrap().split("Gi").next().unwrap();
            let limit = limit.parse::<u64>().unwrap() * GIB;
            assert!(!is_small(limit, default) && is_small(limit - 1, default), "{file}: {limit}");
        }
    }

    #[test]
    fn this_process_has_memory_and_a_limit() {
        let MemoryUse { resident, limit } = measure_memory().unwrap();
        assert!(resident > 1 << 20 && limit > resident, "{resident} of {limit}");
    }

    #[test]
    fn the_ports_share_what_the_node_leaves() {
        assert_eq!(connections_share(1 << 20, 528, 3), ((1 << 20) - 528) / 3);
        assert_eq!(connections_share(4_096, 528, 2), (4_096 - 528) / 2);
        assert_eq!(connections_share(1_024, 528, 3), 170, "half of a low limit");
        assert_eq!(connections_share(256, 528, 2), 64);
    }
}
