//! What a connection to a service and whoever drives it tell each other.

use crate::dial::SEGMENT;
use futures_util::task::AtomicWaker;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use tokio::net::TcpStream;

/// Shared by the stream, which hyper owns, and its driver.
///
/// Both are polled by one task at a time, so the atomics are plain numbers with another name: loads and stores, no read-modify-
/// write. Only `cut` comes from elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes: AtomicU64,
    segments: AtomicU64,
    binding: AtomicU8,
    /// How the request's body stands; [`Waiting`] as a number.
    upload: AtomicU8,
    cut: AtomicBool,
    driver: AtomicWaker,
    /// Who writes to the client, and waits for that alone.
    writer: AtomicWaker,
    replacement: Mutex<Option<TcpStream>>,
}

/// How far the request that was given to the connection is bound to its socket.
///
/// ```text
///            request given              first byte written
///   Settled --------------> Unbound ------------------------> Settled
///                            |   ^
///       closed, or it spoke  v   | another socket
///                            Stale
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Binding {
    /// No request waits for its first byte to go out.
    Settled = 0,
    /// No byte of the request is written yet.
    Unbound = 1,
    /// The socket turned out to be dead before any byte of the request was written: it may be given another.
    Stale = 2,
}

/// Whom the request's body waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Waiting {
    /// It is through, or there is none.
    Nobody = 0,
    /// The service takes no more at this moment, or has not said that it will.
    Service = 1,
    /// The client has sent no more.
    Client = 2,
    /// Nobody any more: it broke off, or is no body at all.
    Broken = 3,
}

impl Meter {
    /// Bytes both ways, since the connection is there.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Packets both ways, estimated as full segments: each read or write is taken for as few as its bytes fit in. Pure
    /// acknowledgements are not counted, since the kernel's own count (TCP_INFO) can't be read without unsafe code.
    pub(crate) fn segments(&self) -> u64 {
        self.segments.load(Relaxed)
    }

    pub(crate) fn count(&self, bytes: usize) {
        let bytes = bytes as u64;
        self.bytes.store(self.bytes() + bytes, Relaxed);
        self.segments.store(self.segments() + bytes.div_ceil(SEGMENT), Relaxed);
    }

    pub(crate) fn binding(&self) -> Binding {
        match self.binding.load(Relaxed) {
            1 => Binding::Unbound,
            2 => Binding::Stale,
            _ => Binding::Settled,
        }
    }

    pub(crate) fn bind(&self, binding: Binding) {
        self.binding.store(binding as u8, Relaxed);
    }

    pub(crate) fn upload(&self) -> Waiting {
        match self.upload.load(Relaxed) {
            1 => Waiting::Service,
            2 => Waiting::Client,
            3 => Waiting::Broken,
            _ => Waiting::Nobody,
        }
    }

    pub(crate) fn set_upload(&self, upload: Waiting) {
        self.upload.store(upload as u8, Relaxed);
    }

    /// Gives the stream another socket; it takes it with its next poll. The request is unbound again.
    pub(crate) fn replace(&self, socket: TcpStream) {
        *self.replacement.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
        self.bind(Binding::Unbound);
    }

    pub(crate) fn take_replacement(&self) -> Option<TcpStream> {
        self.replacement.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends what runs on the connection, from any task.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Relaxed);
        self.driver.wake();
        self.writer.wake();
    }

    /// The connection leads elsewhere now, where nothing is cut.
    pub(crate) fn uncut(&self) {
        self.cut.store(false, Relaxed);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }

    /// The same, and from here on [`Meter::cut`] wakes this task as well as the driver.
    pub(crate) fn is_cut_for(&self, writer: &std::task::Waker) -> bool {
        self.writer.register(writer);
        self.is_cut()
    }

    /// Whom [`Meter::cut`] wakes.
    pub(crate) fn driven_by(&self, waker: &std::task::Waker) {
        self.driver.register(waker);
    }
}
