//! The memory of this process and its limit: the smallest limit of its control groups, or the memory of the machine.

use std::path::Path;
use std::time::Duration;

use holdfast_service::{MemoryUse, Service};

/// The interval of the measurement.
const EVERY: Duration = Duration::from_secs(5);
/// The mount of the control groups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// A node can need this many times the bytes that clients may store (docs/how-to/capacity.md).
const STATE_FACTOR: u64 = 4;

/// Reports the memory of this process to the service. Warns if clients may store more than fits.
pub(crate) async fn report_memory(service: Service, tree_bytes_max: u64) {
    if let Some(MemoryUse { limit, .. }) = measure().filter(|of| is_small(of.limit, tree_bytes_max))
    {
        let (limit_mib, tree_bytes_mib) = (limit >> 20, tree_bytes_max >> 20);
        tracing::warn!(
            limit_mib,
            tree_bytes_mib,
            "limits.tree_bytes_max can need four times as much memory, which is above the limit of this process"
        );
    }
    loop {
        service.set_memory(measure());
        tokio::time::sleep(EVERY).await;
    }
}

fn is_small(limit: u64, tree_bytes_max: u64) -> bool {
    limit < tree_bytes_max.saturating_mul(STATE_FACTOR)
}

fn measure() -> Option<MemoryUse> {
    let machine = nix::sys::sysinfo::sysinfo().ok()?.ram_total();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = limit(&groups, machine, |file| std::fs::read_to_string(file).ok());
    Some(MemoryUse { resident: resident()?, limit })
}

fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

/// The limit of the process whose `/proc/self/cgroup` has this text. A group cannot use more than those around it. In a container the
/// path can be unknown: its group is then the root of the mount.
fn limit(groups: &str, machine: u64, read: impl Fn(&Path) -> Option<String>) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn limit_with(groups: &str, files: &[(&str, &str)]) -> u64 {
        limit(groups, 8 * GIB, |path| {
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
        let MemoryUse { resident, limit } = measure().unwrap();
        assert!(resident > 1 << 20 && limit > resident, "{resident} of {limit}");
    }
}
