//! Four-letter words: status commands that monitoring sends in place of the first frame.

macro_rules! words {
    ($($(#[$doc:meta])* $word:ident = $text:literal,)*) => {
        /// A command of four ASCII letters. The answer is text, then the connection closes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FourLetterWord {
            $($(#[$doc])* $word,)*
        }

        impl FourLetterWord {
            pub const ALL: &[Self] = &[$(Self::$word),*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)*
                }
            }
        }
    };
}

words! {
    /// Whether the server is running.
    Ruok = "ruok",
    /// Server and connections.
    Stat = "stat",
    /// Server without connections.
    Srvr = "srvr",
    /// Values for monitoring.
    Mntr = "mntr",
    /// Configuration.
    Conf = "conf",
    /// Connections.
    Cons = "cons",
    /// Sessions and their ephemeral nodes.
    Dump = "dump",
    /// Number of watches.
    Wchs = "wchs",
    /// Watches by session.
    Wchc = "wchc",
    /// Watches by path.
    Wchp = "wchp",
    /// Environment and version.
    Envi = "envi",
    /// Whether the server is read-only.
    Isro = "isro",
    /// Reset the statistics of the connections.
    Crst = "crst",
    /// Reset the statistics of the server.
    Srst = "srst",
    /// Sizes of data and log on the disk.
    Dirs = "dirs",
}

impl FourLetterWord {
    /// The word with these letters. Call it before [`crate::frame_len`]: as a length, every word is over any sane limit.
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
