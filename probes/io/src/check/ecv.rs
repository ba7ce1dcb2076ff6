//! Text sent, text received, over TCP and over UDP.

use super::answer::{Pieces, look_for};
use super::stream::{Stamped, Times};
use super::words::quoted;
use super::{Fault, MOST, Run, failed, not_sent, words};
use crate::stamp::rtt;
use crate::udp::{Datagrams, Event};
use gslb_types::{Exchange, Rtt};
use std::io;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes read at once.
const PIECE: usize = 4096;

impl Run<'_> {
    /// Over TCP: from the first byte sent to the last byte of what is looked for. What a server said before is no answer to
    /// it. Where nothing is sent, a server that speaks first is measured from the connection on.
    pub(super) async fn tcp_ecv(self, exchange: &Exchange) -> Result<Rtt, Fault> {
        let matcher = self.tools.matchers.of(&exchange.receive.pattern)?;
        let (stream, began) = self.connected().await?;
        let mut stream = Stamped::new(stream);
        let (times, mut early) = (stream.times(), Vec::new());
        match exchange.send.as_slice() {
            [] => times.began(began.at + began.took.as_duration()),
            send => {
                early = stream.waiting();
                let sent = self.limit.hold("nothing could be sent", stream.write_all(send)).await?;
                sent.map_err(|e| Fault::Failed(words(&e)))?;
            }
        }
        let pieces = Stream { stream, times: times.clone() };
        let looked = look_for(&exchange.receive, &matcher, &times, self.limit, pieces).await;
        match looked {
            Err(Fault::Failed(why)) if !exchange.receive.reverse && matcher.is_in(&early) => {
                failed(format!("{why}; it came before anything was sent: leave `send` out to look for it"))
            }
            looked => looked,
        }
    }

    /// Over UDP: from the datagram sent to the datagram that holds what is looked for. One that does not is passed over,
    /// as a stray one would be, and shown if nothing better comes.
    pub(super) async fn udp_ecv(self, exchange: &Exchange) -> Result<Rtt, Fault> {
        let (receive, matcher) = (&exchange.receive, self.tools.matchers.of(&exchange.receive.pattern)?);
        let datagrams = Datagrams::open(&self.settings, self.target).map_err(|e| not_sent(&e))?;
        let sent = datagrams.send(&exchange.send).map_err(|e| not_sent(&e))?;
        let mut other = None;
        let answered = async {
            loop {
                let (came, bytes) = datagram(&datagrams).await?;
                match (matcher.is_in(&bytes), receive.reverse) {
                    (true, false) | (false, true) => return Ok(rtt(sent, came)),
                    (true, true) => {
                        return failed(format!("the answer holds {}, which must not come", receive.pattern));
                    }
                    (false, false) => other = Some(quoted(&bytes)),
                }
            }
        };
        match (self.limit.wait(answered).await, &other) {
            (Ok(answered), _) => answered,
            (Err(_), None) => failed(self.limit.missing("no answer")),
            (Err(_), Some(other)) => {
                let pattern = &receive.pattern;
                failed(format!("{pattern} did not come within {:?}, but {other}", self.limit.length()))
            }
        }
    }
}

/// The next datagram, or the error that comes in its place.
async fn datagram(datagrams: &Datagrams) -> Result<(Instant, Vec<u8>), Fault> {
    loop {
        match datagrams.event(MOST).await {
            Ok(Event::Message { came, bytes }) => return Ok((came, bytes)),
            Ok(Event::Icmp { error, .. }) => return failed(error.to_string()),
            Ok(Event::LocalError) => {}
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return failed("port unreachable"),
            Err(e) => return failed(words(&e)),
        }
    }
}

/// An answer over TCP.
struct Stream {
    stream: Stamped,
    times: Times,
}

impl Pieces for Stream {
    const SAYS_ITS_END: bool = false;

    async fn next(&mut self, answer: &mut Vec<u8>) -> Result<Option<Instant>, Fault> {
        answer.reserve(PIECE);
        match self.stream.read_buf(answer).await {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(self.times.came())),
            Err(e) => failed(words(&e)),
        }
    }
}
