//! `holdfast backup`: makes a backup of a running cluster, and checks and shows the files.
//!
//! `show` has the checks and the output.

mod show;

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use holdfast_cli::arguments::ClusterArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::new_file::{Existing, NewFile};
use holdfast_cli::output::{answer, print, print_bytes};
use holdfast_cli::signals::StopSignals;
use holdfast_raft::BackupHead;
use holdfast_tls::{AgeIdentity, AgeRecipient, AgeWriter};

use self::show::BackupBody;
pub(crate) use self::show::{IdentityArgs, read_backup};

/// The interval of the progress on a terminal.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// The head of a backup is smaller, in bytes.
const HEAD_MAX: usize = 64 << 10;

/// Make a backup of the cluster, check it, or show it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    #[command(flatten)]
    make: MakeArgs,
}

#[derive(Debug, Args)]
struct MakeArgs {
    /// The new file, or - for stdout. Only its owner can read it.
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// Encrypt the backup to this public key, which `holdfast backup key` prints: age1….
    #[arg(long, value_name = "KEY")]
    recipient: Option<AgeRecipient>,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Make a key pair for encrypted backups: write the private key into a file, print the public one.
    Key(KeyArgs),
    /// Check every byte of a backup, and the state in it.
    #[command(after_help = "Exit codes: 0 if the backup can be restored, 1 otherwise.")]
    Verify(show::BackupFileArgs),
    /// Show the origin, the sizes and the busiest locks of a backup.
    Show(show::BackupFileArgs),
}

#[derive(Debug, Args)]
struct KeyArgs {
    /// The new file with the private key. Only its owner can read it. Keep it off the machines of the nodes.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

fn key(args: &KeyArgs) -> Result<(), CommandFailure> {
    let identity = AgeIdentity::generate().map_err(CommandFailure::failed)?;
    let mut file = NewFile::secret(&args.out, Existing::Kept { advice: "give another name" })?;
    file.write(identity.to_file().as_bytes())?;
    file.publish()?;
    print(&identity.recipient().to_string());
    Ok(())
}

pub(crate) async fn run(args: BackupArgs) -> Result<(), CommandFailure> {
    match args.command {
        None => make(&args.make).await,
        Some(BackupCommand::Key(args)) => key(&args),
        Some(BackupCommand::Verify(args)) => show::verify(&args),
        Some(BackupCommand::Show(args)) => show::show(&args),
    }
}

async fn make(args: &MakeArgs) -> Result<(), CommandFailure> {
    if args.out == Path::new("-") {
        return to_stdout(args).await;
    }
    let advice = "give another name, or replace it with --force";
    let existing = if args.force { Existing::Replaced } else { Existing::Kept { advice } };
    let mut signals = StopSignals::install().map_err(CommandFailure::failed)?;
    let mut file = NewFile::secret(&args.out, existing)?;
    let start = tokio::select! {
        start = receive(args, |bytes| file.write(bytes)) => start?,
        // The drop of the file removes it.
        signal = signals.next() => return Err(CommandFailure::Signalled(signal, None)),
    };
    let path = file.publish()?;
    let head = BackupHead::read(&*start).map_err(|error| show::unusable(&path, &error))?;
    let body = BackupBody::of_head(&head);
    let text = format!(
        "{}: revision {}, {} sessions, {} held locks, {} znodes{}",
        path.display(),
        body.revision,
        body.sessions,
        body.locks_held,
        body.znodes,
        if args.recipient.is_some() { "; encrypted" } else { "" }
    );
    answer(args.cluster.format(), &body, body.revision, &text);
    Ok(())
}

async fn to_stdout(args: &MakeArgs) -> Result<(), CommandFailure> {
    if std::io::stdout().is_terminal() {
        return Err(CommandFailure::usage(
            "a backup is not text: write it to a file with --out FILE, or into a pipe",
        ));
    }
    let write = |bytes: &[u8]| {
        print_bytes(bytes);
        holdfast_cli::output::check_complete()
    };
    receive(args, write).await.map(drop)
}

/// Receives a backup, encrypts it if there is a recipient, and shows the progress on a terminal. Returns the first bytes before
/// their encryption, at most [`HEAD_MAX`] and a piece of the download.
async fn receive(
    args: &MakeArgs,
    mut write: impl FnMut(&[u8]) -> Result<(), CommandFailure>,
) -> Result<Vec<u8>, CommandFailure> {
    let mut encryption = Encryption::to(args.recipient.as_ref())?;
    let mut download = args.cluster.client()?.download("/v1/cluster/backup").await?;
    let mut progress = DownloadProgress::start();
    let mut start = Vec::new();
    while let Some(bytes) = download.next().await? {
        if start.len() < HEAD_MAX {
            start.extend_from_slice(&bytes);
        }
        write(&encryption.next(&bytes)?)?;
        progress.add(bytes.len());
    }
    write(&encryption.end()?)?;
    progress.end();
    Ok(start)
}

/// The received bytes, on the last line of a terminal.
struct DownloadProgress {
    bytes: usize,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl DownloadProgress {
    fn start() -> Self {
        Self { bytes: 0, shown: None, is_terminal: std::io::stderr().is_terminal() }
    }

    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.is_terminal && self.shown.is_none_or(|shown| shown.elapsed() >= PROGRESS_EVERY) {
            self.shown = Some(Instant::now());
            let kib = self.bytes / 1_024;
            // An error of stderr has no other output channel.
            drop(write!(std::io::stderr(), "\r{kib} KiB received"));
        }
    }

    fn end(&self) {
        if self.shown.is_some() {
            // An error of stderr has no other output channel.
            drop(writeln!(std::io::stderr(), "\r\x1b[K"));
        }
    }
}

/// Encrypts the bytes of a backup if there is a recipient.
pub(crate) struct Encryption(Option<AgeWriter>);

impl Encryption {
    pub(crate) fn to(recipient: Option<&AgeRecipient>) -> Result<Self, CommandFailure> {
        let writer = recipient.map(AgeWriter::new).transpose();
        writer.map(Self).map_err(CommandFailure::failed)
    }

    /// The bytes to write for the next piece.
    pub(crate) fn next<'b>(&mut self, piece: &'b [u8]) -> Result<Cow<'b, [u8]>, CommandFailure> {
        match &mut self.0 {
            None => Ok(Cow::Borrowed(piece)),
            Some(writer) => writer.write(piece).map(Cow::Owned).map_err(CommandFailure::failed),
        }
    }

    /// The last bytes to write.
    pub(crate) fn end(self) -> Result<Vec<u8>, CommandFailure> {
        self.0.map_or_else(
            || Ok(Vec::new()),
            |writer| writer.finish().map_err(CommandFailure::failed),
        )
    }
}
