//! Reads the types of the page (`web/src/api.ts`), to compare them with what the proxy says.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A type as far as the page uses them.
#[derive(Debug, Clone, PartialEq)]
enum Type {
    Number,
    Text,
    Flag,
    Null,
    Any,
    Literal(String),
    Union(Vec<Type>),
    List(Box<Type>),
    Tuple(Vec<Type>),
    Map(Box<Type>),
    /// Fields, and whether each is needed.
    Object(Vec<(String, bool, Type)>),
    Named(String),
}

/// All types of a file by their names.
pub(super) struct Types(BTreeMap<String, Type>);

impl Types {
    /// Reads every `export type`.
    pub(super) fn read(source: &str) -> Self {
        let words = words(source);
        let mut types = BTreeMap::new();
        for (at, pair) in words.windows(2).enumerate() {
            if pair == ["export", "type"] {
                let mut reader = Reader { words: &words, at: at + 2 };
                let name = reader.next();
                assert_eq!(reader.next(), "=", "{name}");
                types.insert(name, reader.union());
            }
        }
        Self(types)
    }

    /// What is wrong with a value for a type: nothing, or where and what. Fields that the page does
    /// not know are no fault.
    pub(super) fn check(&self, name: &str, value: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        self.compare(&Type::Named(name.to_owned()), value, name, &mut wrong);
        wrong
    }

    fn compare(&self, kind: &Type, value: &Value, at: &str, wrong: &mut Vec<String>) {
        let is_right = match kind {
            Type::Any => true,
            Type::Number => value.is_number(),
            Type::Text => value.is_string(),
            Type::Flag => value.is_boolean(),
            Type::Null => value.is_null(),
            Type::Literal(text) => value == text,
            Type::Named(name) => {
                let kind = self.0.get(name).unwrap_or_else(|| panic!("no type {name}"));
                return self.compare(kind, value, at, wrong);
            }
            Type::Union(kinds) => kinds.iter().any(|kind| {
                let mut of_this = Vec::new();
                self.compare(kind, value, at, &mut of_this);
                of_this.is_empty()
            }),
            Type::List(kind) => value.as_array().is_some_and(|items| {
                for (number, item) in items.iter().enumerate() {
                    self.compare(kind, item, &format!("{at}[{number}]"), wrong);
                }
                true
            }),
            Type::Tuple(kinds) => value.as_array().is_some_and(|items| {
                for (number, (kind, item)) in kinds.iter().zip(items).enumerate() {
                    self.compare(kind, item, &format!("{at}[{number}]"), wrong);
                }
                kinds.len() == items.len()
            }),
            Type::Map(kind) => value.as_object().is_some_and(|fields| {
                for (name, item) in fields {
                    self.compare(kind, item, &format!("{at}.{name}"), wrong);
                }
                true
            }),
            Type::Object(known) => value.as_object().is_some_and(|fields| {
                for (name, is_needed, kind) in known {
                    match fields.get(name) {
                        Some(item) => self.compare(kind, item, &format!("{at}.{name}"), wrong),
                        None if *is_needed => wrong.push(format!("{at} has no {name}")),
                        None => {}
                    }
                }
                true
            }),
        };
        if !is_right {
            wrong.push(format!("{at}: {value} is no {kind:?}"));
        }
    }

    /// A type as JSON Schema; objects with names are referred to.
    pub(super) fn schema(&self, name: &str) -> Value {
        self.schema_of(self.0.get(name).unwrap_or_else(|| panic!("no type {name}")))
    }

    fn schema_of(&self, kind: &Type) -> Value {
        match kind {
            Type::Number => json!({ "type": "number" }),
            Type::Text => json!({ "type": "string" }),
            Type::Flag => json!({ "type": "boolean" }),
            Type::Null => json!({ "type": "null" }),
            Type::Any => json!({}),
            Type::Literal(text) => json!({ "const": text }),
            Type::Union(kinds) => {
                let kinds = kinds.iter().map(|kind| self.schema_of(kind)["type"].clone());
                json!({ "type": kinds.collect::<Vec<_>>() })
            }
            Type::List(kind) => json!({ "type": "array", "items": self.schema_of(kind) }),
            Type::Tuple(kinds) => {
                let kinds: Vec<Value> = kinds.iter().map(|kind| self.schema_of(kind)).collect();
                json!({ "type": "array", "prefixItems": kinds })
            }
            Type::Map(kind) => {
                json!({ "type": "object", "additionalProperties": self.schema_of(kind) })
            }
            Type::Object(fields) => {
                let properties: Map<String, Value> = fields
                    .iter()
                    .map(|(name, _, kind)| (name.clone(), self.schema_of(kind)))
                    .collect();
                let needed = fields.iter().filter(|field| field.1).map(|field| &field.0);
                let needed: Vec<&String> = needed.collect();
                json!({ "type": "object", "properties": properties, "required": needed })
            }
            Type::Named(name) => match self.0.get(name) {
                Some(Type::Object(_)) => {
                    json!({ "$ref": format!("#/components/schemas/{name}") })
                }
                Some(kind) => self.schema_of(kind),
                None => panic!("no type {name}"),
            },
        }
    }
}

/// Words, texts with their quotes, and signs, without comments.
fn words(source: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let until = |end: &str| rest[1..].find(end).map_or(rest.len(), |at| 1 + at + end.len());
        let is_word = |char: char| char.is_alphanumeric() || char == '_' || char == '$';
        let (len, is_kept) = match first {
            _ if rest.starts_with("//") => (until("\n"), false),
            _ if rest.starts_with("/*") => (until("*/"), false),
            _ if first.is_whitespace() => (first.len_utf8(), false),
            '"' => (until("\""), true),
            '`' => (until("`"), true),
            _ if is_word(first) => (rest.find(|char| !is_word(char)).unwrap_or(rest.len()), true),
            _ => (first.len_utf8(), true),
        };
        let (word, after) = rest.split_at(len);
        if is_kept {
            words.push(word.to_owned());
        }
        rest = after;
    }
    words
}

struct Reader<'a> {
    words: &'a [String],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> &str {
        self.words.get(self.at).map_or("", String::as_str)
    }

    fn next(&mut self) -> String {
        self.at += 1;
        self.words[self.at - 1].clone()
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_it = self.peek() == word;
        self.at += usize::from(is_it);
        is_it
    }

    fn union(&mut self) -> Type {
        self.takes("|");
        let mut kinds = vec![self.one()];
        while self.takes("|") {
            kinds.push(self.one());
        }
        if kinds.len() == 1 { kinds.remove(0) } else { Type::Union(kinds) }
    }

    fn one(&mut self) -> Type {
        let word = self.next();
        let mut kind = match word.as_str() {
            "number" => Type::Number,
            "string" => Type::Text,
            "boolean" => Type::Flag,
            "null" => Type::Null,
            "unknown" => Type::Any,
            "(" => {
                let kind = self.union();
                assert!(self.takes(")"));
                kind
            }
            "[" => {
                let mut kinds = Vec::new();
                while !self.takes("]") {
                    kinds.push(self.union());
                    self.takes(",");
                }
                Type::Tuple(kinds)
            }
            "{" => self.object(),
            "Record" => self.record(),
            text if text.starts_with('"') => Type::Literal(text.trim_matches('"').to_owned()),
            name => Type::Named(name.to_owned()),
        };
        while self.peek() == "[" && self.words.get(self.at + 1).is_some_and(|word| word == "]") {
            self.at += 2;
            kind = Type::List(Box::new(kind));
        }
        kind
    }

    fn object(&mut self) -> Type {
        let mut fields = Vec::new();
        while !self.takes("}") {
            let name = self.next();
            let is_needed = !self.takes("?");
            assert!(self.takes(":"), "{name}");
            fields.push((name, is_needed, self.union()));
            self.takes(";");
        }
        Type::Object(fields)
    }

    fn record(&mut self) -> Type {
        assert!(self.takes("<"));
        let key = self.union();
        assert!(self.takes(","));
        let value = self.union();
        assert!(self.takes(">"));
        let literal = |key: &Type| match key {
            Type::Literal(name) => Some((name.clone(), true, value.clone())),
            _ => None,
        };
        match &key {
            Type::Union(keys) => Type::Object(keys.iter().filter_map(literal).collect()),
            _ => Type::Map(Box::new(value)),
        }
    }
}

#[test]
fn types_are_read_and_values_compared() {
    let types = Types::read(
        "/** A { comment. */ export type A = { n: number; s?: string | null; l: B[] };
         export type B = [number, boolean]; export type C = Record<\"x\" | \"y\", number>;
         export type D = Record<string, (number | null)[]>; export type E = \"a\" | \"b\";
         const other = `type ${1}`;",
    );
    for (name, value, count) in [
        ("A", json!({ "n": 1, "l": [[1, true]], "more": 1 }), 0),
        ("A", json!({ "s": 1, "l": [[1], 2] }), 4),
        ("C", json!({ "x": 1 }), 1),
        ("D", json!({ "z": [1, null] }), 0),
        ("D", json!({ "z": ["1"] }), 1),
        ("E", json!("c"), 1),
    ] {
        let wrong = types.check(name, &value);
        assert_eq!(wrong.len(), count, "{name}: {wrong:?}");
    }
}
