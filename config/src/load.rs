//! From files to a configuration: reads, merges, and hands each table to what makes something of it.

use crate::error::{Error, Errors, Log};
use crate::files::{Files, below};
use crate::model::{Config, Group};
use crate::reader::{Item, Table};
use crate::schema::{self, Schema};
use crate::text::{Source, Spot};
use crate::{group, hash, lb, location, monitor, policy, settings, source, zone};
use std::io;
use std::path::Path;
use std::rc::Rc;
use toml::de::DeTable;

/// The configuration that `path` and the files it names hold, for the node that `node` or the file selects.
///
/// All files are read through `read`. Either everything is right, or the result is every error there is.
pub fn load(
    path: &Path,
    read: &mut dyn FnMut(&Path) -> io::Result<Vec<u8>>,
    node: Option<&str>,
) -> Result<Config, Errors> {
    let log = Log::default();
    let config = read_all(path, &mut Files::new(read, &log), node, &log);
    match (log.into_errors(), config) {
        (None, Some(config)) => Ok(config),
        (Some(errors), _) => Err(errors),
        (None, None) => Err(Errors::from(Error::of_file(path, "cannot be used".to_owned()))),
    }
}

fn read_all(path: &Path, files: &mut Files<'_>, node: Option<&str>, log: &Log) -> Option<Config> {
    let sources = sources(path, files, log)?;
    let parsed: Vec<Option<Document<'_>>> = sources.iter().map(|s| Document::parse(s, log)).collect();
    // What a broken file would have defined would be missed everywhere: only its own errors count.
    let documents = Documents(parsed.into_iter().collect::<Option<_>>()?);
    assemble(&documents, files, node, log)
}

fn assemble(
    documents: &Documents<'_>,
    files: &mut Files<'_>,
    node: Option<&str>,
    log: &Log,
) -> Option<Config> {
    let top = documents.top(log)?;
    let table = |schema| documents.table(schema, &top, log);
    let entries = |schema| documents.entries(schema, log);

    let sites = group::sites(&entries(&schema::SITE), &top);
    let nodes = group::nodes(&entries(&schema::NODE), &top, &sites);
    let me = group::me(&nodes, &top, node);
    let own = me.and_then(|me| nodes.all.get(me)).map(|(_, own)| own.clone()).unwrap_or_default();

    let (name, rtt_tolerance) = settings::group(&table(&schema::GROUP));
    let (dns_table, admin_table) = (table(&schema::DNS), table(&schema::ADMIN));
    let dns = settings::dns(&dns_table, &own);
    let admin = settings::admin(&admin_table, &own);
    let mep_table = table(&schema::MEP);
    let mep = settings::mep(&mep_table, &own);
    settings::mep_reaches(&mep_table, mep.listen, nodes.all.iter().map(|(n, _)| (n.id.clone(), n.mep)));
    settings::listeners_agree((&dns_table, &dns), (&admin_table, &admin), (&mep_table, &mep));
    let probe_table = table(&schema::PROBE);
    let probe = settings::probe(&probe_table, &own);
    settings::rtts_outlive_a_lost_round(&probe_table, &mep_table, probe.interval, mep.max_age);
    let ldns = settings::ldns(&table(&schema::LDNS));

    let databases = location::databases(&table(&schema::PROXIMITY), &own);
    let locations = location::locations(&entries(&schema::LOCATION));
    let monitors = monitor::monitors(&entries(&schema::MONITOR), files);
    let sources = source::sources(&entries(&schema::SOURCE), &sites, &own);
    let (service_tables, lb_tables) = (entries(&schema::SERVICE), entries(&schema::LB_VSERVER));
    let services = group::services(&service_tables, &sites, &monitors, &sources, &lb::names(&lb_tables));
    let placed = lb::Services { named: &services, tables: &service_tables };
    let lb_vservers = lb::vservers(&lb_tables, &sites, &placed, &own);
    lb::services_agree(&placed, &lb_vservers);
    let here = me.and_then(|me| nodes.all.get(me)).map(|(node, _)| node.site);
    lb::listeners_agree(&lb_tables, &lb_vservers, here, (&dns, &admin, &mep));
    let vservers = policy::vservers(&entries(&schema::VSERVER), &placed, &lb_vservers);
    let zones = zone::zones(&entries(&schema::ZONE), files, log);
    let domains = policy::domains(&entries(&schema::DOMAIN), &vservers, &zones);

    let config = Config {
        me: me?,
        dns,
        admin,
        mep,
        probe,
        ldns,
        group: Group { name, rtt_tolerance, must_match: Vec::new(), hash: 0 },
        databases,
        locations,
        sites: sites.all,
        nodes: nodes.all.into_iter().map(|(node, _)| node).collect(),
        monitors: monitors.all,
        sources: sources.all,
        services: services.all,
        lb_vservers: lb_vservers.into_iter().flatten().collect(),
        vservers: vservers.all,
        domains,
        zones: zones.into_iter().map(|z| z.zone).collect(),
    };
    // Indices agree with entries only while nothing was left out.
    if log.is_empty() { Some(hash::completed(config)) } else { None }
}

/// The main file and those it includes, main first.
///
/// Of the main file only `include` counts here; what else is wrong with it is said when all files are known.
fn sources(path: &Path, files: &mut Files<'_>, log: &Log) -> Option<Vec<Rc<Source>>> {
    let main = files.open_main(path)?;
    let mut sources = vec![Rc::clone(&main)];
    let (entries, _) = DeTable::parse_recoverable(main.text());
    let Some(include) = entries.get_ref().get("include") else { return Some(sources) };
    let item = Item::of(include, &main, "include".to_owned(), log);
    let items = if item.is_text() { Some(vec![item]) } else { item.into_list() };
    for item in items.iter().flatten() {
        let Some(text) = item.text() else { continue };
        match below(path, text) {
            None => item.refuse(format!("'{text}' does not lie below the folder of this file")),
            Some(path) if sources.iter().any(|s| s.path() == path) => {
                item.refuse(format!("'{text}' is read already"));
            }
            Some(path) => sources.extend(files.open_included(&path, item)),
        }
    }
    Some(sources)
}

/// A parsed file.
struct Document<'a> {
    source: &'a Rc<Source>,
    entries: DeTable<'a>,
}

impl<'a> Document<'a> {
    fn parse(source: &'a Rc<Source>, log: &Log) -> Option<Self> {
        let (entries, errors) = DeTable::parse_recoverable(source.text());
        let mut broken = false;
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            // A duplicate leaves the rest of the file as it is meant; after other errors nothing is sure.
            let duplicate = error.message() == "duplicate key";
            let key = source.text().get(span.clone()).filter(|_| duplicate).unwrap_or("");
            let message = if duplicate { "is given twice" } else { error.message() };
            log.push(Error::at(&Spot::new(source, span), key, message.to_owned()));
            broken |= !duplicate;
        }
        if broken { None } else { Some(Document { source, entries: entries.into_inner() }) }
    }

    fn start(&self) -> Spot {
        Spot::new(self.source, 0..0)
    }
}

/// The parsed files, the main one first.
struct Documents<'a>(Vec<Document<'a>>);

impl Documents<'_> {
    /// The top of the main file. Checks what stands at the top of each file.
    fn top<'b>(&'b self, log: &'b Log) -> Option<Table<'b>> {
        let mut tops = self.0.iter().map(|d| Table::top(&d.entries, d.start(), log));
        let main = tops.next()?;
        main.number("version", VERSION..=VERSION);
        for top in tops {
            if top.gives("version") {
                top.number("version", VERSION..=VERSION);
            }
            if top.gives("node") {
                top.refuse("node", "belongs into the main file: an included one is the same on every node");
            }
            if top.gives("include") {
                top.refuse("include", "an included file includes no other");
            }
        }
        Some(main)
    }

    /// A table that stands in one file at most.
    fn table<'b>(&'b self, schema: &'static Schema, top: &Table<'b>, log: &'b Log) -> Table<'b> {
        let absent = || Table::absent(schema, top.spot().clone(), log);
        let mut given = self.0.iter().filter_map(|d| Some((d, d.entries.get(schema.name)?)));
        let Some((document, value)) = given.next() else { return absent() };
        let first = Item::of(value, document.source, schema.name.to_owned(), log);
        for (other, value) in given {
            let place = first.spot().file_and_line();
            Item::of(value, other.source, schema.name.to_owned(), log).refuse(format!(
                "[{}] stands in {place} already; a table belongs into one file",
                schema.name
            ));
        }
        first.into_table(schema).unwrap_or_else(absent)
    }

    /// The entries of a list of tables, which may go on from file to file.
    fn entries<'b>(&'b self, schema: &'static Schema, log: &'b Log) -> Vec<Table<'b>> {
        let given = self.0.iter().filter_map(|d| Some((d, d.entries.get(schema.name)?)));
        let items = given.filter_map(|(document, value)| {
            let item = Item::of(value, document.source, schema.name.to_owned(), log);
            if item.is_table() {
                item.refuse(format!("expected a list of tables, write [[{}]]", schema.name));
                return None;
            }
            item.into_list()
        });
        let numbered = items.flatten().enumerate();
        numbered
            .filter_map(|(i, item)| item.named(format!("{}[{i}]", schema.name)).into_table(schema))
            .collect()
    }
}

/// The version of the file format this reads.
const VERSION: u32 = 1;
