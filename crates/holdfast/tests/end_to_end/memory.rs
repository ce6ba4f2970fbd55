//! The alarm on resident memory, with a node inside a real control group. Needs root on Linux; elsewhere the test says that it skips.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{DevCluster, eventually, holdfast};

/// A control group of this test, which is removed at the end.
struct Group {
    dir: PathBuf,
    limit: &'static str,
}

impl Group {
    /// A group without a limit, by the first or the second version of the interface.
    fn create() -> Option<Self> {
        let roots =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let name = format!("holdfast-test-{}", std::process::id());
        roots.into_iter().find_map(|(root, limit)| {
            let group = Self { dir: Path::new(root).join(&name), limit };
            fs::create_dir(&group.dir).ok()?;
            // Without the controller of memory, the directory has no such file, and Drop removes it.
            group.dir.join(limit).exists().then_some(group)
        })
    }

    /// Returns false if the process does not see the group where the test made it, as in some containers.
    fn add(&self, process: u32) -> bool {
        fs::write(self.dir.join("cgroup.procs"), process.to_string()).unwrap();
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
        let name = self.dir.file_name().unwrap().to_string_lossy();
        groups.lines().any(|line| line.ends_with(&format!(":/{name}")))
    }

    fn set_limit(&self, bytes: u64) {
        fs::write(self.dir.join(self.limit), bytes.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        fs::remove_dir(&self.dir).ok();
    }
}

fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_node_that_fills_the_limit_of_its_control_group_raises_an_alarm_until_there_is_room() {
    let Some(group) = Group::create() else {
        eprintln!(
            "SKIPPED: no control group can be created; it needs root and the controller of memory"
        );
        return;
    };
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let process = cluster.node_pids()[0];
    if !group.add(process) {
        eprintln!("SKIPPED: the control groups of this machine are those of a container");
        return;
    }
    let address = format!("127.0.0.1:{}", cluster.port());
    let alarms = || holdfast(&["alarms", "--addr", &address]).stdout;
    for (percent, severity) in [(85, "warning"), (96, "critical")] {
        eventually("the alarm", || {
            // The node can still grow, and its limit with it.
            group.set_limit(resident(process) * 100 / percent);
            let alarms = alarms();
            alarms.lines().any(|line| line.contains("memory-high") && line.contains(severity))
        });
    }
    group.set_limit(resident(process) * 4);
    eventually("the end of the alarm", || !alarms().contains("memory-high"));
    drop(cluster);
    drop(group);
}
