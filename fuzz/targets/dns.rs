//! DNS requests, over every transport.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gslb_fuzz::dns::run(data));
