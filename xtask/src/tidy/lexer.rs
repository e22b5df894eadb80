//! Just enough of Rust's lexical structure to tell code from comments and strings.

/// What a character belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Everything else.
    Code,
    /// A comment with its slashes.
    Comment,
    /// The inside of a string, byte string or character literal, quotes included.
    Literal,
}

/// One line, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The code with spaces in place of comments and literals, so that columns stay.
    pub code: String,
    /// The comment's text.
    pub comment: String,
    /// Characters without those inside literals, which can't be broken.
    pub width: usize,
}

/// Takes a source text apart.
pub fn lines(text: &str) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    for (c, class) in classify(text) {
        if c == '\n' {
            lines.push(Line::default());
            continue;
        }
        let Some(line) = lines.last_mut() else {
            continue;
        };
        line.code.push(if class == Class::Code { c } else { ' ' });
        if class == Class::Comment {
            line.comment.push(c);
        }
        line.width += usize::from(class != Class::Literal);
    }
    lines
}

fn classify(text: &str) -> Vec<(char, Class)> {
    let chars: Vec<char> = text.chars().collect();
    let mut out = Vec::with_capacity(chars.len());
    let mut at = 0;
    while at < chars.len() {
        let rest = chars.get(at..).unwrap_or_default();
        let previous = at.checked_sub(1).and_then(|before| chars.get(before));
        let (length, class) = token(rest, previous.copied());
        debug_assert!(length > 0, "the lexer stands still at {at}");
        out.extend(rest.iter().take(length).map(|c| (*c, class)));
        at += length;
    }
    debug_assert_eq!(out.len(), chars.len());
    out
}

/// The length and class of what `rest` begins with.
fn token(rest: &[char], previous: Option<char>) -> (usize, Class) {
    match rest {
        ['/', '/', ..] => (position(rest, '\n'), Class::Comment),
        ['/', '*', ..] => (block_comment(rest), Class::Comment),
        ['"', ..] => (quoted(rest, '"'), Class::Literal),
        ['\'', '\\', ..] => (quoted(rest, '\''), Class::Literal),
        ['\'', _, '\'', ..] => (3, Class::Literal),
        ['r' | 'b' | 'c', ..] if !previous.is_some_and(is_word) => match raw_string(rest) {
            Some(length) => (length, Class::Literal),
            None => (1, Class::Code),
        },
        _ => (1, Class::Code),
    }
}

/// Part of a name.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn position(rest: &[char], wanted: char) -> usize {
    rest.iter().position(|c| *c == wanted).unwrap_or(rest.len())
}

/// Block comments nest.
fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        match rest.get(at..).unwrap_or_default() {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] if depth == 1 => return at + 2,
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            [_, ..] => at += 1,
            [] => return rest.len(),
        }
    }
}

/// Up to the next `quote` that no backslash stands before.
fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    loop {
        match rest.get(at..).unwrap_or_default() {
            ['\\', _, ..] => at += 2,
            [c, ..] if *c == quote => return at + 1,
            [_, ..] => at += 1,
            [] => return rest.len(),
        }
    }
}

/// `r"…"`, `br##"…"##`: the length, or `None` when it is a name (`r#type`, `broken`).
fn raw_string(rest: &[char]) -> Option<usize> {
    let prefix = match rest {
        ['r', ..] => 1,
        ['b' | 'c', 'r', ..] => 2,
        _ => return None,
    };
    let behind = rest.get(prefix..)?;
    let hashes = behind.iter().take_while(|c| **c == '#').count();
    let body = behind.get(hashes..)?;
    if body.first() != Some(&'"') {
        return None;
    }
    let mut end = vec!['"'];
    end.resize(hashes + 1, '#');
    let inside = body.get(1..)?;
    let length = inside.windows(end.len()).position(|window| window == end.as_slice());
    let start = prefix + hashes + 1;
    Some(length.map_or(rest.len(), |length| start + length + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str) {
        let lines = lines(text);
        let joined: Vec<&str> = lines.iter().map(|line| line.code.trim_end()).collect();
        assert_eq!(joined.join("\n"), code, "{text}");
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        check("a // b", "a");
        check("a /* b /* c */ d */ e", "a                   e");
        check(r#"f("a // \" b") // c"#, "f(           )");
        check("x = 'a'; y = '\\''; z = '\"';", "x =    ; y =     ; z =    ;");
        check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
        check("r#\"a \" b\"# + br\"c\" + r#type", "           +       + r#type");
        check("\"two\nlines\" end", "\n       end");
        check("broken(number)", "broken(number)");
    }

    #[test]
    fn width_leaves_the_inside_of_literals_out() {
        let found = lines("let a = \"0123456789\"; // note");
        assert_eq!(found[0].width, "let a = ; // note".len());
        assert_eq!(found[0].comment, "// note");
    }

    #[test]
    fn unfinished_text_ends() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'\\", "'"] {
            assert_eq!(lines(text).len(), 1, "{text}");
        }
    }
}
