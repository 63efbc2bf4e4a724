//! A quota in configuration files, and in binary formats.
#![cfg(feature = "serde")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use serde::Deserialize;
use tollgate::Quota;

#[derive(Debug, Deserialize)]
struct Config {
    quota: Quota,
}

fn from_toml(text: &str) -> Result<Quota, String> {
    toml::from_str::<Config>(text).map(|config| config.quota).map_err(|error| error.to_string())
}

#[test]
fn toml_takes_a_text_or_a_table() {
    let quota: Quota = "100/s burst 250".parse().unwrap();
    assert_eq!(from_toml("quota = '100/s burst 250'"), Ok(quota));
    assert_eq!(from_toml("[quota]\ntokens = 100\nperiod = '1s'\nburst = 250"), Ok(quota));
    // TOML's numbers are signed.
    assert_eq!(from_toml("[quota]\ntokens = 100\nperiod = 1000000000\nburst = 250"), Ok(quota));
    assert_eq!(from_toml("quota = { tokens = 7 }"), Ok(Quota::allotment(7).unwrap()));
}

#[test]
fn errors_say_what_was_wrong_and_what_would_be_right() {
    let cases = [
        (
            "quota = '5/fortnight'",
            "in the quota \"5/fortnight\": at byte 2: expected a unit of time",
        ),
        ("quota = '0/s'", "in the quota \"0/s\": the number of tokens per period is 0"),
        (
            "quota = { tokens = 5, period = '1x' }",
            "in the period \"1x\": at byte 1: expected a unit",
        ),
        ("quota = { tokens = 5, period = -1 }", "a period of -1 ns is negative"),
        ("quota = { tokens = 5, period = 0 }", "the period is 0, it must be from 1 ns"),
        ("quota = { tokens = 5, burst = 9 }", "`burst` without `period`"),
        ("quota = { period = '1s' }", "missing field `tokens`"),
        ("quota = { tokens = 5, brust = 9 }", "unknown field `brust`, expected one of"),
    ];
    for (text, message) in cases {
        let error = from_toml(text).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn binary_formats_give_back_what_they_were_given() {
    for text in ["5/min", "100/s burst 250 initial 0", "3 per 250ms", "allotment 7 initial 2"] {
        let quota: Quota = text.parse().unwrap();
        let mut bytes = Vec::new();
        ciborium::into_writer(&quota, &mut bytes).unwrap();
        let read = ciborium::from_reader::<Quota, _>(&bytes[..]).map_err(|error| error.to_string());
        assert_eq!(read, Ok(quota), "{text}");
    }
}
