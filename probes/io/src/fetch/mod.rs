//! Fetches the pages of foreign load balancers. What they say, the parsers of `probes-core` make out.
//!
//! No more of a page is held than [`LARGEST`], so a place that sends for ever is given up on.

mod http;
mod socket;

use gslb_types::SourcePlace;
use probes_core::sources::Reading;
use probes_core::sources::page::{self, LARGEST};
use probes_core::wire::{Fetch, FetchReply, FetchRequest};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

pub(crate) async fn fetch(request: FetchRequest) -> FetchReply {
    let limit = request.timeout;
    let page = timeout(limit, page(&request.fetch.place)).await;
    let outcome = match page.unwrap_or_else(|_| Err(format!("no answer within {limit:?}"))) {
        Ok(page) => read(request.fetch, page).await,
        Err(why) => Err(why),
    };
    FetchReply { id: request.id, outcome }
}

async fn page(place: &SourcePlace) -> Result<Vec<u8>, String> {
    match place {
        SourcePlace::Http { address, target } => http::get(*address, target).await,
        SourcePlace::Socket(path) => socket::statistics(path).await,
    }
}

/// On a thread of its own: the largest page takes some ten milliseconds, for which a thread of the runtime would serve nobody.
async fn read(fetch: Arc<Fetch>, page: Vec<u8>) -> Result<Vec<Result<Reading, String>>, String> {
    let read = spawn_blocking(move || page::read(fetch.kind, &page, &fetch.items)).await;
    read.unwrap_or_else(|_| Err("the page could not be read; please report this".to_owned()))
}

/// The words for a page that is beyond [`LARGEST`].
fn too_large() -> String {
    format!("the page is larger than {} MiB", LARGEST >> 20)
}
