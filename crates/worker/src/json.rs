//! JSON in the making, for lines and answers of a few members.

/// A text that grows by members.
#[derive(Debug, Default)]
pub(crate) struct Json {
    pub(crate) out: String,
}

impl Json {
    pub(crate) fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.out.push('{');
        members(self);
        self.out.push('}');
    }

    pub(crate) fn array<T>(&mut self, items: &[T], item: impl Fn(&mut Self, &T)) {
        self.out.push('[');
        for (at, one) in items.iter().enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            item(self, one);
        }
        self.out.push(']');
    }

    pub(crate) fn name(&mut self, name: &str) {
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        self.quoted(name);
        self.out.push(':');
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.quoted(value);
    }

    pub(crate) fn number(&mut self, name: &str, value: impl std::fmt::Display) {
        self.name(name);
        self.out.push_str(&value.to_string());
    }

    pub(crate) fn truth(&mut self, name: &str, value: bool) {
        self.number(name, value);
    }

    pub(crate) fn quoted(&mut self, value: &str) {
        self.out.push('"');
        for char in value.chars() {
            match char {
                '"' | '\\' => {
                    self.out.push('\\');
                    self.out.push(char);
                }
                char if u32::from(char) < 0x20 => {
                    self.out.push_str(&format!("\\u{:04x}", u32::from(char)));
                }
                char => self.out.push(char),
            }
        }
        self.out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_text_does_not_end_it() {
        let mut json = Json::default();
        json.object(|json| {
            json.text("a\"", "b\\\n");
            json.name("c");
            json.array(&[1, 2], |json, number| json.object(|json| json.number("n", number)));
        });
        assert_eq!(json.out, "{\"a\\\"\":\"b\\\\\\u000a\",\"c\":[{\"n\":1},{\"n\":2}]}");
    }
}
