//! Ctrl-C ends the measurement, and the measurement ends its servers.

use crate::Failure;
use nix::sys::signal::{SigSet, Signal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody wants it to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes SIGINT, SIGTERM and SIGHUP from now on. To be called before any other thread begins.
    pub fn watch() -> Result<Self, Failure> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        // Children don't inherit it: std starts them with an empty mask.
        signals.thread_block().map_err(|e| Failure::system("block signals")(e.into()))?;
        let interrupt = Interrupt::default();
        let flag = interrupt.0.clone();
        std::thread::spawn(move || {
            if signals.wait().is_ok() {
                flag.store(true, Ordering::Relaxed);
            }
        });
        Ok(interrupt)
    }

    /// Fails once it was asked for.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_wanted() { Err(Failure::Interrupted) } else { Ok(()) }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
