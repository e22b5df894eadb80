//! A table of fixed-width text.

/// Where a cell's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// One column.
#[derive(Debug)]
pub(super) struct Column {
    title: &'static str,
    align: Align,
    width_max: usize,
    is_flexible: bool,
    cut: fn(&str, usize) -> String,
}

impl Column {
    /// A column as wide as its widest cell.
    pub(super) fn new(title: &'static str, align: Align) -> Self {
        Self { title, align, width_max: usize::MAX, is_flexible: false, cut: cut_end }
    }

    /// A column whose cells are cut at `width_max`.
    pub(super) fn limited(title: &'static str, align: Align, width_max: usize) -> Self {
        Self { width_max, ..Self::new(title, align) }
    }

    /// The column that gives way when the table is too wide, at the end of its cells.
    pub(super) fn flexible(title: &'static str, align: Align) -> Self {
        Self { is_flexible: true, ..Self::new(title, align) }
    }

    /// Like [`Self::flexible`], for cells whose beginning and end both tell them apart.
    pub(super) fn flexible_middle(title: &'static str, align: Align) -> Self {
        Self { cut: cut_middle, ..Self::flexible(title, align) }
    }
}

/// Rows of cells under titles.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

const GAP: &str = "  ";
const FLEXIBLE_WIDTH_MIN: usize = 8;

impl Table {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row of as many cells as there are columns.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells.iter().map(|cell| clean(cell)).collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table's lines, none wider than `width_max`: the flexible column gives way first, and
    /// what is still too wide is cut.
    pub(super) fn render(&self, width_max: usize) -> String {
        let widths = self.widths(width_max);
        let titles = self.columns.iter().map(|column| column.title.to_owned()).collect();
        let mut text = String::new();
        for cells in std::iter::once(&titles).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, column), width) in cells.iter().zip(&self.columns).zip(&widths) {
                if !line.is_empty() {
                    line.push_str(GAP);
                }
                let cell = (column.cut)(cell, *width);
                line.push_str(&match column.align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                });
            }
            text.push_str(cut_end(&line, width_max).trim_end());
            text.push('\n');
        }
        text
    }

    fn widths(&self, width_max: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = Vec::with_capacity(self.columns.len());
        for (index, column) in self.columns.iter().enumerate() {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            widths.push(widest.min(column.width_max).max(column.title.chars().count()));
        }
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(width_max);
        let flexible = self.columns.iter().zip(&mut widths).find(|(column, _)| column.is_flexible);
        if let Some((_, width)) = flexible {
            *width = width.saturating_sub(excess).max(FLEXIBLE_WIDTH_MIN.min(*width));
        }
        widths
    }
}

/// The text without control characters: what clients send must not steer a terminal.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// The first `width` characters, the last of them `…` when something is missing.
fn cut_end(text: &str, width: usize) -> String {
    match text.chars().nth(width) {
        None => text.to_owned(),
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// The first and the last characters, `width` in all, with `…` between them when something is
/// missing.
fn cut_middle(text: &str, width: usize) -> String {
    let Some(missing @ 1..) = text.chars().count().checked_sub(width) else {
        return text.to_owned();
    };
    let head = width.saturating_sub(1).div_ceil(2);
    let head_text = text.chars().take(head);
    head_text.chain(['…']).chain(text.chars().skip(head + missing + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(words: &[(&str, &str)]) -> Table {
        let columns = vec![Column::new("n", Align::Right), Column::flexible("word", Align::Left)];
        let mut table = Table::new(columns);
        words.iter().for_each(|(n, word)| table.row(vec![(*n).to_owned(), (*word).to_owned()]));
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let text = table(&[("1", "one"), ("1000", "thousand")]).render(100);
        assert_eq!(text, "   n  word\n   1  one\n1000  thousand\n");
    }

    #[test]
    fn the_flexible_column_gives_way() {
        let text = table(&[("1", "a very long word indeed")]).render(13);
        assert_eq!(text, "n  word\n1  a very lo…\n");
    }

    #[test]
    fn texts_are_cut_at_the_end_or_in_the_middle() {
        let check = |width: usize, end: &str, middle: &str| {
            assert_eq!(cut_end("abcdefgh", width), end);
            assert_eq!(cut_middle("abcdefgh", width), middle);
        };
        check(8, "abcdefgh", "abcdefgh");
        check(7, "abcdef…", "abc…fgh");
        check(4, "abc…", "ab…h");
        check(1, "…", "…");
    }

    #[test]
    fn no_line_is_wider_than_asked_for() {
        let text = table(&[("123456789012", "a very long word")]).render(16);
        assert!(text.lines().all(|line| line.chars().count() <= 16), "{text}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let text = table(&[("1", "a\x1b[2Jb\nc\u{9b}d")]).render(100);
        assert_eq!(text, "n  word\n1  a [2Jb c d\n");
    }
}
