//! Any bytes, read as text.

#![no_main]

#[path = "check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::survives(&String::from_utf8_lossy(bytes)));
