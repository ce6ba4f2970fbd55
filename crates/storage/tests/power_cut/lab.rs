//! A disk with power cuts: an ext4 file system in an image on a loop device.
//!
//! A helper shuts the file system down (`FS_IOC_SHUTDOWN` with `NOLOGFLUSH`): after that no further byte reaches the
//! image. Drop removes everything, also after a panic.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A Python program that shuts down the file system of each directory named on its input. Rust cannot make this system
/// call without `unsafe`. 0x8004587D is `_IOR('X', 125, u32)`, 2 is `NOLOGFLUSH`.
const CUTTER: &str = "
import fcntl, os, struct, sys
for line in sys.stdin:
    fd = os.open(line.rstrip('\\n'), os.O_RDONLY)
    fcntl.ioctl(fd, 0x8004587D, struct.pack('I', 2))
    os.close(fd)
    print('cut', flush=True)
";

pub(crate) struct Lab {
    loop_device: String,
    mount: PathBuf,
    mounted: bool,
    cutter: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Holds the image and the mount point; dropped last.
    _home: tempfile::TempDir,
}

impl Lab {
    /// Creates the disk and mounts it; the error names the missing requirement.
    pub(crate) fn new(image_bytes: u64) -> Result<Self, String> {
        let uid = fs::metadata("/proc/self").map_err(|error| error.to_string())?.uid();
        if uid != 0 {
            return Err("not root".to_owned());
        }
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let image = home.path().join("image");
        let file = File::create(&image).and_then(|file| file.set_len(image_bytes));
        file.map_err(|error| error.to_string())?;
        run("mkfs.ext4", &["-V"])?;
        let image = image.to_str().ok_or("a path that is not text")?;
        let mut cutter = Command::new("python3")
            .args(["-c", CUTTER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("python3: {error}"))?;
        let orders = cutter.stdin.take().ok_or("no pipe")?;
        let answers = BufReader::new(cutter.stdout.take().ok_or("no pipe")?);
        let mount = home.path().join("mount");
        fs::create_dir(&mount).map_err(|error| error.to_string())?;
        let loop_device = run("losetup", &["--find", "--show", image]).inspect_err(|_| {
            let _ended = cutter.kill().and_then(|()| cutter.wait());
        })?;
        let mut lab =
            Self { loop_device, mount, mounted: false, cutter, orders, answers, _home: home };
        lab.format()?;
        Ok(lab)
    }

    /// The mount point of the file system.
    pub(crate) fn dir(&self) -> &Path {
        &self.mount
    }

    /// Creates a new, empty file system and mounts it.
    pub(crate) fn format(&mut self) -> Result<(), String> {
        self.unmount()?;
        let options = ["-q", "-F", "-J", "size=4", "-E", "nodiscard,lazy_itable_init=1"];
        run("mkfs.ext4", &[&options[..], &[self.loop_device.as_str()]].concat())?;
        self.mount()
    }

    /// Cuts the power: after the return no further byte reaches the image.
    pub(crate) fn cut(&mut self) -> Result<(), String> {
        writeln!(self.orders, "{}", self.mount.display()).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|error| error.to_string())?;
        if answer == "cut\n" { Ok(()) } else { Err(format!("the cutter said {answer:?}")) }
    }

    /// Restores the power. No process may have files open.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        self.unmount()?;
        self.mount()
    }

    fn mount(&mut self) -> Result<(), String> {
        let mount = self.mount.to_str().ok_or("a path that is not text")?;
        run("mount", &["-t", "ext4", "-o", "noinit_itable", &self.loop_device, mount])?;
        self.mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), String> {
        if self.mounted {
            run("umount", &[self.mount.to_str().ok_or("a path that is not text")?])?;
            self.mounted = false;
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            let mount = self.mount.to_string_lossy().into_owned();
            let _detached = run("umount", &["-l", &mount]);
        }
        let _freed = run("losetup", &["-d", &self.loop_device]);
        let _ended = self.cutter.kill().and_then(|()| self.cutter.wait());
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
