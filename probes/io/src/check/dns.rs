//! A DNS query by UDP, and by TCP if the answer is truncated.

use super::dns_message::{Answered, Query};
use super::stream::Times;
use super::words::plain;
use super::{Fault, Run, Stamped, failed, not_sent, words};
use crate::stamp::rtt;
use crate::udp::{Datagrams, Event};
use gslb_types::{DnsCheck, Rtt};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes of an answer by UDP; without EDNS a server sends 512.
const DATAGRAM: usize = 4096;

impl Run<'_> {
    /// From the query to the response; of a truncated answer, from the query that was sent over the connection.
    pub(super) async fn dns(self, check: &DnsCheck) -> Result<Rtt, Fault> {
        let query = Query::of(check, rand::random()).map_err(Fault::Ours)?;
        let asked = self.by_udp(check, &query);
        match self.limit.hold("no answer", asked).await?? {
            Some(took) => Ok(took),
            None => self.by_tcp(check, &query).await,
        }
    }

    /// `None` if the answer was truncated.
    async fn by_udp(self, check: &DnsCheck, query: &Query) -> Result<Option<Rtt>, Fault> {
        let datagrams = Datagrams::open(&self.settings, self.target).map_err(|e| not_sent(&e))?;
        let sent = datagrams.send(query.bytes()).map_err(|e| not_sent(&e))?;
        loop {
            match datagrams.event(DATAGRAM).await {
                Ok(Event::Message { came, bytes }) => match query.answered(&bytes, check) {
                    Answered::Well => return Ok(Some(rtt(sent, came))),
                    Answered::Truncated => return Ok(None),
                    Answered::Wrongly(why) => return failed(plain(&why)),
                    // A late answer to somebody else, or a forgery: the check waits on.
                    Answered::Not => {}
                },
                Ok(Event::Icmp { error, .. }) => return failed(error.to_string()),
                Ok(Event::LocalError) => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return failed("port unreachable"),
                Err(e) => return failed(words(&e)),
            }
        }
    }

    async fn by_tcp(self, check: &DnsCheck, query: &Query) -> Result<Rtt, Fault> {
        let mut stream = self.stream().await?;
        let times = stream.times();
        let asked = exchange(&mut stream, query, &times);
        let message = match self.limit.hold("no answer over TCP", asked).await? {
            Ok(message) => message,
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                return failed("connection closed before the answer was complete");
            }
            Err(e) => return failed(words(&e)),
        };
        match query.answered(&message, check) {
            Answered::Well => Ok(times.span()),
            Answered::Wrongly(why) => failed(plain(&why)),
            Answered::Truncated => failed("truncated over TCP as well"),
            Answered::Not => failed("not an answer to the query"),
        }
    }
}

/// One message each way, behind two bytes of length (RFC 1035 section 4.2.2).
async fn exchange(stream: &mut Stamped, query: &Query, times: &Times) -> io::Result<Vec<u8>> {
    let length = u16::try_from(query.bytes().len()).unwrap_or(u16::MAX).to_be_bytes();
    times.begin();
    stream.write_all(&[&length, query.bytes()].concat()).await?;
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}
