//! Which clients stay at the service they were sent to.

use super::model::{PERSISTENCE_IDS, Persistence, Vserver};
use crate::group::Named;
use crate::hash;
use crate::reader::Table;
use std::time::Duration;

/// The words, and whether there is any.
const WORDS: [(&str, bool); 2] = [("none", false), ("source_ip", true)];

/// What stands for something only with persistence.
const KEYS: [&str; 4] =
    ["persistence_id", "persistence_timeout", "persistence_mask_v4", "persistence_mask_v6"];

const TIMEOUT: Duration = Duration::from_secs(120);
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(7 * 86_400);

pub(super) fn read(t: &Table<'_>) -> Option<Persistence> {
    if !t.word("persistence", &WORDS) {
        for key in KEYS.into_iter().filter(|key| t.gives(key)) {
            t.refuse(key, "is used only with persistence = \"source_ip\"");
        }
        return None;
    }
    let id = t.item("persistence_id").map(|item| item.number(0..=PERSISTENCE_IDS - 1));
    let mask = |key, most: u8| t.item(key).and_then(|item| item.number(1..=most)).unwrap_or(most);
    Some(Persistence {
        id: id.unwrap_or_else(|| Some(id_of(t.quiet_text("name")?))).unwrap_or_default(),
        mask_v4: mask("persistence_mask_v4", 32),
        mask_v6: mask("persistence_mask_v6", 128),
        timeout: t
            .item("persistence_timeout")
            .and_then(|item| item.duration(LEAST..=MOST))
            .unwrap_or(TIMEOUT),
    })
}

/// The id of a virtual server that is given none: made of its name, so the same on all nodes.
fn id_of(name: &str) -> u32 {
    u32::try_from(hash::hashed(name) % u64::from(PERSISTENCE_IDS)).unwrap_or_default()
}

/// Refuses virtual servers that share sessions and mean other clients, or other times, by them.
pub(super) fn agree(tables: &[Table<'_>], vservers: &Named<Vserver>) {
    let named = |t: &Table<'_>| vservers.all.get(vservers.names.index(t.quiet_text("name")?)?);
    let all: Vec<_> = tables
        .iter()
        .filter_map(|t| Some((t, named(t)?)))
        .filter_map(|(t, vserver)| Some((t, vserver, vserver.persistence?)))
        .collect();
    for (i, (t, _, persistence)) in all.iter().enumerate() {
        let same_id = all.iter().take(i).find(|(_, _, other)| other.id == persistence.id);
        if let Some((_, first, _)) = same_id.filter(|(_, _, other)| other != persistence) {
            let id = persistence.id;
            t.refuse(
                "persistence",
                format!("shares id {id} with '{}', so masks and timeout must be the same", first.name),
            );
        }
    }
}
