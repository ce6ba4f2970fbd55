//! Test file systems: tmpfs mounts that a test can fill, and loop-mounted ext4 images for simulated power cuts.
//!
//! Both need root; without root, [`is_root`] reports the skipped part of the test. A dropped value unmounts its file
//! system; the processes that use it must have ended before.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::until::report;

const MOUNT_DEADLINE: Duration = Duration::from_secs(20);

/// `_IOR('X', 125, u32)` with `EXT4_GOING_FLAGS_NOLOGFLUSH`: no later write reaches the disk.
const POWER_CUT: &str = "import fcntl, os, struct, sys\n\
    fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

/// True if the process may mount file systems; otherwise reports the skipped test on standard error.
pub fn is_root(otherwise_skipped: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        report(&format!("SKIPPED: {otherwise_skipped}: needs root to mount"));
    }
    root
}

/// An in-memory file system of a fixed size.
pub struct Tmpfs {
    dir: TempDir,
}

impl Tmpfs {
    /// Mounts a tmpfs of `mib` MiB.
    pub fn mount(mib: u32) -> Self {
        let dir =
            tempfile::Builder::new().prefix("holdfast-tmpfs-").tempdir().expect("a directory");
        let size = format!("size={mib}m");
        must(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()));
        Self { dir }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        unmount(self.dir.path());
    }
}

/// An ext4 file system in a file, on a loop device.
pub struct LoopImage {
    mounted_at: PathBuf,
    image: PathBuf,
    _dir: TempDir,
}

impl LoopImage {
    /// Creates and mounts an image of `mib` MiB.
    pub fn mount(mib: u32) -> Self {
        let dir =
            tempfile::Builder::new().prefix("holdfast-image-").tempdir().expect("a directory");
        let (image, mounted_at) = (dir.path().join("disk.img"), dir.path().join("disk"));
        std::fs::create_dir(&mounted_at).expect("a mount point");
        let file = std::fs::File::create(&image).expect("an image");
        file.set_len(u64::from(mib) << 20).expect("a sparse image");
        must(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        let this = Self { mounted_at, image, _dir: dir };
        this.attach();
        this
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mounted_at
    }

    /// Simulates a power cut: unsynced data is lost, and every later write and sync fails.
    pub fn cut_power(&self) {
        must(Command::new("python3").args(["-c", POWER_CUT]).arg(&self.mounted_at));
    }

    /// Mounts the image again, as after a reboot; every process that used it must have ended.
    pub fn remount(&self) {
        unmount(&self.mounted_at);
        self.attach();
    }

    fn attach(&self) {
        // Other tests share the few loop devices: retry until one is free.
        retried(|| {
            Command::new("mount")
                .args(["-o", "loop"])
                .args([&self.image, &self.mounted_at])
                .output()
        });
    }
}

impl Drop for LoopImage {
    fn drop(&mut self) {
        unmount(&self.mounted_at);
    }
}

fn must(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn retried(mut attempt: impl FnMut() -> std::io::Result<Output>) {
    let mut why = String::new();
    let done = within(MOUNT_DEADLINE, || {
        let output = attempt().expect("the command runs");
        why = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success()
    });
    assert!(done, "{why}");
}

/// Unmounts; falls back to a lazy unmount, so that a failing test leaves no mount behind.
fn unmount(path: &Path) {
    let unmounted = || Command::new("umount").arg(path).output().is_ok_and(|o| o.status.success());
    if !within(MOUNT_DEADLINE, unmounted) {
        drop(Command::new("umount").arg("-l").arg(path).output());
    }
}

/// Retries until `succeeds` returns true or the deadline passes.
fn within(deadline: Duration, mut succeeds: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !succeeds() {
        if started.elapsed() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
