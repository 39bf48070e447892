//! A tar archive in the ustar format (POSIX.1-1988, `pax` of POSIX.1-2017): regular files of one directory, which every `tar` unpacks. It is not compressed:
//! a compressor would be the largest part of the program, and `gzip` is on every host.

use std::io::{self, Write};

const BLOCK: usize = 512;

/// An archive that is being written.
pub(super) struct Tar<W> {
    out: W,
    /// Name of the directory in the archive that contains all files.
    directory: String,
}

impl<W: Write> Tar<W> {
    pub(super) fn new(out: W, directory: String) -> Self {
        Self { out, directory }
    }

    /// Adds a file of mode 0600. `modified`: seconds since 1970.
    pub(super) fn add(&mut self, name: &str, content: &[u8], modified: u64) -> io::Result<()> {
        let path = [&self.directory, "/", name].concat();
        self.out.write_all(&header(&path, content.len() as u64, modified))?;
        self.out.write_all(content)?;
        let rest = content.len().next_multiple_of(BLOCK) - content.len();
        self.out.write_all(&[0; BLOCK][..rest])
    }

    /// Ends the archive with two empty blocks.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()
    }
}

fn header(path: &str, length: u64, modified: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |place: usize, bytes: &[u8]| block[place..place + bytes.len()].copy_from_slice(bytes);
    // The program chooses all names, and they are shorter than the field.
    put(0, &path.as_bytes()[..path.len().min(99)]);
    put(100, b"0000600\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{length:011o}\0").as_bytes());
    put(136, format!("{modified:011o}\0").as_bytes());
    // The checksum is computed with spaces in its own field.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_ustar() {
        let mut bytes = Vec::new();
        let mut tar = Tar::new(&mut bytes, String::from("d"));
        tar.add("empty", b"", 0).unwrap();
        tar.add("a", &[b'x'; 513], 1_795_489_927).unwrap();
        tar.finish().unwrap();
        assert_eq!(bytes.len(), BLOCK * (1 + 1 + 2 + 2));
        let second = &bytes[BLOCK..2 * BLOCK];
        assert_eq!(&second[..4], b"d/a\0");
        assert_eq!((&second[124..136], &second[136..148]), (&b"00000001001\0"[..], &b"15301200207\0"[..]));
        assert_eq!(&second[257..265], b"ustar\x0000");
        let sum = u32::from_str_radix(std::str::from_utf8(&second[148..154]).unwrap(), 8).unwrap();
        let without: u32 = second
            .iter()
            .enumerate()
            .map(|(place, byte)| if (148..156).contains(&place) { 32 } else { u32::from(*byte) })
            .sum();
        assert_eq!(sum, without);
    }
}
