//! What a program prints, and how two of its runs differ.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The result of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub step: String,
    pub result: Value,
}

/// A step whose results are not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub step: String,
    pub direct: String,
    pub through: String,
}

/// The lines of a program's output; what is not JSON (warnings of interpreters) is passed over.
pub fn lines(output: &str) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for text in output.lines().filter(|line| line.starts_with("{\"step\"")) {
        let mut value: Value =
            serde_json::from_str(text).with_context(|| format!("not JSON: {text}"))?;
        let step = value.get("step").and_then(Value::as_str).context("a line without step")?;
        let step = step.to_owned();
        mask(&mut value);
        let result = value.get_mut("result").map(Value::take).unwrap_or_default();
        lines.push(Line { step, result });
    }
    Ok(lines)
}

/// Blots out the numbers of connections that MariaDB's Java driver puts into messages.
fn mask(value: &mut Value) {
    match value {
        Value::String(text) => {
            let mut parts = text.split("(conn=");
            let mut masked = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
                masked.push_str("(conn=N");
                masked.push_str(rest);
            }
            *text = masked;
        }
        Value::Array(list) => list.iter_mut().for_each(mask),
        Value::Object(map) => map.values_mut().for_each(mask),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Fails when most steps of a direct run are errors: two runs that never connect are equal too.
pub fn check_meaningful(direct: &[Line]) -> Result<()> {
    let is_error = |result: &Value| result.get("error").or(result.get("failure")).is_some();
    let errors: Vec<&Line> = direct.iter().filter(|line| is_error(&line.result)).collect();
    let first = direct.first().context("no line at all")?;
    ensure!(!is_error(&first.result), "the driver can't work here: {}", first.result);
    ensure!(
        errors.len() * 4 < direct.len(),
        "{} of {} steps fail on the server itself, the last with {}",
        errors.len(),
        direct.len(),
        errors.last().map(|line| line.result.to_string()).unwrap_or_default()
    );
    Ok(())
}

/// All steps that differ, in the order of the direct run; a step that only one of them has does.
pub fn differences(direct: &[Line], through: &[Line]) -> Vec<Difference> {
    let mut differences = Vec::new();
    let find = |lines: &[Line], step: &str| {
        lines.iter().find(|line| line.step == step).map(|line| line.result.clone())
    };
    let only_through = through.iter().filter(|line| find(direct, &line.step).is_none());
    for Line { step, .. } in direct.iter().chain(only_through) {
        let (expected, found) = (find(direct, step), find(through, step));
        if expected != found {
            let not_reached = || Value::from("(not reached)");
            let mut difference =
                Difference { step: step.clone(), direct: String::new(), through: String::new() };
            difference.add(
                "",
                &expected.unwrap_or_else(not_reached),
                &found.unwrap_or_else(not_reached),
            );
            differences.push(difference);
        }
    }
    differences
}

impl Difference {
    /// Adds the parts in which two values differ, each with its place in the whole.
    fn add(&mut self, place: &str, direct: &Value, through: &Value) {
        match (direct, through) {
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                for (index, (a, b)) in a.iter().zip(b).enumerate() {
                    self.add(&format!("{place}[{index}]"), a, b);
                }
            }
            (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
                for ((key, a), (_, b)) in a.iter().zip(b) {
                    self.add(&format!("{place}.{key}"), a, b);
                }
            }
            _ if direct == through => {}
            _ => {
                for (text, value) in [(&mut self.direct, direct), (&mut self.through, through)] {
                    text.push_str(&format!("{place} {value}  "));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_missing_and_additional_steps_differ() -> Result<()> {
        let direct = lines("{\"step\":\"a\",\"result\":1}\nnoise\n{\"step\":\"b\",\"result\":2}")?;
        let through = lines("{\"step\":\"a\",\"result\":3}\n{\"step\":\"c\",\"result\":2}")?;
        let steps: Vec<String> =
            differences(&direct, &through).into_iter().map(|one| one.step).collect();
        assert_eq!(steps, ["a", "b", "c"]);
        assert!(differences(&direct, &direct).is_empty());
        Ok(())
    }
}
