//! Four-letter words: what monitoring sends instead of a first frame.
//!
//! Owns their letters. Refuses to know the answers: those are text, and the door's.

macro_rules! words {
    ($($(#[$doc:meta])* $word:ident = $text:literal,)*) => {
        /// A command of four ASCII letters; the answer is text, then the connection is closed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FourLetterWord {
            $($(#[$doc])* $word,)*
        }

        impl FourLetterWord {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$word),*];

            /// Its letters.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)*
                }
            }
        }
    };
}

words! {
    /// Is it running.
    Ruok = "ruok",
    /// Server and connections.
    Stat = "stat",
    /// Server, without the connections.
    Srvr = "srvr",
    /// Values for monitoring.
    Mntr = "mntr",
    /// Configuration.
    Conf = "conf",
    /// Connections.
    Cons = "cons",
    /// Sessions and their ephemeral nodes.
    Dump = "dump",
    /// Watches, counted.
    Wchs = "wchs",
    /// Watches by session.
    Wchc = "wchc",
    /// Watches by path.
    Wchp = "wchp",
    /// Environment and version.
    Envi = "envi",
    /// Whether it is read-only.
    Isro = "isro",
    /// Reset the figures of connections.
    Crst = "crst",
    /// Reset the figures of the server.
    Srst = "srst",
    /// Sizes of data and log on the disk.
    Dirs = "dirs",
}

impl FourLetterWord {
    /// The word of these four bytes, if they are one. To be asked before [`crate::frame_len`]: as a length, every
    /// word is over any sane limit.
    pub fn parse(letters: [u8; 4]) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.as_str().as_bytes() == letters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_known_by_its_letters_and_nothing_else_is() {
        assert_eq!(FourLetterWord::ALL.len(), 15);
        for word in FourLetterWord::ALL {
            let letters = *word.as_str().as_bytes().first_chunk().unwrap();
            assert_eq!(FourLetterWord::parse(letters), Some(*word));
            let frame = crate::frame_len(letters, crate::FRAME_MAX_DEFAULT);
            assert!(frame.is_err(), "{word:?} reads as a length");
        }
        for other in [*b"RUOK", *b"GET ", *b"kill", [0, 0, 0, 44]] {
            assert_eq!(FourLetterWord::parse(other), None);
        }
    }
}
