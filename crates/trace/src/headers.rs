//! Headers for the collector, which a file has: they may be secrets.

use hyper::header::{HeaderName, HeaderValue};

/// The most bytes of the file.
pub(crate) const FILE_LEN_MAX: u64 = 64 * 1_024;

/// Reads a header from each line, `name: value`; empty lines and those that begin with `#` say
/// nothing. The error names the line, and not what is in it.
pub(crate) fn read(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut headers = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = index + 1;
        let (name, value) =
            line.split_once(':').ok_or_else(|| format!("line {number} is no `name: value`"))?;
        let name: HeaderName =
            name.trim().parse().map_err(|_| format!("line {number} has no header's name"))?;
        let mut value: HeaderValue =
            value.trim().parse().map_err(|_| format!("line {number} has no header's value"))?;
        if OWN.contains(&name.as_str()) {
            return Err(format!("line {number}: `{name}` is not for this file"));
        }
        value.set_sensitive(true);
        headers.push((name, value));
    }
    Ok(headers)
}

/// What every request has.
const OWN: [&str; 6] =
    ["host", "content-type", "content-length", "transfer-encoding", "connection", "te"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_line_by_line_and_errors_hold_no_secret() {
        let read_all = read("# for the collector\nAuthorization: Bearer s3cret\n\nx-scope: a b\n");
        let headers = read_all.expect("headers");
        let shown: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(shown, ["authorization", "x-scope"]);
        assert_eq!(headers[0].1, "Bearer s3cret");
        assert!(!format!("{headers:?}").contains("s3cret"));
        for text in ["s3cret", "a b: s3cret", "a: s3cret\u{7}", "Content-Length: s3cret"] {
            let error = read(&format!("x: y\n{text}")).expect_err(text);
            assert!(error.contains("line 2") && !error.contains("s3cret"), "{error}");
        }
    }
}
