//! Lines over time as SVG, without a script.

use std::fmt::Write;

use super::time;

/// Sizes of a plot, in its own units.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 20.0;

/// One line: a value for each point, none where nothing is known.
pub struct Line {
    /// What it is called.
    pub name: String,
    /// The class that gives it its colour.
    pub class: &'static str,
    /// Its values.
    pub values: Vec<Option<f64>>,
}

/// What a plot covers.
pub struct Axis {
    /// When it begins, Unix seconds.
    pub from: u64,
    /// How many seconds it covers.
    pub seconds: u64,
    /// Moments that are marked.
    pub marks: Vec<(u64, String)>,
}

/// A plot with a title, which is text already escaped.
pub fn plot(title: &str, unit: &str, lines: &[Line], axis: &Axis) -> String {
    let values = lines.iter().flat_map(|line| line.values.iter().flatten());
    let highest = nice(values.fold(0.0, |most: f64, value| most.max(*value)));
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let mut svg = format!(
        "<figure><figcaption>{title}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         role=\"img\" aria-label=\"{title}\">\n"
    );
    for part in [0.0, 0.5, 1.0] {
        let y = bottom - part * (bottom - TOP);
        let label = number(highest * part);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{label}{unit}</text>",
            LEFT - 5.0,
            y + 3.5
        );
    }
    for part in [0_u64, 1, 2, 3, 4] {
        let x = LEFT + (right - LEFT) * as_float(part) / 4.0;
        let label = time::tick(axis.from + axis.seconds * part / 4, axis.seconds);
        let place = match part {
            0 => "start",
            4 => "end",
            _ => "middle",
        };
        let _ = writeln!(
            svg,
            "<text class=\"x\" text-anchor=\"{place}\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>",
            HEIGHT - 5.0
        );
    }
    for (at, what) in &axis.marks {
        let offset = at.saturating_sub(axis.from);
        if *at < axis.from || offset > axis.seconds {
            continue;
        }
        let x = LEFT + (right - LEFT) * as_float(offset) / as_float(axis.seconds.max(1));
        let what = escaped(what);
        let _ = writeln!(
            svg,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\">\
             <title>{what}</title></line>"
        );
    }
    for line in lines {
        let path = path(&line.values, highest);
        let _ = writeln!(
            svg,
            "<path class=\"{}\" d=\"{path}\"><title>{}</title></path>",
            line.class,
            escaped(&line.name)
        );
    }
    svg.push_str("</svg>");
    if lines.len() > 1 {
        svg.push_str("<p class=\"legend\">");
        for line in lines {
            let _ = write!(svg, "<span class=\"{}\">{}</span> ", line.class, escaped(&line.name));
        }
        svg.push_str("</p>");
    }
    svg.push_str("</figure>\n");
    svg
}

/// A line that is interrupted where nothing is known. A point alone is a short dash.
fn path(values: &[Option<f64>], highest: f64) -> String {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let step = (right - LEFT) / as_float(u64::try_from(values.len()).unwrap_or(1).max(1));
    let mut path = String::new();
    let mut is_open = false;
    for (at, value) in (0_u64..).zip(values) {
        let Some(value) = value else {
            is_open = false;
            continue;
        };
        let x = LEFT + step * (as_float(at) + 0.5);
        let y = bottom - (value / highest).clamp(0.0, 1.0) * (bottom - TOP);
        match is_open {
            true => path.push_str(&format!("L{x:.1} {y:.1}")),
            false => path.push_str(&format!("M{:.1} {y:.1}L{x:.1} {y:.1}", x - 0.4)),
        }
        is_open = true;
    }
    path
}

/// The next round number.
fn nice(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|it| *it >= value).unwrap_or(10.0 * power)
}

/// A number in few signs: `1.2k`, `0.05`.
pub fn number(value: f64) -> String {
    let short = |value: f64| match value {
        value if value == 0.0 || value.abs() >= 100.0 => format!("{value:.0}"),
        value if value.abs() >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    };
    match value.abs() {
        size if size >= 1e9 => format!("{}G", short(value / 1e9)),
        size if size >= 1e6 => format!("{}M", short(value / 1e6)),
        size if size >= 1e4 => format!("{}k", short(value / 1e3)),
        _ => short(value),
    }
}

#[expect(clippy::cast_precision_loss, reason = "places on a page")]
pub fn as_float(number: u64) -> f64 {
    number as f64
}

/// A text that can mean nothing else in HTML.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_gaps_where_nothing_is_known() {
        let values = [Some(1.0), Some(2.0), None, Some(0.0)];
        let drawn = path(&values, 2.0);
        assert_eq!(drawn.matches('M').count(), 2);
        assert_eq!(drawn.matches('L').count(), 3);
    }

    #[test]
    fn numbers_are_short_and_texts_safe() {
        let check = |value: f64, expected: &str| assert_eq!(number(value), expected);
        check(0.0, "0");
        check(0.051, "0.05");
        check(12.34, "12.3");
        check(1_234.0, "1234");
        check(45_600.0, "45.6k");
        check(2.5e6, "2.50M");
        assert_eq!(nice(0.0), 1.0);
        assert_eq!(nice(1_300.0), 2_000.0);
        assert_eq!(escaped("<a href='x'>&"), "&lt;a href=&#39;x&#39;&gt;&amp;");
    }
}
