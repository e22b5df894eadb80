//! The report as one HTML file.

use std::{collections::BTreeMap, fmt::Write};

use trunkline_history::{Period, Point, Sketch, Sums};

use super::{
    compare::{Change, Digest, duration, new, slower},
    plot::{Axis, Line, as_float, escaped, number, plot},
    time::{length, shown},
};

const STYLE: &str = include_str!("page.css");
/// From which change on a number is coloured, in hundredths.
const COLOURED: f64 = 10.0;
/// Hostgroups that have plots of their own.
const HOSTGROUPS_MAX: usize = 6;

/// The report on a period, compared with the one before.
pub fn page(before: &Period, now: &Period, changes: &[Change], made: &str) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Trunkline: {from} to {to}</title>\n<style>{STYLE}</style></head>\n<body>\n\
         <h1>{from} to {to} UTC</h1>\n<p class=\"sub\">{length}, compared with {b_from} to {b_to}. \
         {known} {made}</p>\n",
        from = shown(now.from),
        to = shown(now.to),
        b_from = shown(before.from),
        b_to = shown(before.to),
        length = length(now.to - now.from),
        known = known(before, now),
        made = escaped(made),
    );
    html.push_str(&summary(before, now, changes));
    html.push_str(&figures(before, now));
    html.push_str("<h2>Over time</h2>\n<div class=\"plots\">\n");
    html.push_str(&plots(before, now));
    html.push_str("</div>\n");
    html.push_str(&happened(now));
    html.push_str(&slower_digests(before, now, changes));
    html.push_str(&new_digests(before, now));
    html.push_str(&heaviest(before, now));
    html.push_str(&servers(before, now));
    html.push_str(&refusals(before, now));
    html.push_str("</body></html>\n");
    html
}

/// How much of both periods the history has, where it is not all.
fn known(before: &Period, now: &Period) -> String {
    let part = |period: &Period| {
        100.0 * as_float(period.known) / as_float((period.to - period.from).max(1))
    };
    match (part(before), part(now)) {
        (was, is) if was > 95.0 && is > 95.0 => String::new(),
        (was, is) => format!("The history has {is:.0} % of it, and {was:.0} % of the time before."),
    }
}

/// The most important in a few sentences.
fn summary(before: &Period, now: &Period, changes: &[Change]) -> String {
    let mut points = Vec::new();
    let (was, is) = (before.rate(before.total.all.count), now.rate(now.total.all.count));
    points.push(format!(
        "{} statements a second{}.",
        number(is),
        changed(was, is).map(|it| format!(" ({it})")).unwrap_or_default()
    ));
    let p95 = |period: &Period| period.total.all.latency.quantile(0.95);
    points.push(match changed(as_float(p95(before)), as_float(p95(now))) {
        Some(change) => format!(
            "95 % of them took at most {} instead of {} ({change}).",
            duration(p95(now)),
            duration(p95(before))
        ),
        None => format!("95 % of them took at most {}, as before.", duration(p95(now))),
    });
    let cost: i128 = changes.iter().map(|change| change.cost_us).sum();
    points.push(match changes.first() {
        None => "No statement got slower.".to_owned(),
        Some(first) => format!(
            "{} got slower, and took {} longer together. The one that costs most: <code>{}</code>: \
             {}.",
            match changes.len() {
                1 => "1 statement".to_owned(),
                count => format!("{count} statements"),
            },
            duration(u64::try_from(cost).unwrap_or(u64::MAX)),
            escaped(&first.now.text),
            escaped(&first.why.join("; "))
        ),
    });
    let refused = |period: &Period| period.total.refusals.iter().map(|(_, count)| count).sum();
    let (were, are): (u64, u64) = (refused(before), refused(now));
    if are > 0 {
        points.push(format!("{are} clients or statements were refused (before: {were})."));
    }
    let points = points.iter().map(|point| format!("<li>{point}</li>")).collect::<String>();
    format!("<h2>In short</h2>\n<ul>{points}</ul>\n")
}

/// `+40 %`, if it is worth a word.
fn changed(was: f64, is: f64) -> Option<String> {
    if was <= 0.0 {
        return None;
    }
    let change = (is / was - 1.0) * 100.0;
    (change.abs() >= COLOURED).then(|| format!("{change:+.0} %"))
}

/// A cell with a change; more is worse where `more_is_worse`.
fn change_cell(was: f64, is: f64, more_is_worse: bool) -> String {
    let Some(text) = changed(was, is) else { return "<td class=\"n dim\"></td>".to_owned() };
    let class = match (more_is_worse, is > was) {
        (false, _) => "",
        (true, true) => " bad",
        (true, false) => " good",
    };
    format!("<td class=\"n{class}\">{text}</td>")
}

fn figures(before: &Period, now: &Period) -> String {
    let us = |of: fn(&Sums) -> u64| (of(&before.total.all), of(&now.total.all));
    let mut html = "<h2>Figures</h2>\n<table><tr><th></th><th class=\"n\">before</th>\
                    <th class=\"n\">now</th><th class=\"n\">change</th></tr>\n"
        .to_owned();
    let mut row = |name: &str, was: f64, is: f64, show: &dyn Fn(f64) -> String, is_bad: bool| {
        let change = change_cell(was, is, is_bad);
        let (was, is) = (show(was), show(is));
        let _ = writeln!(
            html,
            "<tr><td>{name}</td><td class=\"n\">{was}</td><td class=\"n\">{is}</td>{change}</tr>"
        );
    };
    let rate = |of: &dyn Fn(&Period) -> u64| (before.rate(of(before)), now.rate(of(now)));
    let (was, is) = rate(&|it| it.total.all.count);
    row("statements a second", was, is, &number, false);
    let (was, is) = rate(&|it| it.total.all.errors);
    row("errors a second", was, is, &number, true);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "microseconds, which came from integers"
    )]
    let time = |us: f64| duration(us as u64);
    let (was, is) = us(Sums::mean_us);
    row("mean latency", as_float(was), as_float(is), &time, true);
    for (name, share) in [("median", 0.5), ("95 %", 0.95), ("99 %", 0.99)] {
        let quantile = |it: &Period| as_float(it.total.all.latency.quantile(share));
        row(&format!("latency, {name}"), quantile(before), quantile(now), &time, true);
    }
    let (was, is) = rate(&|it| it.total.queue.count);
    row("waits for a connection a second", was, is, &number, true);
    let (was, is) = (before.total.queue.mean_us(), now.total.queue.mean_us());
    row("mean wait", as_float(was), as_float(is), &time, true);
    row(
        "clients, at most",
        as_float(before.total.clients),
        as_float(now.total.clients),
        &number,
        false,
    );
    html.push_str("</table>\n");
    html
}

/// The values of a line: one for each point that is known.
fn values(period: &Period, of: impl Fn(&Point) -> f64) -> Vec<Option<f64>> {
    period.points.iter().map(|point| (point.known > 0).then(|| of(point))).collect()
}

fn ms(latency: &Sketch, share: f64) -> f64 {
    as_float(latency.quantile(share)) / 1_000.0
}

fn per_second(count: u64, point: &Point) -> f64 {
    as_float(count) / as_float(point.known.max(1))
}

fn axis(now: &Period) -> Axis {
    let marks = now.total.marks.iter().map(|mark| (mark.at, mark.what.clone()));
    Axis { from: now.from, seconds: (now.to - now.from).max(1), marks: marks.collect() }
}

/// A line of now over the same of before.
fn both(before: &Period, now: &Period, of: impl Fn(&Point) -> f64) -> Vec<Line> {
    vec![
        Line { name: "before".to_owned(), class: "b", values: values(before, &of) },
        Line { name: "now".to_owned(), class: "a", values: values(now, &of) },
    ]
}

fn plots(before: &Period, now: &Period) -> String {
    let axis = axis(now);
    let mut html = String::new();
    let rate = both(before, now, |point| per_second(point.all.count, point));
    html.push_str(&plot("statements a second", "", &rate, &axis));
    let lines = [("median", "a", 0.5), ("95 %", "b", 0.95), ("99 %", "c", 0.99)];
    let lines = lines.map(|(name, class, share)| Line {
        name: name.to_owned(),
        class,
        values: values(now, |point| ms(&point.all.latency, share)),
    });
    html.push_str(&plot("latency", " ms", &lines, &axis));
    let p95 = both(before, now, |point| ms(&point.all.latency, 0.95));
    html.push_str(&plot("latency, 95 %", " ms", &p95, &axis));
    let errors = both(before, now, |point| per_second(point.all.errors, point));
    html.push_str(&plot("errors a second", "", &errors, &axis));
    let waits = both(before, now, |point| per_second(point.queue.count, point));
    html.push_str(&plot("waits for a connection a second", "", &waits, &axis));
    let clients = both(before, now, |point| as_float(point.clients));
    html.push_str(&plot("clients", "", &clients, &axis));
    let mut groups: BTreeMap<u32, u64> = BTreeMap::new();
    for (id, sums) in now.points.iter().flat_map(|point| &point.hostgroups) {
        *groups.entry(*id).or_default() += sums.count;
    }
    for (id, _) in groups.iter().filter(|(_, count)| **count > 0).take(HOSTGROUPS_MAX) {
        let p95 = both(before, now, |point| {
            point.hostgroups.get(id).map_or(0.0, |sums| ms(&sums.latency, 0.95))
        });
        html.push_str(&plot(&format!("hostgroup {id}: latency, 95 %"), " ms", &p95, &axis));
    }
    html
}

fn happened(now: &Period) -> String {
    if now.total.marks.is_empty() {
        return String::new();
    }
    let rows = now.total.marks.iter().map(|mark| {
        format!(
            "<tr><td class=\"dim\">{}</td><td>{}</td></tr>\n",
            shown(mark.at),
            escaped(&mark.what)
        )
    });
    let rows = rows.collect::<String>();
    format!("<h2>What happened</h2>\n<table>{rows}</table>\n")
}

fn slower_digests(before: &Period, now: &Period, changes: &[Change]) -> String {
    let mut html = "<h2>Statements that got slower</h2>\n".to_owned();
    if changes.is_empty() {
        html.push_str("<p>None.</p>\n");
    }
    let axis = axis(now);
    for change in changes {
        let Change { digest, before: was, now: is, cost_us, why } = change;
        let of = |point: &Point| {
            point.digests.get(digest).map_or(0.0, |sums| as_float(sums.mean_us()) / 1_000.0)
        };
        let lines = both(before, now, of);
        let why = why.iter().map(|it| format!("<li>{}</li>", escaped(it))).collect::<String>();
        let _ = writeln!(
            html,
            "<div class=\"change\"><div><code>{text}</code>\n<p class=\"dim\">0x{digest:016X}: \
             mean {was_mean} → <b>{is_mean}</b>, 95 % {was_p95} → <b>{is_p95}</b>, {count} \
             statements, {cost} longer together</p>\n<ul>{why}</ul></div>\n{plot}</div>",
            text = escaped(&is.text),
            was_mean = duration(was.sums.mean_us()),
            is_mean = duration(is.sums.mean_us()),
            was_p95 = duration(was.sums.latency.quantile(0.95)),
            is_p95 = duration(is.sums.latency.quantile(0.95)),
            count = is.sums.count,
            cost = duration(u64::try_from(*cost_us).unwrap_or(u64::MAX)),
            plot = plot("mean latency", " ms", &lines, &axis),
        );
    }
    html
}

fn digest_rows(period: &Period, rows: &[(u64, Digest)]) -> String {
    let all = period.total.all.sum_us;
    let mut html = "<table><tr><th>statement</th><th class=\"n\">a second</th>\
                    <th class=\"n\">mean</th><th class=\"n\">95 %</th>\
                    <th class=\"n\">share of time</th></tr>\n"
        .to_owned();
    for (_, row) in rows {
        let share = 100.0 * as_float(row.sums.sum_us) / as_float(all.max(1));
        let _ = writeln!(
            html,
            "<tr><td><code>{}</code></td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{share:.1} %</td></tr>",
            escaped(&row.text),
            number(period.rate(row.sums.count)),
            duration(row.sums.mean_us()),
            duration(row.sums.latency.quantile(0.95))
        );
    }
    html.push_str("</table>\n");
    html
}

fn new_digests(before: &Period, now: &Period) -> String {
    let rows = new(before, now);
    if rows.is_empty() || before.known == 0 {
        return String::new();
    }
    format!("<h2>Statements that are new</h2>\n{}", digest_rows(now, &rows))
}

fn heaviest(_: &Period, now: &Period) -> String {
    let mut rows: Vec<(u64, Digest)> = super::compare::digests(now).into_iter().collect();
    rows.retain(|(digest, _)| *digest != 0);
    rows.sort_by_key(|(_, it)| std::cmp::Reverse(it.sums.sum_us));
    rows.truncate(20);
    format!("<h2>Statements that took most time</h2>\n{}", digest_rows(now, &rows))
}

fn servers(before: &Period, now: &Period) -> String {
    use trunkline_stats::report::{STATES, state_name};
    let mut html = "<h2>Servers</h2>\n<table><tr><th>hostgroup</th><th>server</th>\
                    <th>worst state</th><th class=\"n\">statements a second</th>\
                    <th class=\"n\">95 %</th><th class=\"n\">before</th><th class=\"n\">change</th>\
                    <th class=\"n\">failed connects</th></tr>\n"
        .to_owned();
    let mut lines: Vec<_> = now.total.servers.iter().collect();
    lines.sort_by_key(|line| (line.hostgroup, line.address.clone()));
    for line in lines {
        let known = before.total.servers.iter();
        let mut known =
            known.filter(|it| it.hostgroup == line.hostgroup && it.address == line.address);
        let was = known.next().map_or(0, |it| it.sums.latency.quantile(0.95));
        let is = line.sums.latency.quantile(0.95);
        let state = STATES.get(usize::from(line.state)).copied().map_or("", state_name);
        // Who stands by is where it is to be.
        let is_well = matches!(state, "ONLINE" | "STANDBY" | "");
        let class = if is_well { "" } else { " class=\"bad\"" };
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td{class}>{state}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td>{}<td class=\"n\">{}</td></tr>",
            line.hostgroup,
            escaped(&line.address),
            number(now.rate(line.sums.count)),
            duration(is),
            duration(was),
            change_cell(as_float(was), as_float(is), true),
            line.connect_errors
        );
    }
    html.push_str("</table>\n");
    html
}

fn refusals(before: &Period, now: &Period) -> String {
    let mut causes: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (cause, count) in &before.total.refusals {
        causes.entry(cause).or_default().0 += count;
    }
    for (cause, count) in &now.total.refusals {
        causes.entry(cause).or_default().1 += count;
    }
    if causes.is_empty() {
        return String::new();
    }
    let rows = causes.iter().map(|(cause, (was, is))| {
        format!(
            "<tr><td>{}</td><td class=\"n\">{was}</td><td class=\"n\">{is}</td></tr>\n",
            escaped(cause)
        )
    });
    let rows = rows.collect::<String>();
    format!(
        "<h2>Refusals</h2>\n<table><tr><th>cause</th><th class=\"n\">before</th>\
         <th class=\"n\">now</th></tr>\n{rows}</table>\n"
    )
}

/// What got slower, with the lines that its plots need.
///
/// # Errors
/// Those of the system.
pub fn changes(
    folder: &std::path::Path,
    before: &mut Period,
    now: &mut Period,
) -> std::io::Result<Vec<Change>> {
    let changes = slower(before, now);
    let digests: Vec<u64> = changes.iter().map(|change| change.digest).collect();
    before.read_digests(folder, &digests)?;
    now.read_digests(folder, &digests)?;
    Ok(changes)
}
