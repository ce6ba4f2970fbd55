//! The loop of `holdfast top` on a terminal: draws after each reading, key and change of size.
//!
//! A task reads the cluster, so a slow node does not delay the keys. Queue: readings (1).

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use crossterm::event::{Event, EventStream};
use futures_util::StreamExt as _;
use holdfast_client::Client;
use holdfast_types::{LockName, Stamp};
use tokio::sync::{mpsc, watch};

use super::reading::{TopReading, read_repeatedly};
use super::render::{page, render};
use super::screen::Screen;
use super::view::TopView;
use crate::exit::CommandFailure;
use crate::signals::StopSignals;

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
    Stamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
