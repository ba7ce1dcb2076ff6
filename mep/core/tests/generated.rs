//! The committed protobuf code is what the protocol file says. `UPDATE=1` rewrites it.

use std::error::Error;
use std::path::Path;

#[test]
fn the_committed_code_is_generated_from_the_protocol_file() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = root.join("src/gen/gslb.mep.v1.rs");
    let generated = generate(root)?;
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&committed, &generated)?;
    }
    let found = std::fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        found == generated,
        "{} is not what proto/mep.proto says; `UPDATE=1 cargo test -p mep-core --test generated` rewrites it",
        committed.display()
    );
    Ok(())
}

fn generate(root: &Path) -> Result<String, Box<dyn Error>> {
    let proto = root.join("proto");
    let described = protox::compile([proto.join("mep.proto")], [proto])?;
    let out = tempfile::tempdir()?;
    prost_build::Config::new().bytes(["."]).out_dir(out.path()).compile_fds(described)?;
    Ok(std::fs::read_to_string(out.path().join("gslb.mep.v1.rs"))?)
}
