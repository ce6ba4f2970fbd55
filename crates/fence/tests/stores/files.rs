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
        let (held, text) = self.held(token)?;
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
        let (held, text) = self.held(token)?;
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

    for broken in ["", "x", "-1", "0", "34 35"] {
        std::fs::write(path.with_extension("fence"), broken).unwrap();
        assert!(matches!(begin(&path, FencingToken(35)), Err(FenceError::Store(_))), "{broken:?}");
    }
}

fn shell(store: &FileStore, arguments: &[&str], input: &str) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("sh/fence_file.sh");
    let mut command = Command::new("sh");
    command.arg(script).args(&arguments[..1]).arg(store.path()).args(&arguments[1..]);
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
