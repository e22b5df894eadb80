//! How the client's character set makes bytes into characters.

/// How bytes from 0x80 up are to be read outside and inside quotes.
///
/// Where the second byte of a character may be below 0x80, a `\` or a backtick after a high byte
/// may belong to the character, so it neither escapes nor quotes. Source: observed on MariaDB
/// 10.11 and MySQL 9.7, every character set with every pair of bytes, where both families agree
/// (`e2e/tests/charset_sweep.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// UTF-8. High bytes in words are letters; text that is no UTF-8 is read with suspicion.
    #[default]
    Utf8,
    /// No byte from 0x80 up is white space, and no character of more than one byte holds an ASCII
    /// byte that is no letter: koi8r, cp1251 and their like, and also ujis, eucjpms, euckr and
    /// gb2312.
    SingleByte,
    /// Each byte is a character, and 0xA0 is white space: latin1, latin2, cp1250, greek, …
    Latin,
    /// Each byte is a character, and 0xFF is white space: cp852, cp866 and keybcs2.
    Dos,
    /// swe7: `[`, `]`, `^`, `{`, `}` and `~` are letters.
    Swedish,
    /// sjis and cp932: 0x81–0x9F and 0xE0–0xFC lead two bytes.
    ShiftJis,
    /// big5: 0xA1–0xF9 lead two bytes.
    Big5,
    /// gbk and gb18030: 0x81–0xFE lead two bytes. The third and fourth byte of a character of
    /// gb18030 are read as the first two: the second and the fourth are digits.
    Gbk,
    /// Not known: whatever holds a byte from 0x80 up is read with suspicion.
    Unknown,
}

/// The ASCII bytes that are letters in swe7.
const SWEDISH_LETTERS: &[u8] = br"@[\]^`{|}~";

impl Encoding {
    /// How texts in the character set of this name, in lower case, are read.
    pub fn of(charset: &str) -> Self {
        match charset {
            "utf8" | "utf8mb3" | "utf8mb4" => Self::Utf8,
            "big5" => Self::Big5,
            "gbk" | "gb18030" => Self::Gbk,
            "sjis" | "cp932" => Self::ShiftJis,
            "swe7" => Self::Swedish,
            "cp852" | "cp866" | "keybcs2" => Self::Dos,
            "armscii8" | "cp1250" | "dec8" | "geostd8" | "greek" | "hebrew" | "latin1"
            | "latin2" | "latin5" | "latin7" => Self::Latin,
            "ascii" | "binary" | "cp1251" | "cp1256" | "cp1257" | "cp850" | "eucjpms" | "euckr"
            | "gb2312" | "hp8" | "koi8r" | "koi8u" | "macce" | "macroman" | "tis620" | "ujis" => {
                Self::SingleByte
            }
            _ => Self::Unknown,
        }
    }

    /// Whether `first` and `second` are one character of which `second` is no ASCII character.
    pub(crate) fn is_pair(self, first: u8, second: u8) -> bool {
        let leads = match self {
            Self::Utf8
            | Self::SingleByte
            | Self::Latin
            | Self::Dos
            | Self::Swedish
            | Self::Unknown => false,
            Self::ShiftJis => matches!(first, 0x81..=0x9F | 0xE0..=0xFC),
            Self::Big5 => matches!(first, 0xA1..=0xF9),
            Self::Gbk => matches!(first, 0x81..=0xFE),
        };
        leads && second >= 0x40 && second != 0x7F
    }

    /// Whether the second byte of a character may be below 0x80.
    pub(crate) fn has_pairs(self) -> bool {
        matches!(self, Self::ShiftJis | Self::Big5 | Self::Gbk)
    }

    /// Whether text of ASCII bytes outside of literals is read as UTF-8 is, whatever is in them.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Utf8 | Self::SingleByte | Self::Latin | Self::Dos)
    }

    /// Whether a name of these bytes may be another one elsewhere, though it looks alike: bytes
    /// beyond ASCII are other characters in other sets, and so are those that swe7 has letters for.
    pub fn may_rename(self, name: &[u8]) -> bool {
        let has_letters = || name.iter().any(|byte| SWEDISH_LETTERS.contains(byte));
        !name.is_ascii() || matches!(self, Self::Swedish | Self::Unknown) && has_letters()
    }

    /// The byte from 0x80 up that is white space; 0 if there is none.
    pub(crate) const fn high_space(self) -> u8 {
        match self {
            Self::Latin => 0xA0,
            Self::Dos => 0xFF,
            Self::Utf8
            | Self::SingleByte
            | Self::Swedish
            | Self::ShiftJis
            | Self::Big5
            | Self::Gbk
            | Self::Unknown => 0,
        }
    }

    /// Whether `byte`, no letter elsewhere, is one here.
    pub(crate) const fn is_own_letter(self, byte: u8) -> bool {
        matches!(self, Self::Swedish) && matches!(byte, b'[' | b']' | b'^' | b'{' | b'}' | b'~')
    }

    /// Whether `--` before this byte, which is 0x7F or above, may begin a comment: some character
    /// sets have control characters there, each others.
    pub(crate) fn may_be_control(self, byte: u8) -> bool {
        match self {
            Self::Utf8 | Self::ShiftJis | Self::Big5 | Self::Gbk => byte == 0x7F,
            Self::SingleByte | Self::Latin | Self::Dos | Self::Swedish | Self::Unknown => true,
        }
    }
}
