//! Times tollgate and its peers side by side; see `scripts/bench`.

#![allow(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

use std::process::Command;

use clap::Parser;
use clap::builder::PossibleValuesParser;

use tollgate_benches::case::{Case, Kind};
use tollgate_benches::key::{self, Key};
use tollgate_benches::report::{self, Row};
use tollgate_benches::section::{self, Pace, Work};
use tollgate_benches::subject::{Contender, Scope, Setup, Subject};
use tollgate_benches::{contenders, machine, tail};

/// Times tollgate and its peers side by side.
///
/// Prints a table for each case, number of threads and number of keys, and writes
/// target/bench/peers.json. With `--case tail` or `--case memory`, tail.json and memory.json.
#[derive(Parser)]
struct Options {
    /// Fewer rounds and keys: half a minute.
    #[arg(long)]
    quick: bool,
    /// Keep the checks apart: a reading of Instant before each, whose cost is taken off, keeps the
    /// processor from working on several checks at once. Writes peers-apart.json.
    #[arg(long)]
    apart: bool,
    /// Only these cases; by default all but `tail` and `memory`.
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<Case>,
    /// Only these implementations. Without governor-dashmap or floor there is no ratio to it.
    #[arg(long = "impl", value_name = "NAME", value_parser = names())]
    impls: Vec<String>,
}

/// How much is done.
struct Plan {
    /// Timed checks of known keys per thread and round: few enough for a round to pass undisturbed.
    checks: usize,
    sizes: &'static [Size],
}

/// A number of keys, and the rounds that it gets.
struct Size {
    keys: usize,
    known_rounds: usize,
    new_rounds: usize,
}

const FULL: Plan = Plan {
    checks: 150_000,
    sizes: &[
        Size { keys: 1_000, known_rounds: 11, new_rounds: 7 },
        Size { keys: 100_000, known_rounds: 11, new_rounds: 7 },
        Size { keys: 2_000_000, known_rounds: 7, new_rounds: 3 },
    ],
};

const QUICK: Plan = Plan {
    checks: 40_000,
    sizes: &[
        Size { keys: 1_000, known_rounds: 3, new_rounds: 3 },
        Size { keys: 100_000, known_rounds: 3, new_rounds: 3 },
    ],
};

const THREADS: [usize; 2] = [1, 2];

/// New keys of a round are at least so many; if a limiter gets fewer, several limiters are filled.
const NEW_KEYS_PER_ROUND: usize = 100_000;

fn main() {
    let options = Options::parse();
    println!("{}", machine::describe());
    let cases = if options.cases.is_empty() { &Case::TIMED[..] } else { &options.cases };
    let plan = if options.quick { &QUICK } else { &FULL };
    let timed: Vec<_> = cases.iter().filter(|case| Case::TIMED.contains(case)).collect();
    if !timed.is_empty() {
        println!("{}", report::CAPTION);
        let mut rows = Vec::new();
        for case in timed {
            if case.is_str() {
                time::<String>(*case, plan, &options, &mut rows);
            } else {
                time::<u64>(*case, plan, &options, &mut rows);
            }
        }
        report::write(if options.apart { "peers-apart.json" } else { "peers.json" }, &rows);
    }
    if cases.contains(&Case::Tail) {
        tail::run(options.quick);
    }
    if cases.contains(&Case::Memory) {
        measure_memory(&options);
    }
}

fn names() -> PossibleValuesParser {
    contenders::all::<u64>().iter().map(|contender| contender.name).collect::<Vec<_>>().into()
}

fn time<K: Key>(case: Case, plan: &Plan, options: &Options, rows: &mut Vec<Row>) {
    let takes_part = |contender: &Contender<K>| {
        (case.is_hot() || contender.scope == Scope::Keyed)
            && (options.impls.is_empty() || options.impls.iter().any(|name| name == contender.name))
    };
    let pace = if options.apart { Pace::Apart } else { Pace::Dense };
    // One key takes as many rounds as the fewest keys.
    let sizes = if case.is_hot() { &plan.sizes[..1] } else { plan.sizes };
    for size in sizes {
        let keys = key::keys::<K>(if case.is_hot() { 1 } else { size.keys });
        let group = Group {
            case,
            contenders: contenders::all().into_iter().filter(takes_part).collect(),
            setup: Setup { quota: case.quota(), keys: keys.len() },
            keys,
            pace,
            pace_cost: section::own_cost(pace),
        };
        let mut tables = match case.kind() {
            Kind::Known => group.time_known(size.known_rounds, plan.checks),
            Kind::New => group.time_new(size.new_rounds),
        };
        for table in &mut tables {
            report::compare(table);
            report::print(table);
        }
        rows.extend(tables.into_iter().flatten());
    }
}

/// The contenders of a case with so many keys: one table for each number of threads.
struct Group<K> {
    case: Case,
    contenders: Vec<Contender<K>>,
    setup: Setup,
    keys: Vec<K>,
    pace: Pace,
    pace_cost: f64,
}

impl<K: Key> Group<K> {
    /// All limiters live at the same time; each round times each of them once.
    fn time_known(&self, rounds: usize, checks: usize) -> Vec<Vec<Row>> {
        let limiters: Vec<_> = self.contenders.iter().map(|of| [self.primed(of)]).collect();
        // Brings back into the caches what the others have driven out, as far as it fits.
        let warm_up = self.keys.len().clamp(10_000, 2 * checks / 3);
        let tables = THREADS.iter().map(|&threads| {
            let sequences: Vec<_> = (0..threads)
                .map(|thread| key::shuffled(&self.keys, warm_up + checks, thread))
                .collect();
            let split = sequences.iter().map(|sequence| sequence.split_at(warm_up));
            let work: Vec<_> = split.map(|(warm_up, timed)| Work { warm_up, timed }).collect();
            let admitted = if self.case.denies() { 0 } else { checks * threads };
            self.table(threads, rounds, |index| {
                self.time(index, &limiters[index], &work, checks, admitted)
            })
        });
        tables.collect()
    }

    /// Each round builds each limiter anew; the building and the dropping are not timed.
    fn time_new(&self, rounds: usize) -> Vec<Vec<Row>> {
        let count = (NEW_KEYS_PER_ROUND / self.keys.len()).max(1);
        let tables = THREADS.iter().map(|&threads| {
            // Each thread brings its own share of the keys.
            let shares = self.keys.chunks(self.keys.len().div_ceil(threads));
            let work: Vec<_> = shares.map(|timed| Work { warm_up: &[], timed }).collect();
            let checks = self.keys.len() * count;
            self.table(threads, rounds, |index| {
                let Contender { name, build, .. } = self.contenders[index];
                let limiters: Vec<_> = (0..count).map(|_| build(&self.setup)).collect();
                let time = self.time(index, &limiters, &work, checks / threads, checks);
                for limiter in &limiters {
                    self.assert_full(name, &**limiter);
                }
                time
            })
        });
        tables.collect()
    }

    /// A limiter that knows every key.
    fn primed(&self, contender: &Contender<K>) -> Box<dyn Subject<K>> {
        let limiter = (contender.build)(&self.setup);
        let admitted = limiter.prime(&self.keys);
        assert_eq!(admitted, self.keys.len(), "{}: admits each first check", contender.name);
        self.assert_full(contender.name, &*limiter);
        limiter
    }

    fn assert_full(&self, name: &str, limiter: &dyn Subject<K>) {
        if let Some(held) = limiter.keys() {
            assert_eq!(held, self.keys.len(), "{name}: holds every key");
        }
    }

    /// The nanoseconds that each of so many checks per thread took, when the case went as it must.
    fn time(
        &self,
        index: usize,
        limiters: &[Box<dyn Subject<K>>],
        work: &[Work<'_, K>],
        checks: usize,
        admitted: usize,
    ) -> f64 {
        let outcome = section::run(limiters, work, self.pace);
        let name = self.contenders[index].name;
        assert_eq!(outcome.admitted, admitted, "{name}: admitted in {}", self.case.name());
        outcome.elapsed.as_nanos() as f64 / checks as f64 - self.pace_cost
    }

    /// Calls `time` for each contender in each round; in each round another one goes first.
    fn table(&self, threads: usize, rounds: usize, time: impl Fn(usize) -> f64) -> Vec<Row> {
        let contenders = self.contenders.len();
        let mut times = vec![Vec::with_capacity(rounds); contenders];
        for round in 0..rounds {
            for turn in 0..contenders {
                let index = (round + turn) % contenders;
                times[index].push(time(index));
            }
        }
        let named = self.contenders.iter().zip(times);
        named
            .map(|(contender, times)| {
                let at = (threads, self.keys.len());
                Row::new(self.case.name(), contender.name, at, times)
            })
            .collect()
    }
}

/// In a process of its own, which counts what it allocates.
fn measure_memory(options: &Options) {
    let this = std::env::current_exe().expect("a program knows its own path");
    let mut memory = Command::new(this.with_file_name("memory"));
    memory.args(options.quick.then_some("--quick"));
    let status = memory.args(&options.impls).status().expect("it is built along with this one");
    assert!(status.success(), "memory failed: {status}");
}
