//! Configuration text.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gslb_fuzz::config::run(data));
