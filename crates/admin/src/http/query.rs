//! The part of an address after the question mark.

use trunkline_stats::DigestOrder;

/// Parameters by name. Values here are numbers and names of columns, so nothing is
/// percent-decoded.
#[derive(Debug)]
pub(super) struct Query<'a> {
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Query<'a> {
    /// Splits a query; a parameter that is not among `known` is an error.
    pub(super) fn parse(text: Option<&'a str>, known: &[&str]) -> Result<Self, String> {
        let parts = text.unwrap_or_default().split('&').filter(|part| !part.is_empty());
        let pairs: Vec<(&str, &str)> =
            parts.map(|part| part.split_once('=').unwrap_or((part, ""))).collect();
        match pairs.iter().find(|(name, _)| !known.contains(name)) {
            None => Ok(Self { pairs }),
            Some((name, _)) => {
                Err(format!("unknown parameter `{name}`; known: {}", known.join(", ")))
            }
        }
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// A number from 0 to `max`, or `default` where it is not given.
    pub(super) fn number(&self, name: &str, default: usize, max: usize) -> Result<usize, String> {
        let Some(value) = self.value(name) else {
            return Ok(default);
        };
        let number = value.parse().ok().filter(|number| *number <= max);
        number.ok_or_else(|| format!("`{name}={value}` is not a number from 0 to {max}"))
    }

    /// The name of a column to order by; total time where it is not given.
    pub(super) fn order(&self, name: &str) -> Result<DigestOrder, String> {
        let Some(value) = self.value(name) else {
            return Ok(DigestOrder::SumTime);
        };
        DigestOrder::from_name(value).ok_or_else(|| {
            let known = DigestOrder::ALL.map(DigestOrder::name).join(", ");
            format!("`{name}={value}` is not a column to order by; known: {known}")
        })
    }
}

/// A part of an address without its percent signs; `+` is a space.
pub(super) fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next(), rest.next()];
                let [Some(high), Some(low)] = digits.map(|digit| hex(digit?)) else {
                    return Err(format!("`{text}` has a % without two hexadecimal digits"));
                };
                high << 4 | low
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| format!("`{text}` is not UTF-8"))
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_checked_and_optional() {
        let known = ["limit", "order"];
        let query = Query::parse(Some("order=errors&&limit=7"), &known).expect("known parameters");
        assert_eq!(query.number("limit", 50, 10), Ok(7));
        assert_eq!(query.order("order"), Ok(DigestOrder::Errors));
        let query = Query::parse(None, &known).expect("no parameters");
        assert_eq!(query.number("limit", 50, 10), Ok(50));
        assert_eq!(query.order("order"), Ok(DigestOrder::SumTime));
    }

    #[test]
    fn wrong_parameters_are_named() {
        let check = |text: &str, expected: &str| {
            let known = ["limit", "order"];
            let error = Query::parse(Some(text), &known)
                .and_then(|query| query.number("limit", 1, 10).and(query.order("order")).map(drop));
            assert!(error.expect_err(text).contains(expected), "{text}");
        };
        check("limits=1", "`limits`");
        check("limit=11", "0 to 10");
        check("limit=-1", "`limit=-1`");
        check("limit", "`limit=`");
        check("order=digest", "known: sum_time, count_star");
    }
}
