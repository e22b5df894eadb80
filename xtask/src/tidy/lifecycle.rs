//! The tables of states in `LIFECYCLE.md` pages list exactly the variants of their enums.
//!
//! A table that is checked follows a line `<!-- enum: PATH NAME -->`; the names in the first column
//! are the variants of that enum. A variant may stand in several rows.

use std::collections::BTreeSet;
use std::path::Path;

use super::Finding;
use super::lexer::{is_word, lines};
use super::tree::Text;

/// What stands before the path and the name of an enum.
const MARK: &str = "<!-- enum: ";

/// All findings of the pages, and of those that have no checked table where one is expected.
pub fn check(files: &[Text]) -> Vec<Finding> {
    let pages = files.iter().filter(|file| file.path.ends_with("LIFECYCLE.md"));
    pages.flat_map(|page| check_page(page, files)).collect()
}

fn check_page(page: &Text, files: &[Text]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut rest = page.text.lines().zip(1..).peekable();
    while let Some((line, number)) = rest.next() {
        let Some(mark) = line.strip_prefix(MARK).and_then(|mark| mark.strip_suffix(" -->")) else {
            continue;
        };
        let mut listed = BTreeSet::new();
        while let Some((row, _)) = rest.next_if(|(row, _)| row.is_empty() || row.starts_with('|')) {
            let first = row.split('|').nth(1).unwrap_or_default();
            listed.extend(first.split('`').nth(1).map(str::to_owned));
        }
        let error = |message: String| Finding::error(&page.path, number, message);
        let variants = mark.split_once(' ').and_then(|(path, name)| {
            let file = files.iter().find(|file| file.path == Path::new(path))?;
            variants_of(&file.text, name)
        });
        let Some(variants) = variants else {
            findings.push(error(format!("there is no enum `{mark}`")));
            continue;
        };
        let missing = variants.difference(&listed).map(|name| format!("`{name}` is not listed"));
        let unknown = listed.difference(&variants).map(|name| format!("`{name}` is no variant"));
        findings.extend(missing.chain(unknown).map(|what| error(format!("{what} ({mark})"))));
    }
    findings
}

/// The variants of an enum; `None` where there is none of that name.
fn variants_of(text: &str, name: &str) -> Option<BTreeSet<String>> {
    let lines = lines(text);
    let is_head = |code: &str| {
        let declared = code.split_once("enum ").map(|(_, rest)| rest);
        declared.and_then(|rest| rest.split(|c| !is_word(c)).next()) == Some(name)
    };
    let start = lines.iter().position(|line| is_head(&line.code))?;
    let body = lines.iter().skip(start + 1).map(|line| line.code.as_str());
    let variants = body.take_while(|code| !code.starts_with('}')).filter_map(|code| {
        let mut words = code.strip_prefix("    ")?.split(|c| !is_word(c));
        let variant = words.next()?;
        // Of `Answer(AwaitAnswer)` the struct is the state's name.
        let held = words.find(|word| !matches!(*word, "" | "Box"));
        let held = held.filter(|held| held.len() > variant.len() && held.ends_with(variant));
        variant.starts_with(char::is_uppercase).then(|| held.unwrap_or(variant).to_owned())
    });
    Some(variants.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rows: &str) -> Vec<String> {
        let source =
            "pub enum State {\n    /// One.\n    One,\n    Two(u8),\n    Three { at: u8 },\n}\n";
        let page = format!("{MARK}x/state.rs State -->\n\n| state |\n|---|\n{rows}\nText.\n");
        let files = [("x/state.rs", source.to_owned()), ("x/LIFECYCLE.md", page)];
        let texts = files.map(|(path, text)| Text { path: path.into(), text });
        check(&texts).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_table_lists_the_variants_of_its_enum() {
        assert_eq!(findings("| `One` |\n| `Two` |\n| `Three` |\n"), [] as [&str; 0]);
        let found = findings("| `One` |\n| `Two` |\n| `Four` |\n");
        let missing = "`Three` is not listed (x/state.rs State)";
        assert_eq!(found, [missing, "`Four` is no variant (x/state.rs State)"]);
    }
}
