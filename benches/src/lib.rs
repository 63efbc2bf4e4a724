//! Tollgate side by side with its peers: what the binaries `peers` and `memory` share.
//!
//! From the outside in: [`case`] says what is measured, [`contenders`] who takes part, [`section`]
//! how one of them is timed, [`report`] what becomes of the figures. A new contender is one file
//! in `src/contenders/` and one line in its `mod.rs`.
//!
//! This is a program that measures, not a library: whatever is not as it must be ends it.

#![allow(
    missing_debug_implementations,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]

pub mod case;
pub mod contenders;
pub mod key;
pub mod machine;
pub mod report;
pub mod section;
pub mod subject;
pub mod tail;
