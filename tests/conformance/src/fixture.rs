//! What the subject serves: zone Z of the fault catalogue, as a configuration of gslb-dns.

use crate::node::Node;

/// The zone, as the oracles load it: with `www` as a static record.
pub const ZONE: &str = include_str!("../oracles/gslb.test.zone");

/// The addresses of `www` at gslb-dns, one of which is the answer. Oracles give the first.
pub const WWW: [&str; 3] = ["192.0.2.10", "192.0.2.20", "192.0.2.30"];

/// A configuration to be: one node of three sites, on ports that the system chooses.
#[derive(Clone, Debug)]
pub struct Setup {
    listen: Vec<String>,
    dns: String,
    vserver: String,
    tables: String,
    records: String,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            listen: vec!["127.0.0.1:0".to_owned()],
            dns: String::new(),
            vserver: String::new(),
            tables: String::new(),
            records: String::new(),
        }
    }
}

impl Setup {
    /// Other addresses to listen on.
    pub fn listen(self, addresses: &[&str]) -> Setup {
        Setup { listen: addresses.iter().map(|&a| a.to_owned()).collect(), ..self }
    }

    /// A line more in `[dns]`.
    pub fn dns(mut self, line: &str) -> Setup {
        self.dns += &format!("{line}\n");
        self
    }

    /// A line more in the virtual server of `www`.
    pub fn vserver(mut self, line: &str) -> Setup {
        self.vserver += &format!("{line}\n");
        self
    }

    /// A table more.
    pub fn table(mut self, table: &str) -> Setup {
        self.tables += &format!("{table}\n");
        self
    }

    /// A line more in the zone.
    pub fn record(mut self, line: &str) -> Setup {
        self.records += &format!("{line}\n");
        self
    }

    /// The configuration as text. Sites b and c have no node that runs, and are taken as they are in the beginning.
    pub fn text(&self) -> String {
        let listen: Vec<_> = self.listen.iter().map(|address| format!("\"{address}\"")).collect();
        let sites = ["a", "b", "c"].into_iter().zip(WWW).map(|(site, address)| {
            format!(
                "[[sites]]\nname = \"{site}\"\n\
                 [[services]]\nname = \"web-{site}\"\nsite = \"{site}\"\naddress = \"{address}\"\nport = 80\n"
            )
        });
        let zone: String =
            ZONE.lines().filter(|line| !line.starts_with("www ")).map(|line| format!("{line}\n")).collect();
        format!(
            "version = 1\nnode = \"a/1\"\n\
             [dns]\nlisten = [{}]\n{}\
             [admin]\nlisten = \"127.0.0.1:0\"\n\
             [mep]\nlisten = \"127.0.0.1:0\"\ndown_delay = \"1h\"\n\
             {}\n{}\
             [[nodes]]\nname = \"a/1\"\nmep = \"127.0.0.1:9\"\n\
             [[vservers]]\nname = \"www\"\nservices = [\"web-a\", \"web-b\", \"web-c\"]\n{}\
             [[domains]]\nname = \"www.gslb.test\"\nvserver = \"www\"\n\
             [[zones]]\nname = \"gslb.test\"\nrecords = '''\n{zone}{}'''\n",
            listen.join(", "),
            self.dns,
            self.tables,
            sites.collect::<String>(),
            self.vserver,
            self.records,
        )
    }

    /// Starts a node with it.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn start(&self) -> Node {
        Node::start(&self.text())
    }
}
