//! Virtual servers that answer while others cannot.

use super::Vserver;
use crate::group::Named;
use crate::reader::Table;

/// Leads each virtual server to its backup. One that would come back to itself is refused, and its way shown.
pub(super) fn join(tables: &[Table<'_>], vservers: &mut Named<Vserver>) {
    for t in tables.iter().filter(|t| t.gives("backup_vserver")) {
        let own = t.quiet_text("name").and_then(|name| vservers.names.index(name));
        let backup = t.item("backup_vserver").and_then(|item| vservers.names.find(&item));
        let (Some(own), Some(backup)) = (own, backup) else { continue };
        let Some(way) = way(&vservers.all, own, backup) else { continue };
        match way.last() == Some(&own) {
            true => t.refuse("backup_vserver", format!("leads back here: {}", shown(&vservers.all, &way))),
            false => set_backup(&mut vservers.all, own, backup),
        }
    }
    for index in 0..vservers.all.len() {
        let wants_rtt = chain(&vservers.all, index).any(|vserver| vserver.wants_rtt);
        if let Some(vserver) = vservers.all.get_mut(index) {
            vserver.wants_rtt = wants_rtt;
        }
    }
}

fn set_backup(all: &mut [Vserver], own: usize, backup: usize) {
    if let Some(vserver) = all.get_mut(own) {
        vserver.backup = Some(backup);
    }
}

/// The way on from `own` by this backup, to its end or back to `own`. What has been joined before has no loops, so it ends.
fn way(all: &[Vserver], own: usize, backup: usize) -> Option<Vec<usize>> {
    let mut way = vec![own, backup];
    while *way.last()? != own {
        match all.get(*way.last()?)?.backup {
            Some(next) => way.push(next),
            None => break,
        }
    }
    Some(way)
}

fn shown(all: &[Vserver], way: &[usize]) -> String {
    let names = way.iter().filter_map(|index| all.get(*index)).map(|vserver| vserver.name.as_str());
    names.collect::<Vec<_>>().join(" -> ")
}

/// A virtual server and those that stand in for it, in order.
fn chain(all: &[Vserver], from: usize) -> impl Iterator<Item = &Vserver> {
    std::iter::successors(all.get(from), |vserver| all.get(vserver.backup?))
}
