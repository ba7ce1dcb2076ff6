//! Answers to the checks of monitors.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gslb_fuzz::checks::run(data));
