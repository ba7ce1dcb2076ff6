//! Pages of foreign load balancers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gslb_fuzz::pages::run(data));
