//! What an LB virtual server does by the clock: ends of drains and sessions, old connections, changed certificates.

use crate::tls::CertificateError;
use crate::vserver::Vserver;
use futures_util::future::OptionFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinHandle};

/// Between two looks at connections that wait for reuse.
const SWEEP: Duration = Duration::from_secs(1);

/// Between two looks at the certificates' files.
const LOOK: u32 = 10;

/// Keeps one virtual server in order until it goes.
pub(crate) async fn keep(vserver: Arc<Vserver>) {
    let (mut sweeps, mut reading) = (0u32, None);
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
                if sweeps.is_multiple_of(LOOK) && reading.is_none() {
                    reading = Some(read_certificates(&vserver));
                }
            }
            Some(read) = OptionFuture::from(reading.as_mut()) => {
                reading = None;
                tell(&vserver, read);
            }
        }
    }
}

/// What reading the certificates came to: whether they are others.
type Read = Result<bool, CertificateError>;

/// Files are read on a thread of their own: a file system that hangs must not stop the sweeps, nor the end.
fn read_certificates(vserver: &Arc<Vserver>) -> JoinHandle<Read> {
    let vserver = vserver.clone();
    tokio::task::spawn_blocking(move || vserver.reload_tls())
}

fn tell(vserver: &Vserver, read: Result<Read, JoinError>) {
    let name = &vserver.settings().name;
    match read {
        Ok(Ok(true)) => tracing::info!(vserver = %name, "certificates read again"),
        Ok(Ok(false)) | Err(_) => (),
        Ok(Err(error)) => {
            tracing::warn!(vserver = %name, reason = %error, "certificates can't be used; the old ones stay");
        }
    }
}
