//! Who this node is towards its peers: certificate, key and the CA that peers are checked against.
//!
//! Everything TLS needs is built anew at each load and swapped in whole, so a renewed certificate, another key and another
//! CA all take effect with the next handshake, and sessions that stand are not touched (faults I-48). Carriers ask for the
//! TLS configuration of each handshake; no carrier keeps one.

mod error;
mod load;
mod prints;

pub use error::{Date, IdentityError};
pub(crate) use load::Current;

use crate::name::{GroupName, Subject};
use crate::pem::{Files, Pem};
use arc_swap::ArcSwap;
use gslb_types::NodeId;
use load::Outdated;
use prints::Prints;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use time::OffsetDateTime;

/// This node's certificate, key and CA, replaceable while the node runs.
pub struct Identity {
    group: GroupName,
    me: NodeId,
    /// Where it was loaded from, if not from memory.
    files: Option<Files>,
    current: ArcSwap<Current>,
    history: Mutex<History>,
    /// Held by who looks at the files, so that looks come one after the other. Whoever asks for the status must not wait for a
    /// file system that hangs, so `history` is never held meanwhile.
    looking: Mutex<()>,
}

/// What an operator wants to know of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdentityStatus {
    /// The certificate in force: its serial number, and from when until when it counts.
    pub subject: Subject,
    /// When it was loaded.
    pub loaded: Instant,
    /// How often another one was taken since the start.
    pub reloads: u64,
    /// Why the files as they are now can't be used, and since when that is so. What was loaded before stays in force.
    pub error: Option<(String, Instant)>,
}

impl IdentityStatus {
    /// Whole days until the certificate expires at this second since the Unix epoch; negative afterwards.
    pub fn days_left(&self, now: i64) -> i64 {
        self.subject.expires.saturating_sub(now).div_euclid(86_400)
    }
}

/// What looking at the files yields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// Nothing that was not told before.
    None,
    /// They were taken: from the next handshake on they are used.
    Renewed(Subject),
    /// They can't be used. What was loaded before stays in force.
    Refused(String),
}

/// What has become of loads.
struct History {
    /// The files as they were last looked at.
    prints: Option<Prints>,
    loaded: Instant,
    reloads: u64,
    error: Option<Failure>,
}

struct Failure {
    reason: String,
    since: Instant,
    told: bool,
}

impl Identity {
    /// Reads the files and checks them as a peer would.
    pub fn load(files: &Files, group: &GroupName, me: &NodeId) -> Result<Self, IdentityError> {
        Identity::from_files(files, group, me, Outdated::Refuse)
    }

    /// The same for a node that starts: a certificate whose time is over, or has not come, will do, since there is no other.
    /// No peer will talk to this node, but DNS is served; [`Identity::refresh`] finds the renewed one.
    pub fn load_at_start(files: &Files, group: &GroupName, me: &NodeId) -> Result<Self, IdentityError> {
        Identity::from_files(files, group, me, Outdated::Accept)
    }

    fn from_files(
        files: &Files,
        group: &GroupName,
        me: &NodeId,
        outdated: Outdated,
    ) -> Result<Self, IdentityError> {
        let prints = Prints::take(files);
        let current = Current::load(files, group, me, outdated)?;
        Ok(Identity::new(current, group, me, Some((files.clone(), prints))))
    }

    /// The same from memory, for tests and the demonstration.
    pub fn from_pem(pem: &Pem, group: &GroupName, me: &NodeId) -> Result<Self, IdentityError> {
        Ok(Identity::new(Current::from_pem(pem, group, me, Outdated::Refuse)?, group, me, None))
    }

    fn new(current: Current, group: &GroupName, me: &NodeId, files: Option<(Files, Prints)>) -> Self {
        let (files, prints) = files.unzip();
        let error =
            current.usable().err().map(|reason| Failure { reason, since: Instant::now(), told: false });
        Identity {
            group: group.clone(),
            me: me.clone(),
            files,
            current: ArcSwap::from_pointee(current),
            history: Mutex::new(History { prints, loaded: Instant::now(), reloads: 0, error }),
            looking: Mutex::new(()),
        }
    }

    /// Looks at the files, and takes them if they have changed and are good. Cheap if they have not changed. Whoever `asks`
    /// is told again what is wrong with them; otherwise it is told once, and only when it was so at two looks: files that are
    /// replaced one after the other do not fit together for a moment.
    pub fn refresh(&self, asks: bool) -> News {
        let Some(files) = &self.files else { return News::None };
        let _turn = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let prints = Prints::take(files);
        let changed = {
            let mut history = self.history();
            let changed = history.prints.as_ref() != Some(&prints);
            if !changed && history.error.is_none() && !asks {
                return News::None;
            }
            history.prints = Some(prints);
            changed
        };
        let loaded = Current::load(files, &self.group, &self.me, Outdated::Refuse);
        let mut history = self.history();
        match loaded {
            Ok(current) => {
                let news = if current.subject() == self.current.load().subject() && !changed {
                    News::None
                } else {
                    News::Renewed(current.subject().clone())
                };
                history.took();
                self.current.store(Arc::new(current));
                news
            }
            Err(error) => history.failed(error.to_string(), asks),
        }
    }

    /// Reads these files. From the next handshake on they are used; if anything is wrong with them, what was loaded before
    /// stays in force.
    pub fn reload(&self, files: &Files) -> Result<(), IdentityError> {
        self.take(Current::load(files, &self.group, &self.me, Outdated::Refuse))
    }

    /// The same from memory.
    pub fn reload_pem(&self, pem: &Pem) -> Result<(), IdentityError> {
        self.take(Current::from_pem(pem, &self.group, &self.me, Outdated::Refuse))
    }

    fn take(&self, loaded: Result<Current, IdentityError>) -> Result<(), IdentityError> {
        let mut history = self.history();
        match loaded {
            Ok(current) => {
                history.took();
                self.current.store(Arc::new(current));
                Ok(())
            }
            Err(error) => {
                history.failed(error.to_string(), true);
                Err(error)
            }
        }
    }

    /// The group this node belongs to.
    pub fn group(&self) -> &GroupName {
        &self.group
    }

    /// Site and node.
    pub fn me(&self) -> &NodeId {
        &self.me
    }

    /// What the certificate in force says: expiry and serial number.
    pub fn subject(&self) -> Subject {
        self.current.load().subject().clone()
    }

    /// What an operator wants to know.
    pub fn status(&self) -> IdentityStatus {
        let history = self.history();
        IdentityStatus {
            subject: self.subject(),
            loaded: history.loaded,
            reloads: history.reloads,
            error: history.error.as_ref().map(|failure| (failure.reason.clone(), failure.since)),
        }
    }

    /// What is in force now, for one handshake.
    pub(crate) fn current(&self) -> Arc<Current> {
        self.current.load_full()
    }

    /// What is in there is whole even if another holder of the lock panicked.
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl History {
    fn took(&mut self) {
        self.loaded = Instant::now();
        self.reloads += 1;
        self.error = None;
    }

    fn failed(&mut self, reason: String, asks: bool) -> News {
        let before = self.error.take_if(|failure| failure.reason == reason);
        let seen = before.is_some();
        let failure = before.unwrap_or(Failure { reason, since: Instant::now(), told: false });
        let tells = asks || (seen && !failure.told);
        let news = if tells { News::Refused(failure.reason.clone()) } else { News::None };
        self.error = Some(Failure { told: failure.told || tells, ..failure });
        news
    }
}

/// The second of the wall clock. Nothing but certificates is judged by it.
pub(crate) fn unix_now() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("me", &self.me)
            .field("subject", &self.subject())
            .finish_non_exhaustive()
    }
}
