//! The bytes of a backup on their way into a file or a pipe, encrypted if there is a recipient.

use std::borrow::Cow;

use holdfast_cli::exit::CommandFailure;
use holdfast_tls::{AgeRecipient, AgeWriter};

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
