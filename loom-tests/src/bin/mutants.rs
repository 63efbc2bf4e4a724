//! Breaks copies of the sources on purpose, one way at a time, and requires that a model fails.
//!
//! A model that passes on its mutant proves nothing. `scripts/loom` runs this after the models;
//! alone: `cargo run --release -p tollgate-loom --bin mutants [NAME]`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// One way to break the sources, and the model that must notice.
struct Mutant {
    name: &'static str,
    /// What is wrong with it.
    fault: &'static str,
    model: &'static str,
    /// File, what stands there exactly once, what is put in its place.
    edits: &'static [(&'static str, &'static str, &'static str)],
}

const CELL: &str = "src/cell.rs";
const TABLE: &str = "src/table.rs";
const SLOTS: &str = "src/slots.rs";
const ARITHMETIC: &str = "src/arithmetic.rs";
const MAP: &str = "loom-tests/src/key_map.rs";

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "stale_clock",
        fault: "trap 1: the time since a later tick wraps round",
        model: "stalled_reader",
        edits: &[(
            ARITHMETIC,
            "let Some(elapsed) = now.checked_sub(level.tick) else { return level };",
            "let elapsed = now.wrapping_sub(level.tick);",
        )],
    },
    Mutant {
        name: "tick_moves_back",
        fault: "trap 1: a stale caller writes its own earlier instant",
        model: "stalled_reader",
        edits: &[(
            ARITHMETIC,
            "let Some(elapsed) = now.checked_sub(level.tick) else { return level };",
            "let Some(elapsed) = now.checked_sub(level.tick) else {
                return Level { tick: now, ..level };
            };",
        )],
    },
    Mutant {
        name: "plain_removal",
        fault: "trap 2: a full bucket is removed without the RETIRED mark",
        model: "acquire_against_retire",
        edits: &[
            (CELL, "Step::Write(State::Retired, Retire::Marked)", "Step::Keep(Retire::Marked)"),
            (
                MAP,
                "version[index].cell.is_retired().then(|| version.remove(index))",
                "Some(version.remove(index))",
            ),
        ],
    },
    Mutant {
        name: "no_floor",
        fault: "trap 3: a stale caller begins a bucket at its own instant",
        model: "stale_reader_re_creates",
        edits: &[(
            TABLE,
            "acquire(rate, price, now, || self.floor())",
            "acquire(rate, price, now, || 0)",
        )],
    },
    Mutant {
        name: "floor_read_before_the_look_up",
        fault: "trap 3: the floor is read before FRESH was seen",
        model: "stale_reader_re_creates",
        edits: &[
            (
                TABLE,
                "let pinned = self.map.pin();
        loop {",
                "let floor = self.floor();
        let pinned = self.map.pin();
        loop {",
            ),
            (
                TABLE,
                "acquire(rate, price, now, || self.floor())",
                "acquire(rate, price, now, || floor)",
            ),
        ],
    },
    Mutant {
        name: "floor_raised_after_the_mark",
        fault: "trap 3: the floor is raised when the bucket is already dead",
        model: "helper_carries_the_floor",
        edits: &[
            (
                CELL,
                "        self.update(|state| match state {
            State::Live(before) => {
                let level = rate.refill(before, now.saturating_sub(idle));
                if rate.is_full(level) {
                    raise_floor(rate.due(before, rate.capacity).unwrap_or(0).max(before.tick));",
                "        let outcome = self.update(|state| match state {
            State::Live(before) => {
                let level = rate.refill(before, now.saturating_sub(idle));
                if rate.is_full(level) {",
            ),
            (
                CELL,
                "            State::Fresh => Step::Keep(Retire::Fresh),
            State::Retired => Step::Keep(Retire::Already),
        })",
                "            State::Fresh => Step::Keep(Retire::Fresh),
            State::Retired => Step::Keep(Retire::Already),
        });
        if outcome == Retire::Marked {
            raise_floor(now);
        }
        outcome",
            ),
        ],
    },
    Mutant {
        name: "floor_at_the_last_spending",
        fault: "trap 3: the next bucket may begin when the last one was not full yet",
        model: "stale_reader_re_creates",
        edits: &[(
            CELL,
            "raise_floor(rate.due(before, rate.capacity).unwrap_or(0).max(before.tick));",
            "raise_floor(before.tick);",
        )],
    },
    Mutant {
        name: "two_steps",
        fault: "trap 4: the interval is claimed in one exchange, its tokens are added in another",
        model: "refill_is_counted_once",
        edits: &[(
            CELL,
            "        self.update(|state| {
            let (before, is_new)",
            "        let gained = self.update(|state| match state {
            State::Live(level) => {
                let after = rate.refill(level, now);
                let claimed = Level { credits: level.credits, tick: after.tick };
                Step::Write(State::Live(claimed), after.credits - level.credits)
            }
            _ => Step::Keep(0),
        });
        self.update(|state| match state {
            State::Live(level) => {
                let credits = (level.credits + gained).min(rate.capacity);
                Step::Write(State::Live(Level { credits, ..level }), ())
            }
            _ => Step::Keep(()),
        });
        self.update(|state| {
            let (before, is_new)",
        )],
    },
    Mutant {
        name: "dropped_remainder",
        fault: "trap 5: whole tokens only, and the tick moves to now all the same",
        model: "pollers_lose_nothing",
        edits: &[(
            ARITHMETIC,
            "let credits =
            units.saturating_mul(self.per_unit).saturating_add(level.credits).min(self.capacity);",
            "let gained = units.saturating_mul(self.per_unit) / self.per_token * self.per_token;
        let credits = gained.saturating_add(level.credits).min(self.capacity);",
        )],
    },
    Mutant {
        name: "truncated_interval",
        fault: "trap 6: whole nanoseconds for each token",
        model: "pollers_lose_nothing",
        edits: &[(
            "src/rate.rs",
            "Fraction { num: u128::from(tokens), den: u128::from(period) }",
            "Fraction { num: 1, den: u128::from(period / tokens) }",
        )],
    },
    Mutant {
        name: "blind_store",
        fault: "the state is stored, not exchanged",
        model: "acquire_against_acquire",
        edits: &[(
            CELL,
            "match self.word.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Acquire)",
            "self.word.store(next, Ordering::Release);
            match Ok::<u128, u128>(seen)",
        )],
    },
    Mutant {
        name: "failed_exchange_ignored",
        fault: "a lost exchange is taken for a won one",
        model: "acquire_against_acquire",
        edits: &[(CELL, "Err(newer) => seen = newer,", "Err(_) => return outcome,")],
    },
    Mutant {
        name: "no_clamp",
        fault: "G3: refill above the capacity",
        model: "refill_is_counted_once",
        edits: &[(
            ARITHMETIC,
            ".saturating_add(level.credits).min(self.capacity);",
            ".saturating_add(level.credits);",
        )],
    },
    Mutant {
        name: "refund_without_clamp",
        fault: "G3: a refund above the capacity",
        model: "refund_against_acquire",
        edits: &[(
            ARITHMETIC,
            "let credits = level.credits.saturating_add(price).min(self.capacity);
        // Once more, for the rule about a bucket that is about to be full.
        self.refill(Level { credits, ..level }, now)",
            "Level { credits: level.credits + price, ..level }",
        )],
    },
    Mutant {
        name: "empty_start_never_counts",
        fault: "a bucket that starts empty is left FRESH by its first denial",
        model: "empty_start",
        edits: &[(
            CELL,
            "if is_new { Step::Write(State::Live(before), denied) } else { Step::Keep(denied) }",
            "{ let _ = is_new; Step::Keep(denied) }",
        )],
    },
    Mutant {
        name: "load_relaxed",
        fault: "RETIRED is seen without what came before it",
        model: "helper_carries_the_floor",
        edits: &[
            (CELL, "self.word.load(Ordering::Acquire)", "self.word.load(Ordering::Relaxed)"),
            (
                CELL,
                "compare_exchange_weak(seen, next, Ordering::Release, Ordering::Acquire)",
                "compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed)",
            ),
        ],
    },
    Mutant {
        name: "exchange_relaxed",
        fault: "RETIRED is set without what came before it",
        model: "helper_carries_the_floor",
        edits: &[(
            CELL,
            "compare_exchange_weak(seen, next, Ordering::Release, Ordering::Acquire)",
            "compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Acquire)",
        )],
    },
    Mutant {
        name: "any_entry_removed",
        fault: "the bucket at this slot is removed although it is not the retired one",
        model: "acquire_against_retire",
        edits: &[(
            MAP,
            "version[index].cell.is_retired().then(|| version.remove(index))",
            "Some(version.remove(index))",
        )],
    },
    Mutant {
        name: "slot_freed_twice",
        fault: "whoever meets a retired bucket frees its slot",
        model: "sweep_against_sweep",
        edits: &[(
            TABLE,
            "if pinned.remove_retired(found.slot(), found.tag()) {
            self.slots.free(found.slot());
        }",
            "pinned.remove_retired(found.slot(), found.tag());
        self.slots.free(found.slot());",
        )],
    },
    Mutant {
        name: "slot_freed_too_early",
        fault: "the slot is free while its bucket is still in the map",
        model: "slot_changes_hands",
        edits: &[(
            TABLE,
            "if pinned.remove_retired(found.slot(), found.tag()) {
            self.slots.free(found.slot());
        }",
            "self.slots.free(found.slot());
        if !pinned.remove_retired(found.slot(), found.tag()) {
            self.slots.claim(found.tag()).map(|claim| claim.hand_over());
        }",
        )],
    },
    Mutant {
        name: "slot_lost",
        fault: "who loses the race to insert keeps the slot",
        model: "insert_against_insert",
        edits: &[(
            TABLE,
            "if pinned.insert(K::from(key.to_owned()), tag, claim.slot()) {
            claim.hand_over();
        }",
            "pinned.insert(K::from(key.to_owned()), tag, claim.slot());
        claim.hand_over();",
        )],
    },
    Mutant {
        name: "bound_checked_then_raised",
        fault: "G8: two threads both find room for one",
        model: "overflow_at_the_bound",
        edits: &[(
            SLOTS,
            "self.grown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_max).ok()?;",
            "below_max(self.grown.load(Ordering::Relaxed))?;
        self.grown.fetch_add(1, Ordering::Relaxed);",
        )],
    },
    Mutant {
        name: "stack_without_a_count",
        fault: "the free stack mistakes a new top for the one it saw",
        model: "claim_against_free",
        edits: &[
            (
                SLOTS,
                "link: slot.0 + 1, changes: top.changes + 1",
                "link: slot.0 + 1, changes: top.changes",
            ),
            (
                SLOTS,
                "link: link & !IN_USE, changes: top.changes + 1",
                "link: link & !IN_USE, changes: top.changes",
            ),
        ],
    },
    Mutant {
        name: "stack_pushed_relaxed",
        fault: "a popped slot is read without its link",
        model: "claim_against_free",
        edits: &[(
            SLOTS,
            "compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed)",
            "compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed)",
        )],
    },
    Mutant {
        name: "forget_without_the_mark",
        fault: "a bucket is forgotten by removal alone",
        model: "forget_at_the_bound",
        edits: &[(
            TABLE,
            "found.cell().retire(|tick| self.raise_floor(tick));
            if pinned.remove_retired(found.slot(), found.tag()) {",
            "{",
        )],
    },
    Mutant {
        name: "shared_bucket_for_all",
        fault: "new keys at the bound are admitted from no bucket",
        model: "share_at_the_bound",
        edits: &[(
            TABLE,
            "let acquire = cell.acquire(rate, price, now, || 0);",
            "let acquire = StateCell::fresh().acquire(rate, price, now, || 0);
                let _ = cell;",
        )],
    },
];

fn main() -> ExitCode {
    let only = std::env::args().nth(1);
    let chosen =
        MUTANTS.iter().filter(|mutant| only.as_ref().is_none_or(|name| name == mutant.name));
    let (mut caught, mut failures) = (0, Vec::new());
    for mutant in chosen {
        match try_mutant(mutant) {
            Ok(how) => {
                caught += 1;
                println!(
                    "mutant {}: caught by {} ({}): {how}",
                    mutant.name, mutant.model, mutant.fault
                );
            }
            Err(problem) => {
                println!("mutant {}: NOT CAUGHT ({}): {problem}", mutant.name, mutant.fault);
                failures.push(mutant.name);
            }
        }
    }
    println!("{caught} mutants caught, {} not: {failures:?}", failures.len());
    if failures.is_empty() && caught > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How the mutant was caught, or why that cannot be said.
fn try_mutant(mutant: &Mutant) -> Result<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no parent folder")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let work = target.join("mutants");
    let copy = work.join("copy");
    if copy.exists() {
        fs::remove_dir_all(&copy).map_err(|error| error.to_string())?;
    }
    for folder in ["src", "loom-tests"] {
        copy_folder(&root.join(folder), &copy.join(folder)).map_err(|error| error.to_string())?;
    }
    fs::copy(root.join("Cargo.lock"), copy.join("loom-tests/Cargo.lock"))
        .map_err(|error| error.to_string())?;
    let manifest = copy.join("loom-tests/Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(|error| error.to_string())?;
    fs::write(&manifest, text + "\n[workspace]\n").map_err(|error| error.to_string())?;
    for (file, find, replace) in mutant.edits {
        let path = copy.join(file);
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let count = text.matches(find).count();
        if count != 1 {
            return Err(format!(
                "`{find}` stands {count} times in {file}, not once: mend the mutant"
            ));
        }
        fs::write(&path, text.replacen(find, replace, 1)).map_err(|error| error.to_string())?;
    }
    let cargo = |arguments: &[&str]| {
        Command::new(env!("CARGO"))
            .current_dir(copy.join("loom-tests"))
            .env("CARGO_TARGET_DIR", work.join("target"))
            .env("RUST_BACKTRACE", "0")
            .args(arguments)
            .output()
            .map_err(|error| error.to_string())
    };
    let built = cargo(&["test", "--release", "--quiet", "--lib", "--no-run"])?;
    if !built.status.success() {
        return Err(format!("it does not compile:\n{}", String::from_utf8_lossy(&built.stderr)));
    }
    let run = cargo(&["test", "--release", "--quiet", "--lib", mutant.model])?;
    if run.status.success() {
        return Err(format!("{} passes", mutant.model));
    }
    let output = String::from_utf8_lossy(&run.stdout).into_owned();
    // The first line of the panic's message, which is after the line that says where.
    let message = output.lines().skip_while(|line| !line.contains("panicked at")).nth(1);
    message
        .map(|line| line.trim().to_owned())
        .ok_or(format!("it failed without a panic:\n{output}"))
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&source, &target)?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}
