//! The manual's reference of settings, made from the table.

use std::fmt::Write;

use crate::{
    SETTINGS, Settings,
    settings::{Range, Reload},
};

/// The line before the generated part of `docs/manual/configuration.md`.
pub const BEGIN: &str = "<!-- settings: made from the table, do not edit by hand -->";

/// The line after it.
pub const END: &str = "<!-- settings: end -->";

/// Characters in a line of the page.
const WIDTH: usize = 118;

/// Every setting as Markdown: one heading each, its facts in one line, its paragraph.
pub fn settings_reference() -> String {
    let defaults = Settings::default();
    let mut page = String::new();
    for row in SETTINGS {
        let default = match defaults.show(row.name).unwrap_or_default() {
            text if text.is_empty() => "empty".to_owned(),
            text if row.name == "state_file" => text,
            text => format!("`{text}`"),
        };
        let mut facts = vec![row.kind.to_owned()];
        if row.range != Range::All {
            facts.push(row.range.to_string());
        }
        if !row.unit.is_empty() {
            facts.push(format!("in {}", row.unit));
        }
        facts.push(format!("default {default}"));
        facts.push(match row.reload {
            Reload::Live => "changed by a reload".to_owned(),
            Reload::Restart => "a change needs a restart".to_owned(),
        });
        facts.push(format!("since {}", row.since));
        let doc = wrapped(row.doc);
        // Writing to a String cannot fail.
        let _ = write!(page, "### `{}`\n\n*{}.*\n\n{doc}\n\n", row.name, facts.join("; "));
    }
    page
}

/// A paragraph in lines of at most [`WIDTH`] characters, where its words let it.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manual/configuration.md");

    /// With `TRUNKLINE_WRITE_MANUAL` set the page is rewritten instead of compared.
    #[test]
    fn the_manual_holds_the_table_of_settings() {
        let page = std::fs::read_to_string(PAGE).expect("the manual has a configuration page");
        let (head, tail) = page.split_once(BEGIN).expect("the page has the first mark");
        let (_, foot) = tail.split_once(END).expect("the page has the second mark");
        let expected = format!("{head}{BEGIN}\n\n{}{END}{foot}", settings_reference());
        if std::env::var_os("TRUNKLINE_WRITE_MANUAL").is_some() {
            std::fs::write(PAGE, &expected).expect("the page can be written");
        }
        let page = std::fs::read_to_string(PAGE).expect("the page is still there");
        assert!(page == expected, "run the test again with TRUNKLINE_WRITE_MANUAL=1");
    }

    #[test]
    fn the_manual_explains_every_key_of_the_sections() {
        let page = std::fs::read_to_string(PAGE).expect("the manual has a configuration page");
        for key in SECTION_KEYS.split_whitespace() {
            assert!(page.contains(&format!("| `{key}`")), "{key}");
        }
    }

    const SECTION_KEYS: &str = "hostgroup address weight max_connections max_replication_lag compression status comment name \
        password password_hash password_file default_hostgroup default_schema \
        transaction_persistent fast_forward active writer_hostgroup reader_hostgroup \
        read_write_split id username schemaname flagIN client_addr proxy_addr proxy_port digest \
        match_digest match_pattern negate_match_pattern re_modifiers flagOUT \
        destination_hostgroup next_query_flagIN error_msg OK_msg apply";
}
