//! Keeps what is known of where addresses are up to date with the databases' files.

use config::Config;
use gslb_core::Shared;
use gslb_core::location::{Database, Locations};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// How often the files are looked at: databases come out twice a week, and to look costs a system call for each.
const LOOK: Duration = Duration::from_secs(3);

/// Why there is nothing to be had from the databases' files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocationsError {
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    #[error(transparent)]
    Broken(#[from] gslb_core::location::DatabaseError),
}

/// What the configuration and all its databases say together.
pub(crate) fn load(config: &Config) -> Result<Locations, LocationsError> {
    let database = |path: &PathBuf| {
        let bytes = std::fs::read(path).map_err(|error| LocationsError::Unreadable(path.clone(), error))?;
        Ok(Database::new(path.display().to_string(), bytes)?)
    };
    let databases: Result<Vec<Database>, LocationsError> = config.databases.iter().map(database).collect();
    Ok(Locations::new(config, databases?))
}

/// A file as it was when it was read: another is there when any of this differs. `None` while it can't be looked at.
type Stamp = Option<(u64, u64, i64, i64)>;

fn stamps(config: &Config) -> Vec<Stamp> {
    let stamp = |meta: Metadata| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
    config.databases.iter().map(|path: &PathBuf| std::fs::metadata(Path::new(path)).ok().map(stamp)).collect()
}

/// Reads the databases, then again whenever a file changes, until `stop`. While one can't be read, all stays as it was: at the
/// start that is what the configuration alone says, and the node answers by it.
pub(crate) async fn watch(config: Arc<Config>, shared: Arc<Shared>, stop: CancellationToken) {
    if config.databases.is_empty() {
        return stop.cancelled().await;
    }
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut read: Option<Vec<Stamp>> = None;
    let mut said = String::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let (config, before) = (config.clone(), read.clone());
        // Hundreds of megabytes, perhaps, and a file system that may hang.
        let looking = tokio::task::spawn_blocking(move || {
            // Stamped first: what changes while it is read is read again.
            let now = stamps(&config);
            (before.as_ref() != Some(&now)).then(|| (now, load(&config)))
        });
        let looked = tokio::select! {
            () = stop.cancelled() => return,
            looked = looking => looked,
        };
        let Ok(Some((stamps, loaded))) = looked else { continue };
        // A file that could not be read may be readable without having changed: rights, descriptors.
        read = (!matches!(loaded, Err(LocationsError::Unreadable(..)))).then_some(stamps);
        match loaded {
            Ok(locations) => {
                said.clear();
                let kinds: Vec<&str> = locations.databases().iter().map(Database::kind).collect();
                tracing::info!(?kinds, "databases of locations taken");
                shared.locations.store(Arc::new(locations));
            }
            Err(error) if error.to_string() == said => {}
            Err(error) => {
                said = error.to_string();
                tracing::warn!(%error, "databases of locations can't be used: what was known before stays in use");
            }
        }
    }
}
