//! What it was measured on, and with which versions.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::available_parallelism;

const LOCK: &str = include_str!("../../Cargo.lock");

const CRATES: [&str; 10] = [
    "tollgate",
    "papaya",
    "governor",
    "rate-net",
    "better-bucket",
    "ratelimit",
    "leaky-bucket",
    "dashmap",
    "foldhash",
    "quanta",
];

/// The lines above the tables.
pub fn describe() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let cpu = cpu.unwrap_or_else(|| format!("unknown {} processor", std::env::consts::ARCH));
    let cores = available_parallelism().map_or(1, usize::from);
    let (date, rustc) = (ask("date", &["-u", "+%F"]), ask("rustc", &["--version"]));
    let versions: Vec<_> =
        CRATES.iter().map(|&name| format!("{name} {}", versions(name).join(" and "))).collect();
    format!("{cpu}, {cores} cores; {date}; {rustc}\n{}", versions.join(", "))
}

/// Where the results go.
pub fn result_file(name: &str) -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let folder = target.join("bench");
    fs::create_dir_all(&folder).expect("the target folder can be written");
    folder.join(name)
}

fn ask(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok();
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    if text.is_empty() { format!("{program} unknown") } else { text.trim().to_owned() }
}

/// As the lock file has them.
fn versions(name: &str) -> Vec<&'static str> {
    let packages = LOCK.split("[[package]]");
    packages
        .filter(|package| package.contains(&format!("\nname = \"{name}\"\n")))
        .filter_map(|package| package.split("version = \"").nth(1)?.split('"').next())
        .collect()
}
