//! What an LB virtual server does by the clock: ends of drains and sessions, old connections, changed certificates.

use crate::vserver::Vserver;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at connections that wait for reuse.
const SWEEP: Duration = Duration::from_secs(1);

/// Between two looks at the certificates' files.
const LOOK: u32 = 10;

/// Keeps one virtual server in order until it goes.
pub(crate) async fn keep(vserver: Arc<Vserver>) {
    let mut sweeps = 0u32;
    let mut sweep = tokio::time::interval(SWEEP);
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let next = vserver.tick().unwrap_or(SWEEP);
        tokio::select! {
            () = vserver.gone.cancelled() => return,
            () = vserver.changed.notified() => {}
            () = tokio::time::sleep(next) => {}
            _ = sweep.tick() => {
                vserver.sweep();
                sweeps = sweeps.wrapping_add(1);
                if sweeps.is_multiple_of(LOOK) {
                    look_at_certificates(&vserver).await;
                }
            }
        }
    }
}

/// Files are read on a thread of their own: a file system that hangs must not stop the sweeps of the others.
async fn look_at_certificates(vserver: &Arc<Vserver>) {
    let (name, reading) = (vserver.settings().name.clone(), vserver.clone());
    match tokio::task::spawn_blocking(move || reading.reload_tls()).await {
        Ok(Ok(true)) => tracing::info!(vserver = %name, "certificates read again"),
        Ok(Ok(false)) | Err(_) => (),
        Ok(Err(error)) => {
            tracing::warn!(vserver = %name, reason = %error, "certificates can't be used; the old ones stay");
        }
    }
}
