//! An FTP login (RFC 959).

use super::stream::Times;
use super::words::{plain, quoted};
use super::{Fault, Run, Stamped, failed, words};
use gslb_types::{FtpCheck, Rtt};
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
        let mut control = Control { stream, pending: Vec::new() };
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
}

/// A reply: its code, and its last line.
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
        let password = check.password.reveal();
        times.begin();
        let mut reply = self.command(&format!("USER {}\r\n", check.user)).await?;
        let mut took = times.span().as_duration();
        if reply.code == 331 {
            times.begin();
            reply = self.command(&format!("PASS {password}\r\n")).await?;
            took += times.span().as_duration();
        }
        match reply.code {
            // 202: the password was superfluous.
            230 | 202 => Ok(Rtt::from_duration(took)),
            331 | 332 => failed(format!("the login asks for more than a password: {}", reply.line)),
            // A server that repeats what it was told must not make it known.
            _ if !password.is_empty() => {
                failed(format!("login refused: {}", reply.line.replace(password, "***")))
            }
            _ => failed(format!("login refused: {}", reply.line)),
        }
    }

    async fn command(&mut self, line: &str) -> Result<Reply, Fault> {
        self.stream.write_all(line.as_bytes()).await.map_err(|e| Fault::Failed(words(&e)))?;
        self.reply().await
    }

    /// The next reply, of however many lines (RFC 959 section 4.2): "220-" begins one that "220 " ends.
    async fn reply(&mut self) -> Result<Reply, Fault> {
        let (mut read, mut first) = (0, None);
        loop {
            let line = self.line(&mut read).await?;
            let (code, is_last) = match (first, coded(&line)) {
                (None, Some((code, is_last))) => (code, is_last),
                (Some(first), Some((code, is_last))) => (first, is_last && code == first),
                (Some(first), None) => (first, false),
                (None, None) => return failed(format!("not FTP: {}", quoted(line.as_bytes()))),
            };
            if is_last {
                return Ok(Reply { code, line: plain(&line) });
            }
            first = Some(code);
        }
    }

    /// The next line, without its end; `read` counts what a reply has had.
    async fn line(&mut self, read: &mut usize) -> Result<String, Fault> {
        loop {
            if let Some(end) = self.pending.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
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
    fn a_code_ends_a_reply_unless_a_hyphen_follows() {
        assert_eq!(coded("220 ready"), Some((220, true)));
        assert_eq!(coded("220"), Some((220, true)));
        assert_eq!(coded("220-first"), Some((220, false)));
        for other in ["", "22", "22x y", "2200 x", " 220 x", "ü20 x"] {
            assert_eq!(coded(other), None, "{other:?}");
        }
    }
}
