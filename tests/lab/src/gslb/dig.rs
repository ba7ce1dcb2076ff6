//! The real `dig`, from a node.

use crate::Lab;
use std::io;
use std::net::IpAddr;

/// How a query travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// UDP, without falling back to TCP.
    Udp,
    /// TCP.
    Tcp,
}

/// The data of the answer section, one line for each record, as `dig +short` prints it: `name` and `record_type`, asked
/// on `from` of `server`. An error if no server answers within two seconds, or if the answer is not NOERROR, which
/// `+short` would hide.
pub fn dig(
    lab: &Lab,
    from: &str,
    server: IpAddr,
    name: &str,
    record_type: &str,
    transport: Transport,
) -> io::Result<Vec<String>> {
    let mut dig = lab.command(from, "dig");
    dig.args(["-r", "+norecurse", "+tries=1", "+time=2", "+noall", "+comments", "+answer", "+ignore"]);
    dig.arg(match transport {
        Transport::Udp => "+notcp",
        Transport::Tcp => "+tcp",
    });
    let output = dig.arg(format!("@{server}")).args([name, record_type]).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, printed.trim().to_owned()));
    }
    read(&printed)
}

/// The data of the records in the answer section; an error for every rcode but NOERROR.
fn read(printed: &str) -> io::Result<Vec<String>> {
    if !printed.contains("status: NOERROR") {
        return Err(io::Error::other(printed.trim().to_owned()));
    }
    let records = printed.lines().filter(|line| !line.is_empty() && !line.starts_with(';'));
    // Owner, TTL, class and type stand before the data.
    Ok(records.map(|line| line.split_ascii_whitespace().skip(4).collect::<Vec<_>>().join(" ")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_taken_from_the_answer_section_alone() {
        let printed = "\
;; Got answer:
;; ->>HEADER<<- opcode: QUERY, status: NOERROR, id: 4711
;; flags: qr aa; QUERY: 1, ANSWER: 2, AUTHORITY: 0, ADDITIONAL: 1

;; ANSWER SECTION:
www.gslb.test.\t\t5\tIN\tA\t198.18.1.80
gslb.test.\t3600 IN\tMX\t10 mail.gslb.test.

";
        assert_eq!(read(printed).expect("records"), ["198.18.1.80", "10 mail.gslb.test."]);
    }

    #[test]
    fn a_missing_name_is_no_empty_answer() {
        assert!(read(";; ->>HEADER<<- opcode: QUERY, status: NXDOMAIN, id: 1\n").is_err());
        assert_eq!(read(";; status: NOERROR, id: 1\n").expect("no data"), [] as [String; 0]);
    }
}
