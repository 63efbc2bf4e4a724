//! tollgate's token bucket next to the other algorithms: who admits what, on fixed scripts.
//!
//! All the numbers that docs/ALGORITHMS.md gives are asserted here, most of them as the two tables
//! that it contains. The policy is 5 requests per minute unless a test says otherwise, which makes
//! one token every 12 seconds.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "helpers of tests may fail loudly, and the tables are there to be printed"
)]

#[path = "algorithms/baselines.rs"]
mod baselines;

use baselines::{Baseline, FixedWindow, Gcra, LeakyBucketQueueless, SlidingCounter, SlidingLog};
use std::{fmt::Write as _, fs};
use tollgate::{Bucket, Quota, Timestamp};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const LIMIT: u32 = 5;
const TOKEN_TIME: u64 = MINUTE / LIMIT as u64;

/// tollgate itself, behind the trait of the baselines.
struct TokenBucket(Bucket);

impl TokenBucket {
    fn new(quota: Quota) -> Self {
        Self(Bucket::new(quota))
    }

    fn per_minute(limit: u32, burst: u32) -> Self {
        Self::new(
            Quota::per_minute(limit.into())
                .and_then(|quota| quota.burst(burst.into()))
                .expect("a valid quota"),
        )
    }

    fn per_second(limit: u32, burst: u32) -> Self {
        Self::new(
            Quota::per_second(limit.into())
                .and_then(|quota| quota.burst(burst.into()))
                .expect("a valid quota"),
        )
    }
}

impl Baseline for TokenBucket {
    fn name(&self) -> &'static str {
        "token bucket"
    }

    fn allow(&mut self, now: u64) -> bool {
        self.0
            .try_acquire_at(1, Timestamp::from_nanos(now))
            .expect("a cost of 1 is always valid")
            .is_allowed()
    }

    fn state_bytes(&self) -> usize {
        // The packed word. `Bucket` also carries its quota, which here is policy like the others'.
        size_of::<u128>()
    }
}

// ---------------------------------------------------------------------------------------------
// Scripts: the times at which requests arrive, in order.

/// `count` requests at each of `steps` moments, `gap` apart.
fn arrivals(start: u64, gap: u64, steps: u64, count: usize) -> Vec<u64> {
    (0..steps).flat_map(|step| std::iter::repeat_n(start + step * gap, count)).collect()
}

/// Five requests in the last second of a window and five in the first second of the next one.
fn boundary_burst() -> Vec<u64> {
    let mut script = arrivals(59 * SECOND, 200 * MILLISECOND, 5, 1);
    script.extend(arrivals(60 * SECOND, 200 * MILLISECOND, 5, 1));
    script
}

/// Ten minutes at exactly the rate: 50 requests.
fn at_the_rate() -> Vec<u64> {
    arrivals(0, TOKEN_TIME, 50, 1)
}

/// Ten minutes at twice the rate: 100 requests.
fn at_twice_the_rate() -> Vec<u64> {
    arrivals(0, TOKEN_TIME / 2, 100, 1)
}

/// 20 requests at one instant in the middle of a window, the first ones after ten minutes.
fn idle_then_burst() -> Vec<u64> {
    arrivals(10 * MINUTE + 30 * SECOND, 0, 1, 20)
}

/// A client that ignores refusals: from the last second of a window on, ten requests in each
/// second for two minutes.
fn flood() -> Vec<u64> {
    arrivals(59 * SECOND, SECOND, 121, 10)
}

/// The times at which `limiter` admitted a request of `script`.
fn admissions(limiter: &mut dyn Baseline, script: &[u64]) -> Vec<u64> {
    script.iter().copied().filter(|&now| limiter.allow(now)).collect()
}

/// The most admissions within any `[t, t + period)`. A worst interval starts at an admission,
/// since moving it right to the next one loses nothing.
fn worst_in(period: u64, admitted: &[u64]) -> usize {
    admitted
        .iter()
        .map(|&start| {
            let within = |&&time: &&u64| time >= start && time - start < period;
            admitted.iter().filter(within).count()
        })
        .max()
        .unwrap_or(0)
}

/// Small and reproducible; nothing here depends on its quality.
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

// ---------------------------------------------------------------------------------------------
// The table.

/// What one algorithm did, and the columns of the table.
#[derive(Debug, PartialEq, Eq)]
struct Numbers {
    /// The largest state during `flood`.
    bytes: usize,
    boundary: usize,
    /// The worst interval of one period in any of the scripts.
    worst: usize,
    steady: usize,
    double: usize,
    idle: usize,
}

struct Row {
    label: &'static str,
    make: fn() -> Box<dyn Baseline>,
    expected: Numbers,
}

impl Row {
    fn measure(&self) -> Numbers {
        let run = |script: &[u64]| admissions((self.make)().as_mut(), script);
        let boundary = run(&boundary_burst());
        let steady = run(&at_the_rate());
        let double = run(&at_twice_the_rate());
        let idle = run(&idle_then_burst());

        let mut limiter = (self.make)();
        let mut bytes = limiter.state_bytes();
        let mut flooded = Vec::new();
        for now in flood() {
            if limiter.allow(now) {
                flooded.push(now);
            }
            bytes = bytes.max(limiter.state_bytes());
        }

        let worst = [&boundary, &steady, &double, &idle, &flooded]
            .into_iter()
            .map(|admitted| worst_in(MINUTE, admitted))
            .max()
            .unwrap_or(0);
        Numbers {
            bytes,
            boundary: boundary.len(),
            worst,
            steady: steady.len(),
            double: double.len(),
            idle: idle.len(),
        }
    }
}

/// The algorithms and what they must do, derived by hand.
fn rows() -> Vec<Row> {
    vec![
        Row {
            label: "fixed window",
            make: || Box::new(FixedWindow::new(LIMIT, MINUTE)),
            // A window index and a count. Both halves of the boundary burst are within their own
            // window, and so is everything of the steady stream. At twice the rate each of ten
            // windows admits its first five.
            expected: Numbers {
                bytes: 8 + 4,
                boundary: 10,
                worst: 10,
                steady: 50,
                double: 50,
                idle: 5,
            },
        },
        Row {
            label: "sliding log",
            make: || Box::new(SlidingLog::new(LIMIT, MINUTE)),
            // Five timestamps. At twice the rate 0 s to 24 s are admitted, then nothing until
            // they expire at 60 s to 84 s, and so on: five in each of ten minutes.
            expected: Numbers {
                bytes: 5 * 8,
                boundary: 5,
                worst: 5,
                steady: 50,
                double: 50,
                idle: 5,
            },
        },
        Row {
            label: "sliding counter",
            make: || Box::new(SlidingCounter::new(LIMIT, MINUTE)),
            // A window index and two counts.
            // Boundary: at 60.0 s the estimate is 5, at 60.2 s it is 5 * 59.8/60 < 5: a sixth.
            // Worst: the flood gets 5 at 59 s, then 61 s, 73 s, 85 s, 97 s and 109 s, each when
            // the weight of the five has dropped by one more: all ten within [59 s, 119 s).
            // Steady: after a window with five, the one at the boundary is refused (estimate 5)
            // and the other four pass (estimate 4); after one with four, all five pass (4.0, 4.2,
            // 4.4, 4.6, 4.8). So 5 + 4 in each of five pairs of minutes.
            // Double: 5 at first; then those at 6 s, 18 s, 30 s, 42 s, 54 s into each window pass
            // (estimate 4.5), the others meet exactly 5.
            expected: Numbers {
                bytes: 8 + 4 + 4,
                boundary: 6,
                worst: 10,
                steady: 45,
                double: 50,
                idle: 5,
            },
        },
        Row {
            label: "leaky bucket (meter, no burst)",
            make: || Box::new(LeakyBucketQueueless::new(LIMIT, MINUTE)),
            // One in 12 s: a burst is one request, a minute has five, and at twice the rate every
            // second request is early.
            expected: Numbers { bytes: 8, boundary: 1, worst: 5, steady: 50, double: 50, idle: 1 },
        },
        Row {
            label: "token bucket, burst 1",
            make: || Box::new(TokenBucket::per_minute(LIMIT, 1)),
            // The leaky meter by another name.
            expected: Numbers { bytes: 16, boundary: 1, worst: 5, steady: 50, double: 50, idle: 1 },
        },
        Row {
            label: "GCRA, burst 5",
            make: || Box::new(Gcra::new(LIMIT, MINUTE, LIMIT)),
            // As the token bucket with burst 5, which see, in one timestamp.
            expected: Numbers { bytes: 8, boundary: 5, worst: 9, steady: 50, double: 54, idle: 5 },
        },
        Row {
            label: "token bucket, burst 5",
            make: || Box::new(TokenBucket::per_minute(LIMIT, LIMIT)),
            // Boundary: five at first, and a fifteenth of a token comes back in the next 0.8 s.
            // Worst: five at 59 s, then one each at 71 s, 83 s, 95 s and 107 s; the tenth is due
            // at 119 s, exactly one minute after the first.
            // Double: 5 tokens and 594 s / 12 s = 49.5 more until the last request.
            expected: Numbers { bytes: 16, boundary: 5, worst: 9, steady: 50, double: 54, idle: 5 },
        },
        Row {
            label: "token bucket, 3 per minute, burst 3",
            make: || Box::new(TokenBucket::per_minute(3, 3)),
            // One token in 20 s. Worst: three at 59 s, then 79 s and 99 s; 119 s is outside.
            // Steady: 3 + 588/20 = 32.4. Double: 3 + 594/20 = 32.7.
            expected: Numbers { bytes: 16, boundary: 3, worst: 5, steady: 32, double: 32, idle: 3 },
        },
    ]
}

#[test]
fn every_number_is_as_derived() {
    for row in rows() {
        assert_eq!(row.measure(), row.expected, "{}", row.label);
    }
}

/// The worst minute of the table comes from a few scripts; no other script found is worse.
#[test]
fn no_random_script_has_a_worse_minute() {
    for row in rows() {
        for seed in 1..=300 {
            let mut random = XorShift(seed);
            let mut now = 0;
            let mut script = Vec::new();
            while now < 5 * MINUTE {
                let count = 1 + random.below(6);
                script.extend((0..count).map(|_| now));
                now += match random.below(3) {
                    0 => random.below(SECOND),
                    1 => random.below(MINUTE / 2),
                    _ => TOKEN_TIME,
                };
            }
            let worst = worst_in(MINUTE, &admissions((row.make)().as_mut(), &script));
            assert!(
                worst <= row.expected.worst,
                "{}: {worst} in a minute with seed {seed}",
                row.label
            );
        }
    }
}

#[test]
fn fixed_window_admits_twice_the_limit_within_two_seconds_and_the_token_bucket_does_not() {
    let script = boundary_burst();

    let fixed = admissions(&mut FixedWindow::new(LIMIT, MINUTE), &script);
    assert_eq!(fixed, script);
    assert_eq!(worst_in(2 * SECOND, &fixed), 10);

    let bucket = admissions(&mut TokenBucket::per_minute(LIMIT, LIMIT), &script);
    assert_eq!(bucket.len(), 5);
    assert!(bucket.iter().all(|&now| now < MINUTE), "the first five");
}

#[test]
fn table() {
    let mut table = String::from(
        "| 5 per minute | bytes | boundary burst, of 10 | worst minute | at the rate, of 50 \
         | at twice the rate, of 100 | burst after idling, of 20 |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows() {
        let Numbers { bytes, boundary, worst, steady, double, idle } = row.measure();
        let label = row.label;
        writeln!(
            table,
            "| {label} | {bytes} | {boundary} | {worst} | {steady} | {double} | {idle} |"
        )
        .expect("a String takes all");
    }
    assert_documented("table", &table);
}

/// Prints `expected` and compares it with the block of docs/ALGORITHMS.md that names `test`.
fn assert_documented(test: &str, expected: &str) {
    println!("{expected}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ALGORITHMS.md");
    let document = fs::read_to_string(path).expect("docs/ALGORITHMS.md is readable");
    let marker = format!("<!-- table: cargo test --test algorithms -- --nocapture {test} -->");
    let documented: String = document
        .lines()
        .skip_while(|line| *line != marker)
        .skip(1)
        .take_while(|line| *line != "<!-- end -->")
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(
        documented, expected,
        "docs/ALGORITHMS.md differs; replace the lines below {marker}"
    );
}

// ---------------------------------------------------------------------------------------------
// Equal rules, and where they part.

/// Asserts that both limiters decide alike on a long script with bursts, lulls and exact ticks.
fn assert_same_decisions(
    a: &mut dyn Baseline,
    b: &mut dyn Baseline,
    token_time: u64,
    burst: u32,
    seed: u64,
) {
    let burst = u64::from(burst);
    let mut random = XorShift(seed);
    let mut now = 0;
    let mut admitted = 0_u32;
    let mut refused = 0_u32;
    for step in 0..5_000 {
        now += match random.below(8) {
            0..=2 => 0,
            3 => token_time,
            4 => token_time - 1,
            5 | 6 => random.below(2 * token_time),
            _ => random.below(2 * token_time * burst),
        };
        let requests = match random.below(8) {
            0 => random.below(2 * burst + 1),
            _ => 1,
        };
        for _ in 0..requests {
            let decision = a.allow(now);
            assert_eq!(
                decision,
                b.allow(now),
                "step {step} at {now}: {} against {}",
                a.name(),
                b.name()
            );
            if decision {
                admitted += 1;
            } else {
                refused += 1;
            }
        }
    }
    // Agreement on all yes or all no would say little.
    assert!(admitted > 1_000 && refused > 1_000, "{admitted} and {refused}");
}

#[test]
fn gcra_decides_like_the_token_bucket() {
    for (limit, burst, seed) in [(5, 5, 1), (5, 1, 2), (60, 7, 3), (1_000, 100, 4)] {
        assert_same_decisions(
            &mut Gcra::new(limit, MINUTE, burst),
            &mut TokenBucket::per_minute(limit, burst),
            MINUTE / u64::from(limit),
            burst,
            seed,
        );
    }
    for (limit, burst, seed) in [(1, 3, 5), (100, 250, 6), (1_000_000, 10, 7)] {
        assert_same_decisions(
            &mut Gcra::new(limit, SECOND, burst),
            &mut TokenBucket::per_second(limit, burst),
            SECOND / u64::from(limit),
            burst,
            seed,
        );
    }
}

#[test]
fn leaky_meter_decides_like_the_token_bucket_with_burst_1() {
    for (limit, seed) in [(5, 1), (60, 2), (1_000, 3)] {
        assert_same_decisions(
            &mut LeakyBucketQueueless::new(limit, MINUTE),
            &mut TokenBucket::per_minute(limit, 1),
            MINUTE / u64::from(limit),
            1,
            seed,
        );
    }
}

/// Five callers read the clock one nanosecond apart and arrive in the reverse order.
#[test]
fn a_stale_reader_gets_the_last_token_from_the_bucket_but_not_from_gcra() {
    let script: Vec<u64> = (0..5).map(|late| 100 * SECOND - late).collect();

    let mut bucket = TokenBucket::per_minute(LIMIT, LIMIT);
    assert_eq!(admissions(&mut bucket, &script).len(), 5);

    let mut gcra = Gcra::new(LIMIT, MINUTE, LIMIT);
    assert_eq!(admissions(&mut gcra, &script).len(), 4);
    // The fifth token was there all along.
    assert!(gcra.allow(100 * SECOND));
}

/// The same with a clock that is set back by a whole minute after the first request.
#[test]
fn a_clock_set_back_shuts_gcra_and_leaves_the_bucket_its_tokens() {
    let mut script = vec![100 * SECOND];
    script.extend([40 * SECOND; 10]);

    let mut bucket = TokenBucket::per_minute(LIMIT, LIMIT);
    assert_eq!(admissions(&mut bucket, &script).len(), 5);

    let mut gcra = Gcra::new(LIMIT, MINUTE, LIMIT);
    assert_eq!(admissions(&mut gcra, &script).len(), 1);
}

#[test]
fn a_clock_set_back_earns_nothing() {
    for row in rows() {
        let mut limiter = (row.make)();
        // On both sides of a window boundary, so that the sliding counter has a previous window.
        let now = 100 * MINUTE;
        while limiter.allow(now - 1) {}
        while limiter.allow(now) {}
        for back in [now - 1, now - MINUTE, now - 50 * MINUTE, 0, now] {
            assert!(!limiter.allow(back), "{} at {back}", row.label);
        }
    }
}

#[test]
fn what_came_before_a_long_pause_does_not_count() {
    for row in rows() {
        let mut limiter = (row.make)();
        let mut admitted_at = |now| (0..20).map(|_| usize::from(limiter.allow(now))).sum::<usize>();
        assert_eq!(admitted_at(0), row.expected.idle, "{}", row.label);
        assert_eq!(admitted_at(10 * MINUTE), row.expected.idle, "{}", row.label);
    }
}

#[test]
fn the_ends_of_the_clock_do_not_panic() {
    for row in rows() {
        let mut limiter = (row.make)();
        let mut admitted = 0;
        for now in [0, u64::MAX, 0, u64::MAX - 1, u64::MAX] {
            for _ in 0..20 {
                admitted += u32::from(limiter.allow(now));
            }
        }
        // Two full bursts at most: one at each end.
        assert!(admitted <= 2 * LIMIT, "{}: {admitted}", row.label);
    }
}

// ---------------------------------------------------------------------------------------------
// Integer traps: the mistakes, against the exact arithmetic.

/// Mistake: the refill is whole tokens for each whole millisecond.
struct TokensPerMillisecond {
    per_second: u64,
    burst: u64,
    tokens: u64,
    millisecond: u64,
}

impl TokensPerMillisecond {
    fn allow(&mut self, now: u64) -> bool {
        let now = now / MILLISECOND;
        let refill = (now - self.millisecond) * (self.per_second / 1_000);
        self.tokens = (self.tokens + refill).min(self.burst);
        self.millisecond = now;
        let allowed = self.tokens > 0;
        self.tokens -= u64::from(allowed);
        allowed
    }
}

/// Mistake: each request counts the whole units that are due and moves the tick to now, which
/// drops the rest of a unit each time.
struct DroppedRemainder {
    limit: u64,
    period: u64,
    burst: u64,
    /// How many units make one token.
    units: u64,
    level: u64,
    tick: u64,
}

impl DroppedRemainder {
    fn new(limit: u64, period: u64, burst: u64, units: u64) -> Self {
        Self { limit, period, burst, units, level: burst * units, tick: 0 }
    }

    fn allow(&mut self, now: u64) -> bool {
        let due = (now - self.tick) * self.limit * self.units / self.period;
        self.level = (self.level + due).min(self.burst * self.units);
        self.tick = now;
        let allowed = self.level >= self.units;
        if allowed {
            self.level -= self.units;
        }
        allowed
    }
}

/// One mistake: the tokens sold beyond the initial burst, exactly and by mistake.
struct Trap {
    mistake: &'static str,
    script: &'static str,
    exact: usize,
    mistaken: usize,
}

fn sold(burst: usize, script: &[u64], mut allow: impl FnMut(u64) -> bool) -> usize {
    script.iter().filter(|&&now| allow(now)).count() - burst
}

/// 0.3 tokens in each nanosecond: 2,700 in 9,000 ns. At 3 ns a token it is 3,000, at 4 ns 2,250.
fn truncated_interval() -> [Trap; 2] {
    let script = arrivals(0, 1, 9_001, 1);
    let exact = {
        let mut bucket = TokenBucket::per_second(300_000_000, 10);
        sold(10, &script, |now| bucket.allow(now))
    };
    let with_interval = |interval| {
        let mut gcra = Gcra::with_interval(interval, 10);
        sold(10, &script, |now| gcra.allow(now))
    };
    let requests = "300,000,000/s, asked each ns for 9,000 ns";
    [
        Trap {
            mistake: "time per token rounded down, to 3 ns",
            script: requests,
            exact,
            mistaken: with_interval(3),
        },
        Trap {
            mistake: "time per token rounded up, to 4 ns",
            script: requests,
            exact,
            mistaken: with_interval(4),
        },
    ]
}

/// 1.5 tokens in each millisecond, of which the mistake sees 1.
fn truncated_rate() -> Trap {
    let script = arrivals(0, MILLISECOND, 1_001, 2);
    let mut bucket = TokenBucket::per_second(1_500, 10);
    let mut naive =
        TokensPerMillisecond { per_second: 1_500, burst: 10, tokens: 10, millisecond: 0 };
    Trap {
        mistake: "whole tokens per millisecond",
        script: "1,500/s, asked twice each ms for 1 s",
        exact: sold(10, &script, |now| bucket.allow(now)),
        mistaken: sold(10, &script, |now| naive.allow(now)),
    }
}

/// A twelfth of a token is due at each request, and twelve times nothing is nothing.
fn dropped_tokens() -> Trap {
    let script = arrivals(0, SECOND, 601, 1);
    let mut bucket = TokenBucket::per_minute(LIMIT, LIMIT);
    let mut naive = DroppedRemainder::new(LIMIT.into(), MINUTE, LIMIT.into(), 1);
    Trap {
        mistake: "whole tokens at each request, tick moved to now",
        script: "5/min, asked each second for 10 min",
        exact: sold(5, &script, |now| bucket.allow(now)),
        mistaken: sold(5, &script, |now| naive.allow(now)),
    }
}

/// 1.5 micro-tokens are due at each request, of which the mistake keeps 1: two thirds. A burst of
/// 2 leaves room above the token that is due, so that the bucket never cuts anything off.
fn dropped_micro_tokens() -> Trap {
    let script = arrivals(0, 1_500, 2_000_001, 1);
    let mut bucket = TokenBucket::per_second(1, 2);
    let mut naive = DroppedRemainder::new(1, SECOND, 2, 1_000_000);
    Trap {
        mistake: "whole micro-tokens at each request, tick moved to now",
        script: "1/s, asked each 1.5 µs for 3 s",
        exact: sold(2, &script, |now| bucket.allow(now)),
        mistaken: sold(2, &script, |now| naive.allow(now)),
    }
}

#[test]
fn three_nanoseconds_per_token_oversell_by_a_ninth() {
    let [down, up] = truncated_interval();
    assert_eq!((down.exact, down.mistaken), (2_700, 3_000));
    assert_eq!((up.exact, up.mistaken), (2_700, 2_250));
}

#[test]
fn whole_tokens_per_millisecond_run_1500_per_second_at_1000() {
    let trap = truncated_rate();
    assert_eq!((trap.exact, trap.mistaken), (1_500, 1_000));
}

#[test]
fn whole_tokens_per_request_starve_a_slow_quota() {
    let trap = dropped_tokens();
    assert_eq!((trap.exact, trap.mistaken), (50, 0));
}

#[test]
fn whole_micro_tokens_per_request_lose_a_third() {
    let trap = dropped_micro_tokens();
    assert_eq!((trap.exact, trap.mistaken), (3, 2));
}

#[test]
fn traps() {
    let mut table = String::from(
        "| mistake | quota and requests | refill due, and sold by tollgate | sold by mistake |\n\
         |---|---|--:|--:|\n",
    );
    let [down, up] = truncated_interval();
    for trap in [down, up, truncated_rate(), dropped_tokens(), dropped_micro_tokens()] {
        let Trap { mistake, script, .. } = trap;
        let exact = grouped(trap.exact);
        let mistaken = grouped(trap.mistaken);
        writeln!(table, "| {mistake} | {script} | {exact} | {mistaken} |")
            .expect("a String takes all");
    }
    assert_documented("traps", &table);
}

/// 2700 as "2,700".
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
