use std::path::Path;

use super::*;

#[test]
fn the_committed_matrix_is_this_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/hosts/nats/matrix.json");
    if std::env::var_os("TAUT_WRITE").is_some() {
        std::fs::write(&path, matrix()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == matrix(),
        "lab/hosts/nats/matrix.json differs from the list: write it again (see `matrix`), and check the difference"
    );
}
