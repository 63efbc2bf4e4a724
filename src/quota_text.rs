//! A quota as a text: `5/min`, `100/s burst 250`, `3 per 250ms`, `allotment 1000`.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::error::QuotaError;
use crate::quota::Quota;

const EXPECTED_COUNT: &str = "a whole number that fits 64 bits, as in `5/min`, `10_000/day`, `11 per 2s` or `5/min burst 10`";
const EXPECTED_PER: &str = "`/` or `per` and a period, as in `5/min` or `3 per 250ms`";
const EXPECTED_UNIT: &str = "a unit of time: ns, us, ms, s, min, h, d or w, as in `5/min` or `3 per 250ms` \
                             (a month has no fixed length: say 30d)";
const EXPECTED_PERIOD: &str = "a period of at most 3653 days";
const EXPECTED_OPTION: &str = "`burst 10`, `initial 2` (each at most once) or the end; a period is one number and unit, as in `90min`";
const EXPECTED_INITIAL: &str = "`initial 2` (at most once) or the end";

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// For display, the largest first: nanoseconds, the unit alone, the unit after a number.
const UNITS: [(u64, &str, &str); 7] = [
    (DAY, "day", "d"),
    (HOUR, "hour", "h"),
    (MINUTE, "min", "min"),
    (SECOND, "s", "s"),
    (MILLISECOND, "ms", "ms"),
    (MICROSECOND, "us", "us"),
    (1, "ns", "ns"),
];

/// For reading: every name of a unit, in any case.
const NAMES: [(u64, &[&str]); 8] = [
    (1, &["ns", "nanosecond", "nanoseconds"]),
    (MICROSECOND, &["us", "µs", "μs", "microsecond", "microseconds"]),
    (MILLISECOND, &["ms", "millisecond", "milliseconds"]),
    (SECOND, &["s", "sec", "secs", "second", "seconds"]),
    (MINUTE, &["m", "min", "mins", "minute", "minutes"]),
    (HOUR, &["h", "hr", "hrs", "hour", "hours"]),
    (DAY, &["d", "day", "days"]),
    (WEEK, &["w", "week", "weeks"]),
];

fn nanos_of_unit(word: &str) -> Option<u64> {
    let is_word = |name: &&str| word.eq_ignore_ascii_case(name);
    NAMES.iter().find(|(_, names)| names.iter().any(is_word)).map(|&(nanos, _)| nanos)
}

/// What is left of a text, and how much of it has been read.
struct Scanner<'a> {
    rest: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    const fn error<T>(&self, expected: &'static str) -> Result<T, QuotaError> {
        Err(QuotaError::Syntax { at: self.at, expected })
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
        self.at += bytes;
    }

    fn skip_space(&mut self) {
        self.skip(self.rest.len() - self.rest.trim_start().len());
    }

    /// The longest run of characters that `belongs`, perhaps empty.
    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        self.skip_space();
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let taken = self.rest.get(..end).unwrap_or_default();
        self.skip(end);
        taken
    }

    fn word(&mut self) -> &'a str {
        self.take_while(char::is_alphabetic)
    }

    /// A whole number with optional `_` between digits; None where none stands.
    fn count(&mut self) -> Result<Option<u64>, QuotaError> {
        self.skip_space();
        let start = self.at;
        let wrong = Err(QuotaError::Syntax { at: start, expected: EXPECTED_COUNT });
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '_');
        if digits.is_empty() {
            return Ok(None);
        }
        if digits.starts_with('_') || digits.ends_with('_') {
            return wrong;
        }
        let mut number = 0_u64;
        for digit in digits.chars().filter_map(|c| c.to_digit(10)) {
            let next = number.checked_mul(10).and_then(|n| n.checked_add(u64::from(digit)));
            let Some(next) = next else { return wrong };
            number = next;
        }
        Ok(Some(number))
    }

    fn required_count(&mut self) -> Result<u64, QuotaError> {
        match self.count()? {
            Some(number) => Ok(number),
            None => self.error(EXPECTED_COUNT),
        }
    }

    fn unit(&mut self) -> Result<u64, QuotaError> {
        self.skip_space();
        let at = self.at;
        nanos_of_unit(self.word()).ok_or(QuotaError::Syntax { at, expected: EXPECTED_UNIT })
    }

    /// `250ms`, `min`, `10 s`.
    fn period(&mut self) -> Result<Duration, QuotaError> {
        self.skip_space();
        let at = self.at;
        let number = self.count()?.unwrap_or(1);
        let unit = self.unit()?;
        number
            .checked_mul(unit)
            .map(Duration::from_nanos)
            .ok_or(QuotaError::Syntax { at, expected: EXPECTED_PERIOD })
    }
}

#[cfg(feature = "serde")]
pub(crate) fn parse_period(text: &str) -> Result<Duration, QuotaError> {
    let mut scanner = Scanner { rest: text, at: 0 };
    let period = scanner.period()?;
    scanner.skip_space();
    if scanner.rest.is_empty() { Ok(period) } else { scanner.error("the end") }
}

/// Reads the forms that [`Quota`]'s own documentation lists.
///
/// # Errors
/// [`QuotaError::Syntax`] says at which byte what was expected; a text of the right form with
/// numbers out of range gives the same error as the constructor.
///
/// ```
/// # use tollgate::{Quota, QuotaError};
/// assert_eq!("5/min burst 10".parse::<Quota>()?, Quota::per_minute(5)?.burst(10)?);
/// assert_eq!("5/min burst 0".parse::<Quota>(), Err(QuotaError::ZeroCapacity));
/// let error = "5/min brust 10".parse::<Quota>().unwrap_err();
/// assert!(error.to_string().starts_with("at byte 6: expected `burst 10`, `initial 2`"));
/// # Ok::<(), QuotaError>(())
/// ```
impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let mut scanner = Scanner { rest: text, at: 0 };
        scanner.skip_space();
        let has_word = |word: &str| {
            text.trim_start()
                .get(..word.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        let is_allotment = has_word("allotment");
        let mut quota = if is_allotment {
            scanner.skip("allotment".len());
            Self::allotment(scanner.required_count()?)?
        } else {
            let tokens = scanner.required_count()?;
            scanner.skip_space();
            let at = scanner.at;
            if scanner.rest.starts_with('/') {
                scanner.skip(1);
            } else if !scanner.word().eq_ignore_ascii_case("per") {
                return Err(QuotaError::Syntax { at, expected: EXPECTED_PER });
            }
            Self::new(tokens, scanner.period()?)?
        };
        let (mut burst, mut initial) = (None, None);
        loop {
            scanner.skip_space();
            if scanner.rest.is_empty() {
                break;
            }
            let at = scanner.at;
            let word = scanner.word();
            if word.eq_ignore_ascii_case("burst") && burst.is_none() && !is_allotment {
                burst = Some(scanner.required_count()?);
            } else if word.eq_ignore_ascii_case("initial") && initial.is_none() {
                initial = Some(scanner.required_count()?);
            } else {
                let expected = if is_allotment { EXPECTED_INITIAL } else { EXPECTED_OPTION };
                return Err(QuotaError::Syntax { at, expected });
            }
        }
        if let Some(capacity) = burst {
            quota = quota.burst(capacity)?;
        }
        if let Some(tokens) = initial {
            quota = quota.initial(tokens)?;
        }
        Ok(quota)
    }
}

/// A text from which the same quota is read back.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.period() {
            None => write!(f, "allotment {}", self.capacity())?,
            Some(period) => {
                write_rate(f, self.tokens(), period.as_nanos())?;
                if self.capacity() != self.tokens() {
                    write!(f, " burst {}", self.capacity())?;
                }
            }
        }
        if self.initial_tokens() != self.capacity() {
            write!(f, " initial {}", self.initial_tokens())?;
        }
        Ok(())
    }
}

fn write_rate(f: &mut fmt::Formatter<'_>, tokens: u64, period: u128) -> fmt::Result {
    for (nanos, alone, counted) in UNITS {
        let nanos = u128::from(nanos);
        if period == nanos {
            return write!(f, "{tokens}/{alone}");
        }
        if period % nanos == 0 {
            return write!(f, "{tokens} per {}{counted}", period / nanos);
        }
    }
    Ok(())
}
