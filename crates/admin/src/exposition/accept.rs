//! Which form a scrape asks for.
//!
//! Source: RFC 9110, section 12.5.1; prometheus.io, "Content negotiation".

/// A form of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Prometheus's text format.
    Text,
    /// OpenMetrics's.
    OpenMetrics,
    /// Messages of Prometheus's model: the form with native histograms.
    Protobuf,
}

impl Form {
    /// The media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }

    /// The form that an `Accept` header likes best; of several, the first one. Text when it names
    /// none that there is.
    pub fn wanted(accept: &str) -> Self {
        let mut best = (Self::Text, 0_u32);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let parameters: Vec<(String, &str)> = parts
                .filter_map(|part| part.split_once('='))
                .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim()))
                .collect();
            let value = |name: &str| {
                let found = parameters.iter().find(|(known, _)| known == name);
                found.map(|(_, value)| value.trim_matches('"'))
            };
            let is_one_of =
                |name: &str, known: &[&str]| value(name).is_none_or(|value| known.contains(&value));
            let form = match kind.as_str() {
                "application/vnd.google.protobuf"
                    if value("proto") == Some("io.prometheus.client.MetricFamily")
                        && value("encoding") == Some("delimited") =>
                {
                    Self::Protobuf
                }
                "application/openmetrics-text" if is_one_of("version", &["1.0.0", "0.0.1"]) => {
                    Self::OpenMetrics
                }
                "text/plain" | "text/*" | "*/*" => Self::Text,
                _ => continue,
            };
            let weight = value("q").map_or(1_000, thousandths);
            if weight > best.1 {
                best = (form, weight);
            }
        }
        best.0
    }
}

/// A weight between 0 and 1, in thousandths; 0 when it is none.
fn thousandths(text: &str) -> u32 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut digits = fraction.bytes().chain([b'0'; 3]).take(3);
    let thousandths = digits.try_fold(0_u32, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u32::from(digit - b'0'))
    });
    match (whole, thousandths) {
        ("1", Some(_)) => 1_000,
        ("0" | "", Some(thousandths)) => thousandths,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_form_that_there_is_is_taken() {
        let check = |accept: &str, expected: Form| {
            assert_eq!(Form::wanted(accept), expected, "{accept}");
        };
        check("", Form::Text);
        check("*/*", Form::Text);
        check("text/html, application/json", Form::Text);
        check("application/openmetrics-text; version=1.0.0; charset=utf-8", Form::OpenMetrics);
        check("application/openmetrics-text;version=2.0.0,text/plain;q=0.1", Form::Text);
        // A Prometheus server with native histograms, and one without.
        let protobuf = "application/vnd.google.protobuf;\
                        proto=io.prometheus.client.MetricFamily;encoding=delimited";
        check(
            &format!(
                "{protobuf};q=0.6,application/openmetrics-text;version=1.0.0;\
                 escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
            ),
            Form::Protobuf,
        );
        check(
            "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5",
            Form::OpenMetrics,
        );
        check(&format!("{protobuf};q=0,text/plain;q=0.2"), Form::Text);
        check("application/vnd.google.protobuf;encoding=text", Form::Text);
    }
}
