//! The services behind both proxies: plain HTTP/1.1 with keep-alive, the same short page for every request.

use crate::Failure;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How many there are.
pub(crate) const SERVICES: usize = 3;

/// Bytes of the page.
const BODY: usize = 1024;

/// Listens, and answers as long as the runtime runs. The addresses.
pub(crate) async fn start() -> Result<[SocketAddr; SERVICES], Failure> {
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); SERVICES];
    for address in &mut addresses {
        let listener =
            TcpListener::bind(*address).await.map_err(Failure::system("a service that listens"))?;
        *address = listener.local_addr().map_err(Failure::system("a service that listens"))?;
        tokio::spawn(accept(listener));
    }
    Ok(addresses)
}

async fn accept(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true); // a slower bench, no other figure
        tokio::spawn(serve(stream));
    }
}

/// Answers each head; the requests of the load have no body.
async fn serve(mut stream: TcpStream) {
    let page = page();
    let (mut buffer, mut filled) = (vec![0; 16 * 1024], 0);
    while let Some(room) = buffer.get_mut(filled..)
        && let Ok(got @ 1..) = stream.read(room).await
    {
        filled += got;
        while let Some(end) = head_end(buffer.get(..filled).unwrap_or_default()) {
            buffer.copy_within(end..filled, 0);
            filled -= end;
            if stream.write_all(&page).await.is_err() {
                return;
            }
        }
    }
}

fn page() -> Vec<u8> {
    let mut page =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {BODY}\r\n\r\n").into_bytes();
    page.resize(page.len() + BODY, b'x');
    page
}

/// Where the first head in these bytes ends.
pub(crate) fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|start| start + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_with_an_empty_line() {
        assert_eq!(head_end(b"GET / HTTP/1.1\r\n\r\nGET"), Some(18));
        assert_eq!(head_end(b"GET / HTTP/1.1\r\n\r"), None);
    }

    #[test]
    fn the_page_is_as_long_as_it_says() {
        let page = page();
        assert_eq!(page.len() - head_end(&page).unwrap(), BODY);
    }
}
