//! The column `attributes`: JSON, of which `cache`, `cache_age_max_ms`, `causal_reads`,
//! `flagOUTs`, `lazy_transactions`, `mirror`, `pipeline`, `protects`, `shadow`, `tenant` and
//! `trace_sample` mean something.

use std::ops::RangeInclusive;

use serde_json::Value;
use trunkline_topology::{LazyTransactions, Pipeline, Ratio, causal::CausalReads};

/// What `cache_age_max_ms` may be, ms: not less than it takes to ask the writer.
const CACHE_AGE_MS: RangeInclusive<u32> = 50..=60_000;

/// A choice of `flagOUT` by weight.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WeightedFlags {
    /// Each flag, and the sum of the weights up to and with its own.
    flags: Box<[(u32, u64)]>,
    total: u64,
}

impl WeightedFlags {
    /// Whether chance has a say.
    pub(crate) fn has_choice(&self) -> bool {
        self.flags.len() > 1
    }

    /// Every flag that may be chosen.
    pub(crate) fn flags(&self) -> impl Iterator<Item = u32> + '_ {
        self.flags.iter().map(|(flag, _)| *flag)
    }

    /// The flag that `chance`, any number, falls on.
    pub(crate) fn choose(&self, chance: u64) -> Option<u32> {
        let place = chance.checked_rem(self.total)?;
        let at = self.flags.partition_point(|(_, end)| *end <= place);
        self.flags.get(at).map(|(flag, _)| *flag)
    }
}

/// What the column says.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Attributes {
    /// `flagOUTs`.
    pub(crate) flags: Option<WeightedFlags>,
    /// `"cache": "always"`.
    pub(crate) caches_always: bool,
    /// `"cache": "until-changed"`.
    pub(crate) caches_until_changed: bool,
    /// `cache_age_max_ms`.
    pub(crate) cache_age_max_ms: Option<u32>,
    pub(crate) pipeline: Option<Pipeline>,
    pub(crate) lazy_transactions: Option<LazyTransactions>,
    pub(crate) causal_reads: Option<CausalReads>,
    pub(crate) is_shadow: Option<bool>,
    /// On whose account its statements run, where rules say so.
    pub(crate) tenant: Option<Box<str>>,
    /// Whether the rule counts as matching where that can't be decided.
    pub(crate) protects: Option<bool>,
    /// `trace_sample`.
    pub(crate) trace_sample: Option<Ratio>,
    /// `"mirror": "compare"`.
    pub(crate) compares_mirror: bool,
}

/// Reads the column. The error says what is wrong.
pub(crate) fn read(text: &str) -> Result<Attributes, String> {
    if text.is_empty() {
        return Ok(Attributes::default());
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("`{text}` is not JSON: {error}"))?;
    let Value::Object(members) = value else {
        return Err(format!("`{text}` is not a JSON object"));
    };
    let word = |name: &str, wanted: &str| match members.get(name) {
        None => Ok(false),
        Some(Value::String(word)) if word == wanted => Ok(true),
        Some(other) => Err(format!("`{name}` must be \"{wanted}\", not {other}")),
    };
    let (caches_always, caches_until_changed) = match members.get("cache") {
        None => (false, false),
        Some(Value::String(word)) if word == "always" => (true, false),
        Some(Value::String(word)) if word == "until-changed" => (false, true),
        Some(other) => {
            return Err(format!("`cache` must be \"always\" or \"until-changed\", not {other}"));
        }
    };
    let cache_age_max_ms = members.get("cache_age_max_ms").map(age).transpose()?;
    if cache_age_max_ms.is_some() && !caches_until_changed {
        return Err("`cache_age_max_ms` needs `cache` to be \"until-changed\"".to_owned());
    }
    Ok(Attributes {
        caches_always,
        caches_until_changed,
        cache_age_max_ms,
        compares_mirror: word("mirror", "compare")?,
        flags: members.get("flagOUTs").map(weighted_flags).transpose()?,
        pipeline: members.get("pipeline").map(pipeline).transpose()?,
        lazy_transactions: members.get("lazy_transactions").map(lazy).transpose()?,
        causal_reads: members.get("causal_reads").map(causal).transpose()?,
        trace_sample: members.get("trace_sample").map(ratio).transpose()?,
        is_shadow: members.get("shadow").map(|value| switch("shadow", value)).transpose()?,
        tenant: members.get("tenant").map(tenant).transpose()?,
        protects: members.get("protects").map(|value| switch("protects", value)).transpose()?,
    })
}

fn tenant(value: &Value) -> Result<Box<str>, String> {
    let label = value.as_str().filter(|label| !label.is_empty());
    label.map(Box::from).ok_or_else(|| format!("`tenant` must be a name, not {value}"))
}

fn age(value: &Value) -> Result<u32, String> {
    let ms = value.as_u64().and_then(|ms| u32::try_from(ms).ok());
    ms.filter(|ms| CACHE_AGE_MS.contains(ms)).ok_or_else(|| {
        let (min, max) = CACHE_AGE_MS.into_inner();
        format!("`cache_age_max_ms` must be {min} to {max}, not {value}")
    })
}

fn pipeline(value: &Value) -> Result<Pipeline, String> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse().map_err(|error| format!("`pipeline` {error}"))
}

fn lazy(value: &Value) -> Result<LazyTransactions, String> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse().map_err(|error| format!("`lazy_transactions` {error}"))
}

fn causal(value: &Value) -> Result<CausalReads, String> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse().map_err(|error| format!("`causal_reads` {error}"))
}

fn ratio(value: &Value) -> Result<Ratio, String> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse().map_err(|error| format!("`trace_sample` {error}"))
}

fn switch(name: &str, value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        other => Err(format!("`{name}` must be true or false, not {other}")),
    }
}

fn weighted_flags(flags: &Value) -> Result<WeightedFlags, String> {
    let flags = flags.as_array().filter(|flags| !flags.is_empty());
    let flags = flags.ok_or("`flagOUTs` is not a list of flags")?;
    let mut total = 0_u64;
    let mut sums = Vec::with_capacity(flags.len());
    for flag in flags {
        let number = |name| {
            let number = flag.get(name).and_then(Value::as_u64);
            let small = number.and_then(|number| u32::try_from(number).ok());
            small.ok_or_else(|| format!("`{name}` of {flag} in `flagOUTs` is not a number"))
        };
        total = total.saturating_add(number("weight")?.into());
        sums.push((number("id")?, total));
    }
    if total == 0 {
        return Err("the weights of `flagOUTs` are all 0".to_owned());
    }
    Ok(WeightedFlags { flags: sums.into(), total })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_chosen_by_their_weights() {
        let text = r#"{"flagOUTs":[{"id":7,"weight":3},{"id":8,"weight":0},{"id":9,"weight":1}]}"#;
        let flags = read(text).expect("valid").flags.expect("flags");
        let chosen: Vec<_> = (0..8).filter_map(|chance| flags.choose(chance)).collect();
        assert_eq!(chosen, [7, 7, 7, 9, 7, 7, 7, 9]);
    }

    #[test]
    fn what_is_no_choice_is_none_or_refused() {
        for text in ["", "{}", r#"{"other":[1]}"#] {
            assert_eq!(read(text), Ok(Attributes::default()), "{text}");
        }
        let always = read(r#"{"cache":"always"}"#).expect("valid");
        assert!(always.caches_always && always.flags.is_none());
        let traced = read(r#"{"trace_sample":0.5}"#).expect("valid");
        assert_eq!(traced.trace_sample.map(|it| it.to_string()).as_deref(), Some("0.5"));
        let until = read(r#"{"cache":"until-changed","cache_age_max_ms":100}"#).expect("valid");
        assert!(until.caches_until_changed && !until.caches_always);
        assert_eq!(until.cache_age_max_ms, Some(100));
        for (text, part) in [
            ("{", "is not JSON"),
            ("[]", "is not a JSON object"),
            (r#"{"cache":1}"#, "must be \"always\" or \"until-changed\", not 1"),
            (r#"{"cache":"until-changed","cache_age_max_ms":49}"#, "must be 50 to 60000, not 49"),
            (r#"{"cache_age_max_ms":100}"#, "needs `cache` to be"),
            (r#"{"flagOUTs":[]}"#, "is not a list"),
            (r#"{"flagOUTs":{"id":1}}"#, "is not a list"),
            (r#"{"flagOUTs":[{"id":1}]}"#, "`weight` of"),
            (r#"{"flagOUTs":[{"id":-1,"weight":1}]}"#, "`id` of"),
            (r#"{"flagOUTs":[{"id":1,"weight":0}]}"#, "all 0"),
            (r#"{"pipeline":"on"}"#, "`pipeline` must be auto, off or"),
            (r#"{"pipeline":0}"#, "not `0`"),
            (r#"{"lazy_transactions":true}"#, "`lazy_transactions` must be off or begin"),
            (r#"{"causal_reads":"all"}"#, "`causal_reads` must be one of off, session"),
            (r#"{"trace_sample":2}"#, "`trace_sample` must be 0 to 1, such as 0.01, not `2`"),
            (r#"{"tenant":""}"#, "`tenant` must be a name, not \"\""),
            (r#"{"shadow":1}"#, "`shadow` must be true or false, not 1"),
            (r#"{"protects":"yes"}"#, "`protects` must be true or false, not \"yes\""),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn pipeline_and_shadow_can_be_written_here() {
        let said = read(r#"{"pipeline":"off","shadow":true}"#).expect("valid");
        assert_eq!((said.pipeline, said.is_shadow), (Some(Pipeline::Off), Some(true)));
        let said = read(r#"{"pipeline":16}"#).expect("valid");
        assert_eq!(said.pipeline.map(|depth| depth.to_string()).as_deref(), Some("16"));
    }
}
