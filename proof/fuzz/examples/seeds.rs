//! Writes the seeds of all corpora; files that a search found stay beside them.

use std::fs;
use std::io;

fn main() -> io::Result<()> {
    let targets = taut_fuzz::TARGETS.iter().map(|target| target.name);
    for target in targets.chain(["http"]) {
        let folder = taut_fuzz::corpus(target);
        fs::create_dir_all(&folder)?;
        for (number, seed) in taut_fuzz::seeds(target).iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:02}")), seed)?;
        }
    }
    Ok(())
}
