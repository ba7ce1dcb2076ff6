//! Master-file text.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gslb_fuzz::zone::run(data));
