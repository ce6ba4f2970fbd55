//! The guard of files against a real disk, from Rust and from the shell.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use holdfast_fence::files::{begin, try_begin};
use holdfast_fence::{Claim, FenceError, FencingToken};
use tempfile::TempDir;

use crate::model::{TestStore, a_store_judges_as_the_rule_says, invalid_claims_are_rejected};
use crate::pausing::{Pauses, STOCK, StockStore, StoreConnection, WriterSchedule};
use crate::search::{half_a_guard_loses_updates, no_interleaving_loses_an_update, runtime};

/// The stock in the first line, a line for each order.
struct FileStore(TempDir);

impl FileStore {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        std::fs::canonicalize(self.0.path()).unwrap().join("shop")
    }
}

fn parse(text: &str) -> (i64, Vec<u64>) {
    let mut lines = text.lines();
    (lines.next().unwrap().parse().unwrap(), lines.map(|line| line.parse().unwrap()).collect())
}

fn sold(text: &str, token: FencingToken, stock: i64) -> String {
    let orders = text.split_once('\n').unwrap().1;
    format!("{stock}\n{orders}{token}\n")
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

impl StockStore for FileStore {
    type StoreConnection = FileConnection;

    fn resource(&self) -> String {
        self.path().display().to_string()
    }

    async fn reset(&mut self) {
        self.forget().await;
        std::fs::write(self.path(), format!("{STOCK}\n")).unwrap();
    }

    async fn desk(&mut self, _: usize, _: &WriterSchedule) -> FileConnection {
        FileConnection(self.path())
    }

    async fn count(&mut self) -> (i64, Vec<u64>) {
        parse(&text(&self.path()))
    }
}

struct FileConnection(PathBuf);

impl FileConnection {
    fn held(
        &self,
        token: FencingToken,
    ) -> Result<(holdfast_fence::files::FencedFile, String), FenceError> {
        let held = try_begin(&self.0, token)?;
        let bytes = held.read()?.unwrap();
        Ok((held, String::from_utf8(bytes).unwrap()))
    }
}

impl StoreConnection for FileConnection {
    async fn read(&mut self) -> Result<i64, FenceError> {
        Ok(parse(&text(&self.0)).0)
    }

    async fn write(&mut self, token: FencingToken, stock: i64) -> Result<(), FenceError> {
        std::fs::write(&self.0, sold(&text(&self.0), token, stock)).unwrap();
        Ok(())
    }

    async fn read_fenced(
        &mut self,
        token: FencingToken,
        pauses: &Pauses,
    ) -> Result<i64, FenceError> {
        let (_held, text) = self.held(token)?;
        pauses.pause().await;
        Ok(parse(&text).0)
    }

    async fn write_fenced(
        &mut self,
        token: FencingToken,
        stock: i64,
        pauses: &Pauses,
    ) -> Result<(), FenceError> {
        let (mut held, text) = self.held(token)?;
        pauses.pause().await;
        held.replace(sold(&text, token, stock).as_bytes())?;
        pauses.pause().await;
        Ok(())
    }

    async fn sell_in_one(
        &mut self,
        token: FencingToken,
        pauses: &Pauses,
    ) -> Result<bool, FenceError> {
        let (mut held, text) = self.held(token)?;
        pauses.pause().await;
        held.replace(sold(&text, token, parse(&text).0 - 1).as_bytes())?;
        Ok(true)
    }
}

impl TestStore for FileStore {
    fn resource(&self) -> String {
        self.path().display().to_string()
    }

    async fn forget(&mut self) {
        drop(std::fs::remove_file(self.path().with_extension("fence")));
    }

    async fn show(&mut self, claim: Claim) -> Result<(), FenceError> {
        begin(self.path(), claim).map(drop)
    }
}

#[test]
fn files_judge_as_the_rule_says() {
    let (runtime, mut store) = (runtime(), FileStore::new());
    invalid_claims_are_rejected(&runtime, &mut store);
    a_store_judges_as_the_rule_says(&runtime, store);
}

#[test]
fn no_interleaving_of_paused_writers_loses_an_update_in_a_file() {
    no_interleaving_loses_an_update(&runtime(), FileStore::new());
}

#[test]
fn half_a_guard_loses_updates_in_a_file() {
    half_a_guard_loses_updates(&runtime(), FileStore::new());
}

#[test]
fn an_invalid_mark_and_a_link_are_rejected_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let store = FileStore::new();
    let path = store.path();
    begin(&path, FencingToken(34)).unwrap().replace(b"old").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    begin(&path, FencingToken(34)).unwrap().replace(b"new").unwrap();
    assert_eq!(text(&path), "new");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);

    let link = path.with_extension("link");
    symlink(&path, &link).unwrap();
    assert!(matches!(begin(&link, FencingToken(35)), Err(FenceError::Store(_))));
    std::fs::remove_file(&link).unwrap();
    std::fs::hard_link(&path, &link).unwrap();
    assert!(matches!(begin(&path, FencingToken(35)), Err(FenceError::Store(_))));
    std::fs::remove_file(&link).unwrap();

    for broken in ["", "x", "-1", "0", "34 35"] {
        std::fs::write(path.with_extension("fence"), broken).unwrap();
        assert!(matches!(begin(&path, FencingToken(35)), Err(FenceError::Store(_))), "{broken:?}");
    }
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sh/fence_file.sh");

fn shell(store: &FileStore, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new("sh");
    command.arg(SCRIPT).args(&arguments[..1]).arg(store.path()).args(&arguments[1..]);
    answer(&mut command, input)
}

/// Runs a command with this input.
fn answer(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The script may reject the call before it reads stdin.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    child.wait_with_output().unwrap()
}

/// The script and the crate share one mark.
#[test]
fn the_shell_script_and_the_crate_reject_each_others_stale_holders() {
    let store = FileStore::new();
    let done = |output: &Output| output.status.code();
    assert_eq!(done(&shell(&store, &["write", "33"], "99\n")), Some(0));
    let read = shell(&store, &["read", "33"], "");
    assert_eq!((done(&read), String::from_utf8_lossy(&read.stdout).as_ref()), (Some(0), "99\n"));

    begin(store.path(), FencingToken(34)).unwrap().replace(b"98\n").unwrap();
    for what in ["read", "write"] {
        let late = shell(&store, &[what, "33"], "1\n");
        assert_eq!(done(&late), Some(1), "{what}");
        let message = String::from_utf8_lossy(&late.stderr).into_owned();
        assert!(message.starts_with("stale fencing token 33 for "), "{message}");
        assert!(message.ends_with(": the newest is 34\n"), "{message}");
    }
    assert_eq!(text(&store.path()), "98\n");

    assert_eq!(done(&shell(&store, &["write", "36", "35"], "97\n")), Some(0));
    assert!(matches!(begin(store.path(), FencingToken(34)), Err(FenceError::Stale { .. })));
    begin(store.path(), FencingToken(35)).map(drop).unwrap();
    for broken in ["", "x", "0", "01", "-1", "1.5", "9007199254740992"] {
        assert_eq!(done(&shell(&store, &["write", broken], "0\n")), Some(2), "{broken:?}");
    }
    assert_eq!(done(&shell(&store, &["append", "40"], "0\n")), Some(2));
    begin(store.path(), FencingToken(36)).map(drop).expect("a wrong verb leaves the mark");
    let left: Vec<_> = std::fs::read_dir(store.0.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 3, "the file, its mark and its lock file: {left:?}");
}

/// A directory in which the script runs on relative names.
struct Desk(TempDir);

impl Desk {
    fn run(&self, line: &str) -> Option<i32> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).env("FENCE", SCRIPT).current_dir(self.0.path());
        answer(&mut command, "new\n").status.code()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn the_shell_script_guards_one_regular_file_under_each_of_its_names() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let desk = Desk(tempfile::tempdir().unwrap());
    let at = |name: &str| desk.0.path().join(name);
    assert_eq!(desk.run("sh $FENCE write real 50"), Some(0));
    for (link, target) in [("link", "real"), ("to-link", "link"), ("dangling", "later")] {
        symlink(target, at(link)).unwrap();
    }
    for name in ["link", "to-link", "./link", "dir/../link"] {
        std::fs::create_dir_all(at("dir")).unwrap();
        assert_eq!(desk.run(&format!("sh $FENCE write {name} 40")), Some(1), "{name}");
        assert_eq!(desk.run(&format!("sh $FENCE read {name} 50")), Some(0), "{name}");
    }
    assert_eq!(desk.run("sh $FENCE write link 51"), Some(0));
    assert!(at("link").is_symlink() && at("real.fence").is_file());
    assert_eq!(desk.run("sh $FENCE write dangling 5; sh $FENCE write later 4"), Some(1));

    std::fs::hard_link(at("real"), at("hard")).unwrap();
    for other in ["dir", ".", "/", "/dev/null", "hard", "real"] {
        assert_eq!(desk.run(&format!("sh $FENCE write {other} 60")), Some(2), "{other}");
    }
    std::fs::remove_file(at("hard")).unwrap();
    assert_eq!(desk.run("sh $FENCE write -x 6; sh $FENCE write -x 5"), Some(1));
    assert_eq!(text(&at("-x")), "new\n");

    std::fs::set_permissions(at("real"), std::fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(desk.run("sh $FENCE write real 52"), Some(0));
    let found = std::fs::metadata(at("real")).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o640);
    assert!(std::fs::read_dir(at("dir")).unwrap().next().is_none(), "nothing is inside it");
    let of = |name: &str| [name.to_owned(), format!("{name}.fence"), format!("{name}.fence.lock")];
    let mut expected = [of("real"), of("later"), of("-x")].concat();
    expected.extend(["dangling", "dir", "link", "to-link"].map(str::to_owned));
    expected.sort();
    assert_eq!(desk.names(), expected, "no temporary file");
}

#[test]
fn the_temporary_file_of_a_killed_writer_is_removed_by_a_later_one() {
    use std::time::{Duration, SystemTime};
    let store = FileStore::new();
    let at = |name: &str| store.0.path().join(name);
    let left = |name: &str, age: Duration| {
        let file = std::fs::File::create(at(name)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    };
    left("shop.fence.new", Duration::ZERO);
    begin(store.path(), FencingToken(34)).unwrap().replace(b"new").unwrap();
    assert!(!at("shop.fence.new").exists());
    assert_eq!(text(&store.path()), "new");
    left(".fence-killed", Duration::from_hours(49));
    left(".fence-active", Duration::from_mins(1));
    assert_eq!(shell(&store, &["read", "34"], "").status.code(), Some(0));
    assert!(!at(".fence-killed").exists());
    assert!(at(".fence-active").exists(), "a call may be reading its input");
}

/// The first fenced writer is root, with the crate or with the script.
#[test]
fn the_owner_of_a_file_can_guard_it_after_root() {
    use std::os::unix::fs::{MetadataExt, chown};
    use std::os::unix::process::CommandExt as _;
    const OWNER: u32 = 33;
    for is_crate in [true, false] {
        let store = FileStore::new();
        std::fs::write(store.path(), "old\n").unwrap();
        for owned in [store.0.path(), &store.path()] {
            if chown(owned, Some(OWNER), Some(OWNER)).is_err() {
                eprintln!("SKIPPED: only root may change the owner of a file");
                return;
            }
        }
        if is_crate {
            begin(store.path(), FencingToken(34)).unwrap().replace(b"new\n").unwrap();
        } else {
            assert_eq!(shell(&store, &["write", "34"], "new\n").status.code(), Some(0));
        }
        for ending in ["", ".fence", ".fence.lock"] {
            let path = format!("{}{ending}", store.path().display());
            let found = std::fs::metadata(&path).unwrap();
            assert_eq!((found.uid(), found.gid()), (OWNER, OWNER), "{is_crate} {path}");
        }
        let mut owner = Command::new("sh");
        let script = std::fs::read_to_string(SCRIPT).unwrap();
        owner.args(["-c", &script, "sh", "write"]).arg(store.path()).arg("35");
        let wrote = answer(owner.uid(OWNER).gid(OWNER), "newer\n");
        assert_eq!(wrote.status.code(), Some(0), "{}", String::from_utf8_lossy(&wrote.stderr));
        assert_eq!(text(&store.path()), "newer\n");
    }
}

/// A shell with a limit on the size of files fails as on a full disk.
#[test]
fn a_failure_of_the_disk_is_no_stale_token_and_leaves_no_temporary_file() {
    let desk = Desk(tempfile::tempdir().unwrap());
    assert_eq!(desk.run("sh $FENCE write stock 50"), Some(0));
    let before = desk.names();
    let full = "trap '' XFSZ; ulimit -f 0;";
    for failing in [
        format!("{full} sh $FENCE write stock 50"),
        format!("{full} sh $FENCE write stock 51"),
        format!("{full} sh $FENCE read stock 51"),
        "sh $FENCE read stock 50 >/dev/full".to_owned(),
        "sh $FENCE write absent/stock 50".to_owned(),
    ] {
        assert_eq!(desk.run(&failing), Some(74), "{failing}");
        assert_eq!(desk.names(), before, "{failing}");
    }
    assert_eq!(desk.run("sh $FENCE write stock 49"), Some(1), "the mark is not lost");
    // It is killed between the first byte of its input and the last one.
    let killed = "mkfifo in; sh $FENCE write stock 50 <in & exec 8>in; rm in;
        until ls -A | grep -q '^[.]fence-'; do :; done; kill $!; exec 8>&-; wait $!";
    assert_eq!(desk.run(killed), Some(143));
    assert_eq!(desk.names(), before, "after a signal");
    assert_eq!(text(&desk.0.path().join("stock")), "new\n");
}
