//! The statistics of HAProxy by its command socket.

use super::{LARGEST, too_large};
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// The answer to `show stat`, in CSV. HAProxy closes behind it. Our end stays open until then: it would take a half-closed one
/// for a client that is gone.
pub(super) async fn statistics(path: &Path) -> Result<Vec<u8>, String> {
    let words = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut stream = UnixStream::connect(path).await.map_err(words)?;
    stream.write_all(b"show stat\n").await.map_err(words)?;
    let mut page = Vec::new();
    let read = stream.take(LARGEST as u64 + 1).read_to_end(&mut page).await.map_err(words)?;
    match page.as_slice() {
        _ if read > LARGEST => Err(too_large()),
        // An empty line ends every answer there.
        [.., b'\n', b'\n'] => Ok(page),
        _ => Err(format!("{}: closed before the end of the page", path.display())),
    }
}
