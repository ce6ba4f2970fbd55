//! The full screen of a terminal: raw mode and the alternate screen, until the value is dropped.

use std::io::{self, Stdout, Write as _};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::Print;
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};

use super::render::ToneLine;
use crate::color::Colors;

/// The screen of the terminal of stdout. Dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct Screen {
    stdout: Stdout,
    colors: Colors,
}

impl Screen {
    /// Switches to the alternate screen.
    ///
    /// # Errors
    /// The terminal rejects the mode.
    pub(super) fn open() -> io::Result<Self> {
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
    pub(super) fn size() -> io::Result<(usize, usize)> {
        size().map(|(columns, lines)| (usize::from(columns), usize::from(lines)))
    }

    /// Replaces the content; every line fits the width.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub(super) fn draw(&mut self, lines: &[ToneLine]) -> io::Result<()> {
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
