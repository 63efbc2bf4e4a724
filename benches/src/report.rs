//! Figures into tables and files.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use crate::contenders::{FLOOR, GOVERNOR};
use crate::machine;

/// Stands above the tables of the timed cases.
pub const CAPTION: &str = "\
ns/op: wall-clock nanoseconds per check as each thread sees it, that is elapsed time / checks per
       thread (so with 2 threads, the limiter as a whole does twice as many); median of the rounds.
       Each check follows the last one at once, so the processor overlaps the cache misses of
       neighbouring checks where nothing in them prevents it (reading Instant does prevent it).
       With --apart nobody's are overlapped.
spread: from the fastest round to the slowest
vs governor, vs floor: ns/op divided by that of governor-dashmap and of the floor, in this table";

/// One line of `peers.json`.
#[derive(Debug, Serialize)]
pub struct Row {
    /// See [`crate::case::Case`].
    pub case: String,
    /// See [`crate::contenders`].
    #[serde(rename = "impl")]
    pub contender: &'static str,
    /// That check at the same time.
    pub threads: usize,
    /// That there are.
    pub keys: usize,
    /// See [`CAPTION`].
    pub ns_per_op: f64,
    /// None if governor did not take part.
    pub ratio_to_governor: Option<f64>,
    /// None if the floor did not take part.
    pub ratio_to_floor: Option<f64>,
    /// The fastest and the slowest round.
    #[serde(skip)]
    pub range: (f64, f64),
}

impl Row {
    /// A row whose ratios are not known yet.
    pub fn new(
        case: String,
        contender: &'static str,
        (threads, keys): (usize, usize),
        mut rounds: Vec<f64>,
    ) -> Self {
        rounds.sort_by(f64::total_cmp);
        let (fastest, slowest) = (rounds[0], rounds[rounds.len() - 1]);
        let middle = rounds.len() / 2;
        let median = if rounds.len() % 2 == 1 {
            rounds[middle]
        } else {
            rounds[middle - 1..=middle].iter().sum::<f64>() / 2.0
        };
        Self {
            case,
            contender,
            threads,
            keys,
            ns_per_op: rounded(median),
            ratio_to_governor: None,
            ratio_to_floor: None,
            range: (fastest, slowest),
        }
    }
}

/// Fills in the ratios of the rows of one table.
pub fn compare(rows: &mut [Row]) {
    let time_of = |name| rows.iter().find(|row| row.contender == name).map(|row| row.ns_per_op);
    let (governor, floor) = (time_of(GOVERNOR), time_of(FLOOR));
    for row in rows {
        row.ratio_to_governor = governor.map(|time| rounded(row.ns_per_op / time));
        row.ratio_to_floor = floor.map(|time| rounded(row.ns_per_op / time));
    }
}

/// One table: the rows are of the same case, threads and keys.
pub fn print(rows: &[Row]) {
    let Some(Row { case, threads, keys, .. }) = rows.first() else { return };
    println!("\n{case}, threads {threads}, keys {}", grouped(*keys));
    let columns = ["impl", "ns/op", "spread", "vs governor", "vs floor"];
    println!(
        "  {:<27}{:>9}{:>18}{:>13}{:>10}",
        columns[0], columns[1], columns[2], columns[3], columns[4]
    );
    for row in rows {
        let ratio =
            |ratio: Option<f64>| ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"));
        let spread = format!("{:.1} .. {:.1}", row.range.0, row.range.1);
        println!(
            "  {:<27}{:>9.1}{spread:>18}{:>13}{:>10}",
            row.contender,
            row.ns_per_op,
            ratio(row.ratio_to_governor),
            ratio(row.ratio_to_floor),
        );
    }
}

/// Writes a result file and says where it is.
pub fn write<T: Serialize>(name: &str, rows: &[T]) -> PathBuf {
    let file = machine::result_file(name);
    let text = serde_json::to_string_pretty(rows).expect("rows are plain data");
    fs::write(&file, text + "\n").expect("the target folder can be written");
    println!("\nwritten to {}", file.display());
    file
}

/// With spaces between the thousands.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let (head, tail) = digits.split_at(digits.len() % 3);
    let groups = tail.as_bytes().chunks(3).map(|chunk| String::from_utf8_lossy(chunk));
    let groups = Some(head.into()).filter(|_| !head.is_empty()).into_iter().chain(groups);
    groups.collect::<Vec<_>>().join(" ")
}

/// To three decimals: more would be noise.
fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}
