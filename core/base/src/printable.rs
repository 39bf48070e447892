//! The characters that a text from outside may have when it is shown.

/// Returns true if a terminal shows `letter` in its place and on its line. False for control characters, separators of lines and paragraphs, and invisible characters: those that
/// have no width, and those that change the direction of the text (Unicode TR 36). With these, a name could forge another line or show another text than it has.
pub fn is_printable(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_p5_characters_that_change_the_shown_text_are_not_printable() {
        for letter in "\0\n\r\t\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200e}\u{2028}\u{2029}\u{202e}\u{2066}\u{2069}\u{feff}\u{e0041}".chars() {
            assert!(!is_printable(letter), "{letter:?}");
        }
        assert!("nas-2 \"\\ äß€ 日本 🙂 עברית".chars().all(is_printable));
    }
}
