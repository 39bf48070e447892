//! QR codes for the terminal (ISO/IEC 18004): bytes, error correction level L, versions 1 to 6, which are 134 bytes. Enough for the link that a person
//! opens to approve a host or to sign in, and nothing more.

/// Data bytes, error correction bytes per block, and blocks of each version from 1 on, at level L.
const VERSIONS: [(usize, usize, usize); 6] =
    [(19, 7, 1), (34, 10, 1), (55, 15, 1), (80, 20, 1), (108, 26, 1), (136, 18, 2)];

/// Format bits of level L for each mask: 5 bits, their BCH code, and the fixed pattern over them.
const FORMATS: [u16; 8] = [0x77c4, 0x72f3, 0x7daa, 0x789d, 0x662f, 0x6318, 0x6c41, 0x6976];

/// Light modules around the code; readers need them. The standard asks for 4, and readers of screens are content with 2.
const MARGIN: usize = 2;

/// A QR code: a square of modules, true for a dark one.
struct Code {
    size: usize,
    dark: Vec<bool>,
    /// Modules that carry no data.
    fixed: Vec<bool>,
}

/// Returns the QR code of a text as lines of half blocks: two rows of modules in one line. `None` if the text is longer than 134 bytes.
pub fn qr_lines(text: &str) -> Option<String> {
    let code = encode(text.as_bytes())?;
    let is_dark = |x: usize, y: usize| {
        let inside = (MARGIN..code.size + MARGIN).contains(&x) && (MARGIN..code.size + MARGIN).contains(&y);
        inside && code.get(x - MARGIN, y - MARGIN)
    };
    let width = code.size + 2 * MARGIN;
    let mut lines = String::new();
    for y in (0..width).step_by(2) {
        for x in 0..width {
            // Light modules are drawn, because most terminals are dark.
            lines.push(match (is_dark(x, y), is_dark(x, y + 1) || y + 1 >= width) {
                (false, false) => '█',
                (false, true) => '▀',
                (true, false) => '▄',
                (true, true) => ' ',
            });
        }
        lines.push('\n');
    }
    Some(lines)
}

fn encode(bytes: &[u8]) -> Option<Code> {
    // Four bits of mode and eight of length take two bytes with the padding.
    let version = VERSIONS.iter().position(|(data, ..)| bytes.len() + 2 <= *data)?;
    let (data, correction, blocks) = VERSIONS[version];
    let words = interleaved(&data_words(bytes, data), correction, blocks);
    let mut best: Option<(usize, Code)> = None;
    for mask in 0..FORMATS.len() {
        let mut code = Code::with_patterns(version + 1);
        code.place_format(mask);
        code.place_data(&words, mask);
        let penalty = code.penalty();
        if best.as_ref().is_none_or(|(least, _)| penalty < *least) {
            best = Some((penalty, code));
        }
    }
    best.map(|(_, code)| code)
}

/// Returns the data words: mode, length, bytes, and padding.
fn data_words(bytes: &[u8], room: usize) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    // All is shifted by the four bits of the mode, 0100.
    let mut words = vec![0x40 | (length >> 4)];
    let mut half = length << 4;
    for byte in bytes {
        words.push(half | (byte >> 4));
        half = byte << 4;
    }
    words.push(half);
    let padding = [0xec, 0x11].into_iter().cycle().take(room.saturating_sub(words.len()));
    words.extend(padding);
    words
}

/// Returns the words of all blocks in the order in which they are placed: data first, then error correction.
fn interleaved(data: &[u8], correction: usize, blocks: usize) -> Vec<u8> {
    let data: Vec<&[u8]> = data.chunks(data.len() / blocks).collect();
    let checks: Vec<Vec<u8>> = data.iter().map(|block| remainder(block, correction)).collect();
    let mut words = Vec::new();
    for place in 0..data.first().map_or(0, |block| block.len()) {
        words.extend(data.iter().filter_map(|block| block.get(place)));
    }
    for place in 0..correction {
        words.extend(checks.iter().filter_map(|block| block.get(place)));
    }
    words
}

/// Returns the product in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1.
fn multiply(one: u8, other: u8) -> u8 {
    let mut product = 0_u8;
    for bit in (0..8).rev() {
        let carry = product >> 7;
        product = (product << 1) ^ (carry * 0x1d);
        product ^= ((other >> bit) & 1) * one;
    }
    product
}

/// Returns the error correction words of a block: the remainder of its division by the generator polynomial of this degree.
fn remainder(block: &[u8], degree: usize) -> Vec<u8> {
    let mut generator = vec![0_u8; degree];
    generator[degree - 1] = 1;
    let mut root = 1;
    for _ in 0..degree {
        for place in 0..degree {
            generator[place] = multiply(generator[place], root);
            if place + 1 < degree {
                generator[place] ^= generator[place + 1];
            }
        }
        root = multiply(root, 2);
    }
    let mut rest = vec![0_u8; degree];
    for word in block {
        let factor = word ^ rest[0];
        rest.rotate_left(1);
        rest[degree - 1] = 0;
        rest.iter_mut().zip(&generator).for_each(|(rest, coefficient)| *rest ^= multiply(*coefficient, factor));
    }
    rest
}

impl Code {
    /// Returns a code with all patterns that do not depend on the text.
    fn with_patterns(version: usize) -> Self {
        let size = 17 + 4 * version;
        let mut code = Self { size, dark: vec![false; size * size], fixed: vec![false; size * size] };
        for place in 0..size {
            code.fix(6, place, place % 2 == 0);
            code.fix(place, 6, place % 2 == 0);
        }
        for (x, y) in [(3, 3), (size - 4, 3), (3, size - 4)] {
            code.square(x, y, 4, |distance| distance != 2 && distance != 4);
        }
        if version > 1 {
            code.square(size - 7, size - 7, 2, |distance| distance != 1);
        }
        code
    }

    /// Draws a square pattern around a module. `is_dark` decides by the distance from it.
    fn square(&mut self, x: usize, y: usize, radius: usize, is_dark: impl Fn(usize) -> bool) {
        for row in y.saturating_sub(radius)..=(y + radius).min(self.size - 1) {
            for column in x.saturating_sub(radius)..=(x + radius).min(self.size - 1) {
                self.fix(column, row, is_dark(column.abs_diff(x).max(row.abs_diff(y))));
            }
        }
    }

    fn get(&self, x: usize, y: usize) -> bool {
        self.dark.get(y * self.size + x).copied().unwrap_or(false)
    }

    fn fix(&mut self, x: usize, y: usize, dark: bool) {
        let place = y * self.size + x;
        (self.dark[place], self.fixed[place]) = (dark, true);
    }

    /// Draws the format bits, twice, and the module that is always dark.
    fn place_format(&mut self, mask: usize) {
        let bit = |place: usize| (FORMATS[mask] >> place) & 1 == 1;
        let size = self.size;
        for place in 0..15 {
            let column = match place {
                0..=5 => (8, place),
                6 | 7 => (8, place + 1),
                8 => (7, 8),
                _ => (14 - place, 8),
            };
            let row = if place < 8 { (size - 1 - place, 8) } else { (8, size - 15 + place) };
            self.fix(column.0, column.1, bit(place));
            self.fix(row.0, row.1, bit(place));
        }
        self.fix(8, size - 8, true);
    }

    /// Draws the words in columns of two modules from the right, up and down in turn.
    fn place_data(&mut self, words: &[u8], mask: usize) {
        let mut bits = words.iter().flat_map(|word| (0..8).rev().map(move |bit| (word >> bit) & 1 == 1));
        // The column of the vertical timing pattern is left out.
        let columns = (1..self.size).rev().step_by(2).map(|right| if right <= 6 { right - 1 } else { right });
        for (turn, right) in columns.enumerate() {
            for step in 0..self.size {
                let y = if turn % 2 == 0 { self.size - 1 - step } else { step };
                for x in [right, right - 1] {
                    let place = y * self.size + x;
                    if !self.fixed[place] {
                        self.dark[place] = bits.next().unwrap_or(false) ^ is_masked(mask, x, y);
                    }
                }
            }
        }
    }

    /// Returns how hard the code is to read: long runs, squares of one colour, and unbalanced colours. The standard's fourth rule, about patterns like those in the corners,
    /// is left out, because every mask can be read.
    fn penalty(&self) -> usize {
        let mut penalty = 0;
        for line in 0..self.size {
            let row: Vec<bool> = (0..self.size).map(|place| self.get(place, line)).collect();
            let column: Vec<bool> = (0..self.size).map(|place| self.get(line, place)).collect();
            for modules in [row, column] {
                let runs = modules.chunk_by(|one, other| one == other).map(<[bool]>::len);
                penalty += runs.filter(|run| *run >= 5).map(|run| run - 2).sum::<usize>();
            }
        }
        for y in 1..self.size {
            for x in 1..self.size {
                let four = [self.get(x, y), self.get(x - 1, y), self.get(x, y - 1), self.get(x - 1, y - 1)];
                penalty += if four.iter().all(|dark| *dark == four[0]) { 3 } else { 0 };
            }
        }
        let dark = self.dark.iter().filter(|dark| **dark).count() * 100 / self.dark.len();
        penalty + dark.abs_diff(50) / 5 * 10
    }
}

fn is_masked(mask: usize, x: usize, y: usize) -> bool {
    match mask {
        0 => (x + y).is_multiple_of(2),
        1 => y.is_multiple_of(2),
        2 => x.is_multiple_of(3),
        3 => (x + y).is_multiple_of(3),
        4 => (x / 3 + y / 2).is_multiple_of(2),
        5 => x * y % 2 + x * y % 3 == 0,
        6 => (x * y % 2 + x * y % 3).is_multiple_of(2),
        _ => ((x + y) % 2 + x * y % 3).is_multiple_of(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_correction_words_are_those_of_the_standard() {
        // ISO/IEC 18004:2015 annex I.3: the words of the symbol of "01234567" in version 1-M.
        let data = [0x10, 0x20, 0x0c, 0x56, 0x61, 0x80, 0xec, 0x11, 0xec, 0x11, 0xec, 0x11, 0xec, 0x11, 0xec, 0x11];
        assert_eq!(remainder(&data, 10), [0xa5, 0x24, 0xd4, 0xc1, 0xed, 0x36, 0xc7, 0x87, 0x2c, 0x55]);
    }

    #[test]
    fn the_version_grows_with_the_text_and_has_an_end() {
        for (length, size) in [(0, 21), (17, 21), (18, 25), (32, 25), (53, 29), (78, 33), (106, 37), (134, 41)] {
            assert_eq!(encode(&vec![b'a'; length]).unwrap().size, size, "{length}");
        }
        assert!(encode(&[b'a'; 135]).is_none());
    }

    #[test]
    fn every_line_of_a_code_is_equally_long() {
        let text = qr_lines("https://taut.example.org/approve/BCDF-GHJK").unwrap();
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]) && widths.len() == widths[0].div_ceil(2), "{text}");
    }
}
