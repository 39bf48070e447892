//! Writes the seeds of all corpora anew; what was found by searching stays beside them.

use std::fs;
use std::io;

fn main() -> io::Result<()> {
    for target in &taut_fuzz::TARGETS {
        let folder = taut_fuzz::corpus(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in taut_fuzz::seeds(target.name).iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:02}")), seed)?;
        }
    }
    Ok(())
}
