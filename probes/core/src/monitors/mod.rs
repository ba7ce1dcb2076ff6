//! x
/// x
pub struct Monitors;
