//! An FTP login (RFC 959).
//!
//! A server that repeats what it was told must not make the password known: whatever of a reply is shown is masked first, and
//! only then made fit to be read and cut to length.

use super::stream::Times;
use super::words::{plain, quoted};
use super::{Fault, Run, Stamped, failed, unasked, words};
use gslb_types::{FtpCheck, Rtt, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes of one reply; banners of many lines have some thousand.
const REPLY: usize = 16 * 1024;

/// "Service ready in nnn minutes", before a 220, and the like: more of them than anybody sends.
const PRELIMINARIES: usize = 8;

impl Run<'_> {
    /// From USER to the reply that ends the login, less the time that passed here between the reply to USER and PASS.
    pub(super) async fn ftp(self, check: &FtpCheck) -> Result<Rtt, Fault> {
        let stream = self.stream().await?;
        let times = stream.times();
        let mut control = Control { stream, pending: Vec::new(), password: check.password.clone() };
        self.limit.hold("no banner", control.banner()).await??;
        let login = control.login(check, &times);
        let took = self.limit.hold("login not complete", login).await??;
        // A courtesy that nobody waits for.
        let _ = control.stream.write_all(b"QUIT\r\n").await;
        Ok(took)
    }
}

/// The control connection.
struct Control {
    stream: Stamped,
    /// What was read beyond the last reply.
    pending: Vec<u8>,
    password: Secret,
}

/// A reply: its code, and its last line, fit to be shown.
struct Reply {
    code: u16,
    line: String,
}

impl Control {
    async fn banner(&mut self) -> Result<(), Fault> {
        for _ in 0..PRELIMINARIES {
            let reply = self.reply().await?;
            match reply.code {
                220 => return Ok(()),
                100..=199 => {}
                _ => return failed(format!("not ready: {}", reply.line)),
            }
        }
        failed("not ready: it only ever says so")
    }

    async fn login(&mut self, check: &FtpCheck, times: &Times) -> Result<Rtt, Fault> {
        let mut reply = self.command(times, &format!("USER {}\r\n", check.user)).await?;
        let mut took = times.span().as_duration();
        if reply.code == 331 {
            reply = self.command(times, &format!("PASS {}\r\n", check.password.reveal())).await?;
            took += times.span().as_duration();
        }
        match reply.code {
            // 202: the password was superfluous.
            230 | 202 => Ok(Rtt::from_duration(took)),
            331 | 332 => failed(format!("the login asks for more than a password: {}", reply.line)),
            _ => failed(format!("login refused: {}", reply.line)),
        }
    }

    /// Asks, and begins the span. What came before is no answer to it.
    async fn command(&mut self, times: &Times, line: &str) -> Result<Reply, Fault> {
        self.pending.extend(self.stream.waiting());
        unasked(&masked(&self.pending, &self.password))?;
        times.begin();
        self.stream.write_all(line.as_bytes()).await.map_err(|e| Fault::Failed(words(&e)))?;
        self.reply().await
    }

    /// The next reply, of however many lines (RFC 959 section 4.2): "220-" begins one that "220 " ends.
    async fn reply(&mut self) -> Result<Reply, Fault> {
        let (mut read, mut first) = (0, None);
        loop {
            let line = self.line(&mut read).await?;
            let (code, is_last) = match (first, coded(&String::from_utf8_lossy(line.trim_ascii_end()))) {
                (None, Some((code, is_last))) => (code, is_last),
                (Some(first), Some((code, is_last))) => (first, is_last && code == first),
                (Some(first), None) => (first, false),
                (None, None) => {
                    let line = masked(&line, &self.password);
                    return failed(format!("not FTP: {}", quoted(line.trim_ascii_end())));
                }
            };
            if is_last {
                let line = masked(&line, &self.password);
                return Ok(Reply { code, line: plain(&String::from_utf8_lossy(&line)) });
            }
            first = Some(code);
        }
    }

    /// The next line; `read` counts what a reply has had.
    async fn line(&mut self, read: &mut usize) -> Result<Vec<u8>, Fault> {
        loop {
            if let Some(end) = self.pending.iter().position(|b| *b == b'\n') {
                return Ok(self.pending.drain(..=end).collect());
            }
            if *read >= REPLY {
                return failed(format!("a reply without end, of more than {REPLY} bytes"));
            }
            self.pending.reserve(1024);
            match self.stream.read_buf(&mut self.pending).await {
                Ok(0) => return failed("connection closed before the reply was complete"),
                Ok(n) => *read += n,
                Err(e) => return failed(words(&e)),
            }
        }
    }
}

/// What a server said, without the password, also where it stands without the blanks around it.
fn masked(said: &[u8], password: &Secret) -> Vec<u8> {
    let password = password.reveal();
    let without = |said: &[u8], secret: &[u8]| {
        let (mut kept, mut rest) = (Vec::with_capacity(said.len()), said);
        while let Some(at) = rest.windows(secret.len()).position(|window| window == secret) {
            let (before, from) = rest.split_at(at);
            kept.extend_from_slice(before);
            kept.extend_from_slice(b"***");
            rest = from.get(secret.len()..).unwrap_or_default();
        }
        kept.extend_from_slice(rest);
        kept
    };
    match (password, password.trim()) {
        (_, "") => said.to_vec(),
        (whole, trimmed) => without(&without(said, whole.as_bytes()), trimmed.as_bytes()),
    }
}

/// The code that a line begins with, and whether it ends the reply.
fn coded(line: &str) -> Option<(u16, bool)> {
    let (code, rest) = line.split_at_checked(3)?;
    let code = code.bytes().all(|b| b.is_ascii_digit()).then(|| code.parse().ok())??;
    match rest.bytes().next() {
        Some(b'-') => Some((code, false)),
        Some(b' ') | None => Some((code, true)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_what_is_said_shows_the_password() {
        let shown = |said: &[u8], password: &str| {
            String::from_utf8_lossy(&masked(said, &Secret::new(password.to_owned()))).into_owned()
        };
        assert_eq!(shown(b"530 hush is not hush\r\n", "hush"), "530 *** is not ***\r\n");
        assert_eq!(
            shown(b"530 'my  pass' no, 'my  pass ' no\r\n", "my  pass "),
            "530 '***' no, '***' no\r\n"
        );
        assert_eq!(shown(b"530 a\x07\xffb no", "a\x07"), "530 ***\u{fffd}b no");
        assert_eq!(shown(b"hus", "hush"), "hus", "half of it is not known to be that");
        assert_eq!([shown(b"530 no", ""), shown(b"530 no", " ")], ["530 no", "530 no"]);
    }

    #[test]
    fn a_code_ends_a_reply_unless_a_hyphen_follows() {
        assert_eq!(coded("220 ready"), Some((220, true)));
        assert_eq!(coded("220"), Some((220, true)));
        assert_eq!(coded("220-first"), Some((220, false)));
        for other in ["", "22", "22x y", "2200 x", " 220 x", "ü20 x"] {
            assert_eq!(coded(other), None, "{other:?}");
        }
    }
}
