//! Tokio as quinn wants it, but with a hold on the tasks quinn starts. Quinn's own runtime lets go of them, and then nobody
//! can know when the socket is closed: a connection that is being closed lingers for seconds.

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Starts quinn's tasks where [`Tasks`] can end them.
#[derive(Debug)]
pub(super) struct HeldRuntime(Tasks);

/// The tasks quinn runs for one endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    running: TaskTracker,
    given_up: CancellationToken,
}

impl HeldRuntime {
    pub(super) fn new() -> (Self, Tasks) {
        let tasks = Tasks::default();
        (HeldRuntime(tasks.clone()), tasks)
    }
}

impl Tasks {
    /// Ends them, finished or not; the socket is closed afterwards.
    pub(super) async fn end(self) {
        self.given_up.cancel();
        self.running.close();
        self.running.wait().await;
    }
}

impl Runtime for HeldRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let given_up = self.0.given_up.clone();
        self.0.running.spawn(async move {
            tokio::select! {
                () = given_up.cancelled() => (),
                () = task => (),
            }
        });
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}
