//! Metrics of the process, under the names of Prometheus' client libraries, and of its build.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// The commit of the build, if the build script passed it.
pub(crate) const COMMIT: Option<&str> = option_env!("HOLDFAST_COMMIT");

/// Registers `process_*` and, under the prefix of holdfast, `build_info`.
pub(crate) fn register(registry: &mut Registry) {
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
        if let Some(bytes) = resident_bytes() {
            gauge("process_resident_memory_bytes", "Resident memory of the process", bytes)?;
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

/// The second field of `statm` (`man 5 proc`), in bytes.
fn resident_bytes() -> Option<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(float(pages) * float(u64::try_from(page).ok()?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_shows_the_process_and_the_build() {
        let mut registry = Registry::default();
        register(&mut registry);
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
}
