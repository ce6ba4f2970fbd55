//! The screen of `holdfast top` on a terminal, and its loop: draws after each reading, key and change of size.
//!
//! The terminal is in raw mode and on the alternate screen until the [`Screen`] is dropped. A task reads the cluster, so a
//! slow node does not delay the keys. Queue: readings (1).

use std::io::{self, Stdout, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{Event, EventStream};
use crossterm::style::Print;
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};
use futures_util::StreamExt as _;
use holdfast_client::Client;
use holdfast_types::{LockName, Stamp};
use tokio::sync::{mpsc, watch};

use super::reading::{TopReading, read_repeatedly};
use super::render::{ToneLine, page, render};
use super::view::TopView;
use crate::exit::CommandFailure;
use crate::signals::StopSignals;
use crate::terminal_text::Colors;

/// The screen of the terminal of stdout. Dropping it restores the terminal.
#[derive(Debug)]
struct Screen {
    stdout: Stdout,
    colors: Colors,
}

impl Screen {
    /// Switches to the alternate screen.
    ///
    /// # Errors
    /// The terminal rejects the mode.
    fn open() -> io::Result<Self> {
        let stdout = io::stdout();
        let colors = Colors::of(&stdout);
        enable_raw_mode()?;
        let mut screen = Self { stdout, colors };
        execute!(screen.stdout, EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Returns the width and the height.
    ///
    /// # Errors
    /// The terminal does not report them.
    fn size() -> io::Result<(usize, usize)> {
        size().map(|(columns, lines)| (usize::from(columns), usize::from(lines)))
    }

    /// Replaces the content; every line fits the width.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    fn draw(&mut self, lines: &[ToneLine]) -> io::Result<()> {
        queue!(self.stdout, BeginSynchronizedUpdate)?;
        for (line, (tone, text)) in (0..).zip(lines) {
            let text = self.colors.paint(*tone, text);
            queue!(self.stdout, MoveTo(0, line), Clear(ClearType::CurrentLine), Print(text))?;
        }
        queue!(self.stdout, EndSynchronizedUpdate)?;
        self.stdout.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // An error means that the terminal has disconnected.
        drop(execute!(self.stdout, Show, LeaveAlternateScreen));
        drop(disable_raw_mode());
    }
}

/// Shows the locks, or the lock that the view has opened, until `q`, ^C or a stop signal.
///
/// # Errors
/// The terminal cannot be used.
pub(crate) async fn show(
    client: Client,
    prefix: Option<String>,
    view: TopView,
) -> Result<(), CommandFailure> {
    let mut signals = StopSignals::install().map_err(CommandFailure::failed)?;
    let (sender, readings) = mpsc::channel(1);
    let (opened, wanted) = watch::channel(view.opened_lock().cloned());
    let reader = tokio::spawn(read_repeatedly(client, prefix, wanted, sender));
    let shown = tokio::select! {
        shown = draw_repeatedly(view, readings, &opened) => shown,
        _ = signals.next() => Ok(()),
    };
    reader.abort();
    shown.map_err(|error| CommandFailure::failed(format!("the terminal cannot be used: {error}")))
}

/// Draws until a key ends the program or the terminal disconnects.
async fn draw_repeatedly(
    mut view: TopView,
    mut readings: mpsc::Receiver<TopReading>,
    opened: &watch::Sender<Option<LockName>>,
) -> io::Result<()> {
    let mut screen = Screen::open()?;
    let mut events = EventStream::new();
    loop {
        let (columns, height) = Screen::size()?;
        screen.draw(&render(&view, columns, height))?;
        tokio::select! {
            Some(reading) = readings.recv() => view.update(reading, now()),
            event = events.next() => match event.transpose()? {
                None => return Ok(()),
                Some(Event::Key(key)) => {
                    if view.press(key, page(&view, height)).is_break() {
                        return Ok(());
                    }
                    opened.send_if_modified(|lock| {
                        let is_other = lock.as_ref() != view.opened_lock();
                        *lock = view.opened_lock().cloned();
                        is_other
                    });
                }
                // A change of the size is drawn.
                Some(_) => {}
            },
        }
    }
}

fn now() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Stamp(holdfast_types::millis(since))
}
