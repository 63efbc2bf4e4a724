//! A quota in configuration files: as a text or as a struct, checked like any other.

use core::fmt;
use core::time::Duration;

use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};

use crate::quota::Quota;
use crate::quota_text::parse_period;

const FIELDS: &[&str] = &["tokens", "period", "burst", "initial"];

/// As its text (`"5/min burst 10"`) in formats for people; in binary ones as the struct of tokens,
/// period in nanoseconds (None for an allotment), burst and initial.
impl Serialize for Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.collect_str(self);
        }
        let nanos = |period: Duration| u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let period = self.period().map(nanos);
        let tokens = if period.is_some() { self.tokens() } else { self.capacity() };
        let mut quota = serializer.serialize_struct("Quota", FIELDS.len())?;
        quota.serialize_field("tokens", &tokens)?;
        quota.serialize_field("period", &period)?;
        quota.serialize_field("burst", &self.capacity())?;
        quota.serialize_field("initial", &self.initial_tokens())?;
        quota.end()
    }
}

/// From its text, or from a struct: `{ tokens = 100, period = "1s", burst = 250, initial = 0 }`.
/// `period` is a text with a unit or a number of nanoseconds; `burst` and `initial` may be
/// missing. Without a `period` it is an allotment of `tokens`.
impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(QuotaVisitor { is_for_people: true })
        } else {
            deserializer.deserialize_struct("Quota", FIELDS, QuotaVisitor { is_for_people: false })
        }
    }
}

struct QuotaVisitor {
    is_for_people: bool,
}

impl<'de> Visitor<'de> for QuotaVisitor {
    type Value = Quota;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a quota: a text such as \"5/min burst 10\" or a struct of tokens, period, burst, initial",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quota, E> {
        text.parse().map_err(|error| E::custom(format_args!("in the quota {text:?}: {error}")))
    }

    /// Only binary formats write it so.
    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<Quota, A::Error> {
        let missing = |index| de::Error::invalid_length(index, &self);
        let tokens = fields.next_element()?.ok_or_else(|| missing(0))?;
        let period = fields.next_element::<Option<Period>>()?.ok_or_else(|| missing(1))?;
        let burst = fields.next_element()?.ok_or_else(|| missing(2))?;
        let initial = fields.next_element()?.ok_or_else(|| missing(3))?;
        assemble(tokens, period.map(|Period(period)| period), Some(burst), Some(initial))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Quota, A::Error> {
        let (mut tokens, mut period, mut burst, mut initial) = (None, None, None, None);
        while let Some(field) = fields.next_key()? {
            match field {
                Field::Tokens => set(&mut tokens, fields.next_value()?, "tokens")?,
                Field::Period if self.is_for_people => {
                    let Period(value) = fields.next_value()?;
                    set(&mut period, value, "period")?;
                }
                Field::Period => {
                    if let Some(Period(value)) = fields.next_value()? {
                        set(&mut period, value, "period")?;
                    }
                }
                Field::Burst => set(&mut burst, fields.next_value()?, "burst")?,
                Field::Initial => set(&mut initial, fields.next_value()?, "initial")?,
            }
        }
        let tokens = tokens.ok_or_else(|| de::Error::missing_field("tokens"))?;
        assemble(tokens, period, burst, initial)
    }
}

fn set<T, E: de::Error>(field: &mut Option<T>, value: T, name: &'static str) -> Result<(), E> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

fn assemble<E: de::Error>(
    tokens: u64,
    period: Option<Duration>,
    burst: Option<u64>,
    initial: Option<u64>,
) -> Result<Quota, E> {
    if period.is_none() && burst.is_some_and(|capacity| capacity != tokens) {
        return Err(E::custom(
            "`burst` without `period`: an allotment holds its `tokens`, no more",
        ));
    }
    let quota = || {
        let mut quota = match period {
            Some(period) => Quota::new(tokens, period)?,
            None => Quota::allotment(tokens)?,
        };
        if let Some(capacity) = burst {
            quota = quota.burst(capacity)?;
        }
        if let Some(tokens) = initial {
            quota = quota.initial(tokens)?;
        }
        Ok(quota)
    };
    quota().map_err(|error: crate::QuotaError| E::custom(error))
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    Tokens,
    Period,
    Burst,
    Initial,
}

/// A text with a unit, or a number of nanoseconds.
struct Period(Duration);

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PeriodVisitor;

        impl Visitor<'_> for PeriodVisitor {
            type Value = Period;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a period: a text such as \"250ms\" or a number of nanoseconds")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Period, E> {
                parse_period(text)
                    .map(Period)
                    .map_err(|error| E::custom(format_args!("in the period {text:?}: {error}")))
            }

            // Some formats (TOML) know signed numbers only.
            fn visit_i64<E: de::Error>(self, nanos: i64) -> Result<Period, E> {
                let unsigned = u64::try_from(nanos);
                self.visit_u64(unsigned.map_err(|_| {
                    E::custom(format_args!(
                        "a period of {nanos} ns is negative, it must be from 1 ns"
                    ))
                })?)
            }

            fn visit_u64<E: de::Error>(self, nanos: u64) -> Result<Period, E> {
                Ok(Period(Duration::from_nanos(nanos)))
            }
        }

        if deserializer.is_human_readable() {
            deserializer.deserialize_any(PeriodVisitor)
        } else {
            deserializer.deserialize_u64(PeriodVisitor)
        }
    }
}
