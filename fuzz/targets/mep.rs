//! Frames of a peer with a good certificate.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gslb_fuzz::mep::run(data));
