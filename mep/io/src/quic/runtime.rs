//! Tokio as quinn wants it, but with a hold on the tasks quinn starts. Quinn's own runtime lets go of them.

use crate::tasks::Tasks;
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// Starts quinn's tasks where [`Tasks`] can end them.
#[derive(Debug)]
pub(super) struct HeldRuntime(pub(super) Tasks);

impl Runtime for HeldRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(task);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}
