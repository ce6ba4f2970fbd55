//! The processor time of the nodes and of the generator during a measurement.
//!
//! The time of a node is the metric `process_cpu_seconds_total`, so it is known on any machine whose `/metrics` answers.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_api::ClusterBody;
use holdfast_cli::output::write_stderr;
use nix::sys::resource::{UsageWho, getrusage};

use super::access::Access;
use super::connection::{node_metric, read};

/// The key of the sum over all processes.
pub(super) const ALL: &str = "all";

/// Reads the processor times of every member of a cluster, and of this process.
#[derive(Debug)]
pub(super) struct ProcessorMeter {
    /// The name and the HTTP address of each node.
    nodes: Vec<(String, String)>,
    access: Access,
}

/// Processor times since the start of each process.
#[derive(Debug)]
pub(super) struct ProcessorTimes(BTreeMap<String, Duration>);

impl ProcessorMeter {
    /// Asks the cluster for its members. Without an answer, no processor time is known.
    pub(super) async fn new(endpoints: &[String], access: &Access) -> Self {
        let cluster = async {
            let endpoint = endpoints.first().ok_or("no endpoint")?;
            let body = read(endpoint, "/v1/cluster", access).await?;
            serde_json::from_str::<ClusterBody>(&body).map_err(|error| error.to_string())
        };
        let nodes = match cluster.await {
            Ok(cluster) => cluster
                .nodes
                .into_iter()
                .map(|node| (format!("node {} ({})", node.id, node.role), node.http))
                .collect(),
            Err(error) => {
                report_unknown(&error);
                Vec::new()
            }
        };
        Self { nodes, access: access.clone() }
    }

    /// A meter that knows no processor time.
    pub(super) fn none() -> Self {
        Self { nodes: Vec::new(), access: Access::default() }
    }

    /// Reads all times. The result is empty if a node does not report its time.
    pub(super) async fn read(&self) -> ProcessorTimes {
        let mut times = BTreeMap::new();
        for (name, endpoint) in &self.nodes {
            match node_metric::<f64>(endpoint, "process_cpu_seconds_total", &self.access).await {
                Ok(seconds) => times.insert(name.clone(), Duration::from_secs_f64(seconds)),
                Err(error) => {
                    report_unknown(&error);
                    return ProcessorTimes(BTreeMap::new());
                }
            };
        }
        if let (false, Ok(usage)) = (times.is_empty(), getrusage(UsageWho::RUSAGE_SELF)) {
            let micros = |time: nix::sys::time::TimeVal| {
                let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
                let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
                Duration::from_secs(seconds) + Duration::from_micros(micros)
            };
            times.insert(
                "generator".to_owned(),
                micros(usage.user_time()) + micros(usage.system_time()),
            );
        }
        ProcessorTimes(times)
    }
}

impl ProcessorTimes {
    /// Returns the processor time of each process since `before`, and the sum as [`ALL`].
    pub(super) fn since(&self, before: &Self) -> BTreeMap<String, Duration> {
        let mut used: BTreeMap<String, Duration> = self
            .0
            .iter()
            .filter_map(|(name, time)| {
                Some((name.clone(), time.saturating_sub(*before.0.get(name)?)))
            })
            .collect();
        if !used.is_empty() {
            used.insert(ALL.to_owned(), used.values().sum());
        }
        used
    }
}

/// Divides processor times by the number of cycles; microseconds.
pub(super) fn micros_per_cycle(
    used: &BTreeMap<String, Duration>,
    cycles: u64,
) -> BTreeMap<String, f64> {
    let Some(cycles) = u32::try_from(cycles).ok().filter(|cycles| *cycles > 0) else {
        return BTreeMap::new();
    };
    let micros = |used: &Duration| used.as_secs_f64() * 1e6 / f64::from(cycles);
    used.iter().map(|(name, used)| (name.clone(), micros(used))).collect()
}

fn report_unknown(error: &str) {
    write_stderr(&format!("measure: the processor time of a cycle is unknown: {error}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(each: [(&str, u64); 2]) -> ProcessorTimes {
        let each = each.map(|(name, millis)| (name.to_owned(), Duration::from_millis(millis)));
        ProcessorTimes(each.into())
    }

    #[test]
    fn the_time_of_a_cycle_is_known_by_process_and_in_all() {
        let before = times([("generator", 10), ("node 1 (leader)", 100)]);
        let after = times([("generator", 40), ("node 1 (leader)", 190)]);
        let costs = micros_per_cycle(&after.since(&before), 1_000);
        let costs: Vec<_> = costs.iter().map(|(name, micros)| (&**name, micros.round())).collect();
        assert_eq!(costs, [("all", 120.0), ("generator", 30.0), ("node 1 (leader)", 90.0)]);
    }

    #[test]
    fn without_cycles_or_times_nothing_is_known() {
        let nothing = ProcessorTimes(BTreeMap::new());
        assert!(nothing.since(&times([("a", 1), ("b", 2)])).is_empty());
        let one = BTreeMap::from([("a".to_owned(), Duration::from_secs(1))]);
        assert!(micros_per_cycle(&one, 0).is_empty());
    }
}
